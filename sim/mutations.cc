// The mutation check: a rule whose removal no run notices is a rule that the simulator does not test.
#include <fmt/format.h>

#include <map>
#include <string_view>

#include "sim/sweep.h"

namespace onepen::sim {
namespace {

constexpr int kGuards = 0
#define ONEPEN_GUARD(name) +1
    ONEPEN_GUARDS(ONEPEN_GUARD)
#undef ONEPEN_GUARD
    ;

constexpr std::uint64_t kSqliteBoundDivisor = 5;  // runs with SQLite are longer

// Guards whose rule is about databases: looked for in runs with SQLite.
bool in_sqlite(Guard guard) {
  switch (guard) {
    case Guard::b5_claims_kept:
    case Guard::b5_mark_first:
    case Guard::b6_mark_after:
    case Guard::copy_landed_by_sum:
    case Guard::wal_held:
    case Guard::self_claim_conditional:
    case Guard::silence_was_watched:
    case Guard::standby_conditional:
    case Guard::admin_sees_tail:
    case Guard::b7_floor_kept:
    case Guard::b7_cut:
    case Guard::reads_confirmed:
    case Guard::read_nothing_unsent:
    case Guard::trimmed_to_salvage:
    case Guard::live_whole_batch:
    case Guard::live_all_copied:
    case Guard::live_readers_free:
    case Guard::follow_reads_anew:
    case Guard::wait_until_shown:
    case Guard::stale_refused:
    case Guard::synced_confirms_after: return true;
    default: return false;
  }
}

// How many times the bound: a trim and a stalled writer must meet at one id.
std::uint64_t patience(Guard guard) { return guard == Guard::b6_mark_after ? 8 : 1; }

// Guards whose rule lives in rooms that are not in the simulator, and the test that turns red without them (checks/tree.py: it switches the guard off).
const std::map<Guard, std::string_view>& elsewhere() {
  static const std::map<Guard, std::string_view> kElsewhere = {
      {Guard::copy_place_checked, "src/sqlite/copy_pending_test.cc"},  // needs a commit that brings back the bytes of an older one
      {Guard::doubt_written_again, "src/sqlite/copy_doubt_test.cc"},  // needs the power to go after a sync that failed and one that did not
      {Guard::snapshot_fits, "src/sqlite/snapshot_test.cc"},           // needs a snapshot damaged where it lies
      {Guard::local_published, "tests/sqlite/local_publish_test.cc"},  // needs a failure of SQLite between its frame and its index
      {Guard::self_claim_reads_first, "src/owner/self_claim_test.cc"},  // what the sweeps reach without it, self_claim_conditional stops
      {Guard::withdraw_only_unsent, "src/owner/withdraw_test.cc"},      // needs a disk that is full in the middle of one append
      {Guard::b7_voids_epoch, "src/core/fence_test.cc"},             // needs an owner that goes on after a restore that its operator was refused
      {Guard::commit_fits, "src/sqlite/apply_test.cc"},                // needs a commit made on another database
      {Guard::append_stands, "tests/home/object_suspect_test.cc"},
  };
  return kElsewhere;
}

}  // namespace

int check_mutations(std::uint64_t bound, unsigned jobs, const std::string& only) {
  int survivors = 0;
  fmt::print("{:<22} {:>7}  {}\n", "guard switched off", "seeds", "first violation");
  for (int i = 0; i < kGuards; ++i) {
    const auto guard = static_cast<Guard>(i);
    if (!only.empty() && only != guard_name(guard)) continue;
    const auto other = elsewhere().find(guard);
    if (other != elsewhere().end()) {
      fmt::print("{:<22} {:>7}  covered elsewhere: {}\n", guard_name(guard), "-", other->second);
      continue;
    }
    set_guard(guard, false);
    SweepOptions options;
    options.mix = in_sqlite(guard) ? Mix::sqlite : Mix::mixed;
    options.last = patience(guard) * (in_sqlite(guard) ? bound / kSqliteBoundDivisor : bound);
    options.jobs = jobs;
    options.stop_at_first = true;
    options.repeat_every = 0;
    const SweepResult result = sweep(options);
    set_guard(guard, true);
    if (result.failures.empty()) {
      ++survivors;
      fmt::print("{:<22} {:>7}  SURVIVED: no violation in {} seeds\n", guard_name(guard), "-", result.seeds);
    } else {
      const Failure& f = result.failures.front();
      fmt::print("{:<22} {:>7}  {} ({})\n", guard_name(guard), f.seed, f.text.substr(0, 140), name_of(f.profile));
    }
    std::fflush(stdout);
  }
  return survivors;
}

}  // namespace onepen::sim
