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

// Guards whose rule lives in rooms that are not in the simulator, and the test that turns red without them.
const std::map<Guard, std::string_view>& elsewhere() {
  static const std::map<Guard, std::string_view> kElsewhere = {};
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
    options.last = bound;
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
