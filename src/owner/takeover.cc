#include "owner/takeover.h"

#include <fmt/format.h>

#include <algorithm>

#include "owner/carry.h"

namespace onepen::owner {
namespace {

constexpr std::chrono::nanoseconds kLeastSlice = std::chrono::milliseconds(10);
constexpr std::int64_t kSlicesOfATerm = 10;  // a liveness object is looked at this often while a term is watched
constexpr std::chrono::nanoseconds kProgressEvery = std::chrono::seconds(1);

Error refused_with(const core::Refusal& refusal) { return Error{refusal.outcome, refusal.message, refusal.current}; }

// One term, by our own monotonic clock, in which the owner may show that it lives.
class Watch {
 public:
  Watch(Runtime& runtime, core::Stream& stream, const Options& options, const core::StreamStat& seen)
      : runtime_(runtime), stream_(stream), options_(options), seen_(seen), ask_(runtime, options.open_within) {}

  Result<ClaimPlan> run() {
    first_pulse_ = pulse();
    const Instant from = runtime_.now();
    const auto term = std::max<std::chrono::nanoseconds>(options_.term, first_pulse_ ? term_told(*first_pulse_) : std::chrono::nanoseconds{});
    const Instant until = from + term;
    const auto slice = std::max<std::chrono::nanoseconds>(term / kSlicesOfATerm, kLeastSlice);
    while (runtime_.now() < until) {
      const Instant before = runtime_.now();
      if (options_.interrupted != nullptr && options_.interrupted->load()) return tl::unexpected(stopped());
      if (options_.progress) options_.progress({"watch", 0, 0, "waiting for a sign of life of the owner"});
      const auto more = stream_.wait(seen_.tail, std::min<Instant>(until, before + slice));
      if (!more || *more) {
        if (auto lives = sign_of_life()) return tl::unexpected(*lives);
        if (!pause_until(runtime_, std::min<Instant>(until, runtime_.now() + kLeastSlice))) return tl::unexpected(stopped());
      } else if (first_pulse_ != pulse()) {
        return tl::unexpected(held(stream_.name().text(), core::owner_of(seen_), "it renewed its liveness object"));
      }
      if (runtime_.now() == before && runtime_.now() < until) return tl::unexpected(stopped());
    }
    if (auto lives = sign_of_life()) return tl::unexpected(*lives);
    // Over exactly what was watched: an append or a claim after this last look loses nothing, the home compares both in one step.
    return ClaimPlan{seen_.claim_id, seen_.tail};
  }

 private:
  Error stopped() const { return Error{Outcome::unavailable, "the open of '" + stream_.name().text() + "' was stopped while it watched the owner", {}}; }

  std::optional<Bytes> pulse() {
    if (seen_.owner.liveness.empty()) return {};
    auto answer = stream_.pulse(seen_.owner.liveness);
    return answer ? *answer : first_pulse_;  // out of reach tells nothing
  }

  // Looks at the stream, persistently: a home out of reach must not be taken for a dead owner.
  std::optional<Error> sign_of_life() {
    const auto stat = ask_([&] { return stream_.stat(); });
    const std::string& name = stream_.name().text();
    if (!stat) return refused_with(stat.error());
    if (stat->claim_id != seen_.claim_id) return held(name, core::owner_of(*stat), "it claimed while this open watched");
    if (stat->tail != seen_.tail) return held(name, core::owner_of(*stat), "it wrote while this open watched");
    if (first_pulse_ != pulse()) return held(name, core::owner_of(*stat), "it renewed its liveness object");
    return {};
  }

  Runtime& runtime_;
  core::Stream& stream_;
  const Options& options_;
  const core::StreamStat& seen_;
  Persistence ask_;
  std::optional<Bytes> first_pulse_;
};

}  // namespace

bool Persistence::wait_before_try(unsigned failures, Instant until) {
  auto wait = core::kFirstBackoff;
  for (unsigned i = 1; i < failures && wait < core::kLastBackoff; ++i) wait *= 2;
  const Instant at = runtime_.now() + std::min(wait, core::kLastBackoff);
  return at < until && pause_until(runtime_, at);
}

Error held(const std::string& stream, const onepen::Owner& holder, const std::string& why) {
  return Error{Outcome::held,
               fmt::format("held: '{}' is written by {}: {}. Wait for it to end, or open with takeover=always if you mean to take it from it.", stream,
                           core::describe(holder), why),
               holder};
}

Result<ClaimPlan> plan_takeover(Runtime& runtime, core::Stream& stream, const Options& options, const Seen& seen) {
  if (options.takeover == TakeoverMode::always) return ClaimPlan{};
  if (!seen || seen->epoch.value == 0) return ClaimPlan{ClaimId{}, {}};  // over no owner
  if (seen->released) return ClaimPlan{seen->claim_id, {}};              // over one that ended; whoever claimed since is an owner
  if (options.takeover == TakeoverMode::never) {
    return tl::unexpected(held(stream.name().text(), core::owner_of(*seen), "takeover=never opens only a stream without an owner"));
  }
  return Watch(runtime, stream, options, *seen).run();
}

std::chrono::nanoseconds flapping_wait(const Options& options, const Seen& seen) {
  if (!seen || seen->released || seen->claims_since_data < options.calm_changes) return {};
  auto wait = std::min(options.flap_wait, options.flap_wait_most);
  for (std::uint32_t i = options.calm_changes; i < seen->claims_since_data && wait < options.flap_wait_most; ++i) wait *= 2;
  return std::min(wait, options.flap_wait_most);
}

std::optional<std::string> wait_for_calm(Runtime& runtime, const std::string& stream, const Options& options, const core::StreamStat& seen) {
  const auto wait = flapping_wait(options, seen);
  std::string between;
  std::vector<std::string> named;
  for (const std::string& name : seen.recent_contenders) {
    const std::string shown = name.empty() ? std::string("unnamed owners") : "'" + name + "'";
    if (std::find(named.begin(), named.end(), shown) != named.end()) continue;
    between += (named.empty() ? "" : ", ") + shown;
    named.push_back(shown);
  }
  if (named.empty()) between = core::describe(core::owner_of(seen));
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  const std::string changed = fmt::format("'{}' changed its owner {} times without a database commit, between {}", stream, seen.claims_since_data, between);
  const std::string now = fmt::format("{}; this open waits {} ms before it goes on", changed, ms);
  options.log(LogLevel::warn, now);
  const Instant until = runtime.now() + wait;
  while (runtime.now() < until) {
    if (options.progress) options.progress({"wait", 0, 0, now});
    if (options.interrupted != nullptr && options.interrupted->load()) return {};
    if (!pause_until(runtime, std::min<Instant>(until, runtime.now() + kProgressEvery))) return {};
  }
  return fmt::format("{}, and the last one did not end in peace; this open waited {} ms. To read only, open with mode=ro: that changes no owner.", changed, ms);
}

}  // namespace onepen::owner
