#include "owner/standby.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/guard.h"

namespace onepen::owner {
namespace {

constexpr int kLooksOfATerm = 100;
constexpr std::chrono::nanoseconds kAfterFailure = std::chrono::seconds(1);

std::chrono::nanoseconds look_of(const StandbyOptions& options) {
  if (options.metered) return options.term / kSignsInATerm;
  return std::clamp<std::chrono::nanoseconds>(options.term / kLooksOfATerm, kLeastStandbyLook, kMostStandbyLook);
}

}  // namespace

std::string_view word(Chance::Why why) {
  switch (why) {
    case Chance::Why::released: return "it ended in peace";
    case Chance::Why::silent: return "it gave no sign of life for a whole term";
    case Chance::Why::asked: return "this process was asked to take over";
  }
  return {};
}

Standby::Standby(Runtime& runtime, std::string stream, StandbyOptions options, Log log)
    : runtime_(runtime), stream_(std::move(stream)), options_(std::move(options)), look_(look_of(options_)), log_(std::move(log)), life_(options_.term) {}

std::chrono::nanoseconds Standby::patience() const {
  if (announced() || asked_until_) return options_.metered ? std::min<std::chrono::nanoseconds>(kMeteredAnnouncedLook, look_) : kAnnouncedLook;
  return options_.watches ? look_ : std::chrono::nanoseconds::max();
}

void Standby::ask(Instant deadline) {
  asked_until_ = deadline;
  next_look_ = {};
}

std::optional<Chance> Standby::look(core::Stream& stream) {
  if (!options_.watches && !asked_until_) return {};
  const Instant before = runtime_.now();
  if (before < next_look_) return {};
  next_look_ = before + patience();
  const auto stat = stream.stat();
  if (!stat || !stat->suspect.empty() || stat->closed) return {};  // out of reach, removed, or nobody may write: that is no sign of death
  auto chance = judge(stream, *stat, before);
  if (!chance) return {};
  if (stat->epoch.value != 0) chance->from = core::describe(core::owner_of(*stat));
  if (!guard_on(Guard::standby_conditional)) chance->plan.reset();
  return chance;
}

std::optional<Chance> Standby::judge(core::Stream& stream, const core::StreamStat& stat, Instant before) {
  const bool owned = stat.epoch.value != 0;
  const ClaimId over = owned ? stat.claim_id : ClaimId{};
  if (owned && stat.released) return Chance{Chance::Why::released, ClaimPlan{over, {}}};
  const bool can_be_asked = owned && !stat.owner.liveness.empty();
  if (asked_until_ && (!can_be_asked || before >= *asked_until_)) return Chance{Chance::Why::asked, {}};
  if (asked_until_ && !announced()) announce(stream, stat, *asked_until_);
  if (announced()) {
    if (before >= *announced_until_) {
      announced_until_.reset();
      static_cast<void>(stream.beat(successor_object(stat.owner.liveness), {}));
    }
    if (!options_.watches) return {};
  }
  LifeWatch::Sight sight{stat.claim_id, stat.tail};
  if (can_be_asked) {
    auto pulse = stream.pulse(stat.owner.liveness);
    if (!pulse) return {};
    sight.pulse = std::move(*pulse);
    if (!announced()) listen(stream, stat);
  }
  static_cast<void>(life_.saw(before, std::move(sight)));
  if (!life_.gone()) return {};
  return Chance{Chance::Why::silent, ClaimPlan{over, stat.tail}};
}

// Somebody asked the standbys of this owner to take over. What was there when this one came was meant for others, and may be long ago.
void Standby::listen(core::Stream& stream, const core::StreamStat& stat) {
  const auto asked = stream.pulse(handover_object(stat.owner.liveness));
  if (!asked) return;
  std::string now = *asked ? std::string(as_text(**asked)).substr(0, kMostSuccessorBytes) : std::string();
  const bool first = !(listened_ == stat.claim_id);
  listened_ = stat.claim_id;
  const bool news = !first && now != heard_ && !now.empty();
  heard_ = std::move(now);
  if (news) announce(stream, stat, runtime_.now() + kHandoverWithin + handover_delay(options_.metered, options_.term));
}

void Standby::announce(core::Stream& stream, const core::StreamStat& stat, Instant until) {
  const std::string ready = options_.who.substr(0, kMostSuccessorBytes);
  if (!stream.beat(successor_object(stat.owner.liveness), as_bytes(ready))) return;
  announced_until_ = until;
  log_(LogLevel::info, fmt::format("'{}': {} is asked to hand over to {}", stream_, core::describe(core::owner_of(stat)), options_.who));
}

void Standby::failed(const Error& error) {
  if (error.message != last_error_) log_(LogLevel::info, fmt::format("'{}' was not taken over: {}", stream_, error.message));
  last_error_ = error.message;
  asked_until_.reset();
  announced_until_.reset();
  const bool passes = error.outcome == Outcome::unavailable || error.outcome == Outcome::unknown;
  if (!passes) life_.begin_again();
  next_look_ = runtime_.now() + (passes ? std::max(look_, kAfterFailure) : look_);
}

}  // namespace onepen::owner
