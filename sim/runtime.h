// The Runtime port of one simulated process: its own clocks, which may be wrong and may leap, and waiting that ends at once when it is dead.
#pragma once
#include "sim/world.h"

namespace onepen::sim {

class SimRuntime : public Runtime {
 public:
  SimRuntime(World& world, Process& process) : world_(world), process_(process) {}
  Instant now() override;
  std::int64_t wall_ms() override;
  std::uint64_t random_u64() override { return world_.random().next(); }
  void sleep_until(Instant deadline) override;
  std::unique_ptr<Signal> make_signal() override;
  std::unique_ptr<Thread> spawn(std::string_view name, std::function<void()> body) override;
  ProcessIdentity identity() override;

 private:
  friend class SimSignal;
  bool wait(Instant deadline, bool& notified, Task*& waiter);  // true: notified before the deadline
  Nanos world_time(Instant deadline) const;

  World& world_;
  Process& process_;
};

}  // namespace onepen::sim
