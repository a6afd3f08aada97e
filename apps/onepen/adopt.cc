// `onepen adopt`: what the log holds now is accepted as what the database is, as a new incarnation without an owner. For a home that was put back from a raw
// copy (cp -r, a volume snapshot): the log is sound in itself, and lacks what was written after the copy was made (fence.md, "Incarnations").
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/scratch.h"
#include "apps/onepen/writer.h"
#include "sqlite/rebuild.h"

namespace onepen::app {
namespace {

// What the log makes, or why it makes nothing.
Result<sqlite::CommitState> fold(const Common& common, const Rooms& rooms, const std::string& name) {
  const ScratchFolder scratch(common.cache_root, "adopt");
  if (auto made = scratch.make(); !made) return tl::unexpected(made.error());
  auto reader = open_stream(rooms, name);
  if (!reader) return tl::unexpected(reader.error());
  ProgressBar bar;
  return sqlite::rebuild_into(**reader, scratch.file("db"), [&](const owner::Progress& now) { bar.show(now.step, now.done_bytes, now.total_bytes); });
}

nlohmann::json adopt_json(const Common& common, const AdoptOptions& options, const core::StreamStat& stat, const Result<sqlite::CommitState>& state) {
  nlohmann::json out{{"name", options.name},
                     {"home", common.home},
                     {"evidence", stat.suspect.empty() ? nlohmann::json(nullptr) : nlohmann::json(stat.suspect)},
                     {"incarnation", {{"old", to_text(stat.incarnation)}}},
                     {"commits", nullptr}};
  if (state) out["commits"] = state->ordinal;
  else out["trouble"] = state.error().message;
  return out;
}

std::string adopt_sentences(const AdoptOptions& options, const core::StreamStat& stat, const Result<sqlite::CommitState>& state) {
  std::string text = stat.suspect.empty() ? fmt::format("Nothing is known against the log of '{}'.", options.name)
                                          : fmt::format("The log of '{}' lacks what somebody saw in it: {}", options.name, stat.suspect);
  text += state ? fmt::format(
                      " As it is it makes a database of {} commits; whatever came after them is lost here, and lives on only in local copies (their unsent "
                      "commits go to salvage).",
                      state->ordinal)
                : fmt::format(" As it is it makes no database: {} After adopting it, restore it to a commit before that.", state.error().message);
  const std::string owner = what_becomes_of_owner(stat, "is refused from its next write on, unless the log holds all it had acknowledged");
  return owner.empty() ? text : text + " " + owner;
}

int adopt(const Common& common, const Rooms& rooms, const AdoptOptions& options) {
  for (int tries = 1;; ++tries) {
    auto stream = open_stream(rooms, options.name);
    if (!stream) return report(common, stream.error());
    const auto stat = (*stream)->stat();
    if (!stat) return report(common, refused_here(common, rooms, options.name, stat.error()), ErrorOf::content);
    const auto state = fold(common, rooms, options.name);
    if (!options.yes) return ask_for_yes(common, adopt_sentences(options, *stat, state), adopt_json(common, options, *stat, state));
    core::HistoryRequest request;
    request.act = core::HistoryAct::adopt;
    request.incarnation = stat->incarnation;
    request.tail = stat->tail;
    request.next = rooms.runtime->draw<Incarnation>();
    request.attempt = rooms.runtime->draw<PutId>();
    request.by = asking(*rooms.runtime, stat->suspect.empty() ? "adopt" : "adopt: " + stat->suspect);
    request.time_ms = rooms.runtime->wall_ms();
    const auto done = until_decided<core::HistoryReceipt>(*rooms.runtime, [&] { return (*stream)->begin_history(request); });
    if (!done && done.error().outcome == Outcome::base_mismatch && tries < kTailTries) continue;
    if (!done) return report(common, from_refusal(done.error()));
    if (common.json) {
      auto out = adopt_json(common, options, *stat, state);
      out["incarnation"]["new"] = to_text(done->incarnation);
      out["offset"] = done->offset.text;
      print_json(out);
    } else {
      print(fmt::format("The log of '{}' is adopted as it is.\nincarnation {} is followed by {}\n", options.name, to_text(stat->incarnation),
                        to_text(done->incarnation)));
      print(
          "Nobody owns it: the next to open it does. A copy that holds only what the log holds goes on; one with more is told (rewound), and what it never sent\n"
          "goes to salvage.\n");
    }
    return kOk;
  }
}

}  // namespace

int run_adopt(const Common& common, const AdoptOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  return adopt(common, *rooms, options);
}

}  // namespace onepen::app
