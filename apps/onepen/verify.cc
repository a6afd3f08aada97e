// `onepen verify`: everything that is kept, end to end, and the local copy against it. Every object above the trim mark is read and must follow the one before;
// claims, which are kept for ever, must close each other without a gap; the log is folded into a scratch database from the oldest that is there — every object,
// pack and commit frame checked by its checksums, every commit by the checksum of the whole database before and after it — SQLite checks what came out, every
// snapshot must be what the log makes at its place, and the copy what the log says at the commit where it stands, byte by byte. Writes nothing to the home.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/scratch.h"
#include "sqlite/rebuild.h"
#include "sqlite/snapshot_load.h"
#include "sqlite/snapshot_part.h"

namespace onepen::app {
namespace {

struct CheckedSnapshot {
  core::SnapshotInfo info;
  sqlite::SnapshotAbout about;
  bool folded = false;  // also against the log; false: the log begins with it
};

struct Verified {
  Offset oldest;  // where the log begins; empty: with the database
  std::uint64_t claims = 0;
  std::vector<CheckedSnapshot> snapshots;  // newest first
  sqlite::CommitState log;  // what the whole log says the database is
  std::optional<sqlite::Comparison> copy;  // none: there is no local copy
  std::string copy_folder;
  std::vector<std::string> in_use;  // copies that a process has open; they cannot be compared now
  std::string suspect;  // the evidence against the log; empty: none
  std::optional<std::string> moved_aside;  // what was said when a copy did not fit its own state
};

// Of the snapshots that a home keeps on purpose, with the log behind the older of them (snapshot_choice.h). What is older may be on its way out.
constexpr std::size_t kSurelyKept = 2;
constexpr int kTriesWhileTended = 4;  // its owner may remove what was found at the beginning

Error damage(std::string message) { return {Outcome::content_mismatch, std::move(message), {}}; }

// SQLite's own opinion of the database that the log makes.
Result<> check_integrity(const std::string& database) {
  auto db = sqlite::open_plain(database, SQLITE_OPEN_READWRITE);
  if (!db) return tl::unexpected(db.error());
  const auto said = sqlite::plain_value(db->get(), database, "PRAGMA integrity_check(1)");
  if (!said) return tl::unexpected(said.error());
  if (*said != "ok") return tl::unexpected(damage("The commits of the log fit, but SQLite finds the database they make damaged: " + *said));
  return {};
}

// Reading them reads every object above the trim mark. A claim names the epoch that it closed: one that nobody seems to have held was taken away. (Epochs may
// be skipped, and a claim that never counted may stand among those below the mark: docs/formats/pack.md. So only a missing newer one is proof.)
Result<std::uint64_t> check_claims(core::Stream& stream, const core::StreamStat& stat) {
  const auto events = stream.events();
  if (!events) return tl::unexpected(from_refusal(events.error()));
  const std::string name = stream.name().text();
  std::uint64_t claims = 0;
  Epoch newest{};
  for (const core::HistoryEvent& event : *events) {
    const bool history = event.kind == core::EventKind::restore || event.kind == core::EventKind::adopt;
    const Epoch before = event.kind == core::EventKind::claim ? event.closed_epoch : history ? event.epoch : Epoch{};
    if (before > newest) {
      return tl::unexpected(
          damage(fmt::format("The log of '{}' is damaged: the claim of epoch {} is missing, which {} at {} came after. Claims are kept for ever: put "
                             "its object back from a backup or from another copy of this home.",
                             name, before.value, history ? "the new history" : fmt::format("the claim of epoch {}", event.epoch.value), event.offset.text)));
    }
    if (event.kind != core::EventKind::claim) continue;
    ++claims;
    newest = std::max(newest, event.epoch);
  }
  const Epoch given = std::max(stat.floor, stat.epoch);
  if (given <= newest) return claims;
  return tl::unexpected(
      damage(fmt::format("The log of '{}' is damaged: the claim of epoch {}, the newest that was given, is missing. Claims are kept for ever: put its "
                         "object back from a backup or from another copy of this home.",
                         name, given.value)));
}

class Verifying {
 public:
  Verifying(const Rooms& rooms, core::Stream& stream, const ScratchFolder& scratch, sqlite::ProgressFn progress)
      : rooms_(rooms), stream_(stream), scratch_(scratch), progress_(std::move(progress)) {}

  // Everything but the copy.
  Result<> run(Verified& out) {
    for (int tries = 1;; ++tries) {
      auto seen = snapshots();
      if (!seen) return tl::unexpected(seen.error());
      auto done = once(out, *seen);
      if (done || tries == kTriesWhileTended) return done;
      auto now = snapshots();
      if (!now || ids(*now) == ids(*seen)) return done;
    }
  }

 private:
  using Snapshots = std::vector<core::SnapshotInfo>;

  Result<Snapshots> snapshots() {
    auto kept = stream_.snapshots();
    if (!kept) return tl::unexpected(from_refusal(kept.error()));
    return std::move(*kept);
  }

  static std::vector<std::string> ids(const Snapshots& snapshots) {
    std::vector<std::string> out;
    for (const core::SnapshotInfo& info : snapshots) out.push_back(info.id);
    return out;
  }

  Result<> once(Verified& out, Snapshots snapshots) {
    out.snapshots.clear();
    const auto stat = stream_.stat();
    if (!stat) return tl::unexpected(from_refusal(stat.error()));
    for (const core::SnapshotInfo& info : snapshots) {
      auto checked = read_parts(info);
      if (!checked) return tl::unexpected(checked.error());
      out.snapshots.push_back(std::move(*checked));
    }
    const auto oldest = oldest_of(stream_);
    if (!oldest) return tl::unexpected(oldest.error());
    const std::string database = fresh("db");
    if (oldest->text.empty()) {
      out.oldest = {};
      auto state = fold(database, std::nullopt, std::nullopt);
      if (!state) return tl::unexpected(state.error());
      out.log = *state;
    } else if (auto folded = fold_from_oldest(out, database); !folded) {
      return folded;
    }
    if (out.log.ordinal > 0) {
      if (auto sound = check_integrity(database); !sound) return sound;
    }
    for (CheckedSnapshot& checked : out.snapshots) {
      if (auto same = against_log(out.oldest, checked); !same) return same;
    }
    const auto claims = check_claims(stream_, *stat);
    if (!claims && claims.error().outcome == Outcome::gone)
      return tl::unexpected(
          damage(fmt::format("The log of '{}' is damaged, what is kept of it does not lead on: {}", stream_.name().text(), claims.error().message)));
    if (!claims) return tl::unexpected(claims.error());
    out.claims = *claims;
    return {};
  }

  // The oldest snapshot from which the log leads on. One that is not among those surely kept may have lost it to a trim that was not finished.
  Result<> fold_from_oldest(Verified& out, const std::string& database) {
    for (std::size_t at = out.snapshots.size(); at-- > 0;) {
      const core::SnapshotInfo& info = out.snapshots[at].info;
      auto state = fold(database, info.offset, std::nullopt);
      if (state) {
        out.oldest = info.offset;
        out.log = *state;
        return {};
      }
      if (state.error().outcome != Outcome::gone) return tl::unexpected(state.error());
      if (at >= kSurelyKept) continue;
      return tl::unexpected(
          damage(fmt::format("The log of '{}' is damaged: snapshot {} is kept, and what was written after it, from {} on, is not there as a whole: {}",
                             stream_.name().text(), info.id, info.offset.text, state.error().message)));
    }
    return tl::unexpected(
        Error{Outcome::gone, fmt::format("The log of '{}' is trimmed, and no snapshot of it is left to begin with.", stream_.name().text()), {}});
  }

  Result<CheckedSnapshot> read_parts(const core::SnapshotInfo& info) {
    auto about = sqlite::decode_snapshot_about(info.about);
    if (!about) return tl::unexpected(about.error());
    const sqlite::SnapshotSource source{stream_, [this] { return rooms_.home->stream(stream_.name()); }};
    const auto own =
        sqlite::check_snapshot(*rooms_.runtime, source, info, {[&](std::uint64_t done, std::uint64_t total) { progress_({"snapshot", done, total, {}}); }});
    if (!own) return tl::unexpected(own.error());
    return CheckedSnapshot{info, *about, false};
  }

  // Where the log reaches back behind it, it must be what the log makes there.
  Result<> against_log(const Offset& oldest, CheckedSnapshot& checked) {
    const core::SnapshotInfo& info = checked.info;
    checked.folded = oldest.text.empty() || info.offset > oldest;
    if (!checked.folded) return {};
    const auto state = fold(fresh("there"), oldest.text.empty() ? std::nullopt : std::optional(oldest), info.offset);
    if (!state) return tl::unexpected(state.error());
    const auto& about = checked.about;
    if (state->ordinal == about.ordinal && state->page_count == about.page_count && state->page_size == about.page_size && state->page_sum == about.page_sum)
      return {};
    return tl::unexpected(
        damage(fmt::format("The snapshot {} at {} is not what the log makes there: it says commit {} with page sum {:016x}, the log commit {} with {:016x}.",
                           info.id, info.offset.text, about.ordinal, about.page_sum, state->ordinal, state->page_sum)));
  }

  // From the beginning of the log, or from the snapshot at `begin`, up to `until` or the tail.
  Result<sqlite::CommitState> fold(const std::string& path, std::optional<Offset> begin, std::optional<Offset> until) {
    sqlite::RebuildOptions options;
    options.from_snapshot = begin.has_value();
    options.begin = std::move(begin);
    options.until.offset = std::move(until);
    options.progress = progress_;
    return sqlite::rebuild_into(*rooms_.runtime, *rooms_.disk, stream_, path, options);
  }

  std::string fresh(std::string_view what) { return scratch_.file(fmt::format("{}{}", what, ++files_)); }

  const Rooms& rooms_;
  core::Stream& stream_;
  const ScratchFolder& scratch_;
  const sqlite::ProgressFn progress_;
  int files_ = 0;
};

Result<Verified> verify(const Common& common, const Rooms& rooms, const std::string& name) {
  const auto place = copy_place(common, rooms, name);
  if (!place) return tl::unexpected(place.error());
  auto stream = rooms.home->stream(place->name);
  const auto stat = stream->stat();
  if (!stat) return tl::unexpected(refused_here(common, rooms, name, stat.error()));
  Verified out;
  out.suspect = stat->suspect;
  for (const sqlite::CopyGlance& copy : local_places(common, rooms, name).copies) {
    if (copy.in_use) out.in_use.push_back(copy.folder);
  }
  const Log log([&](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) out.moved_aside = std::string(line);
  });
  const auto copy = sqlite::Copy::acquire(*rooms.runtime, *rooms.disk, *place, log);
  if (!copy) return tl::unexpected(copy.error());
  const ScratchFolder scratch(common.cache_root, "verify");
  if (auto made = scratch.make(); !made) return tl::unexpected(made.error());
  ProgressBar bar;
  const auto progress = [&](const owner::Progress& now) { bar.show(now.step, now.done_bytes, now.total_bytes); };
  if (auto done = Verifying(rooms, *stream, scratch, progress).run(out); !done) return tl::unexpected(done.error());
  if ((*copy)->state().ordinal == 0) return out;
  auto comparison = sqlite::compare(*rooms.runtime, *rooms.disk, **copy, *stream, progress);
  if (!comparison) return tl::unexpected(comparison.error());
  out.copy = std::move(*comparison);
  out.copy_folder = (*copy)->folder();
  return out;
}

void show_json(const std::string& name, const Rooms& rooms, const Verified& verified) {
  nlohmann::json out{{"name", name},
                     {"home", rooms.home->url()},
                     {"commits", verified.log.ordinal},
                     {"offset", verified.log.offset.text},
                     {"page_count", verified.log.page_count},
                     {"page_size", verified.log.page_size},
                     {"page_sum", fmt::format("{:016x}", verified.log.page_sum)},
                     {"claims", verified.claims},
                     {"oldest", verified.oldest.text.empty() ? nlohmann::json(nullptr) : nlohmann::json(verified.oldest.text)},
                     {"snapshots", nlohmann::json::array()},
                     {"copy", nullptr},
                     {"copies_in_use", verified.in_use}};
  for (const CheckedSnapshot& checked : verified.snapshots)
    out["snapshots"].push_back(
        {{"id", checked.info.id}, {"offset", checked.info.offset.text}, {"commits", checked.about.ordinal}, {"against_log", checked.folded}});
  if (verified.copy)
    out["copy"] = {{"folder", verified.copy_folder}, {"commits", verified.copy->copy.ordinal}, {"pages_compared", verified.copy->pages}, {"same", true}};
  print_json(out);
}

void show(const std::string& name, const Verified& verified) {
  print(fmt::format("the log of '{}' is whole{}: {} commits, each with the checksum of the whole database before and after it\n", name,
                    verified.oldest.text.empty() ? "" : ", from the snapshot it begins with", verified.log.ordinal));
  print(fmt::format("folded, it is a sound database of {} pages of {} bytes, page sum {:016x}\n", verified.log.page_count, verified.log.page_size,
                    verified.log.page_sum));
  for (const CheckedSnapshot& checked : verified.snapshots)
    print(fmt::format("the snapshot of commit {} is whole{}\n", checked.about.ordinal, checked.folded ? ", and what the log makes there" : ""));
  if (verified.copy) {
    print(fmt::format("the copy in {} is the log at commit {}: {} pages compared, none differs\n", verified.copy_folder, verified.copy->copy.ordinal,
                      verified.copy->pages));
  } else if (verified.in_use.empty()) {
    print("there is no local copy to compare it with\n");
  }
  for (const std::string& folder : verified.in_use)
    print(fmt::format("the copy in {} is open in a process, so it is not compared: close the database on this machine and verify again\n", folder));
}

}  // namespace

int run_verify(const Common& common, const VerifyOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  const auto verified = verify(common, *rooms, options.name);
  if (!verified) return report(common, verified.error(), ErrorOf::content);
  if (verified->copy && !verified->copy->same()) {
    return report(common, kDamaged, "diverged",
                  fmt::format("The copy in {} is not what the log says at commit {}: {} of {} pages differ, the first is page {}. The log itself is whole.",
                              verified->copy_folder, verified->copy->copy.ordinal, verified->copy->differing, verified->copy->pages,
                              verified->copy->first.empty() ? 0 : verified->copy->first.front()));
  }
  if (verified->moved_aside) return report(common, kDamaged, "diverged", *verified->moved_aside + " The log itself is whole.");
  if (!verified->suspect.empty()) {
    return report(common, kDamaged, word(Outcome::fence_unavailable),
                  fmt::format("The log of '{}' is whole as far as it goes ({} commits), and suspect: {} Nobody may write it: see onepen adopt.", options.name,
                              verified->log.ordinal, verified->suspect));
  }
  if (common.json) {
    show_json(options.name, *rooms, *verified);
  } else {
    show(options.name, *verified);
  }
  return kOk;
}

}  // namespace onepen::app
