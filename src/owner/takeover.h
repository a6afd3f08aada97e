// May this open take the stream? The takeover modes and the flapping guard (fence.md, "The claim"). Clocks decide only when to try; the claim decides.
#pragma once
#include <optional>

#include "owner/owner.h"

namespace onepen::owner {

// How often an unreachable home is asked again, and for how long, while opening.
class Persistence {
 public:
  Persistence(Runtime& runtime, std::chrono::nanoseconds within) : runtime_(runtime), within_(within) {}
  // Calls until the answer is neither `unavailable` nor `unknown`, with backoff, for at most `within`; only for calls that change nothing.
  template <class Call>
  auto operator()(Call call) {
    const Instant until = runtime_.now() + within_;
    for (unsigned failures = 1;; ++failures) {
      auto answer = call();
      if (answer || (answer.error().outcome != Outcome::unavailable && answer.error().outcome != Outcome::unknown)) return answer;
      if (!wait_before_try(failures, until)) return answer;
    }
  }

 private:
  bool wait_before_try(unsigned failures, Instant until);
  Runtime& runtime_;
  std::chrono::nanoseconds within_;
};

// The stream as it was looked at; none: there is no stream.
using Seen = std::optional<core::StreamStat>;

// Decides by options.takeover, watching a whole term where it must. Errors: held (names the holder and its sign of life); what the home answered.
Result<ClaimPlan> plan_takeover(Runtime& runtime, core::Stream& stream, const Options& options, const Seen& seen);

// How long an open waits that would be one change of owner too many since the last database commit; 0: not at all.
std::chrono::nanoseconds flapping_wait(const Options& options, const Seen& seen);
// Waits so long, with progress and one log line that names between whom the ownership changes. Answers what to tell whoever opens; none: the process is being
// stopped.
std::optional<std::string> wait_for_calm(Runtime& runtime, const std::string& stream, const Options& options, const core::StreamStat& seen);

Error held(const std::string& stream, const onepen::Owner& holder, const std::string& why);

}  // namespace onepen::owner
