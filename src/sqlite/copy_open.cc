// What the opening thread does with a copy: finds out what it holds, and brings it up to date with the stream.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "io/paths.h"
#include "sqlite/copy_local.h"
#include "sqlite/fold_target.h"
#include "sqlite/live_target.h"
#include "sqlite/rebuild.h"
#include "sqlite/snapshot_choice.h"

namespace onepen::sqlite {

Result<> LocalCopy::open_files() {
  auto state = StateFile::open(disk_, folder_.path + "/state");
  if (!state) return tl::unexpected(state.error());
  state_file_.emplace(std::move(*state));
  auto pages = PagesFile::open(disk_, folder_.path + "/pages");
  if (!pages) return tl::unexpected(pages.error());
  pages_.emplace(std::move(*pages));
  return {};
}

Result<> LocalCopy::load() {
  auto claims = owner::DiskClaimLog::open(disk_, folder_.path + "/claims");
  if (!claims) return tl::unexpected(claims.error());
  claims_ = std::move(*claims);
  if (!replica_) {
    auto moved = finish_moving_aside(disk_, folder_.path, log_);
    if (!moved) return tl::unexpected(moved.error());
    salvaged_ = std::move(*moved);
    if (auto discarded = finish_discarding(disk_, folder_.path); !discarded) return discarded;
  }
  if (auto opened = open_files(); !opened) return opened;
  // Scrap: a batch, and a snapshot, that were never made to count.
  for (const std::string& scrap : {files_.batch(), files_.snapshot()}) {
    if (auto removed = remove_from(disk_, scrap); !removed) return removed;
  }
  const auto record = state_file_->record();
  if (record) owned_ = record->owned;
  const bool in_doubt = record && record->inode == 0;
  // The database file needs no such thing: whatever a checkpoint wrote is in the WAL, and SQLite, which begins with a new index, writes it all again before it
  // begins the WAL anew.
  if (in_doubt && guard_on(Guard::doubt_written_again)) {
    if (auto written = write_again(disk_, files_.wal(), files_.batch()); !written) return written;
  }
  // SQLite syncs the folder of a WAL in the process that made it. Killed before that, it leaves one whose name the power can take, and what was there before,
  // with everything that later processes commit into it.
  if (disk_.size(files_.wal())) {
    if (auto named = of_disk(disk_.sync_folder(io::folder_of(files_.db))); !named) return named;
  }
  auto found = find_copy(disk_, files_, record, boot_, *pages_);
  if (!found) return tl::unexpected(found.error());
  // The process before may have been killed between a sync that failed and writing down that it did.
  if (!in_doubt && !found->pending.empty()) {
    if (auto written = write_again(disk_, files_.wal(), files_.batch()); !written) return written;
  }
  if (record && record->poisoned) found->fits = false, found->why = "this copy was marked as not to be trusted: " + record->why;
  if (replica_ && found->fits && !found->pending.empty()) found->fits = false, found->why = "it was written to by something else than Onepen";
  if (!found->fits) {
    found_pending_ = std::move(found->pending);
    pending_known_ = found->pending_known;
    place_ = found->place;
    auto aside = set_aside(record && record->poisoned ? "broken" : "diverged", found->why, found->database);
    if (!aside) return tl::unexpected(aside.error());
    return begin_empty();
  }
  if (found->dropped != 0) {
    log_(LogLevel::warn,
         fmt::format("the WAL of the local copy {} cannot be read behind its last whole commit, frame {}, where at least {} more commit{} of this "
                     "machine lay that nobody had synced or sent: lost by a power loss, or by damage of the disk",
                     folder_.path, found->wal_pages.size(), found->dropped, found->dropped == 1 ? "" : "s"));
  }
  // It speaks of a process that is gone: SQLite makes it anew from the WAL. (Others may have a replica open, and use it.)
  if (auto removed = replica_ ? Result<>{} : remove_from(disk_, files_.shm()); !removed) return removed;
  if (record && found->state == record->next) {
    sent_ = record->sent;
    sent_at_ = record->next.ordinal;
  }
  return begin_with(std::move(*found));
}

Result<> LocalCopy::begin_with(FoundCopy found) {
  from_scratch_ = found.state.ordinal == 0 && found.pending.empty();
  found_pending_ = std::move(found.pending);
  landed_ = 0;
  wal_pages_ = std::move(found.wal_pages);
  wal_began_with_ = found.wal_began_with;
  place_ = found.place;
  wal_there_ = found.wal_valid;
  missed_ = std::move(found.missed);
  missed_place_ = found.missed_place;
  if (found.header) {
    pages_->choose(*found.header);
  } else if (found.state.page_count != 0) {
    auto stamp = stamp_of(disk_, files_.db);
    if (!stamp) return tl::unexpected(stamp.error());
    if (auto written = pages_->write_all(found.table, found.state, found.place, *stamp, false); !written) return written;
  }
  const CommitState state = found.state;
  if (auto started = start_applier(std::move(found.table), state); !started) return started;
  if (auto kept = missed_ ? write_record(state, place_, *missed_, missed_place_) : write_record(state, place_, state, place_); !kept) return kept;
  // After the record, whose places are told by what the header said until now.
  return found.header_stale ? pages_->say(*found.header, found.wal_valid) : Result<>{};
}

Result<> LocalCopy::begin_empty() {
  from_scratch_ = true;
  return begin_at(PageTable{}, CommitState{});
}

// The database file holds `state`, and there is no WAL.
Result<> LocalCopy::begin_at(PageTable table, CommitState state) {
  found_pending_.clear();
  landed_ = 0;
  wal_pages_.clear();
  meeting_.reset();
  missed_.reset();
  place_ = WalPlace{};
  sent_.reset();
  wal_there_ = false;
  inode_ = 0;
  auto stamp = stamp_of(disk_, files_.db);
  if (!stamp) return tl::unexpected(stamp.error());
  if (auto written = pages_->write_all(table, state, WalPlace{}, *stamp, false); !written) return written;
  if (auto started = start_applier(std::move(table), state); !started) return started;
  return write_record(state, place_, state, place_);
}

SettleHooks LocalCopy::hooks() {
  SettleHooks hooks;
  hooks.remember = [this](const CommitState& settled, const CommitState& next, const std::optional<WalPlace>& place) {
    return remember_batch(settled, next, place);
  };
  hooks.folded = [this](PageTable& pages, const CommitState& next, const WalPlace& place) -> Result<> {
    if (auto merged = merge_table(pages, next, place, true); !merged) return merged;
    Lock lock(mutex_);
    place_ = place;
    wal_there_ = false;
    record_stale_ = true;
    return {};
  };
  hooks.begun = [this](std::uint32_t salt1, std::uint32_t salt2) { return wal_begun(salt1, salt2); };
  hooks.published = [this](const WalPlace& place) {
    Lock lock(mutex_);
    place_ = place;
    wal_there_ = true;
  };
  return hooks;
}

Result<> LocalCopy::start_applier(PageTable table, CommitState state) {
  table.track_changes();
  began_incarnation_ = state.incarnation;
  Lock lock(mutex_);
  applier_.emplace(disk_, files_, std::move(table), std::move(state), hooks());
  return {};
}

Result<> LocalCopy::go_live(const LiveLimits& limits) {
  const CommitState now = std::as_const(*applier_).state();
  ONEPEN_CHECK(found_pending_.empty() && now.ordinal != 0, "a copy that is read while it goes on holds a database, and nothing of its own");
  auto target = LiveTarget::open(runtime_, disk_, files_, now, wal_there_ && place_ ? *place_ : WalPlace{}, hooks(), limits);
  if (!target) return tl::unexpected(target.error());
  applier_->aim_at(std::move(*target))->close();
  live_ = true;
  return {};
}

Result<> LocalCopy::begin_anew(core::Stream& stream, const std::function<void(const owner::Progress&)>& progress) {
  ONEPEN_CHECK(live_ || (replica_ && std::as_const(*applier_).state().ordinal == 0), "only a copy that is read is changed under its readers");
  const DatabaseFiles scratch{files_.snapshot()};
  for (const std::string& path : {scratch.batch(), scratch.wal(), scratch.snapshot(), scratch.db}) {
    if (auto removed = remove_from(disk_, path); !removed) return removed;
  }
  RebuildOptions options;
  options.progress = progress;
  auto next = rebuild_into(runtime_, disk_, stream, scratch.db, options);
  if (!next) return tl::unexpected(next.error());
  auto replaced = [&]() -> Result<> {
    if (next->ordinal == 0) return tl::unexpected(Error{Outcome::not_found, "the stream holds no database any more", {}});
    auto file = open_on(disk_, scratch.db, io::OpenMode::read);
    if (!file) return tl::unexpected(file.error());
    auto table = scan_pages(**file, next->page_size, next->page_count);
    if (!table) return tl::unexpected(table.error());
    if (!live_) {
      if (auto synced = of_disk((*file)->sync()); !synced) return synced;
      file->reset();
      return place_scratch(scratch.db, *next, std::move(*table));
    }
    return applier_->replace(*next, *table, [&](std::uint32_t page, std::span<std::byte> out) -> Result<> {
      auto got = of_disk((*file)->read_at((std::uint64_t{page} - 1) * out.size(), out));
      if (!got) return tl::unexpected(got.error());
      std::fill(out.begin() + static_cast<std::ptrdiff_t>(*got), out.end(), std::byte{0});
      return {};
    });
  }();
  static_cast<void>(remove_from(disk_, scratch.db));  // scrap; the next acquire removes it as well
  if (replaced) began_incarnation_ = next->incarnation;
  return replaced;
}

void LocalCopy::rest() {
  if (live_) applier_->close_files();
}

void LocalCopy::own() {
  ONEPEN_CHECK(live_ && found_pending_.empty(), "only a copy that goes on while it is read is handed to SQLite as it is");
  released_ = applier_->aim_at(std::make_unique<FoldTarget>(disk_, files_));
  live_ = false;
  wal_pages_.clear();
  wal_began_with_ = kUnknownCount;  // (no commit in it has gap pages: each was written as the stream has it)
}

void LocalCopy::release() {
  if (released_) released_->close();
  released_.reset();
}

Result<> LocalCopy::remember_batch(const CommitState& settled, const CommitState& next, const std::optional<WalPlace>& place) {
  if (missed_ && missed_->ordinal > next.ordinal) return write_record(next, place ? place : place_, *missed_, missed_place_);
  return write_record(settled, place_, next, place ? place : place_);
}

// ---- reading on

// A fresh copy begins with the newest snapshot that can be read. It is loaded beside the database and counts when the state file says so: a kill before leaves
// an empty copy.
Result<> LocalCopy::begin(core::Stream& stream) {
  if (!position().text.empty()) return {};
  PageTable table;
  SnapshotChoice choice;
  choice.log = log_;
  auto chosen = begin_with_snapshot(runtime_, disk_, SnapshotSource{stream}, files_.snapshot(), table, choice);
  if (!chosen) return tl::unexpected(chosen.error());
  if (!*chosen) return {};
  const CommitState* const state = &**chosen;
  if (state->page_count != 0) {
    if (auto kept = write_record(CommitState{}, place_, *state, WalPlace{}); !kept) return kept;
    if (ONEPEN_FAILPOINT("copy.snapshot_said")) return io_failed("move", files_.snapshot());
    if (auto moved = rename_on(disk_, files_.snapshot(), files_.db); !moved) return moved;
    if (ONEPEN_FAILPOINT("copy.snapshot_moved")) return io_failed("move", files_.snapshot());
  }
  auto begun = begin_at(std::move(table), *state);
  from_scratch_ = true;
  return begun;
}

// Until now SQLite's recovery would have read the WAL. From here on the database file is written, so everything of it goes there first.
Result<> LocalCopy::fold_left_wal() {
  if (!wal_there_) return {};
  auto wal = read_wal(disk_, files_.wal());
  if (!wal) return tl::unexpected(wal.error());
  if (wal->page_count != 0) {
    auto file = open_on(disk_, files_.wal(), io::OpenMode::read);
    if (!file) return tl::unexpected(file.error());
    auto db = open_on(disk_, files_.db, io::OpenMode::create);
    if (!db) return tl::unexpected(db.error());
    if (auto folded = fold_wal(*wal, view_of(*wal, 0, wal_began_with_), **file, **db, files_.db); !folded) return tl::unexpected(folded.error());
    if (auto synced = of_disk((*db)->sync()); !synced) return synced;
  }
  if (ONEPEN_FAILPOINT("copy.left_wal_folded")) return io_failed("fold", files_.db);
  const CommitState now = std::as_const(*applier_).state();
  // The state as it is with its place: what was read since is not in the table's file, and a kill here must find both alike.
  if (auto kept = remember_batch(now, now, std::nullopt); !kept) return kept;
  if (auto merged = merge_table(applier_->table(), now, place_.value_or(WalPlace{}), true); !merged) return merged;
  if (auto removed = remove_from(disk_, files_.wal()); !removed) return removed;
  if (ONEPEN_FAILPOINT("copy.left_wal_gone")) return io_failed("fold", files_.db);
  wal_pages_.clear();
  Lock lock(mutex_);
  if (!place_) place_ = WalPlace{};
  wal_there_ = false;
  return {};
}

Result<> LocalCopy::apply(const core::Record& record) {
  if (landed_ < found_pending_.size()) return meet(record);
  if (record.kind == core::RecordKind::data) {
    if (auto folded = live_ ? Result<>{} : fold_left_wal(); !folded) return folded;
  }
  return after_failure(record, applier_->apply(record));
}

Result<> LocalCopy::settle() {
  if (landed_ == found_pending_.size()) found_pending_.clear(), landed_ = 0;
  if (auto settled = applier_->settle(); !settled) return settled;
  if (!record_stale_) return {};
  const CommitState now = std::as_const(*applier_).state();
  if (auto kept = remember_batch(now, now, std::nullopt); !kept) return kept;
  record_stale_ = false;
  return {};
}

// A copy that does not fit its stream would fail at every opening: it is moved aside, and the caller reads on from the beginning. Not so when it came whole
// from this very stream: then the stream itself is wrong, and rebuilding would end here again.
Result<> LocalCopy::after_failure(const core::Record& record, Result<> done) {
  if (done || done.error().outcome != Outcome::state_mismatch) return done;
  if (from_scratch_) {
    done.error().message += "; the database was read from the beginning of the stream, so the stream itself is damaged: see `onepen verify`";
    return done;
  }
  return give_up(record, "diverged", done.error().message);
}

Result<> LocalCopy::give_up(const core::Record& record, std::string_view kind, std::string why) {
  if (live_) {
    poisoned_ = why;
    const CommitState now = std::as_const(*applier_).state();
    if (auto noted = write_record(now, place_, now, place_, true); !noted) return noted;
    return tl::unexpected(Error{Outcome::state_mismatch, std::move(why), {}});
  }
  const bool other_history = !began_incarnation_.nil() && !(record.incarnation == began_incarnation_);
  auto aside = set_aside(other_history ? "rewound" : std::string(kind), std::move(why));
  if (!aside) return tl::unexpected(aside.error());
  ++restarts_;
  return begin_empty();
}

Result<> LocalCopy::start_over() {
  if (live_) return tl::unexpected(Error{Outcome::gone, "the stream no longer has the position up to which this copy was read. Open it again", {}});
  const bool holds_commits = std::as_const(*applier_).state().ordinal != 0 || landed_ < found_pending_.size();
  if (holds_commits) {
    auto aside = set_aside("rewound", "the stream no longer has the position up to which this copy was read");
    if (!aside) return tl::unexpected(aside.error());
  }
  return begin_empty();
}

// Of the files, and of what was known of them: they are moved or removed next.
void LocalCopy::let_go() {
  {
    Lock lock(mutex_);
    if (applier_) applier_->close_files();
    owned_.reset();
    sent_.reset();
  }
  poisoned_.reset();
  doubted_ = false;
  state_file_.reset();
  pages_.reset();
}

Result<> LocalCopy::drop() {
  let_go();
  if (auto discarded = discard_copy(disk_, folder_.path); !discarded) return discarded;
  return open_files();
}

Result<std::string> LocalCopy::salvage(std::string_view kind, std::string_view why) {
  if (auto found = find_pending_again(); !found) return tl::unexpected(found.error());
  auto aside = set_aside(std::string(kind), std::string(why));
  if (!aside) return aside;
  ++restarts_;
  if (auto begun = begin_empty(); !begun) return tl::unexpected(begun.error());
  return aside;
}

Result<std::string> LocalCopy::set_aside(std::string kind, std::string why, const std::optional<FoundDatabase>& found) {
  if (replica_) return move_replica(kind, why);
  Salvage salvage{std::move(kind), std::move(why), place_of_copy_, folder_.path};
  salvage.expected = state_file_->record();
  salvage.found = found;
  salvage.boot = boot_;
  salvage.owned = owned_;
  if (applier_) salvage.acknowledged = state();
  else if (salvage.expected) salvage.acknowledged = salvage.expected->next;
  salvage.unsent = pending_now();
  salvage.unsent_known = pending_known_;
  let_go();
  auto where = move_aside(runtime_, disk_, salvage);
  if (!where) return where;
  salvaged_ = *where;
  log_(LogLevel::warn,
       fmt::format("the local copy of '{}' was moved to {}: {}. The database is rebuilt from its stream", place_of_copy_.name.text(), *where, salvage.why));
  found_pending_.clear();
  landed_ = 0;
  pending_known_ = true;
  if (auto opened = open_files(); !opened) return tl::unexpected(opened.error());
  return where;
}

}  // namespace onepen::sqlite
