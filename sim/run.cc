#include "sim/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "sim/recording_stream.h"
#include "sim/sqlite_run.h"
#include "wire/log_object.h"

namespace onepen::sim {
namespace {

constexpr Nanos kFaultTime = 25 * kSecond;      // at least; up to twice as long
constexpr Nanos kHealWithin = 300 * kSecond;    // I11: owner, appends acknowledged and confirmed
constexpr Nanos kEndWithin = 600 * kSecond;     // everybody else has ended by himself

void plan_faults(Run& run) {
  Random& random = run.world.random();
  run.home_fs.unnamed_files = random.chance(700);
  if (random.chance(150)) return;  // a quiet run
  DiskFaults& disk = run.home_fs.faults;
  BucketFaults& bucket = run.bucket.faults;
  disk.slow = random.chance(300) ? 50 : 2;
  bucket.slow = disk.slow;
  if (random.chance(300)) disk.eio = 10, bucket.unreadable = 30;
  if (random.chance(300)) disk.eio_sync = 30;
  if (random.chance(200)) disk.enospc = 30;
  if (random.chance(500)) bucket.lost_answer = 100;
  if (random.chance(400)) bucket.lost_request = 60;
  if (random.chance(500)) bucket.late = 80;
  if (random.chance(400)) bucket.twice = 100;
  if (random.chance(300)) bucket.refused = 50;
  for (auto& machine : run.machines) {
    if (random.chance(150)) machine->local.faults.eio_sync = 50;
    if (random.chance(100)) machine->local.faults.enospc = 50;
  }
}

void note_pending(Run& run, const Process& process) {
  const auto& all = run.history.submitted;
  const bool pending = std::any_of(all.begin(), all.end(), [&](const Submitted& s) { return s.who == process.name && s.fate == FateSeen::none; });
  if (pending) run.history.sometimes.reached(Sometime::killed_with_pending);
}

void strike(Run& run, Process& process) {
  Random& random = run.world.random();
  note_pending(run, process);
  switch (random.below(10)) {
    case 0:
    case 1:
    case 2:
    case 3: run.world.kill(process, "strike"); break;
    case 4:
    case 5:
    case 6: run.power_loss(process.machine); break;
    default: run.world.pause(process, random.between(50, 15'000) * kMilli); process.strike_in = static_cast<std::uint32_t>(1 + random.below(120));
  }
}

void plan_strike(Run& run, Process& process) {
  Random& random = run.world.random();
  if (random.chance(600)) process.strike_in = static_cast<std::uint32_t>(1 + (random.chance(500) ? random.below(60) : random.below(400)));
}

void start_slot(Run& run, Slot& slot) {
  if (run.healing || slot.lives-- <= 0) return;
  Process& p = run.world.start(slot.machine->number, fmt::format("{}.{}", slot.name, ++slot.starts), [&run, &slot](Process& process) {
    application(run, process, slot);
    const Nanos again = run.world.random().between(0, 4'000) * kMilli;
    run.world.after(again, [&run, &slot] { start_slot(run, slot); });
  });
  plan_strike(run, p);
}

void start_fencer(Run& run) {
  Machine& machine = *run.machines.back();
  Process& p = run.world.start(machine.number, "fencer", [&run, &machine](Process& self) { fencer(run, self, machine); });
  if (run.world.random().chance(300)) p.link = run.world.random().between(3, 12);  // so slow that busy writers win every id: it must race (B3)
  plan_strike(run, p);
}

void plan_clocks(Run& run) {
  Random& random = run.world.random();
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    run.world.at(random.between(0, kFaultTime), [&run] {
      const auto& all = run.world.processes();
      if (all.empty()) return;
      Process& p = *all[run.world.random().below(all.size())];
      if (!p.dead && !run.healing) run.world.jump_clock(p, run.world.random().between(0, 30) * kSecond, run.world.random().between(-400, 400) * 86'400'000);
    });
  }
}

bool all_ended(const World& world) {
  return std::all_of(world.processes().begin(), world.processes().end(), [](const auto& p) { return p->ended(); });
}

void end_faults(Run& run) {
  run.world.note("heal");
  run.healing = true;
  run.home_fs.faults = DiskFaults{};
  run.bucket.faults = BucketFaults{};
  for (auto& machine : run.machines) machine->local.faults = DiskFaults{};
  for (const auto& p : run.world.processes()) {
    p->strike_in = 0;
    p->paused_until = std::min(p->paused_until, run.world.now());
  }
}

// Reads the whole stream with a fresh client. False: it could not.
void read_all(Run& run, Process& process, Machine& machine, Final& out, bool& complete) {
  Client client(run, process, machine);
  auto stream = client.stream();
  Offset at;
  for (int i = 0; i < 1000 && !process.dead; ++i) {
    auto read = stream->read(at, core::ReadLimit{});
    if (!read) {
      run.world.note("final.refused", read.error().message, static_cast<std::uint64_t>(read.error().outcome));
      out.refused = read.error().outcome;
      return;
    }
    out.records.insert(out.records.end(), read->records.begin(), read->records.end());
    at = read->next;
    complete = read->up_to_date;
    if (complete) break;
  }
}

// I10: two readers whose clocks are decades and a factor of four apart see the same stream.
Final read_twice(Run& run) {
  Final first, second;
  bool first_complete = false, second_complete = false;
  Machine& machine = *run.machines.front();
  Process& p = run.world.start(1, "early", [&](Process& self) { read_all(run, self, machine, first, first_complete); });
  p.rate_per_mille = 500, p.wall_base_ms = 0;
  Process& q = run.world.start(1, "late", [&](Process& self) { read_all(run, self, machine, second, second_complete); });
  q.rate_per_mille = 2000, q.wall_base_ms = 4'000'000'000'000;
  run.world.run([&] { return p.ended() && q.ended(); });
  if (!first_complete || !second_complete) run.history.violated("I3", "the stream could not be read to its end after the faults stopped");
  first.build();
  second.build();
  if (first.sums != second.sums) run.history.violated("I10", "two readers with different clocks see different streams");
  return first;
}

// What lies in the log, byte for byte, past every fault and cache.
void take_objects(Run& run, Final& out) {
  const std::string log = std::string(kStream) + "/@log/";
  if (run.on_bucket) {
    for (const auto& [key, bytes] : run.bucket.objects) {
      if (key.starts_with(log)) out.objects[std::stoull(key.substr(log.size()))] = bytes;
    }
    return;
  }
  const std::string folder = std::string(kHomeRoot) + "/data/" + log;
  std::vector<std::string> shards;
  static_cast<void>(run.home_fs.list(folder, "", SIZE_MAX, shards));
  for (const std::string& shard : shards) {
    std::vector<std::string> names;
    static_cast<void>(run.home_fs.list(folder + shard, "", SIZE_MAX, names));
    for (const std::string& name : names) static_cast<void>(run.home_fs.read(folder + shard + "/" + name, 0, UINT64_MAX, out.objects[std::stoull(name)]));
  }
}

// A log with an object missing, or one bit wrong, in its middle: its reader shows what lies before, says fence-unavailable, and never what lies behind.
void damage(Run& run, const Final& whole) {
  if (whole.objects.size() < 3 || !run.world.failure().empty()) return;
  Random& random = run.world.random();
  const std::uint64_t id = 2 + random.below(whole.objects.size() - 2);
  if (whole.objects.count(id) == 0) return;  // a hole is damage already; the judge says so
  const std::string name = fmt::format("{:020}", id), key = std::string(kStream) + "/@log/" + name;
  const std::string path = fmt::format("{}/data/{}/@log/{}/{}", kHomeRoot, kStream, name.substr(0, 17), name);
  const bool remove = random.chance(600);
  const std::size_t at = random.below(whole.objects.at(id).size());
  run.world.note(remove ? "damage.remove" : "damage.flip", key, at);
  if (run.on_bucket) {
    if (remove) run.bucket.objects.erase(key);
    if (!remove) run.bucket.objects.at(key).at(at) ^= std::byte{1};
  } else if (remove) {
    run.home_fs.remove(path, 1);
  } else {
    const std::byte flipped = whole.objects.at(id).at(at) ^ std::byte{1};
    run.home_fs.write(path, at, ByteView(&flipped, 1), 1);
  }
  Final shown;
  bool complete = false;
  Process& p = run.world.start(1, "after-damage", [&](Process& self) { read_all(run, self, *run.machines.front(), shown, complete); });
  run.world.run([&] { return p.ended(); });
  shown.build();
  const std::size_t n = shown.records.size();
  if (n > whole.records.size() || shown.sums.back() != whole.sums[n])
    run.history.violated("I9", fmt::format("with object {} damaged a reader was shown what is no prefix of the stream", id));
  Bytes bytes = whole.objects.at(id);
  bytes.at(at) ^= std::byte{1};
  const auto damaged = wire::decode_log_object(bytes);
  const bool newer = !remove && !damaged && damaged.error().kind == wire::ObjectFault::Kind::newer_format;  // the bit was in the version
  if (complete || shown.refused != (newer ? Outcome::invalid : Outcome::fence_unavailable))
    run.history.violated("B4", fmt::format("with object {} damaged a reader was not told fence-unavailable", id));
  run.history.sometimes.reached(Sometime::damage_refused);
}

void heal(Run& run) {
  bool healed = false;
  const Nanos began = run.world.now();
  Slot& slot = *run.slots.front();
  Slot fresh{"healer", slot.machine, Copy{}};
  Process& p = run.world.start(slot.machine->number, "healer", [&](Process& self) { healer(run, self, fresh, healed); });
  run.world.run([&] { return (healed && p.ended()) || run.world.now() > began + kHealWithin; });
  if (!healed) run.history.violated("I11", fmt::format("nobody became owner within {} s after the faults stopped", kHealWithin / kSecond));
  run.world.run([&] { return all_ended(run.world) || run.world.now() > began + kEndWithin; });
  if (healed && !all_ended(run.world)) {
    for (const auto& process : run.world.processes()) {
      if (!process->ended()) run.history.violated("I11", process->name + " does not come to its end");
    }
  }
  run.world.drain();
  run.world.run([&] { return run.bucket.on_their_way == 0; });
}

}  // namespace

Run::Run(const Settings& s, StackPool& stacks, Sometimes& sometimes)
    : settings(s), world(s.seed, stacks, s.print_trace), history(world, sometimes), home_fs(world, "home"), bucket(world) {
  world.strike = [this](Process& process) { strike(*this, process); };
  bucket.on_late = [this](bool made) {
    if (history.claims.empty()) return;
    history.sometimes.reached(Sometime::late_put_after_claim);
    if (made) history.sometimes.reached(Sometime::late_put_made_object);
  };
  bucket.on_own_found = home_fs.on_own_found = [this] { history.sometimes.reached(Sometime::own_object_found); };
  home_fs.on_name_at_risk = [this](const std::string& name, bool kept) {
    const bool object = name.size() == 20 && name.find_first_not_of("0123456789") == std::string::npos;
    if (object) history.sometimes.reached(kept ? Sometime::name_kept_with_power : Sometime::name_lost_with_power);
  };
}

void Run::power_loss(std::uint32_t number) {
  world.note("power_loss", one_machine ? "everything" : "machine", number);
  for (const auto& p : world.processes()) {
    if (one_machine || p->machine == number) world.kill(*p, "power loss");
  }
  for (auto& machine : machines) {
    if (one_machine || machine->number == number) machine->local.power_loss(kEverybody);
  }
  home_fs.power_loss(one_machine ? kEverybody : number);
}

Client::Client(Run& run, Process& process, Machine& machine)
    : disk(run.world, process, machine.local, run.home_is_local ? machine.local : run.home_fs, std::string(kHomeRoot)), run_(run), process_(process) {
  Runtime& runtime = *process.runtime;
  const auto make_store = [&]() -> std::unique_ptr<home::ObjectStore> {
    if (run.on_bucket) return std::make_unique<SimStore>(run.bucket, process);
    return home::make_file_store(runtime, disk, std::string(kHomeRoot) + "/data");
  };
  raw_ = make_store();
  home::ObjectHomeOptions options;
  options.url = "sim://home";
  // Fewer steps a run; how often it asks decides nothing.
  options.pace = {run.on_bucket, std::chrono::milliseconds(20), std::chrono::milliseconds(1'000)};
  home_ = home::make_object_home(runtime, make_store(), std::move(options));
}
Client::~Client() = default;

std::unique_ptr<core::Stream> Client::stream() {
  return std::make_unique<RecordingStream>(run_.history, process_, home_->stream(StreamName::parse(kStream).value()));
}

void lay_out(Run& run, std::uint64_t machines, std::uint64_t least_slots, std::uint32_t busy_per_mille) {
  Random& random = run.world.random();
  for (std::uint32_t m = 1; m <= machines; ++m) run.machines.push_back(std::make_unique<Machine>(run.world, m));
  const auto slots = least_slots + random.below(3);
  for (std::uint64_t i = 0; i < slots; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    run.slots.push_back(std::make_unique<Slot>(
        Slot{name, run.machines[random.below(machines)].get(), Copy{}, static_cast<int>(1 + random.below(3)), random.chance(busy_per_mille)}));
  }
}

Verdict run_seed(const Settings& settings, StackPool& stacks, Sometimes& sometimes) {
  if (settings.profile == Profile::sqlite) return run_sqlite_seed(settings, stacks, sometimes);
  Run run(settings, stacks, sometimes);
  run.on_bucket = settings.profile == Profile::bucket;
  World& world = run.world;
  Random& random = world.random();
  run.one_machine = random.chance(400);
  const auto machines = run.one_machine ? 1 : 2 + random.below(2);
  lay_out(run, machines, 2, 150);
  plan_faults(run);
  plan_clocks(run);
  for (auto& slot : run.slots) world.at(random.between(0, 6'000) * kMilli, [&run, &slot] { start_slot(run, *slot); });
  run.history.answers_as_stored = random.chance(300);
  for (std::uint64_t i = 1 + random.below(2); i > 0; --i) world.at(random.between(0, 5'000) * kMilli, [&run] { start_fencer(run); });
  world.at(random.between(0, 3'000) * kMilli, [&run] {
    Machine& machine = *run.machines.back();
    run.world.start(machine.number, "reader", [&run, &machine](Process& p) { reader(run, p, machine); });
  });
  const Nanos until = random.between(kFaultTime, 2 * kFaultTime);
  world.at(until, [] {});
  world.run([&] { return world.now() >= until; });

  end_faults(run);
  heal(run);
  Final final_stream;
  if (world.failure().empty()) final_stream = read_twice(run);
  world.drain();
  take_objects(run, final_stream);
  damage(run, final_stream);
  world.drain();
  if (!world.failure().empty()) run.history.violated("end", world.failure());
  const Evidence evidence{run.history, final_stream};
  if (world.failure().empty()) {
    for (const auto check : {check_i1, check_i2, check_i3, check_i4, check_i5, check_i6, check_i9, check_judge}) check(evidence);
  }
  return Verdict{run.history.violations, world.trace_hash(), world.steps(), final_stream.records.size()};
}

}  // namespace onepen::sim
