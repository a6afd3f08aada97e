// Sweeps over seeds in worker processes, replays, and the mutation check. Each worker is forked, so that a crash or a hang of one seed is a result.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/guard.h"
#include "sim/run.h"
#include "sim/sometimes.h"

namespace onepen::sim {

enum class Mix : std::uint8_t { directory, bucket, mixed, sqlite };  // mixed: even seeds on a directory, odd ones on a bucket
Profile profile_of(Mix mix, std::uint64_t seed);
const char* name_of(Profile profile);
// Nothing: no such name.
std::optional<Profile> profile_from(std::string_view name);

struct SweepOptions {
  std::uint64_t first = 1, last = 500;
  Mix mix = Mix::mixed;
  unsigned jobs = 2;
  bool stop_at_first = false;          // each worker stops at its first violation
  std::uint64_t repeat_every = 50;     // of these seeds the trace hash is compared with that of a second run
};
struct Failure {
  std::uint64_t seed;
  Profile profile;
  std::string text;
};
struct SweepResult {
  std::uint64_t seeds = 0, steps = 0, records = 0;
  Sometimes sometimes;
  std::vector<Failure> failures;       // by seed
  double seconds = 0;
};
SweepResult sweep(const SweepOptions& options);

// Runs one seed twice and compares; the violations, one a line.
std::vector<std::string> run_checked(const Settings& settings, bool twice, StackPool& stacks, Sometimes& sometimes, std::uint64_t& steps,
                                     std::uint64_t& records);

// Guard by guard: switched off, the sweep must find a violation within `bound` seeds (of runs with SQLite: a fifth of that). Returns the number of survivors. Prints a table.
int check_mutations(std::uint64_t bound, unsigned jobs, const std::string& only);

}  // namespace onepen::sim
