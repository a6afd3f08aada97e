// `onepen handover`: a planned change of owner that no client notices but by one refused commit. It asks the standbys of the owner of now (owner/standby.h); one that
// stands ready tells the owner, which drains and lets go. Nothing is claimed here, and nothing written to the log.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "owner/standby.h"
#include "sqlite/open_database_settings.h"

namespace onepen::app {
namespace {

constexpr std::chrono::milliseconds kUsualPatience{10'000}, kHandoverLook{5}, kMeteredHandoverLook{500};  // metered: each look at the home is paid for

// Why it cannot be asked for; empty: it can.
std::string cannot_be_asked(const HandoverOptions& options, const core::StreamStat& stat) {
  if (stat.epoch.value == 0) return fmt::format("Nobody owns '{}': open it for writing where you want it.", options.name);
  if (stat.released) return fmt::format("The owner of '{}' ended in peace already: open it for writing where you want it.", options.name);
  if (!stat.owner.liveness.empty()) return {};
  return fmt::format("'{}' is written by {}, which was opened without term= and cannot be asked. Opening it for writing elsewhere takes it over at once.",
                     options.name, core::describe(core::owner_of(stat)));
}

// What stands in the way, as far as can be seen from here.
std::string what_is_missing(core::Stream& stream, const std::string& liveness) {
  const auto ready = stream.pulse(owner::successor_object(liveness));
  if (ready && *ready && !(*ready)->empty())
    return fmt::format("{} stands ready, but the owner did not let go: a long write transaction, or commits that the home does not take, or it is gone",
                       as_text(**ready).substr(0, owner::kMostSuccessorBytes));
  return "no standby stands ready (onepen replicate --takeover, standby=1, or FollowOptions::takeover_when_owner_dead)";
}

// An owner at a metered home looks for whoever stands ready with its signs of life only, and the standby for the request at that pace.
std::chrono::milliseconds usual_patience(const Rooms& rooms, core::Stream& stream, const std::string& liveness) {
  const auto sign = stream.pulse(liveness);
  const auto term = sign && *sign ? owner::term_told(**sign) : std::chrono::nanoseconds{};
  return kUsualPatience + std::chrono::ceil<std::chrono::milliseconds>(owner::handover_delay(rooms.home->pace().metered, term));
}

}  // namespace

int run_handover(const Common& common, const HandoverOptions& options) {
  std::optional<std::chrono::milliseconds> given;
  if (!options.within.empty()) given = sqlite::read_duration(options.within);
  if (!given && !options.within.empty())
    return report(common, kUsage, "usage", fmt::format("--within '{}' is no time: write 250ms, 30s or 2m.", options.within));
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, options.name);
  if (!stream) return report(common, stream.error());
  const auto before = (*stream)->stat();
  if (!before) return report(common, refused_here(common, *rooms, options.name, before.error()), ErrorOf::content);
  if (const std::string why = cannot_be_asked(options, *before); !why.empty()) return report(common, kRefused, "refused", why);

  Runtime& runtime = *rooms->runtime;
  const std::string& liveness = before->owner.liveness;
  const std::chrono::milliseconds within = given ? *given : usual_patience(*rooms, **stream, liveness);
  const core::OwnerInfo us = asking(runtime, "handover");
  const std::string request = fmt::format("{} {} {}", us.host, us.pid, to_text(runtime.draw<PutId>()));
  if (const auto asked = (*stream)->beat(owner::handover_object(liveness), as_bytes(request)); !asked) return report(common, from_refusal(asked.error()));
  const Instant asked_at = runtime.now();
  for (;;) {
    const auto now = (*stream)->stat();
    if (now && !(now->claim_id == before->claim_id)) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(runtime.now() - asked_at).count();
      const std::string from = core::describe(core::owner_of(*before)), to = core::describe(core::owner_of(*now));
      if (common.json) print_json(nlohmann::json{{"name", options.name}, {"from", from}, {"to", to}, {"epoch", now->epoch.value}, {"ms", ms}});
      else print(fmt::format("'{}' was handed over in {} ms: from {} to {}.\n", options.name, ms, from, to));
      return kOk;
    }
    if (runtime.now() >= asked_at + within) break;
    runtime.sleep_until(runtime.now() + (rooms->home->pace().metered ? kMeteredHandoverLook : kHandoverLook));
  }
  const std::string missing = what_is_missing(**stream, liveness);
  static_cast<void>((*stream)->beat(owner::handover_object(liveness), {}));
  return report(common, kUnavailable, "unavailable",
                fmt::format("'{}' was not handed over within {} ms: {}. It is still written by {}.", options.name, within.count(), missing,
                            core::describe(core::owner_of(*before))));
}

}  // namespace onepen::app
