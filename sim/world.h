// The simulated world: virtual time, machines, processes made of fibers, an event queue, faults, and a trace whose hash says "the same run".
//
// Everything happens in one thread. A step runs either the events that are due or one ready fiber, chosen by the seed, until it blocks. A process ends in
// one of two ways: its fibers return, or kill() makes it a *zombie*: from then on every port call of its fibers fails or returns at once without effect,
// waits return false, its clock stands still, and the fibers run themselves to an end. A zombie that does not end within
// kZombieSteps fails the run: code that could not be stopped.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "sim/fiber.h"
#include "sim/random.h"

namespace onepen::sim {

using Nanos = std::int64_t;  // virtual time since the world began
inline constexpr Nanos kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;
inline constexpr std::uint32_t kZombieSteps = 20'000;  // fiber turns
inline constexpr std::uint64_t kRunSteps = 2'000'000;  // of one world, a bound against endless runs

class World;
struct Process;

// A fiber as the scheduler sees it.
struct Task {
  std::string name;
  Process* process = nullptr;
  std::unique_ptr<Fiber> fiber;
  enum class State : std::uint8_t { ready, blocked, done } state = State::ready;
  std::uint64_t wait = 0;                 // number of the current wait: a timer of an older one is stale
  std::vector<Task*> joiners;
};

struct Process {
  std::uint32_t id = 0;
  std::uint32_t machine = 0;
  std::string name;
  bool dead = false;                      // killed: a zombie, or already ended
  Nanos paused_until = 0;
  // Clocks (I10: they may say anything). now = mono_base + world * rate/1000.
  std::int64_t rate_per_mille = 1000;
  Nanos mono_base = 0;
  std::int64_t wall_base_ms = 0;
  Nanos zombie_now = 0;
  std::uint32_t zombie_steps = 0;
  std::uint32_t strike_in = 0;            // port calls until something happens to it; 0: nothing planned
  std::int64_t link = 1;                  // how many times slower than usual it reaches disks and buckets
  std::uint64_t writes = 0;               // changes asked of any disk or bucket
  std::uint64_t home_writes = 0;          // … of the home
  bool wal_unpublished = false;           // it wrote to a WAL, and its index does not say so yet
  std::vector<std::unique_ptr<Task>> tasks;
  std::unique_ptr<Runtime> runtime;
  bool ended() const;                     // no task left
};

class World {
 public:
  World(std::uint64_t seed, StackPool& stacks, bool print_trace);
  ~World();                                // fibers that did not end (drain() says so) are left behind, never unwound
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Nanos now() const { return now_; }
  Random& random() { return random_; }
  void at(Nanos time, std::function<void()> event);                     // runs outside of any fiber; must not block
  void after(Nanos delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }

  Process& start(std::uint32_t machine, std::string name, std::function<void(Process&)> body);
  Task& spawn(Process& process, std::string name, std::function<void()> body);
  void kill(Process& process, std::string_view why);                    // from an event, or from a fiber of another process
  void pause(Process& process, Nanos length);
  void jump_clock(Process& process, Nanos mono, std::int64_t wall_ms);  // mono ≥ 0: a monotonic clock may leap, never go back
  const std::deque<std::unique_ptr<Process>>& processes() const { return processes_; }

  // A place where a process may be struck; the ports call it before and in the middle of their work. `strike` says what happens.
  void point(Process& process) {
    if (process.strike_in != 0 && --process.strike_in == 0 && strike && !process.dead) strike(process);
  }
  std::function<void(Process&)> strike;
  std::vector<std::function<void(Process&)>> on_kill;  // what the kernel takes back at once: locks, shared memory. Must not block

  // Inside a fiber. Each returns false at once (after giving others a turn) when the fiber's process is dead.
  bool sleep(Nanos delay);
  bool block_until(Nanos time);            // true: woken by wake(); false: the time passed
  void yield() { sleep(0); }
  Task& current();
  bool inside() const { return current_ != nullptr; }  // a fiber runs
  void wake(Task& task);
  void join(Task& task);

  // Steps until `done` says so. False: nothing can happen any more (with fibers left: a deadlock) or the step bound was reached; see failure().
  bool run(const std::function<bool()>& done);
  // Kills every process and steps until all have ended; goes on after a failure. False: some did not end.
  bool drain();
  void fail(std::string why);              // the first one stands
  const std::string& failure() const { return failure_; }

  // One line of the trace: hashed always, printed when asked for.
  void note(std::string_view what, std::string_view detail = {}, std::uint64_t a = 0, std::uint64_t b = 0);
  bool tracing() const { return print_trace_; }
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::uint64_t steps() const { return steps_; }

 private:
  struct Event {
    Nanos time;
    std::uint64_t order;
    std::function<void()> run;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.time != b.time ? a.time > b.time : a.order > b.order; }
  };
  bool step();
  bool run_due();
  void run_task(Task& task);
  Task* choose();
  void make_ready(Task& task);

  StackPool& stacks_;
  Random random_;
  bool print_trace_;
  Nanos now_ = 0;
  std::uint64_t order_ = 0, steps_ = 0, trace_hash_ = 0x9ae16a3b2f90404full;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::deque<std::unique_ptr<Process>> processes_;
  std::vector<Task*> ready_;
  Task* current_ = nullptr;
  std::string failure_;
};

}  // namespace onepen::sim
