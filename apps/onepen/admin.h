// What restore, adopt and delete have in common: an admin changes a stream without owning it, names what was seen, and says beforehand what is lost.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "apps/onepen/rooms.h"

namespace onepen::app {

inline constexpr std::chrono::seconds kAdminPatience{30};  // how long a change whose answer was lost is sent again
inline constexpr int kTailTries = 8;                       // how often the tail may move under an admin before the command gives up

// Who asks, from where and why: kept in the log for ever.
core::OwnerInfo asking(Runtime& runtime, std::string why);

// Sends the same request again while its answer is lost. The last answer; `unknown` when it stayed so.
template <class T>
core::Answer<T> until_decided(Runtime& runtime, const std::function<core::Answer<T>()>& send) {
  const Instant deadline = runtime.now() + kAdminPatience;
  for (std::chrono::milliseconds pause{10};; pause *= 2) {
    auto answer = send();
    if (answer || answer.error().outcome != Outcome::unknown || runtime.now() >= deadline) return answer;
    runtime.sleep_until(runtime.now() + pause);
  }
}

// What the owner of now will see, in one sentence; empty: nobody owns it.
std::string what_becomes_of_owner(const core::StreamStat& stat, std::string_view then);

// Something is lost and --yes was not given: the plan in sentences on standard error (or with --json in the error), and exit code 3. Nothing was changed.
int ask_for_yes_to(const Common& common, const std::string& sentences, const std::string& plan_json);
template <class Json>
int ask_for_yes(const Common& common, const std::string& sentences, const Json& plan) {
  return ask_for_yes_to(common, sentences, plan.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace onepen::app
