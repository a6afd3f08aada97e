// Recorded writes, replayed: short lives of a database (owner, SQLite's files, the copies' own, and the home's directory on the same disk) run without
// faults. Just before each sync that has something to sync, the power is cut. What was synced is there. Of what was not:
//
//   * every prefix in the order of the writes (between two syncs these are all the prefixes there are), the last write whole, and torn;
//   * of each file, and of the names of each folder, every prefix, with nothing and with everything of the others;
//   * some other subsets.
//
// What is left is opened by name and judged: everything acknowledged, and with synchronous=FULL everything that COMMIT returned for, is there once, nothing is
// torn, the copy goes on, and a cold open sees the same. Of some of them the power is cut once more, before a sync of that reopening.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "sim/sqlite_run.h"

namespace onepen::sim {
namespace {

constexpr std::uint64_t kScriptSeed = 7, kReopenSeed = 11;
constexpr std::uint64_t kReopenedIds = 1'000'000;  // of commits of each reopening, above those of the life
constexpr int kOtherSubsets = 2;
constexpr std::size_t kManyOperations = 8, kLastOperations = 6;
constexpr std::uint64_t kSecondCutOf = 60;     // one state in so many: the power goes again while it is reopened
constexpr std::uint64_t kFewestStates = 300;   // of a life; fewer: the replay has lost its point
constexpr Nanos kReopenWithin = 300 * kSecond;

// A disk just before a sync, and what must be there whatever the power takes.
struct Recorded {
  bool there = false;
  std::unique_ptr<SimFs> before;
  std::set<std::uint64_t> must;
  std::uint64_t next_id = 0;  // of commits made after it
};

struct Kept {  // of what was not synced
  std::set<std::uint64_t> operations;
  std::uint64_t torn = 0;
};

std::set<std::uint64_t> promised(const SqliteRun& all) {
  std::set<std::uint64_t> ids;
  for (const auto& [id, told] : all.commits) {
    if ((told.acknowledged || told.synced_here) && !cut_away(all, told)) ids.insert(id);
  }
  return ids;
}

// One run on one machine whose disk is watched.
class Watched {
 public:
  explicit Watched(std::uint64_t seed) : run_(Settings{seed, Profile::sqlite, false}, stacks_, sometimes_), all_(run_) {
    run_.home_is_local = true;
    run_.history.claims_logged_elsewhere = true;
    run_.history.on_record = [this](const core::Record& record) { all_.records.emplace(record.next.text, record); };
    run_.machines.push_back(std::make_unique<Machine>(run_.world, 1));
  }
  Run& run() { return run_; }
  SqliteRun& all() { return all_; }
  Machine& machine() { return *run_.machines.front(); }
  // Runs `body` up to just before its n-th sync (0: to its end).
  Recorded until(std::uint64_t stop_before, const std::function<void(Process&)>& body) {
    Recorded recorded;
    std::uint64_t syncs = 0;
    Process& p = run_.world.start(1, "script", body);
    machine().local.before_sync = [&] {
      if (++syncs != stop_before) return;
      recorded.there = true;
      recorded.before = std::make_unique<SimFs>(run_.world, "before");
      recorded.before->record(machine().local);
      recorded.must = promised(all_);
    };
    run_.world.run([&] { return recorded.there || p.ended() || run_.world.now() > kReopenWithin; });
    machine().local.before_sync = {};
    ended_ = p.ended();
    run_.world.drain();
    return recorded;
  }
  bool ended() const { return ended_; }
  std::string wrong() const {
    if (!run_.world.failure().empty()) return run_.world.failure();
    return run_.history.violations.empty() ? std::string() : run_.history.violations.front();
  }

 private:
  StackPool stacks_;
  Sometimes sometimes_;
  Run run_;
  SqliteRun all_;
  bool ended_ = false;
};

Recorded live_until(Life life, std::uint64_t stop_before) {
  Watched watched(kScriptSeed);
  return watched.until(stop_before, [&](Process& self) { sqlite_life(watched.all(), self, watched.machine(), life); });
}

struct Reopened {
  std::set<std::uint64_t> warm, cold;
  std::string why;
  bool done = false;
};
// What the power left is opened again, up to just before the n-th sync (0: to the end).
Recorded reopen(Watched& watched, const Recorded& recorded, const Kept& kept, std::uint64_t stop_before, Reopened& out) {
  watched.all().next_id = recorded.next_id + kReopenedIds;
  watched.machine().local.become(*recorded.before, kept.operations, kept.torn);
  Recorded again = watched.until(stop_before, [&](Process& self) {
    SqliteRun& all = watched.all();
    out.done =
        sqlite_reopen(all, self, watched.machine(), "/cache", out.warm, out.why) && sqlite_reopen(all, self, watched.machine(), "/cold", out.cold, out.why);
  });
  again.must.insert(recorded.must.begin(), recorded.must.end());
  again.next_id = recorded.next_id + kReopenedIds;
  return again;
}

Recorded reopen_until(const Recorded& recorded, const Kept& kept, std::uint64_t stop_before) {
  Watched watched(kReopenSeed);
  Reopened out;
  return reopen(watched, recorded, kept, stop_before, out);
}

// What is wrong with what the power left; empty: nothing.
std::string judge(const Recorded& recorded, const Kept& kept) {
  Watched watched(kReopenSeed);
  Reopened out;
  static_cast<void>(reopen(watched, recorded, kept, 0, out));
  if (const std::string wrong = watched.wrong(); !wrong.empty()) return wrong;
  if (!watched.ended()) return "the reopening does not end";
  if (!out.done) return out.why;
  for (const std::uint64_t id : recorded.must) {
    if (out.warm.count(id) == 0) return fmt::format("commit {}, which was promised, is not there", id);
  }
  for (const std::uint64_t id : out.warm) {
    if (out.cold.count(id) == 0) return fmt::format("commit {} is in the copy and not in the stream", id);
  }
  return {};
}

struct Tally {
  std::uint64_t syncs = 0, states = 0, torn = 0, again = 0, promises = 0, failures = 0;
};

class Replay {
 public:
  Replay(Life life, const PrefixOptions& options) : life_(life), options_(options), random_(kScriptSeed) {}
  // The syncs first, first + jobs, ...
  Tally some(unsigned first) {
    for (std::uint64_t sync = first + 1;; sync += options_.jobs) {
      if (options_.sync != 0 && sync > options_.sync) return tally_;
      if (options_.sync != 0 && sync != options_.sync) continue;
      const Recorded recorded = live_until(life_, sync);
      if (!recorded.there) return tally_;
      ++tally_.syncs;
      tally_.promises = std::max<std::uint64_t>(tally_.promises, recorded.must.size());
      sync_ = sync;
      tried_.clear();
      prefixes(recorded);
      files(recorded);
      subsets(recorded);
    }
  }

 private:
  // A large file that is written whole, and synced once: of its many prefixes some do, unless asked to be thorough.
  bool left_out(std::size_t at, std::size_t of) const {
    return !options_.thorough && of > kManyOperations && at + kLastOperations < of && at % (of / kManyOperations + 1) != 0;
  }
  void prefixes(const Recorded& recorded) {
    Kept kept;
    attempt(recorded, kept, "a prefix");
    const auto all = recorded.before->unsynced();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t operation = all[i];
      kept.operations.insert(operation);
      if (left_out(i, all.size())) continue;
      attempt(recorded, kept, "a prefix");
      attempt(recorded, {kept.operations, operation}, "a prefix, the last write torn");
    }
  }
  void files(const Recorded& recorded) {
    const auto all = recorded.before->unsynced();
    for (const auto& file : recorded.before->unsynced_by_file()) {
      std::set<std::uint64_t> others(all.begin(), all.end());
      for (const std::uint64_t operation : file) others.erase(operation);
      Kept alone, among{others};
      attempt(recorded, among, "everything but what one file had");
      for (std::size_t i = 0; i < file.size(); ++i) {
        alone.operations.insert(file[i]);
        among.operations.insert(file[i]);
        if (left_out(i, file.size())) continue;
        attempt(recorded, alone, "a prefix of one file, nothing of the others");
        attempt(recorded, among, "a prefix of one file, everything of the others");
      }
    }
  }
  void subsets(const Recorded& recorded) {
    const auto all = recorded.before->unsynced();
    for (int i = 0; i < kOtherSubsets && all.size() > 2; ++i) attempt(recorded, {some_of(all)}, "a subset");
  }
  std::set<std::uint64_t> some_of(const std::vector<std::uint64_t>& all) {
    std::set<std::uint64_t> kept;
    for (const std::uint64_t operation : all) {
      if (random_.chance(500)) kept.insert(operation);
    }
    return kept;
  }
  void attempt(const Recorded& recorded, const Kept& kept, std::string_view what) {
    if (!tried_.emplace(kept.operations, kept.torn).second) return;
    ++tally_.states;
    tally_.torn += kept.torn != 0 ? 1 : 0;
    tell(judge(recorded, kept), kept, what);
    if (random_.below(options_.thorough ? 1 : kSecondCutOf) != 0) return;
    for (std::uint64_t step = 1 + random_.below(4);; step += 1 + random_.below(8)) {
      const Recorded second = reopen_until(recorded, kept, step);
      if (!second.there) return;
      ++tally_.again;
      const auto left = second.before->unsynced();
      tell(judge(second, {some_of(left)}), kept, fmt::format("{}, and again before sync {} of its reopening", what, step));
    }
  }
  void tell(const std::string& wrong, const Kept& kept, std::string_view what) {
    if (wrong.empty()) return;
    ++tally_.failures;
    fmt::print("{}, before sync {}, {} unsynced operations kept ({}): {}\n", kLives.at(static_cast<std::size_t>(life_)), sync_, kept.operations.size(), what,
               wrong);
    std::fflush(stdout);
  }

  Life life_;
  const PrefixOptions& options_;
  Random random_;
  Tally tally_;
  std::uint64_t sync_ = 0;
  std::set<std::pair<std::set<std::uint64_t>, std::uint64_t>> tried_;
};

// All lives; false: something failed, or a life was not what it is to be.
bool replay_some(unsigned first, const PrefixOptions& options) {
  bool good = true;
  for (std::size_t i = 0; i < kLives.size(); ++i) {
    if (!options.life.empty() && options.life != kLives.at(i)) continue;
    const Tally tally = Replay(static_cast<Life>(i), options).some(first);
    const bool lived = options.sync != 0 || (tally.states * options.jobs >= kFewestStates && tally.torn > 0 && tally.again > 0 && tally.promises > 0);
    fmt::print("{}: {} syncs, {} states after a loss of power ({} torn), {} after a second one, up to {} commits promised, {} failures{}\n", kLives.at(i),
               tally.syncs, tally.states, tally.torn, tally.again, tally.promises, tally.failures, lived ? "" : "; TOO FEW");
    std::fflush(stdout);
    good = good && lived && tally.failures == 0;
  }
  return good;
}

}  // namespace

int replay_prefixes(const PrefixOptions& options) {
  std::vector<pid_t> workers;
  std::fflush(nullptr);
  for (unsigned i = 0; i < options.jobs; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::_exit(replay_some(i, options) ? 0 : 1);
    }
    workers.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : workers) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  return failed;
}

}  // namespace onepen::sim
