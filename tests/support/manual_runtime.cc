#include "tests/support/manual_runtime.h"

#include <algorithm>
#include <thread>

#include "base/check.h"

namespace onepen::testing {

Instant ManualRuntime::now() {
  const std::lock_guard lock(mutex_);
  return now_;
}

std::int64_t ManualRuntime::wall_ms() { return 1'700'000'000'000 + std::chrono::duration_cast<std::chrono::milliseconds>(now().time_since_epoch()).count(); }

std::uint64_t ManualRuntime::random_u64() {  // splitmix64
  const std::lock_guard lock(mutex_);
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

void ManualRuntime::wake(Waiter& waiter, bool notified) {
  if (waiter.woken) return;
  waiter.woken = true;
  waiter.notified = notified;
  ++running_;  // now, not when it is scheduled: time must not move in between
  woken_.notify_all();
}

void ManualRuntime::one_less_runs() {
  if (--running_ > 0 || waiters_.empty() || stopped_) return;
  Instant next = Instant::max();
  for (const Waiter* waiter : waiters_) next = std::min(next, waiter->deadline);
  ONEPEN_CHECK(next != Instant::max(), "every thread of the test waits, and none has a deadline");
  now_ = std::max(now_, next);
  for (Waiter* waiter : waiters_) {
    if (waiter->deadline <= now_) wake(*waiter, false);
  }
}

bool ManualRuntime::wait(std::unique_lock<std::mutex>& lock, Waiter& waiter) {
  if (stopped_ || waiter.deadline <= now_) return false;
  waiters_.insert(&waiter);
  one_less_runs();
  woken_.wait(lock, [&] { return waiter.woken; });
  waiters_.erase(&waiter);
  return waiter.notified;
}

void ManualRuntime::sleep_until(Instant deadline) {
  std::unique_lock lock(mutex_);
  Waiter waiter{deadline};
  wait(lock, waiter);
}

class ManualRuntime::ManualSignal : public Signal {
 public:
  explicit ManualSignal(ManualRuntime& runtime) : runtime_(runtime) {}
  void notify() override {
    const std::lock_guard lock(runtime_.mutex_);
    if (waiter_ != nullptr && !waiter_->woken) runtime_.wake(*waiter_, true);
    else pending_ = true;
  }
  bool wait_until(Instant deadline) override {
    std::unique_lock lock(runtime_.mutex_);
    if (runtime_.stopped_) return false;
    if (pending_) {
      pending_ = false;
      return true;
    }
    Waiter waiter{deadline};
    waiter_ = &waiter;
    const bool notified = runtime_.wait(lock, waiter);
    waiter_ = nullptr;
    return notified;
  }

 private:
  ManualRuntime& runtime_;
  Waiter* waiter_ = nullptr;
  bool pending_ = false;
};

std::unique_ptr<Signal> ManualRuntime::make_signal() { return std::make_unique<ManualSignal>(*this); }

class ManualRuntime::ManualThread : public Thread {
 public:
  ManualThread(ManualRuntime& runtime, std::function<void()> body) : runtime_(runtime) {
    {
      const std::lock_guard lock(runtime_.mutex_);
      ++runtime_.running_;
    }
    thread_ = std::thread([this, run = std::move(body)] {
      run();
      const std::lock_guard lock(runtime_.mutex_);
      ended_ = true;
      if (joiner_ != nullptr) runtime_.wake(*joiner_, true);
      runtime_.one_less_runs();
    });
  }
  ~ManualThread() override {
    {
      std::unique_lock lock(runtime_.mutex_);
      if (!ended_ && !runtime_.stopped_) {
        Waiter waiter{Instant::max()};
        joiner_ = &waiter;
        runtime_.wait(lock, waiter);
        joiner_ = nullptr;
      }
    }
    thread_.join();
  }

 private:
  ManualRuntime& runtime_;
  std::thread thread_;
  bool ended_ = false;
  Waiter* joiner_ = nullptr;
};

std::unique_ptr<Thread> ManualRuntime::spawn(std::string_view, std::function<void()> body) { return std::make_unique<ManualThread>(*this, std::move(body)); }

void ManualRuntime::stop_the_world() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (Waiter* waiter : waiters_) wake(*waiter, false);
}

bool ManualRuntime::wait_for(const std::function<bool()>& done, std::chrono::nanoseconds within) {
  const Instant until = now() + within;
  while (!done()) {
    const Instant at = now();
    if (at >= until) return false;
    sleep_until(std::min<Instant>(until, at + std::chrono::milliseconds(1)));
  }
  return true;
}

}  // namespace onepen::testing
