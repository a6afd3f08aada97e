#include "sim/sqlite_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/checksum.h"
#include "sqlite/messages.h"

namespace onepen::sim {
namespace {

constexpr Nanos kSqliteFaultTime = 14 * kSecond;   // at least; up to twice as long
constexpr Nanos kSqliteHealWithin = 400 * kSecond;
constexpr Nanos kSqliteFollowWithin = 300 * kSecond;
constexpr Nanos kSqliteEndWithin = 800 * kSecond;

void plan_sqlite(SqliteRun& all) {
  Run& run = all.run;
  Random& random = run.world.random();
  all.may.offline = random.chance(500);
  all.may.clones = random.chance(150);
  all.may.tends = random.chance(600);
  switch (random.below(24)) {
    case 0:
    case 1:
    case 2:
    case 3: all.may.restores = true; break;
    case 4:
    case 5: all.may.removes = true; break;
    case 6:
    case 7:
    case 8: all.may.adopts = true; break;
    case 9: all.may.restores = all.may.adopts = true; break;
    default: break;  // the operator only looks and trims
  }
  run.home_fs.unnamed_files = random.chance(700);
  if (random.chance(250)) return;  // a quiet run
  run.home_fs.faults.slow = run.bucket.faults.slow = random.chance(300) ? 50 : 2;
  if (random.chance(200)) run.home_fs.faults.eio = 8, run.bucket.faults.unreadable = 30;
  if (random.chance(200)) run.home_fs.faults.eio_sync = 20, all.may.home_sync_faults = true;
  if (random.chance(200)) run.home_fs.faults.enospc = 20;
  if (random.chance(400)) run.bucket.faults.lost_answer = 100;
  if (random.chance(300)) run.bucket.faults.lost_request = 60;
  if (random.chance(400)) run.bucket.faults.late = 60;
  if (random.chance(300)) run.bucket.faults.twice = 100;
  for (auto& machine : run.machines) {
    if (random.chance(120)) machine->local.faults.eio_sync = 15, all.may.disk_faults = true;
    if (random.chance(80)) machine->local.faults.enospc = 10, all.may.disk_faults = true;
  }
}

void sqlite_strike(SqliteRun& all, Process& process) {
  Random& random = all.run.world.random();
  const auto unsent = [&](const auto& item) { return item.second.who == process.name && !item.second.acknowledged; };
  if (std::any_of(all.commits.begin(), all.commits.end(), unsent)) all.run.history.sometimes.reached(Sometime::killed_with_unsent);
  switch (random.below(10)) {
    case 0:
    case 1:
    case 2:
    case 3: all.run.world.kill(process, "strike"); break;
    case 4:
    case 5: all.run.power_loss(process.machine); break;
    default: all.run.world.pause(process, random.between(50, 8'000) * kMilli); process.strike_in = static_cast<std::uint32_t>(1 + random.below(900));
  }
}

void plan_strike_of(SqliteRun& all, Process& process) {
  Random& random = all.run.world.random();
  if (random.chance(650)) process.strike_in = static_cast<std::uint32_t>(1 + (random.chance(300) ? random.below(150) : random.below(3'000)));
}

void start_application(SqliteRun& all, Slot& slot) {
  Run& run = all.run;
  if (run.healing || slot.lives-- <= 0) return;
  Process& p = run.world.start(slot.machine->number, fmt::format("{}.{}", slot.name, ++slot.starts), [&all, &slot](Process& process) {
    sqlite_application(all, process, slot);
    all.run.world.after(all.run.world.random().between(0, 2'000) * kMilli, [&all, &slot] { start_application(all, slot); });
  });
  plan_strike_of(all, p);
}

// Also when the faults are over: whoever follows gets to the end.
void start_follower(SqliteRun& all, FollowerSeat& seat) {
  Run& run = all.run;
  const bool runs = seat.process != nullptr && !seat.process->ended();
  if (runs || seat.arrived || (!run.healing && seat.lives-- <= 0)) return;
  Process& p = run.world.start(seat.machine->number, fmt::format("{}.{}", seat.name, ++seat.starts), [&all, &seat](Process& process) {
    sqlite_follower(all, process, seat);
    all.run.world.after(all.run.world.random().between(0, 2'000) * kMilli, [&all, &seat] { start_follower(all, seat); });
  });
  seat.process = &p;
  if (!run.healing) plan_strike_of(all, p);
}

void start_standby(SqliteRun& all) {
  Run& run = all.run;
  StandbySeat& seat = all.standby;
  if (run.healing || seat.lives-- <= 0) return;
  Process& p = run.world.start(seat.machine->number, fmt::format("standby.{}", ++seat.starts), [&all, &seat](Process& process) {
    sqlite_standby(all, process, seat);
    all.run.world.after(all.run.world.random().between(0, 2'000) * kMilli, [&all] { start_standby(all); });
  });
  seat.process = &p;
  plan_strike_of(all, p);
}

// One in every run.
void plan_standby(SqliteRun& all) {
  Random& random = all.run.world.random();
  all.standby.machine = all.run.machines[random.below(all.run.machines.size())].get();
  all.standby.cache_root = random.chance(300) ? "/cache" : "/stand";
  all.standby.lives = static_cast<int>(1 + random.below(4));
  all.run.world.at(random.between(500, 6'000) * kMilli, [&all] { start_standby(all); });
}

// Two in every run, on machines of owners or on one of their own, with a cache root of their own or the one that owners use.
void plan_followers(SqliteRun& all) {
  Run& run = all.run;
  Random& random = run.world.random();
  for (int i = 1; i <= 2; ++i) {
    auto seat = std::make_unique<FollowerSeat>();
    seat->name = fmt::format("follower{}", i);
    seat->machine = run.machines[random.below(run.machines.size())].get();
    seat->cache_root = random.chance(400) ? "/cache" : fmt::format("/follow{}", i);
    seat->lives = static_cast<int>(1 + random.below(4));
    all.followers.push_back(std::move(seat));
    run.world.at(random.between(500, 5'000) * kMilli, [&all, i] { start_follower(all, *all.followers[static_cast<std::size_t>(i) - 1]); });
  }
  run.world.on_kill.push_back([&all](Process& process) {
    FollowerSeat* seat = all.follower_of(process);
    if (seat == nullptr || !process.wal_unpublished) return;
    seat->died_in_batch = true;
    all.run.history.sometimes.reached(Sometime::follower_killed_in_batch);
  });
  all.sqlite.on_checkpoint = [&all](Process& process) {
    FollowerSeat* seat = all.follower_of(process);
    if (seat != nullptr && seat->at_checkpoint != nullptr) seat->at_checkpoint->notify();
  };
  all.sqlite.on_wal_ends = [&all](Process& process, bool got, bool beside) {
    if (all.follower_of(process) == nullptr) return;
    Sometimes& sometimes = all.run.history.sometimes;
    sometimes.reached(got ? Sometime::follower_wal_anew : Sometime::follower_wal_kept);
    if (got && beside) sometimes.reached(Sometime::follower_wal_anew_beside);
  };
}

void start_fencer_of(SqliteRun& all) {
  Run& run = all.run;
  Machine& machine = *run.machines[run.world.random().below(run.machines.size())];
  Process& p = run.world.start(machine.number, "fencer", [&run, &machine](Process& self) { fencer(run, self, machine, true); });
  plan_strike_of(all, p);
}

// A machine's cache root is copied to a fresh machine (a restored image, a resumed snapshot of a VM) and used there.
void clone_cache(SqliteRun& all) {
  Run& run = all.run;
  if (run.healing || run.one_machine) return;
  Machine& from = *run.machines[run.world.random().below(run.machines.size())];
  const auto number = static_cast<std::uint32_t>(run.machines.size()) + 1;
  run.machines.push_back(std::make_unique<Machine>(run.world, number));
  Machine& to = *run.machines.back();
  to.local.copy_tree(from.local, "/cache", "/cache");
  run.world.note("clone", from.local.name(), number);
  run.history.sometimes.reached(Sometime::cloned_cache);
  run.slots.push_back(std::make_unique<Slot>(Slot{fmt::format("clone{}", number), &to, Copy{}, 2, false}));
  start_application(all, *run.slots.back());
}

// The home is out of reach for a while: who may, opens offline meanwhile.
void plan_outage(SqliteRun& all) {
  Random& random = all.run.world.random();
  const Nanos begins = random.between(3'000, 14'000) * kMilli;
  all.run.world.at(begins, [&all] {
    Run& run = all.run;
    if (run.healing) return;
    run.world.note("outage");
    run.home_fs.faults.eio = run.bucket.faults.unreadable = run.bucket.faults.refused = 1'000;
    run.world.after(run.world.random().between(500, 7'000) * kMilli, [&run] {
      run.world.note("outage.over");
      run.home_fs.faults.eio = run.bucket.faults.unreadable = run.bucket.faults.refused = 0;
    });
  });
}

// Everybody but those who follow to the end.
bool have_ended(const SqliteRun& all) {
  const auto& processes = all.run.world.processes();
  return std::all_of(processes.begin(), processes.end(), [&](const auto& p) { return p->ended() || all.follower_of(*p) != nullptr; });
}

void bring_followers_home(SqliteRun& all) {
  Run& run = all.run;
  const Nanos began = run.world.now();
  const auto arrived = [&all] { return std::all_of(all.followers.begin(), all.followers.end(), [](const auto& seat) { return seat->arrived; }); };
  const auto ended = [&all] {
    return std::all_of(all.followers.begin(), all.followers.end(), [](const auto& seat) { return seat->process == nullptr || seat->process->ended(); });
  };
  run.world.run([&] { return (arrived() && ended()) || run.world.now() > began + kSqliteFollowWithin; });
  for (const auto& seat : all.followers) {
    if (!seat->arrived && run.world.failure().empty())
      all.violated("I11", fmt::format("{} does not show the final database within {} s", seat->name, kSqliteFollowWithin / kSecond));
  }
}

void heal_sqlite(SqliteRun& all) {
  Run& run = all.run;
  run.world.note("heal");
  run.healing = true;
  run.home_fs.faults = DiskFaults{};
  run.bucket.faults = BucketFaults{};
  for (auto& machine : run.machines) machine->local.faults = DiskFaults{};
  for (const auto& p : run.world.processes()) {
    p->strike_in = 0;
    p->paused_until = std::min(p->paused_until, run.world.now());
  }
  for (const auto& seat : all.followers) {
    if (seat->process == nullptr || seat->process->ended()) start_follower(all, *seat);
  }
  const Nanos began = run.world.now();
  run.world.run([&] { return have_ended(all) || run.world.now() > began + kSqliteEndWithin; });
  for (const auto& process : run.world.processes()) {
    if (!process->ended() && all.follower_of(*process) == nullptr && run.world.failure().empty())
      all.violated("I11", process->name + " does not come to its end");
  }
  const auto number = static_cast<std::uint32_t>(run.machines.size()) + 1;
  run.machines.push_back(std::make_unique<Machine>(run.world, number));
  Machine& machine = *run.machines.back();
  bool healed = false;
  const Nanos heal_began = run.world.now();
  Process& p = run.world.start(number, "healer", [&](Process& self) { sqlite_healer(all, self, machine, healed); });
  run.world.run([&] { return p.ended() || run.world.now() > heal_began + kSqliteHealWithin; });
  if (!healed) all.violated("I11", fmt::format("nobody became owner and committed within {} s after the faults stopped", kSqliteHealWithin / kSecond));
  if (healed) bring_followers_home(all);
  run.world.drain();
  run.world.run([&] { return run.bucket.on_their_way == 0; });
}

}  // namespace

bool SqliteRun::others_ended(const Process& process) const {
  const auto& processes = run.world.processes();
  return std::all_of(processes.begin(), processes.end(), [&](const auto& p) { return p->ended() || p.get() == &process || follower_of(*p) != nullptr; });
}

// It lies behind the common point in the history that ended there. An answer may come later than that.
bool cut_away(const SqliteRun& all, const CommitTold& told) {
  if (told.covered.text.empty()) return (all.history_lost || !all.cuts.empty()) && told.at_step < all.lost_before_step;
  const auto history = [](const Offset& offset) { return offset.text.substr(0, offset.text.find('.')); };
  return std::any_of(all.cuts.begin(), all.cuts.end(), [&](const Offset& cut) { return history(told.covered) <= history(cut) && cut < told.covered; });
}

namespace {

void check_commits(SqliteRun& all) {
  Run& run = all.run;
  std::set<std::uint64_t> in_copies, in_salvage;
  std::vector<Process*> collectors;
  for (auto& machine : run.machines) {
    Process& p = run.world.start(machine->number, "collector", [&all, &machine, &in_copies, &in_salvage](Process& self) {
      Client client(all.run, self, *machine);
      all.sqlite.add(self, client.disk);
      collect_rows(all, *machine, in_copies, in_salvage);
      all.sqlite.remove(self);
    });
    collectors.push_back(&p);
  }
  run.world.run([&] { return std::all_of(collectors.begin(), collectors.end(), [](const Process* p) { return p->ended(); }); });
  if (!run.world.failure().empty()) return;
  for (const auto& [id, told] : all.commits) {
    const bool landed = all.final_ids.count(id) != 0;
    if (told.acknowledged) {
      if (!landed && !cut_away(all, told)) all.violated("I3", fmt::format("commit {} of {} was acknowledged and is not in the database", id, told.who));
      continue;
    }
    auto& sometimes = run.history.sometimes;
    if (landed) {
      sometimes.reached(Sometime::unsent_landed);
    } else if (in_salvage.count(id) != 0) {
      sometimes.reached(Sometime::unsent_in_salvage);
    } else if (in_copies.count(id) != 0) {
      sometimes.reached(Sometime::unsent_in_copy);
    } else if (!told.synced_here && run.machines.at(told.machine - 1)->local.boots() > told.boots) {
      sometimes.reached(Sometime::unsent_lost_with_power);
    } else if (!cut_away(all, told)) {
      all.violated("salvage", fmt::format("commit {} of {} is neither in the stream nor in a copy nor in salvage", id, told.who));
    }
  }
}

// An admin's act was at the tail he saw: nothing acknowledged lay behind it in the history that it ended.
void check_admin(SqliteRun& all) {
  const auto history = [](const Offset& offset) { return offset.text.substr(0, offset.text.find('.')); };
  for (const Offset& tail : all.seen_tails) {
    for (const auto& [id, told] : all.commits) {
      if (told.acknowledged && history(told.covered) == history(tail) && tail < told.covered)
        all.violated("I3",
                     fmt::format("commit {} was acknowledged at '{}', behind '{}', where an admin had ended that history", id, told.covered.text, tail.text));
    }
  }
}

// Of everything that anybody read: what breaks a rule is nowhere (I4), nothing is there twice (I3).
void check_records(SqliteRun& all) {
  std::set<std::tuple<Incarnation, Epoch, ClaimId, Sequence>> seen;
  for (const auto& [offset, record] : all.records) {
    if (all.run.history.illegal.count(digest_of(record.payload).value) != 0)
      all.violated("I4", fmt::format("what breaks a rule is in the stream before '{}'", offset));
    if (!seen.emplace(record.incarnation, record.epoch, record.claim_id, record.sequence).second)
      all.violated("I3", fmt::format("sequence {} of epoch {} is in the stream a second time before '{}'", record.sequence.value, record.epoch.value, offset));
  }
}

}  // namespace

Verdict run_sqlite_seed(const Settings& settings, StackPool& stacks, Sometimes& sometimes) {
  static_cast<void>(sqlite::refuse_with(SQLITE_OK, {}));  // the runs of a sweep share a thread: the last refusal of one is not told in the next
  Run run(settings, stacks, sometimes);
  SqliteRun all(run);
  World& world = run.world;
  Random& random = world.random();
  run.on_bucket = random.chance(500);
  run.history.claims_logged_elsewhere = true;
  run.history.on_record = [&all](const core::Record& record) { all.records.emplace(record.next.text, record); };
  world.strike = [&all](Process& process) { sqlite_strike(all, process); };
  run.one_machine = !run.on_bucket && random.chance(300);
  const auto machines = run.one_machine ? 1 : 1 + random.below(3);
  lay_out(run, machines, 1, 300);
  const auto slots = run.slots.size();
  plan_sqlite(all);
  for (std::size_t i = 0; i < slots; ++i) world.at(random.between(0, 4'000) * kMilli, [&all, i] { start_application(all, *all.run.slots[i]); });
  Machine& last = *run.machines.back();
  world.at(random.between(0, 3'000) * kMilli, [&all, &last] { all.run.world.start(last.number, "reader", [&](Process& p) { sqlite_reader(all, p, last); }); });
  if (all.may.tends) world.at(0, [&all, &last] { all.run.world.start(last.number, "caretaker", [&](Process& p) { sqlite_caretaker(all, p, last); }); });
  world.at(0, [&all, &last] { all.run.world.start(last.number, "operator", [&](Process& p) { sqlite_operator(all, p, last); }); });
  plan_followers(all);
  plan_standby(all);
  for (std::uint64_t i = 1 + random.below(2); i > 0; --i) world.at(random.between(2'000, 12'000) * kMilli, [&all] { start_fencer_of(all); });
  if (all.may.offline) plan_outage(all);
  if (all.may.clones) world.at(random.between(3'000, 12'000) * kMilli, [&all] { clone_cache(all); });
  const Nanos until = random.between(kSqliteFaultTime, 2 * kSqliteFaultTime);
  world.at(until, [] {});
  world.run([&] { return world.now() >= until; });

  heal_sqlite(all);
  if (world.failure().empty()) check_commits(all);
  check_records(all);
  check_admin(all);
  world.drain();
  if (!world.failure().empty()) all.violated("end", world.failure());
  return Verdict{run.history.violations, world.trace_hash(), world.steps(), all.records.size()};
}

}  // namespace onepen::sim
