// A Runtime of real threads whose time a test controls: it stands still while any thread runs, and jumps to the next deadline when all of them wait.
// So terms, backoffs and time-outs pass at once, and nothing depends on how fast the machine is.
//
// It counts the thread that made it and those it spawned; all of them wait only through it (Signal, sleep_until, the destructor of a Thread). When
// everybody waits and nobody has a deadline the test is stuck, and the process ends with a message. Thread-safe.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/runtime.h"

namespace onepen::testing {

class ManualRuntime : public Runtime {
 public:
  explicit ManualRuntime(std::uint64_t seed = 1) : random_(seed) {}

  Instant now() override;
  std::int64_t wall_ms() override;
  std::uint64_t random_u64() override;
  void sleep_until(Instant) override;
  std::unique_ptr<Signal> make_signal() override;
  std::unique_ptr<Thread> spawn(std::string_view name, std::function<void()> body) override;
  ProcessIdentity identity() override { return {"testhost", 42, 1'700'000'000'000}; }

  // From now on time stands still and every wait returns false at once, as after a kill in the simulator.
  void stop_the_world();
  // Waits, in this runtime's time, until `done`; false when `within` passed first.
  bool wait_for(const std::function<bool()>& done, std::chrono::nanoseconds within = std::chrono::hours(1));

 private:
  class ManualSignal;
  class ManualThread;
  struct Waiter {
    Instant deadline;
    bool woken = false;
    bool notified = false;
  };
  bool wait(std::unique_lock<std::mutex>& lock, Waiter& waiter);  // true: notified
  void wake(Waiter& waiter, bool notified);
  void one_less_runs();

  std::mutex mutex_;
  std::condition_variable woken_;
  Instant now_{std::chrono::seconds(1000)};
  std::set<Waiter*> waiters_;
  std::size_t running_ = 1;
  bool stopped_ = false;
  std::uint64_t random_;
};

}  // namespace onepen::testing
