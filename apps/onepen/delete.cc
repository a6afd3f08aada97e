// `onepen delete`: a tombstone at the end of the log. From then on the name is not there; opening it for writing makes it anew, with another incarnation
// and above every epoch of before.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/writer.h"

namespace onepen::app {
namespace {

nlohmann::json delete_json(const Rooms& rooms, const DeleteOptions& options, const core::StreamStat& stat, const core::Usage& usage) {
  return {{"name", options.name},
          {"home", rooms.home->url()},
          {"incarnation", to_text(stat.incarnation)},
          {"tail", stat.tail.text},
          {"stays", {{"log_bytes", usage.log_bytes}, {"log_objects", usage.log_objects}, {"snapshot_bytes", usage.snapshot_bytes}}}};
}

std::string what_stays(const core::Usage& usage) {
  return fmt::format("Its log ({} in {} objects{}) stays where it is until the name is used again and that log is trimmed", byte_count(usage.log_bytes),
                     usage.log_objects, usage.snapshots == 0 ? "" : fmt::format(", {} of snapshots", byte_count(usage.snapshot_bytes)));
}

int remove(const Common& common, const Rooms& rooms, const DeleteOptions& options) {
  for (int tries = 1;; ++tries) {
    auto stream = open_stream(rooms, options.name);
    if (!stream) return report(common, stream.error());
    const auto stat = (*stream)->stat();
    if (!stat) return report(common, refused_here(common, rooms, options.name, stat.error()), ErrorOf::content);
    const auto usage = (*stream)->usage();
    if (!usage) return report(common, from_refusal(usage.error()), ErrorOf::content);
    if (!options.yes) {
      return ask_for_yes(common,
                         fmt::format("Deleting '{}': nobody can read or write it any more. {}. To keep what it holds: onepen export {} FILE. {}", options.name,
                                     what_stays(*usage), options.name, what_becomes_of_owner(*stat, "is refused from its next write on (removed)")),
                         delete_json(rooms, options, *stat, *usage));
    }
    core::RemoveRequest request;
    request.incarnation = stat->incarnation;
    request.tail = stat->tail;
    request.attempt = rooms.runtime->draw<PutId>();
    request.by = asking(*rooms.runtime, "delete");
    request.time_ms = rooms.runtime->wall_ms();
    const auto done = until_decided<bool>(*rooms.runtime, [&] { return (*stream)->remove(request); });
    if (!done && done.error().outcome == Outcome::base_mismatch && tries < kTailTries) continue;
    if (!done) return report(common, from_refusal(done.error()));
    if (common.json) {
      print_json(delete_json(rooms, options, *stat, *usage));
    } else {
      print(fmt::format(
          "'{}' is deleted: a tombstone ends incarnation {}.\n{}; local copies stay on their machines.\nOpening it for writing makes it anew, empty.\n",
          options.name, to_text(stat->incarnation), what_stays(*usage)));
    }
    return kOk;
  }
}

}  // namespace

int run_delete(const Common& common, const DeleteOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  return remove(common, *rooms, options);
}

}  // namespace onepen::app
