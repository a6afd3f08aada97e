#include "io/system_runtime.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"

namespace onepen::io {
namespace {

std::int64_t nanoseconds_of(clockid_t clock) {
  timespec t{};
  ONEPEN_CHECK(::clock_gettime(clock, &t) == 0, "the clock cannot be read");
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
Instant boot_now() { return Instant(std::chrono::nanoseconds(nanoseconds_of(CLOCK_BOOTTIME))); }

class SystemSignal final : public Signal {
 public:
  void notify() override {
    {
      Lock lock(mutex_);
      notified_ = true;
    }
    condition_.notify_one();
  }
  bool wait_until(Instant deadline) override {
    Lock lock(mutex_);
    while (!notified_) {
      auto left = deadline - boot_now();
      if (left <= left.zero()) return false;
      condition_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(left, kWaitSlice));
    }
    notified_ = false;
    return true;
  }

 private:
  Mutex mutex_;
  Condition condition_;
  bool notified_ ONEPEN_GUARDED_BY(mutex_) = false;
};

class SystemThread final : public Thread {
 public:
  explicit SystemThread(std::thread thread) : thread_(std::move(thread)) {}
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

// When this process started, by the wall clock: its start in ticks since boot (proc(5), field 22 of stat) against now.
std::int64_t process_started_ms() {
  std::array<char, 1024> text{};
  std::FILE* file = std::fopen("/proc/self/stat", "re");
  std::size_t n = file != nullptr ? std::fread(text.data(), 1, text.size() - 1, file) : 0;
  if (file != nullptr) std::fclose(file);
  const char* at = n > 0 ? std::strrchr(text.data(), ')') : nullptr;  // the command's name may hold spaces
  long long ticks = -1;
  if (at != nullptr) {
    int field = 2;
    for (at += 1; *at != '\0' && field < 22; ++at)
      if (*at == ' ' && ++field == 22) ticks = std::strtoll(at + 1, nullptr, 10);
  }
  auto wall = nanoseconds_of(CLOCK_REALTIME) / 1'000'000;
  if (ticks < 0) return wall;
  return wall - nanoseconds_of(CLOCK_BOOTTIME) / 1'000'000 + ticks * 1000 / ::sysconf(_SC_CLK_TCK);
}

class SystemRuntime final : public Runtime {
 public:
  Instant now() override { return boot_now(); }
  std::int64_t wall_ms() override { return nanoseconds_of(CLOCK_REALTIME) / 1'000'000; }
  std::uint64_t random_u64() override {  // not buffered: a child after fork() must not draw its parent's numbers
    std::uint64_t value = 0;
    ssize_t n = 0;
    do n = ::getrandom(&value, sizeof value, 0);
    while (n < 0 && errno == EINTR);
    ONEPEN_CHECK(n == sizeof value, "the kernel gives no random bytes");
    return value;
  }
  void sleep_until(Instant deadline) override {
    auto ns = deadline.time_since_epoch().count();
    if (ns <= 0) return;
    timespec t{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    while (::clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &t, nullptr) == EINTR) {
    }
  }
  std::unique_ptr<Signal> make_signal() override { return std::make_unique<SystemSignal>(); }
  std::unique_ptr<Thread> spawn(std::string_view name, std::function<void()> body) override {
    std::string short_name(name.substr(0, 15));
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
    std::thread thread([short_name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), short_name.c_str());
      body();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::make_unique<SystemThread>(std::move(thread));
  }
  ProcessIdentity identity() override {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    return {host.data(), ::getpid(), process_started_ms()};
  }
};

}  // namespace

std::unique_ptr<Runtime> make_system_runtime() { return std::make_unique<SystemRuntime>(); }

}  // namespace onepen::io
