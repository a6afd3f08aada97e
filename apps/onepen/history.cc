// `onepen history`: who held the pen, when, and what each one's last write was; and what was done to the database: restored, adopted, deleted. Out of the
// log itself, which keeps claims and such records for ever; commits are counted as far as the log still reaches. Reads only.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"

namespace onepen::app {
namespace {

using core::EventKind;
using core::HistoryEvent;

struct Writes {  // of one ownership, as far as the log still has them
  std::uint64_t appends = 0;
  Sequence last;  // of whatever it appended, as a claim counts it when it closes the epoch
  std::int64_t last_ms = 0;
};

struct History {
  std::vector<HistoryEvent> events;
  std::map<std::string, Writes> writes;  // by claim id
  core::StreamStat stat;                 // tail and owner only; a deleted database has none
  bool present = true;
  std::vector<core::SnapshotInfo> snapshots;
  Offset oldest;
};

std::string_view word_of(EventKind kind) {
  switch (kind) {
    case EventKind::claim: return "claim";
    case EventKind::restore: return "restore";
    case EventKind::adopt: return "adopt";
    case EventKind::forced_recovery: return "forced-recovery";
    case EventKind::accept_loss: return "accept-loss";
    case EventKind::removed: return "delete";
    case EventKind::evidence: return "evidence";
  }
  return "";
}

constexpr int kTrimsWhileRead = 8;

// Ends an ownership: the next claim, a new history, a tombstone. Evidence does not.
bool ends_ownership(EventKind kind) { return kind != EventKind::evidence; }

// From the oldest record that is left on.
Result<> count_writes(core::Stream& stream, History& out) {
  const auto oldest = oldest_of(stream);
  if (!oldest) return tl::unexpected(oldest.error());
  out.oldest = *oldest;
  auto snapshots = stream.snapshots();
  if (!snapshots) return tl::unexpected(from_refusal(snapshots.error()));
  out.snapshots = std::move(*snapshots);
  out.writes.clear();
  ProgressBar bar;
  return each_record(
      stream, out.oldest,
      [&](const core::Record& record) {
        if (record.kind == core::RecordKind::claim) return;
        Writes& writes = out.writes[to_text(record.claim_id)];
        writes.last = std::max(writes.last, record.sequence);
        if (record.kind != core::RecordKind::data) return;
        ++writes.appends;
        writes.last_ms = record.time_ms;
      },
      [&](std::uint64_t bytes) { bar.show("reading", bytes, 0); });
}

Result<History> read_history(const Common& common, const Rooms& rooms, core::Stream& stream) {
  History out;
  auto events = stream.events();
  if (!events) return tl::unexpected(refused_here(common, rooms, stream.name().text(), events.error()));
  out.events = std::move(*events);
  auto stat = stream.stat();
  if (!stat && stat.error().outcome == Outcome::not_found && !out.events.empty()) {
    out.present = false;
    return out;
  }
  if (!stat) return tl::unexpected(refused_here(common, rooms, stream.name().text(), stat.error()));
  out.stat = std::move(*stat);
  for (int trims = 0;; ++trims) {  // the owner may trim what is being read; what is left is read then
    const auto counted = count_writes(stream, out);
    if (counted) return out;
    if (counted.error().outcome != Outcome::gone || trims == kTrimsWhileRead) return tl::unexpected(counted.error());
  }
}

// What ended the ownership of event i; null: nothing yet.
const HistoryEvent* end_of(const History& history, std::size_t i) {
  for (std::size_t next = i + 1; next < history.events.size(); ++next)
    if (ends_ownership(history.events[next].kind)) return &history.events[next];
  return nullptr;
}

// The log still has every commit made after this event.
bool fully_there(const History& history, const HistoryEvent& event) { return history.oldest.text.empty() || event.offset >= history.oldest; }

// None: not known any more.
std::optional<Sequence> last_sequence(const History& history, std::size_t i, const HistoryEvent* end) {
  if (end == nullptr) return history.stat.last_sequence;
  if (end->kind == EventKind::claim && end->closed_epoch == history.events[i].epoch) return end->closed_sequence;
  // A new history and a tombstone close without counting: the log tells, as far as it is read.
  if (!history.present || !fully_there(history, history.events[i])) return std::nullopt;
  const auto found = history.writes.find(to_text(history.events[i].claim_id));
  return found == history.writes.end() ? Sequence{} : found->second.last;
}

nlohmann::json time_json(std::int64_t wall_ms) { return wall_ms == 0 ? nlohmann::json(nullptr) : nlohmann::json(iso_time(wall_ms)); }

nlohmann::json claim_json(const History& history, std::size_t i) {
  const HistoryEvent& claim = history.events[i];
  const HistoryEvent* end = end_of(history, i);
  const auto last = last_sequence(history, i, end);
  const auto found = history.writes.find(to_text(claim.claim_id));
  const Writes writes = found == history.writes.end() ? Writes{} : found->second;
  return {{"epoch", claim.epoch.value},
          {"incarnation", to_text(claim.incarnation)},
          {"claim_id", to_text(claim.claim_id)},
          {"owner", claim.by.name},
          {"host", claim.by.host},
          {"pid", claim.by.pid},
          {"version", claim.by.version},
          {"why", claim.by.why},
          {"from", iso_time(claim.time_ms)},
          {"until", end == nullptr ? nlohmann::json(nullptr) : nlohmann::json(iso_time(end->time_ms))},
          {"last_sequence", last ? nlohmann::json(last->value) : nlohmann::json(nullptr)},
          {"appends", history.present && fully_there(history, claim) ? nlohmann::json(writes.appends) : nlohmann::json(nullptr)},
          {"last_write", time_json(writes.last_ms)},
          {"closed_epoch", claim.closed_epoch.value},
          {"closed_sequence", claim.closed_sequence.value},
          {"offset", claim.offset.text}};
}

nlohmann::json event_json(const HistoryEvent& event) {
  return {{"kind", word_of(event.kind)},
          {"incarnation", to_text(event.incarnation)},
          {"epoch", event.epoch.value},
          {"by", event.by.name},
          {"host", event.by.host},
          {"pid", event.by.pid},
          {"why", event.kind == EventKind::evidence ? event.what : event.by.why},
          {"time", time_json(event.time_ms)},
          {"offset", event.offset.text},
          {"common", event.common ? nlohmann::json(event.common->text) : nlohmann::json(nullptr)}};
}

void show_json(const Rooms& rooms, const std::string& name, const History& history) {
  auto owners = nlohmann::json::array(), events = nlohmann::json::array(), snapshots = nlohmann::json::array();
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    if (history.events[i].kind == EventKind::claim) owners.push_back(claim_json(history, i));
    else events.push_back(event_json(history.events[i]));
  }
  for (const core::SnapshotInfo& info : history.snapshots)
    snapshots.push_back({{"id", info.id}, {"offset", info.offset.text}, {"epoch", info.epoch.value}, {"time", time_json(info.time_ms)}, {"bytes", info.bytes}});
  print_json(nlohmann::json{{"name", name},
                            {"home", rooms.home->url()},
                            {"deleted", !history.present},
                            {"oldest", history.oldest.text.empty() ? nlohmann::json(nullptr) : nlohmann::json(history.oldest.text)},
                            {"owners", owners},
                            {"events", events},
                            {"snapshots", snapshots}});
}

std::string told(const HistoryEvent& event) {
  switch (event.kind) {
    case EventKind::claim: return event.by.why;
    case EventKind::removed: return "deleted";
    case EventKind::evidence: return "suspect: " + event.what;
    default: {
      const std::string upto = event.common ? " after " + event.common->text : "";
      return fmt::format("{}: incarnation {}{}", event.by.why.empty() ? std::string(word_of(event.kind)) : event.by.why, to_text(event.incarnation), upto);
    }
  }
}

std::vector<std::string> row_of(const History& history, std::size_t i) {
  const HistoryEvent& event = history.events[i];
  const std::string pid = event.by.pid == 0 ? "" : std::to_string(event.by.pid);
  if (event.kind != EventKind::claim) return {"", event.by.name, event.by.host, pid, local_time(event.time_ms), "", "", "", event.offset.text, told(event)};
  const HistoryEvent* end = end_of(history, i);
  const auto last = last_sequence(history, i, end);
  const bool open = end == nullptr && history.stat.released;
  const std::string closed = event.closed_epoch.value == 0 ? "" : fmt::format("epoch {} at sequence {}", event.closed_epoch.value, event.closed_sequence.value);
  return {std::to_string(event.epoch.value),
          event.by.name,
          event.by.host,
          pid,
          local_time(event.time_ms),
          end == nullptr ? (open ? "closed" : "now") : local_time(end->time_ms),
          !last              ? "not known"
          : last->value == 0 ? "none"
                             : fmt::format("sequence {}", last->value),
          closed,
          event.offset.text,
          told(event)};
}

void show(const std::string& name, const History& history) {
  Table table({"EPOCH", "OWNER", "HOST", "PID", "FROM", "UNTIL", "LAST WRITE", "CLOSED", "OFFSET", "WHY"});
  for (std::size_t i = 0; i < history.events.size(); ++i) table.row(row_of(history, i));
  if (table.empty()) return note("Nobody ever held '" + name + "'.");
  print(table.text());
  for (const core::SnapshotInfo& info : history.snapshots)
    print(fmt::format("snapshot of {} at {}, made {} in epoch {}\n", byte_count(info.bytes), info.offset.text, local_time(info.time_ms), info.epoch.value));
  if (!history.oldest.text.empty()) print(fmt::format("the log begins at {}: what was before is kept as a snapshot\n", history.oldest.text));
  if (!history.present) print(fmt::format("'{}' is deleted: opening it for writing makes it anew\n", name));
}

}  // namespace

int run_history(const Common& common, const HistoryOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, options.name);
  if (!stream) return report(common, stream.error());
  const auto history = read_history(common, *rooms, **stream);
  if (!history) return report(common, history.error(), ErrorOf::content);
  if (common.json) show_json(*rooms, options.name, *history);
  else show(options.name, *history);
  return kOk;
}

}  // namespace onepen::app
