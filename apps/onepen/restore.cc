// `onepen restore`: the database as it was at an offset or a time becomes its newest history. Nobody owns a new history: whoever opens it next does, and
// whoever holds commits that it lacks is told so, once (fence.md, "Incarnations"). Nothing is done before it was said what is lost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/restore_plan.h"
#include "apps/onepen/scratch.h"
#include "apps/onepen/writer.h"
#include "sqlite/rebuild.h"
#include "sqlite/snapshot.h"

namespace onepen::app {
namespace {

struct Seen {
  core::StreamStat stat;  // its tail is behind everything the plan was fed with
  RestorePlan plan;
  Offset oldest;  // where the log begins; empty: with the database
  std::int64_t oldest_ms = 0;  // when the snapshot there was made
};

Result<Seen> see(core::Stream& stream, const RestorePoint& point) {
  const auto oldest = oldest_of(stream);
  if (!oldest) return tl::unexpected(oldest.error());
  const auto snapshots = stream.snapshots();
  if (!snapshots) return tl::unexpected(from_refusal(snapshots.error()));
  std::int64_t oldest_ms = 0;
  for (const core::SnapshotInfo& info : *snapshots)
    if (info.offset == *oldest) oldest_ms = info.time_ms;
  RestorePlan plan(point, *oldest);
  ProgressBar bar;
  Offset at = *oldest;
  std::uint64_t bytes = 0;
  for (std::optional<core::StreamStat> stat;;) {
    const auto batch = stream.read(at, {});
    if (!batch) return tl::unexpected(from_refusal(batch.error()));
    for (const core::Record& record : batch->records) {
      bytes += record.payload.size();
      plan.take(record);
    }
    bar.show("reading", bytes, 0);
    at = batch->next;
    if (!batch->records.empty()) stat.reset();  // it may be older than what was read
    if (!batch->up_to_date) continue;
    if (stat) return Seen{std::move(*stat), std::move(plan), *oldest, oldest_ms};
    auto now = stream.stat();  // once more from here: nothing new then lies before its tail
    if (!now) return tl::unexpected(from_refusal(now.error()));
    stat = std::move(*now);
  }
}

Error nothing_there(std::string message) { return {Outcome::not_found, std::move(message), {}}; }

// The point is one that the log still knows.
Result<> check_point(const Rooms& rooms, const std::string& name, const RestorePoint& point, const Seen& seen) {
  const RestorePlan& plan = seen.plan;
  if (point.offset) {
    auto other = open_stream(rooms, name);
    if (!other) return tl::unexpected(other.error());
    if (const auto read = (*other)->read(*point.offset, {1, 1}); !read) return tl::unexpected(from_refusal(read.error()));
  }
  if (plan.kept().count > 0) return {};
  if (!point.offset && !plan.loses() && seen.oldest_ms != 0 && point.time_ms >= seen.oldest_ms) return {};  // all that is there was there by then
  const std::string first = plan.first_ms() == 0 ? "" : fmt::format(" The oldest commit that is there was made {}.", local_time(plan.first_ms()));
  if (seen.oldest.text.empty()) return tl::unexpected(nothing_there(fmt::format("'{}' had no commit yet at that point.{}", name, first)));
  // What lies before the oldest that is kept cannot be told apart from it, even where a reader may go on from there.
  if (!point.offset || *point.offset < seen.oldest) {
    return tl::unexpected(
        nothing_there(fmt::format("What '{}' holds begins with a snapshot now, and nothing before it is kept.{} To go back to where it begins, write --at {}.",
                                  name, first, seen.oldest.text)));
  }
  return {};
}

nlohmann::json span_json(const CommitSpan& span) {
  return {{"commits", span.count},
          {"bytes", span.bytes},
          {"from", span.count == 0 ? nlohmann::json(nullptr) : nlohmann::json(iso_time(span.first_ms))},
          {"until", span.count == 0 ? nlohmann::json(nullptr) : nlohmann::json(iso_time(span.last_ms))},
          {"owners", span.owners}};
}

nlohmann::json plan_json(const Common& common, const RestoreOptions& options, const Seen& seen) {
  return {{"name", options.name},
          {"home", common.home},
          {"at", seen.plan.loses() ? seen.plan.common().text : seen.stat.tail.text},
          {"restored", false},
          {"dropped", span_json(seen.plan.lost())},
          {"incarnation", {{"old", to_text(seen.stat.incarnation)}}}};
}

std::string commits(std::uint64_t count) { return count == 1 ? "1 commit" : fmt::format("{} commits", count); }

std::string lost_sentence(const Seen& seen) {
  const CommitSpan& lost = seen.plan.lost();
  const std::string when = lost.count == 1 ? fmt::format("made {}", local_time(lost.first_ms))
                                           : fmt::format("the first made {}, the last {}", local_time(lost.first_ms), local_time(lost.last_ms));
  const std::string whose = lost.owners.empty() ? "" : fmt::format(", by {}", fmt::join(lost.owners, " and "));
  return fmt::format("{} ({}) will be lost: {}{}.", commits(lost.count), byte_count(lost.bytes), when, whose);
}

struct Restored {
  core::HistoryReceipt receipt;
  sqlite::CommitState state;  // what the new history begins with
};

// Folds the log up to the point, and begins the new history with it.
core::Answer<Restored> begin(const Common& common, const Rooms& rooms, const RestoreOptions& options, core::Stream& stream, const Seen& seen) {
  const auto failed = [](const Error& error) { return tl::unexpected(core::Refusal{error.outcome, error.message, error.current}); };
  const ScratchFolder scratch(common.cache_root, "restore");
  if (auto made = scratch.make(); !made) return failed(made.error());
  auto reader = open_stream(rooms, options.name);
  if (!reader) return failed(reader.error());
  ProgressBar bar;
  const auto progress = [&](const owner::Progress& now) { bar.show(now.step, now.done_bytes, now.total_bytes); };
  const Offset until = seen.plan.common();
  auto state = sqlite::rebuild_into(**reader, scratch.file("db"), progress, until);
  if (!state) return failed(state.error());
  core::HistoryRequest request;
  request.act = core::HistoryAct::restore;
  request.incarnation = seen.stat.incarnation;
  request.tail = seen.stat.tail;
  request.next = rooms.runtime->draw<Incarnation>();
  request.attempt = rooms.runtime->draw<PutId>();
  request.common = until;
  request.by = asking(*rooms.runtime, fmt::format("restore --at {}", options.at));
  request.time_ms = rooms.runtime->wall_ms();
  request.snapshot = [&](core::SnapshotWriter& writer) -> core::Answer<Bytes> {
    auto pin = sqlite::pin_file(*rooms.disk, scratch.file("db"), *state);
    if (!pin) return failed(pin.error());
    auto about = sqlite::write_snapshot_parts(**pin, writer, [&](std::uint64_t done, std::uint64_t total) { bar.show("snapshot", done, total); });
    if (!about) return failed(about.error());
    return *about;
  };
  const auto receipt = until_decided<core::HistoryReceipt>(*rooms.runtime, [&] { return stream.begin_history(request); });
  if (!receipt) return tl::unexpected(receipt.error());
  return Restored{*receipt, *state};
}

int say(const Common& common, const RestoreOptions& options, const Seen& seen, const Restored& done) {
  if (common.json) {
    auto out = plan_json(common, options, seen);
    out["restored"] = true;
    out["incarnation"]["new"] = to_text(done.receipt.incarnation);
    out["kept"] = {{"commits", done.state.ordinal}, {"page_count", done.state.page_count}, {"page_size", done.state.page_size}};
    out["offset"] = done.receipt.offset.text;
    print_json(out);
    return kOk;
  }
  const CommitSpan& kept = seen.plan.kept();
  print(fmt::format("'{}' is again what it was after commit {}{}: {} dropped.\n", options.name, done.state.ordinal,
                    kept.count == 0 ? "" : fmt::format(", made {}", local_time(kept.last_ms)), commits(seen.plan.lost().count)));
  print(fmt::format("incarnation {} is followed by {}\n", to_text(seen.stat.incarnation), to_text(done.receipt.incarnation)));
  print(
      "Nobody owns it: the next to open it does. Whoever holds a dropped commit is told: an owner resets (rewound), and its commits that were never\n"
      "sent go to salvage; followers and readers begin anew by themselves.\n");
  return kOk;
}

// The point is not before the newest commit: a new history would disturb whoever uses the database, and change nothing.
int nothing_to_undo(const Common& common, const RestoreOptions& options, const Seen& seen) {
  if (common.json) {
    print_json(plan_json(common, options, seen));
    return kOk;
  }
  const CommitSpan& kept = seen.plan.kept();
  print(fmt::format("There is nothing to undo: no commit of '{}' comes after {}; {}. Nothing was changed.\n", options.name, options.at,
                    kept.count == 0 ? "what it begins with is all there is" : fmt::format("the newest was made {}", local_time(kept.last_ms))));
  return kOk;
}

int restore(const Common& common, const Rooms& rooms, const RestoreOptions& options, const RestorePoint& point) {
  for (int tries = 1;; ++tries) {
    auto stream = open_stream(rooms, options.name);
    if (!stream) return report(common, stream.error());
    if (const auto stat = (*stream)->stat(); !stat) return report(common, refused_here(common, rooms, options.name, stat.error()), ErrorOf::content);
    const auto seen = see(**stream, point);
    if (!seen) return report(common, seen.error(), ErrorOf::content);
    if (!seen->stat.suspect.empty())
      return report(common, kDamaged, word(Outcome::fence_unavailable),
                    fmt::format("'{}' is suspect: {} See onepen adopt first.", options.name, seen->stat.suspect));
    if (const auto known = check_point(rooms, options.name, point, *seen); !known) return report(common, known.error());
    if (!seen->plan.loses()) return nothing_to_undo(common, options, *seen);
    if (!options.yes) {
      return ask_for_yes(common,
                         fmt::format("Restoring '{}' to {}: {} {}", options.name, options.at, lost_sentence(*seen),
                                     what_becomes_of_owner(seen->stat, "is refused from its next write on (rewound)")),
                         plan_json(common, options, *seen));
    }
    const auto done = begin(common, rooms, options, **stream, *seen);
    if (done) return say(common, options, *seen, *done);
    if (done.error().outcome != Outcome::base_mismatch) return report(common, from_refusal(done.error()));
    if (tries == kTailTries) {
      return report(
          common, kRefused, word(Outcome::base_mismatch),
          fmt::format("'{}' is being written: the log grew {} times while it was being restored. {} Stop that process, or take the pen (onepen sql {} "
                      "--write \"SELECT 1\"), and restore again. Nothing was changed.",
                      options.name, tries, what_becomes_of_owner(seen->stat, "goes on"), options.name));
    }
  }
}

}  // namespace

int run_restore(const Common& common, const RestoreOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  const auto point = read_restore_point(options.at, rooms->runtime->wall_ms());
  if (!point) return report(common, point.error());
  return restore(common, *rooms, options, *point);
}

}  // namespace onepen::app
