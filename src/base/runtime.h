// The runtime port: time, randomness, threads and waiting. The product's is io/system_runtime.h; the simulator's runs everything in one thread on fibers.
//
// Rules: code under it never sleeps, spawns, waits or reads a clock in any other way, and never holds a mutex across a call of this port or of a
// Disk, ObjectStore or Stream (in the simulator such a call may run other fibers of the same thread).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace onepen {

struct RuntimeClock {  // monotonic; a tag, it has no now() on purpose
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  static constexpr bool is_steady = true;
};
using Instant = std::chrono::time_point<RuntimeClock, std::chrono::nanoseconds>;

// Wakes one waiter; remembered when nobody waits (auto-reset). Many may notify, one waits.
class Signal {
 public:
  virtual ~Signal() = default;
  virtual void notify() = 0;
  virtual bool wait_until(Instant deadline) = 0;  // true: notified; false: deadline passed (or the process is being stopped)
};

// A running thread. The destructor joins; whoever spawns makes it end first.
class Thread {
 public:
  virtual ~Thread() = default;
};

struct ProcessIdentity {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t started_ms = 0;  // wall clock, for people
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Instant now() = 0;               // monotonic, includes suspend (CLOCK_BOOTTIME)
  virtual std::int64_t wall_ms() = 0;      // for people and records only; nothing is decided by it (I10)
  virtual std::uint64_t random_u64() = 0;  // cryptographic in the product, seeded in the simulator
  virtual void sleep_until(Instant) = 0;
  virtual std::unique_ptr<Signal> make_signal() = 0;
  virtual std::unique_ptr<Thread> spawn(std::string_view name, std::function<void()> body) = 0;
  virtual ProcessIdentity identity() = 0;

  template <class Id>
  Id draw() {  // a fresh, never nil id
    Id id;
    do {
      id.hi = random_u64();
      id.lo = random_u64();
    } while (id.nil());
    return id;
  }
};

}  // namespace onepen
