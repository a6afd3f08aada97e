// `onepen history`: who held the pen, when, and what each one's last write was, out of the log itself. Reads only.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"

namespace onepen::app {
namespace {

struct Held {  // one ownership
  core::Record claim;
  Sequence last;              // its last write that counts
  std::uint64_t appends = 0;  // data of it
  std::int64_t last_write_ms = 0;
  std::int64_t until_ms = 0;  // when the next claim was made; 0: it is the newest
};

Result<std::vector<Held>> read_history(core::Stream& stream) {
  std::vector<Held> out;
  ProgressBar bar;
  auto done = each_record(
      stream,
      [&](const core::Record& record) {
        if (record.kind == core::RecordKind::claim) {
          if (!out.empty()) out.back().until_ms = record.time_ms;
          Held held;
          held.claim = record;
          held.claim.payload = {};
          out.push_back(std::move(held));
        } else if (!out.empty() && record.epoch == out.back().claim.epoch) {
          out.back().last = record.sequence;
          out.back().last_write_ms = record.time_ms;
          if (record.kind == core::RecordKind::data) ++out.back().appends;
        }
      },
      [&](std::uint64_t bytes) { bar.show("reading", bytes, 0); });
  if (!done) return tl::unexpected(done.error());
  return out;
}

nlohmann::json to_json(const Held& held) {
  const core::Record& claim = held.claim;
  return {{"epoch", claim.epoch.value},
          {"incarnation", to_text(claim.incarnation)},
          {"claim_id", to_text(claim.claim_id)},
          {"owner", claim.owner.name},
          {"host", claim.owner.host},
          {"pid", claim.owner.pid},
          {"version", claim.owner.version},
          {"why", claim.owner.why},
          {"from", iso_time(claim.time_ms)},
          {"until", held.until_ms == 0 ? nlohmann::json(nullptr) : nlohmann::json(iso_time(held.until_ms))},
          {"last_sequence", held.last.value},
          {"appends", held.appends},
          {"last_write", held.last_write_ms == 0 ? nlohmann::json(nullptr) : nlohmann::json(iso_time(held.last_write_ms))},
          {"closed_epoch", claim.closed_epoch.value},
          {"closed_sequence", claim.closed_sequence.value},
          {"offset", claim.next.text}};
}

}  // namespace

int run_history(const Common& common, const HistoryOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, options.name);
  if (!stream) return report(common, stream.error());
  const auto history = read_history(**stream);
  if (!history) return report(common, history.error(), ErrorOf::content);
  if (common.json) {
    auto owners = nlohmann::json::array();
    for (const Held& held : *history) owners.push_back(to_json(held));
    print(
        nlohmann::json{{"name", options.name}, {"home", rooms->home->url()}, {"owners", owners}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n");
    return kOk;
  }
  Table table({"EPOCH", "OWNER", "HOST", "PID", "FROM", "UNTIL", "LAST WRITE", "CLOSED", "WHY"});
  for (const Held& held : *history) {
    const core::Record& claim = held.claim;
    const std::string closed =
        claim.closed_epoch.value == 0 ? "" : fmt::format("epoch {} at sequence {}", claim.closed_epoch.value, claim.closed_sequence.value);
    table.row({std::to_string(claim.epoch.value), claim.owner.name, claim.owner.host, std::to_string(claim.owner.pid), local_time(claim.time_ms),
               held.until_ms == 0 ? "now" : local_time(held.until_ms), held.last.value == 0 ? "none" : fmt::format("sequence {}", held.last.value), closed,
               claim.owner.why});
  }
  if (table.empty()) {
    note("Nobody ever held '" + options.name + "'.");
  } else {
    print(table.text());
  }
  return kOk;
}

}  // namespace onepen::app
