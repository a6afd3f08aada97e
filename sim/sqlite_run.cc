#include "sim/sqlite_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace onepen::sim {
namespace {

constexpr Nanos kSqliteFaultTime = 14 * kSecond;   // at least; up to twice as long
constexpr Nanos kSqliteHealWithin = 400 * kSecond;
constexpr Nanos kSqliteEndWithin = 800 * kSecond;

void plan_sqlite(SqliteRun& all) {
  Run& run = all.run;
  Random& random = run.world.random();
  all.may.offline = random.chance(500);
  all.may.clones = random.chance(150);
  all.may.tends = random.chance(600);
  switch (random.below(12)) {
    case 0:
    case 1: all.may.restores = true; break;
    case 2: all.may.removes = true; break;
    case 3: all.may.adopts = true; break;
    default: break;
  }
  run.home_fs.unnamed_files = random.chance(700);
  if (random.chance(250)) return;  // a quiet run
  run.home_fs.faults.slow = run.bucket.faults.slow = random.chance(300) ? 50 : 2;
  if (random.chance(200)) run.home_fs.faults.eio = 8, run.bucket.faults.unreadable = 30;
  if (random.chance(200)) run.home_fs.faults.eio_sync = 20;
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

bool have_ended(const World& world) {
  return std::all_of(world.processes().begin(), world.processes().end(), [](const auto& p) { return p->ended(); });
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
  const Nanos began = run.world.now();
  run.world.run([&] { return have_ended(run.world) || run.world.now() > began + kSqliteEndWithin; });
  for (const auto& process : run.world.processes()) {
    if (!process->ended() && run.world.failure().empty()) all.violated("I11", process->name + " does not come to its end");
  }
  const auto number = static_cast<std::uint32_t>(run.machines.size()) + 1;
  run.machines.push_back(std::make_unique<Machine>(run.world, number));
  Machine& machine = *run.machines.back();
  bool healed = false;
  const Nanos heal_began = run.world.now();
  Process& p = run.world.start(number, "healer", [&](Process& self) { sqlite_healer(all, self, machine, healed); });
  run.world.run([&] { return p.ended() || run.world.now() > heal_began + kSqliteHealWithin; });
  if (!healed) all.violated("I11", fmt::format("nobody became owner and committed within {} s after the faults stopped", kSqliteHealWithin / kSecond));
  run.world.drain();
  run.world.run([&] { return run.bucket.on_their_way == 0; });
}

}  // namespace

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

}  // namespace

Verdict run_sqlite_seed(const Settings& settings, StackPool& stacks, Sometimes& sometimes) {
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
  if (all.may.restores || all.may.removes || all.may.adopts)
    world.at(0, [&all, &last] { all.run.world.start(last.number, "admin", [&](Process& p) { sqlite_admin(all, p, last); }); });
  if (all.may.offline) plan_outage(all);
  if (all.may.clones) world.at(random.between(3'000, 12'000) * kMilli, [&all] { clone_cache(all); });
  const Nanos until = random.between(kSqliteFaultTime, 2 * kSqliteFaultTime);
  world.at(until, [] {});
  world.run([&] { return world.now() >= until; });

  heal_sqlite(all);
  if (world.failure().empty()) check_commits(all);
  world.drain();
  if (!world.failure().empty()) all.violated("end", world.failure());
  return Verdict{run.history.violations, world.trace_hash(), world.steps(), all.records.size()};
}

}  // namespace onepen::sim
