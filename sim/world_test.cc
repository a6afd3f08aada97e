// Fibers, the world and its clocks, and a toy race of two processes for one name on a shared disk.
#include "sim/world.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/disk.h"
#include "sim/store.h"

namespace onepen::sim {
namespace {

bool all_ended(World& world) {
  for (const auto& process : world.processes()) {
    if (!process->ended()) return false;
  }
  return true;
}
bool run_to_the_end(World& world) {
  return world.run([&] { return all_ended(world); });
}
Instant after(Runtime& runtime, Nanos delay) { return runtime.now() + std::chrono::nanoseconds(delay); }

TEST(Fiber, RunsInTurns) {
  StackPool stacks;
  std::string order;
  Fiber* self = nullptr;
  Fiber fiber(stacks, [&] {
    order += "a";
    self->suspend();
    order += "b";
  });
  self = &fiber;
  fiber.resume();
  order += "-";
  EXPECT_FALSE(fiber.done());
  fiber.resume();
  EXPECT_TRUE(fiber.done());
  EXPECT_EQ(order, "a-b");
}

TEST(Fiber, KeepsItsLocalsAndExceptionsInside) {
  StackPool stacks;
  Fiber* self = nullptr;
  int caught = 0;
  Fiber fiber(stacks, [&] {
    std::string local(1000, 'x');
    try {
      self->suspend();
      throw 7;
    } catch (int value) {
      caught = value + static_cast<int>(local.size());
    }
  });
  self = &fiber;
  fiber.resume();
  fiber.resume();
  EXPECT_EQ(caught, 1007);
}

TEST(World, TimeIsVirtualAndDeadlinesFollowTheProcessClock) {
  StackPool stacks;
  World world(1, stacks, false);
  Process& p = world.start(1, "p", [&](Process& self) { self.runtime->sleep_until(after(*self.runtime, 3600 * kSecond)); });
  p.rate_per_mille = 2000;  // a clock that runs twice as fast: half an hour will do
  ASSERT_TRUE(run_to_the_end(world));
  EXPECT_GE(world.now(), 1800 * kSecond);
  EXPECT_LT(world.now(), 1801 * kSecond);
}

TEST(World, SignalIsRememberedAndWakesOne) {
  StackPool stacks;
  World world(2, stacks, false);
  bool first = false, second = true, third = false;
  world.start(1, "p", [&](Process& self) {
    Runtime& rt = *self.runtime;
    auto signal = rt.make_signal();
    signal->notify();
    first = signal->wait_until(rt.now());                    // remembered
    second = signal->wait_until(after(rt, kSecond));         // used up
    auto thread = rt.spawn("other", [&] {
      rt.sleep_until(after(rt, kSecond));
      signal->notify();
    });
    third = signal->wait_until(Instant::max());
  });
  ASSERT_TRUE(run_to_the_end(world));
  EXPECT_TRUE(first);
  EXPECT_FALSE(second);
  EXPECT_TRUE(third);
}

TEST(World, KilledProcessRunsToItsEndWithoutEffect) {
  StackPool stacks;
  World world(3, stacks, false);
  SimFs local(world, "local"), home(world, "home");
  bool waited = true, wrote = true;
  Process& p = world.start(1, "p", [&](Process& self) {
    Runtime& rt = *self.runtime;
    SimDisk disk(world, self, local, home, "/home");
    auto signal = rt.make_signal();
    auto thread = rt.spawn("idle", [&] {
      for (Instant before = rt.now();; before = rt.now()) {
        rt.sleep_until(after(rt, 3600 * kSecond));
        if (rt.now() == before) break;  // no time passed: being stopped
      }
    });
    waited = signal->wait_until(Instant::max());
    wrote = disk.create("/home/x", as_bytes("x"), true).has_value();
  });
  world.at(kSecond, [&] { world.kill(p, "test"); });
  ASSERT_TRUE(run_to_the_end(world)) << world.failure();
  EXPECT_FALSE(waited);
  EXPECT_FALSE(wrote);
  std::uint64_t size = 0;
  EXPECT_EQ(home.size("/home/x", size), ENOENT);
}

TEST(World, ProcessThatCannotBeStoppedFailsTheRun) {
  StackPool stacks;
  World world(3, stacks, false);
  bool stop = false;
  Process& p = world.start(1, "p", [&](Process& self) {
    while (!stop) self.runtime->sleep_until(after(*self.runtime, kSecond));  // looks at nothing that a kill changes
  });
  world.at(kSecond, [&] { world.kill(p, "test"); });
  EXPECT_FALSE(run_to_the_end(world));
  EXPECT_NE(world.failure().find("does not end"), std::string::npos) << world.failure();
  stop = true;
  EXPECT_TRUE(world.drain());
}

TEST(World, PausedProcessStandsStillWhileTimePasses) {
  StackPool stacks;
  World world(4, stacks, false);
  Nanos woke = 0;
  Process& p = world.start(1, "p", [&](Process&) {
    world.sleep(kSecond);
    woke = world.now();
  });
  world.at(kMilli, [&] { world.pause(p, 60 * kSecond); });
  ASSERT_TRUE(run_to_the_end(world));
  EXPECT_GE(woke, 60 * kSecond);
}

TEST(World, DeadlockIsSeen) {
  StackPool stacks;
  World world(5, stacks, false);
  Process& p = world.start(1, "p", [&](Process& self) { self.runtime->make_signal()->wait_until(Instant::max()); });
  EXPECT_FALSE(run_to_the_end(world));
  EXPECT_TRUE(world.failure().empty());
  world.kill(p, "end");
  EXPECT_TRUE(run_to_the_end(world));
}

// Two processes race for ten names; whoever links first has it. Returns the trace hash.
std::uint64_t race(std::uint64_t seed, std::vector<std::string>& winners) {
  StackPool stacks;
  World world(seed, stacks, false);
  SimFs home(world, "home"), local(world, "local");
  winners.assign(10, "");
  for (std::uint32_t m = 1; m <= 2; ++m) {
    world.start(m, m == 1 ? "a" : "b", [&](Process& self) {
      SimDisk disk(world, self, local, home, "/home");
      ASSERT_TRUE(disk.make_folders("/home/log").has_value());
      for (int i = 0; i < 10; ++i) {
        const std::string n = std::to_string(i), mine = "/home/log/." + self.name + n;
        if (disk.create_whole("/home/log/" + n, as_bytes(self.name), true, mine).has_value()) winners.at(static_cast<std::size_t>(i)) += self.name;
        ASSERT_TRUE(disk.sync_folder("/home/log").has_value());
      }
    });
  }
  EXPECT_TRUE(run_to_the_end(world)) << world.failure();
  return world.trace_hash();
}

TEST(World, ToyRaceHasOneWinnerAndRepeats) {
  std::set<std::uint64_t> hashes;
  std::string all;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<std::string> winners, again;
    const std::uint64_t hash = race(seed, winners);
    EXPECT_EQ(hash, race(seed, again));
    EXPECT_EQ(winners, again);
    hashes.insert(hash);
    for (const auto& w : winners) {
      EXPECT_EQ(w.size(), 1u);
      all += w;
    }
  }
  EXPECT_EQ(hashes.size(), 20u);
  EXPECT_NE(all.find('a'), std::string::npos);
  EXPECT_NE(all.find('b'), std::string::npos);
}

}  // namespace
}  // namespace onepen::sim
