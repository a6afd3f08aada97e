// onepen_sim: the deterministic simulator. docs/simulator.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "sim/sqlite_run.h"
#include "sim/sweep.h"

namespace {
using namespace onepen::sim;

constexpr std::uint64_t kSeedsForSometimes = 400;  // a sweep of fewer seeds is not asked to have been everywhere
// Nor one of fewer than so many to have been where one run in hundreds comes to.
std::uint64_t seeds_for(std::size_t sometime) {
  switch (static_cast<Sometime>(sometime)) {
    case Sometime::self_claim_fenced: return 12'000;
    case Sometime::follower_wal_anew_beside:
    case Sometime::pending_resent: return 1'500;
    default: return kSeedsForSometimes;
  }
}

struct Arguments {
  std::string seeds = "1..500", profile = "mixed", replay, only, life;
  std::uint64_t sync = 0;
  std::vector<std::string> guards_off;
  bool trace = false, mutations = false, prefixes = false, thorough = false;
  unsigned jobs = 2;
  std::uint64_t bound = 4000;
};

bool parse_seeds(const std::string& text, std::uint64_t& first, std::uint64_t& last) {
  const auto dots = text.find("..");
  try {
    first = std::stoull(text);
    last = dots == std::string::npos ? first : std::stoull(text.substr(dots + 2));
  } catch (const std::exception&) {
    return false;
  }
  return first <= last;
}

std::string off_again(const Arguments& a) {
  std::string text;
  for (const auto& guard : a.guards_off) text += " --guards-off " + guard;
  return text;
}

int trace_one(std::uint64_t seed, Mix mix) {
  StackPool stacks;
  Sometimes sometimes;
  const Settings settings{seed, profile_of(mix, seed), true};
  const Verdict verdict = run_seed(settings, stacks, sometimes);
  fmt::print("seed {} on {}: {} steps, {} records, trace {:016x}\n", seed, name_of(settings.profile), verdict.steps, verdict.records, verdict.trace_hash);
  for (const auto& v : verdict.violations) fmt::print("  {}\n", v);
  return verdict.violations.empty() ? 0 : 1;
}

int sweep_all(const Arguments& a, const SweepOptions& options) {
  const SweepResult result = sweep(options);
  int missing = 0;
  const bool with_sqlite = options.mix == Mix::sqlite;
  const bool asked = (options.mix == Mix::mixed || with_sqlite) && result.seeds >= kSeedsForSometimes;
  for (std::size_t i = 0; i < kSometimes.size(); ++i) {
    if (with_sqlite != (i >= kFirstSqliteSometime)) continue;
    const bool never = result.sometimes.count(i) == 0 && asked && result.seeds >= seeds_for(i);
    missing += never ? 1 : 0;
    fmt::print("  sometimes {:<24} {:>9}{}\n", kSometimes.at(i), result.sometimes.count(i), never ? "  NEVER REACHED" : "");
  }
  std::uint64_t failed_seeds = 0, before = 0;
  for (const Failure& f : result.failures) {
    if (failed_seeds == 0 || f.seed != before) {
      if (++failed_seeds <= 20) {
        fmt::print("seed {} ({}) FAILED; again, with its trace: onepen_sim --seeds {} --profile {}{} --trace\n", f.seed, name_of(f.profile), f.seed,
                   name_of(f.profile), off_again(a));
      }
    }
    before = f.seed;
    if (failed_seeds <= 20) fmt::print("    {}\n", f.text);
  }
  fmt::print("{} seeds, {} steps, {} records in {:.1f} s ({:.0f} seeds/s): {} failed, {} places never reached\n", result.seeds, result.steps, result.records,
             result.seconds, static_cast<double>(result.seeds) / result.seconds, failed_seeds, missing);
  return failed_seeds == 0 && missing == 0 ? 0 : 1;
}

// Lines of "seed profile"; '#' begins a comment.
int replay(const std::string& file) {
  std::ifstream in(file);
  if (!in) {
    fmt::print(stderr, "cannot read {}\n", file);
    return 2;
  }
  StackPool stacks;
  Sometimes sometimes;
  std::uint64_t ran = 0, failed = 0, steps = 0, records = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::uint64_t seed = 0;
    std::string profile;
    if (!(words >> seed >> profile)) continue;
    ++ran;
    const auto known = profile_from(profile);
    if (!known) {
      fmt::print(stderr, "{}: there is no profile '{}'\n", file, profile);
      return 2;
    }
    const Settings settings{seed, *known, false};
    const auto violations = run_checked(settings, true, stacks, sometimes, steps, records);
    if (!violations.empty()) ++failed;
    for (const auto& v : violations) fmt::print("seed {} ({}): {}\n", seed, profile, v);
  }
  fmt::print("{} kept seeds, {} failed\n", ran, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Onepen's deterministic simulator: the real core, owner and object home on simulated disks and buckets, one seed a run."};
  app.add_option("--seeds", a.seeds, "a seed, or a range A..B");
  app.add_option("--profile", a.profile, "where the stream lives")->check(CLI::IsMember({"dir", "store", "mixed", "sqlite"}));
  app.add_option("--guards-off", a.guards_off, "rules to switch off (src/base/guard.h); the run should then fail");
  app.add_option("--jobs", a.jobs, "worker processes")->check(CLI::Range(1, 64));
  app.add_flag("--trace", a.trace, "print the trace of the first seed of the range");
  app.add_flag("--mutations", a.mutations, "switch each rule off in turn; fail when no run notices");
  app.add_flag("--prefix-replay", a.prefixes, "cut the power before every sync of short lives of a database, with every prefix of what was not synced");
  app.add_option("--life", a.life, "with --prefix-replay: only this one")->check(CLI::IsMember(std::vector<std::string>(kLives.begin(), kLives.end())));
  app.add_option("--sync", a.sync, "with --prefix-replay: only before the n-th sync");
  app.add_flag("--thorough", a.thorough, "with --prefix-replay: cut the power of each reopening as well, not of some");
  app.add_option("--bound", a.bound, "seeds within which a switched-off rule must be noticed");
  app.add_option("--only", a.only, "one guard for --mutations");
  app.add_option("--replay", a.replay, "run the seeds kept in a file");
  CLI11_PARSE(app, argc, argv);
  ::setenv("ONEPEN_LOG", "off", 0);  // sentences for people; traces have them

  SweepOptions options;
  if (!parse_seeds(a.seeds, options.first, options.last)) {
    fmt::print(stderr, "--seeds wants a number or A..B\n");
    return 2;
  }
  options.mix = a.profile == "dir" ? Mix::directory : a.profile == "store" ? Mix::bucket : a.profile == "sqlite" ? Mix::sqlite : Mix::mixed;
  options.jobs = a.jobs;
  for (const auto& name : a.guards_off) {
    onepen::Guard guard{};
    if (!onepen::guard_from_name(name.c_str(), guard)) {
      fmt::print(stderr, "there is no guard called {} (src/base/guard.h)\n", name);
      return 2;
    }
    onepen::set_guard(guard, false);
  }
  if (a.mutations) return check_mutations(a.bound, a.jobs, a.only) == 0 ? 0 : 1;
  if (a.prefixes) return replay_prefixes({a.jobs, a.thorough, a.life, a.sync}) == 0 ? 0 : 1;
  if (!a.replay.empty()) return replay(a.replay);
  if (a.trace) return trace_one(options.first, options.mix);
  return sweep_all(a, options);
}
