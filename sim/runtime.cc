#include "sim/runtime.h"

#include <algorithm>

namespace onepen::sim {

class SimSignal : public Signal {
 public:
  explicit SimSignal(SimRuntime& runtime) : runtime_(runtime) {}
  void notify() override {
    notified_ = true;
    if (waiter_) runtime_.world_.wake(*waiter_);
  }
  bool wait_until(Instant deadline) override { return runtime_.wait(deadline, notified_, waiter_); }

 private:
  SimRuntime& runtime_;
  bool notified_ = false;
  Task* waiter_ = nullptr;
};

namespace {
class SimThread : public Thread {
 public:
  SimThread(World& world, Task& task) : world_(world), task_(task) {}
  ~SimThread() override { world_.join(task_); }

 private:
  World& world_;
  Task& task_;
};
}  // namespace

Instant SimRuntime::now() {
  if (process_.dead) return Instant(std::chrono::nanoseconds(process_.zombie_now));
  return Instant(std::chrono::nanoseconds(process_.mono_base + world_.now() / 1000 * process_.rate_per_mille));
}

std::int64_t SimRuntime::wall_ms() { return process_.wall_base_ms + world_.now() / kMilli; }

Nanos SimRuntime::world_time(Instant deadline) const {
  const Nanos left = deadline.time_since_epoch().count() - process_.mono_base;
  if (left > kNever / 4000) return kNever;
  return left / process_.rate_per_mille * 1000 + 2 * kMicro;  // a little late rather than a little early
}

bool SimRuntime::wait(Instant deadline, bool& notified, Task*& waiter) {
  while (!notified && !process_.dead && now() < deadline) {
    waiter = &world_.current();
    world_.block_until(world_time(deadline));
    waiter = nullptr;
  }
  if (process_.dead) {  // no time passes for it any more, which is how code sees that it is being stopped; the others get their turn
    world_.yield();
    notified = false;
    return false;
  }
  const bool was = notified;
  notified = false;
  return was;
}

void SimRuntime::sleep_until(Instant deadline) {
  bool never = false;
  Task* waiter = nullptr;
  wait(deadline, never, waiter);
}

std::unique_ptr<Signal> SimRuntime::make_signal() { return std::make_unique<SimSignal>(*this); }

std::unique_ptr<Thread> SimRuntime::spawn(std::string_view name, std::function<void()> body) {
  return std::make_unique<SimThread>(world_, world_.spawn(process_, std::string(name), std::move(body)));
}

ProcessIdentity SimRuntime::identity() {
  return ProcessIdentity{"m" + std::to_string(process_.machine), static_cast<std::int64_t>(process_.id), process_.wall_base_ms};
}

}  // namespace onepen::sim
