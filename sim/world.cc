#include "sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "base/checksum.h"
#include "sim/runtime.h"

namespace onepen::sim {
namespace {
constexpr Nanos kTurnCost = 2 * kMicro;  // so that a loop without waiting still moves time
}

bool Process::ended() const {
  return std::all_of(tasks.begin(), tasks.end(), [](const auto& task) { return task->state == Task::State::done; });
}

World::World(std::uint64_t seed, StackPool& stacks, bool print_trace) : stacks_(stacks), random_(seed), print_trace_(print_trace) {}

World::~World() {
  for (auto& process : processes_) {
    for (auto& task : process->tasks) {
      if (task->state != Task::State::done) static_cast<void>(task->fiber.release());
    }
  }
}

void World::at(Nanos time, std::function<void()> event) { events_.push(Event{std::max(time, now_), ++order_, std::move(event)}); }

Process& World::start(std::uint32_t machine, std::string name, std::function<void(Process&)> body) {
  auto process = std::make_unique<Process>();
  Process& p = *process;
  p.id = static_cast<std::uint32_t>(processes_.size()) + 1;
  p.machine = machine;
  p.name = std::move(name);
  p.rate_per_mille = random_.chance(700) ? 1000 : random_.between(500, 2000);
  p.mono_base = random_.between(0, 1'000) * kSecond;
  p.wall_base_ms = 1'700'000'000'000 + random_.between(-400, 400) * 86'400'000;
  p.runtime = std::make_unique<SimRuntime>(*this, p);
  processes_.push_back(std::move(process));
  note("start", p.name, p.id, machine);
  spawn(p, "main", [body = std::move(body), &p] { body(p); });
  return p;
}

Task& World::spawn(Process& process, std::string name, std::function<void()> body) {
  auto task = std::make_unique<Task>();
  Task& t = *task;
  t.name = std::move(name);
  t.process = &process;
  t.fiber = std::make_unique<Fiber>(stacks_, std::move(body));
  process.tasks.push_back(std::move(task));
  ready_.push_back(&t);
  return t;
}

void World::make_ready(Task& task) {
  if (task.state != Task::State::blocked) return;
  task.state = Task::State::ready;
  ++task.wait;
  ready_.push_back(&task);
}

void World::kill(Process& process, std::string_view why) {
  if (process.dead) return;
  note("kill", process.name, process.id);
  if (print_trace_) note("kill.why", why);
  process.zombie_now = process.mono_base + now_ / 1000 * process.rate_per_mille;
  process.dead = true;
  process.paused_until = 0;
  for (const auto& take_back : on_kill) take_back(process);
  for (auto& task : process.tasks) make_ready(*task);
}

void World::pause(Process& process, Nanos length) {
  if (process.dead) return;
  note("pause", process.name, static_cast<std::uint64_t>(length / kMilli));
  process.paused_until = std::max(process.paused_until, now_ + length);
  at(process.paused_until, [] {});  // so that time gets there even when nothing else is due
}

void World::jump_clock(Process& process, Nanos mono, std::int64_t wall_ms) {
  note("clock", process.name, static_cast<std::uint64_t>(mono / kMilli), static_cast<std::uint64_t>(wall_ms));
  process.mono_base += mono;
  process.wall_base_ms += wall_ms;
  for (auto& task : process.tasks) make_ready(*task);  // they look at their deadlines again
}

bool World::block_until(Nanos time) {
  Task& task = current();
  if (task.process->dead) {
    if (task.state == Task::State::ready) ready_.push_back(&task);
    task.fiber->suspend();
    return false;
  }
  task.state = Task::State::blocked;
  const std::uint64_t wait = ++task.wait;
  bool timed_out = false;
  if (time != kNever) {
    at(time, [this, &task, wait, &timed_out] {
      if (task.state == Task::State::blocked && task.wait == wait) {
        timed_out = true;
        make_ready(task);
      }
    });
  }
  task.fiber->suspend();
  return !timed_out && !task.process->dead;
}

bool World::sleep(Nanos delay) {
  const Nanos until = now_ + delay;
  Task& task = current();
  do {
    block_until(until);
  } while (!task.process->dead && now_ < until);
  return !task.process->dead;
}

Task& World::current() {
  ONEPEN_CHECK(current_ != nullptr, "a port of the simulator was called from outside of a fiber");
  return *current_;
}

void World::wake(Task& task) { make_ready(task); }

void World::join(Task& task) {
  while (task.state != Task::State::done) {
    task.joiners.push_back(&current());
    block_until(kNever);
  }
}

Task* World::choose() {
  // Zombies first: nothing they do matters to anybody, and a reused name must not meet them.
  std::vector<std::size_t> may;
  bool zombie = false;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Process& p = *ready_[i]->process;
    if (p.dead && !zombie) may.clear(), zombie = true;
    if (p.dead == zombie && p.paused_until <= now_) may.push_back(i);
  }
  if (may.empty()) return nullptr;
  const std::size_t at = may[random_.below(may.size())];
  Task* task = ready_[at];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
  return task;
}

void World::run_task(Task& task) {
  Process& p = *task.process;
  if (p.dead && ++p.zombie_steps > kZombieSteps) {
    fail(fmt::format("process {} was killed and its fiber '{}' does not end", p.name, task.name));
    ready_.push_back(&task);
    return;
  }
  current_ = &task;
  task.fiber->resume();
  current_ = nullptr;
  now_ += kTurnCost;
  if (!task.fiber->done()) return;
  task.state = Task::State::done;
  task.fiber.reset();  // its stack is free for the next one
  for (Task* joiner : task.joiners) make_ready(*joiner);
  task.joiners.clear();
  if (p.ended()) note(p.dead ? "zombie.ended" : "ended", p.name, p.id);
}

bool World::run_due() {
  bool any = false;
  while (!events_.empty() && events_.top().time <= now_) {
    auto run = std::move(const_cast<Event&>(events_.top()).run);  // pop() only destroys it
    events_.pop();
    run();
    any = true;
  }
  return any;
}

bool World::step() {
  ++steps_;
  run_due();
  if (Task* task = choose()) {
    run_task(*task);
    return true;
  }
  if (events_.empty()) return false;
  now_ = std::max(now_, events_.top().time);
  return true;
}

bool World::run(const std::function<bool()>& done) {
  while (failure_.empty() && !done()) {
    if (!step()) return false;
    if (steps_ > kRunSteps) fail("the run does not end");
  }
  return failure_.empty();
}

bool World::drain() {
  std::uint32_t limit = 0;
  for (auto& process : processes_) {
    kill(*process, "drain");
    process->zombie_steps = 0;
    limit += kZombieSteps;
  }
  const auto ended = [this] { return std::all_of(processes_.begin(), processes_.end(), [](const auto& p) { return p->ended(); }); };
  for (std::uint32_t i = 0; i < limit && !ended(); ++i) {
    if (!step()) break;
  }
  return ended();
}

void World::fail(std::string why) {
  if (!failure_.empty()) return;
  note("FAIL", why);
  failure_ = std::move(why);
}

void World::note(std::string_view what, std::string_view detail, std::uint64_t a, std::uint64_t b) {
  auto mix = [this](std::uint64_t x) { trace_hash_ = (trace_hash_ ^ x) * 0x9fb21c651e98df25ull, trace_hash_ ^= trace_hash_ >> 29; };
  mix(xxh3(as_bytes(what)));
  mix(xxh3(as_bytes(detail)));
  mix(a);
  mix(b);
  mix(static_cast<std::uint64_t>(now_));
  if (!print_trace_) return;
  const std::string who = current_ ? fmt::format("{}.{}{}", current_->process->name, current_->name, current_->process->dead ? "(dead)" : "") : "world";
  fmt::print("{:>12.6f} {:<18} {:<18} {} {} {}\n", static_cast<double>(now_) / 1e9, who, what, detail, a, b);
}

}  // namespace onepen::sim
