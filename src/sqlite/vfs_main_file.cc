#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/messages.h"
#include "sqlite/vfs_file.h"

namespace onepen::sqlite {
namespace {

// Slots of the wal-index locks (wal.c): 0 write, 1 checkpoint, 2 recover, 3..7 read marks.
constexpr int kWriteLock = 0, kCheckpointLock = 1, kFirstReadMark = 3, kReadMarks = 5;

// SQLite tries to begin a WAL anew, and what is in it is not in the stream yet. A smaller WAL just goes on growing; at a larger one the committer waits for the
// sender (which drains, since nobody else commits meanwhile), but only so long, and not again before the WAL has grown by so much.
constexpr std::uint64_t kPatientWalBytes = 32u << 20;
constexpr std::chrono::milliseconds kPatience{500};

MainFile* main_file(sqlite3_file* file) { return static_cast<MainFile*>(file); }

bool covers(int offset, int n, int slot) { return offset <= slot && slot < offset + n; }

}  // namespace

std::string exclusive_sentence() {
  return "locking_mode=exclusive is refused: without locks on the WAL index Onepen could not stop a handle that was fenced. Set PRAGMA locking_mode=normal on "
         "this connection.";
}

std::string rollback_sentence() {
  return "A rollback journal is refused: Onepen captures commits from the WAL, so its databases stay in journal_mode=wal. Nothing of this was written anywhere.";
}

MainFile::MainFile(sqlite3_file* real, const char* name, Registry& registry, std::shared_ptr<OpenDatabase> database)
    : sqlite3_file{&kMethods}, real_(real), name_(name), registry_(registry), database_(std::move(database)) {}

void MainFile::note_landed() {
  landed_ = true;
  sync_expected_ = true;
  database_->note_committed();
}

// sqlite3_is_interrupted() came with 3.41; parsing a blank tells as well: the parser looks at the flag at every blank and runs no statement.
bool MainFile::interrupted() {
  if (connection() == nullptr) return false;
  sqlite3_stmt* none = nullptr;
  const int rc = sqlite3_prepare_v2(connection(), " ", 1, &none, nullptr);
  sqlite3_finalize(none);
  return rc == SQLITE_INTERRUPT;
}

std::optional<WalIndexHeader> MainFile::read_index() {
  void volatile* region = nullptr;
  if (real_->pMethods->xShmMap(real_, 0, kIndexRegionBytes, 0, &region) != SQLITE_OK || region == nullptr) return std::nullopt;
  real_->pMethods->xShmBarrier(real_);
  WalIndexHeader header;
  std::memcpy(header.data(), const_cast<const void*>(region), header.size());
  return header;
}

int MainFile::refuse_begin(const Reset& reset) { return refuse(reset.message + " Nothing of this statement was written anywhere."); }

int MainFile::begin_read(int offset, int n, int flags) {
  if (const auto reset = database_->current_reset()) return refuse_begin(*reset);  // I7
  // Before the lock, which chooses what is seen: that is then no older than the answer (I8).
  if (const auto fresh = database_->check_staleness(); !fresh) return refuse(fresh.error().message);
  const int rc = real_->pMethods->xShmLock(real_, offset, n, flags);
  reading_ = reading_ || rc == SQLITE_OK;
  if (rc != SQLITE_OK || !database_->settings().confirm_reads || database_->follower() || !guard_on(Guard::reads_confirmed)) return rc;
  // I8: confirmed by the home after the read began; the lock above is the beginning.
  const auto confirmed = database_->confirm(database_->settings().commit_timeout);
  if (confirmed) return SQLITE_OK;
  real_->pMethods->xShmLock(real_, offset, n, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
  reading_ = false;
  return refuse(confirmed.error().message);
}

int MainFile::take_write_lock(int offset, int n, int flags) {
  if (const auto reset = database_->current_reset()) return refuse_begin(*reset);  // I7
  const bool writes = !database_->follower();
  if (writes) {
    if (const auto entered = database_->writer_enters(); !entered) return refuse(entered.error().message);
  }
  const int rc = real_->pMethods->xShmLock(real_, offset, n, flags);
  if (rc != SQLITE_OK && writes) database_->writer_leaves();
  if (rc != SQLITE_OK || !writes) return rc;
  const auto header = read_index();
  if (!watch().taken(header)) {
    database_->writer_leaves();
    real_->pMethods->xShmLock(real_, offset, n, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    std::string sentence = fmt::format(
        "The local copy {} was written by something else than Onepen in this process. Those writes are not in the stream; nothing more is written from here. Open the database again: a "
        "fresh copy is made and this one is kept as salvage.",
        database_->path());
    database_->poison("foreign write");
    database_->reset(ResetKind::diverged, sentence);
    return refuse(std::move(sentence));
  }
  write_locked_ = true;
  commit_frame_.reset();
  if (header && initialised(*header)) {
    database_->capture().frames().begin(frame_count(*header));
    published_pages_ = page_count(*header);
    chain_from(frame_count(*header), checksum(*header));
  }
  return SQLITE_OK;
}

// durability=local: the commit counts when SQLite has published it (the wal-index has moved over it). Its frame alone says nothing: SQLite may have failed since,
// and recovery may bring it back later (shared models, failsync.c); then it counts from there on.
void MainFile::settle_local_commit(const std::optional<WalIndexHeader>& header) {
  if (!header || !initialised(*header)) return;
  const auto [salt1, salt2] = salts(*header);
  if (watch().take_revived()) {
    const WalHold::View view = database_->hold().view();
    if (frame_count(*header) > view.published.frame) database_->hold().publish({salt1, salt2, frame_count(*header)});
  }
  const auto frame = std::exchange(commit_frame_, std::nullopt);
  if (!frame) return;
  if (frame_count(*header) == frame->slot || !guard_on(Guard::local_published)) {
    database_->hold().publish({salt1, salt2, frame->slot});
    just_published_ = true;
    return;
  }
  watch().unpublished({frame->slot, frame->page_count_after, read_be32(frame->bytes.data() + 16), read_be32(frame->bytes.data() + 20),
                       read_be32(frame->bytes.data() + 8), read_be32(frame->bytes.data() + 12)});
}

void MainFile::release_write_lock() {
  database_->writer_leaves();
  const bool was_landed = landed_;
  write_locked_ = landed_ = sync_expected_ = false;
  const auto header = read_index();
  if (watch().releasing(header)) {
    if (database_->local()) settle_local_commit(header);
    else if (was_landed && header) database_->landed({salts(*header).first, salts(*header).second, frame_count(*header)});
    database_->hold().restart_over();
    // SQLite began the WAL anew and then made no commit: its next one writes the header without asking.
    if (header && initialised(*header) && frame_count(*header) == 0 && database_->hold().view().published.frame != 0)
      database_->hold().restarted(salts(*header).first, salts(*header).second);
    return;
  }
  std::string sentence = fmt::format(
      "The local copy {} held transactions in its WAL that are not in the stream. Open the database again: a fresh copy is made.", database_->path());
  database_->poison("foreign WAL");
  database_->reset(ResetKind::diverged, std::move(sentence));
}

int MainFile::shm_lock(int offset, int n, int flags) {
  if ((flags & SQLITE_SHM_LOCK) == 0) {  // what is held can always be given back
    if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && covers(offset, n, kCheckpointLock) && std::exchange(checkpointing_, false)) {
      database_->hold().checkpoint_ended(read_backfilled());
    }
    if (write_locked_ && (flags & SQLITE_SHM_EXCLUSIVE) != 0 && covers(offset, n, kWriteLock)) release_write_lock();
    if ((flags & SQLITE_SHM_SHARED) != 0 && offset >= kFirstReadMark) reading_ = false;
    return real_->pMethods->xShmLock(real_, offset, n, flags);
  }
  if (registry_.forked()) return refuse(forked_sentence());
  const bool after_commit = std::exchange(just_published_, false);
  if ((flags & SQLITE_SHM_SHARED) != 0 && offset >= kFirstReadMark) return begin_read(offset, n, flags);
  if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && covers(offset, n, kWriteLock)) return take_write_lock(offset, n, flags);
  if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && offset == kFirstReadMark + 1 && n == kReadMarks - 1) return lock_restart(offset, n, flags);
  if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && covers(offset, n, kCheckpointLock)) {
    if (const auto reset = database_->current_reset()) return refuse_begin(*reset);
    if (n == 1 && !database_->follower()) return lock_checkpoint(offset, flags, after_commit);
  }
  return real_->pMethods->xShmLock(real_, offset, n, flags);
}

int MainFile::lock_checkpoint(int offset, int flags, bool after_commit) {
  WalHold& hold = database_->hold();
  if (!hold.checkpoint_begins(after_commit)) return SQLITE_BUSY;
  const int rc = real_->pMethods->xShmLock(real_, offset, 1, flags);
  checkpointing_ = rc == SQLITE_OK;
  if (!checkpointing_) hold.checkpoint_ended(0);
  return rc;
}

// Frames that checkpoints have copied (nBackfill), and those that the one that failed may have begun to copy.
std::uint32_t MainFile::read_backfilled() {
  constexpr std::size_t kCopied = 96, kAttempted = 128;  // WalCkptInfo behind two headers: nBackfill first, nBackfillAttempted last but one
  void volatile* region = nullptr;
  if (real_->pMethods->xShmMap(real_, 0, kIndexRegionBytes, 0, &region) != SQLITE_OK || region == nullptr) return UINT32_MAX;
  std::uint32_t copied = 0, attempted = 0;
  const auto* bytes = static_cast<const std::uint8_t*>(const_cast<const void*>(region));
  std::memcpy(&copied, bytes + kCopied, sizeof copied);
  std::memcpy(&attempted, bytes + kAttempted, sizeof attempted);
  return std::max(copied, attempted);
}

// The read marks all at once: SQLite is about to begin the WAL anew (or TRUNCATE it). SQLITE_BUSY is an answer it goes on with.
int MainFile::lock_restart(int offset, int n, int flags) {
  if (database_->follower()) return real_->pMethods->xShmLock(real_, offset, n, flags);
  WalHold& hold = database_->hold();
  if (hold.held() && !database_->wait_for_sender(kPatientWalBytes, kPatience)) return SQLITE_BUSY;
  if (!hold.restart_begins()) return SQLITE_BUSY;
  const int rc = real_->pMethods->xShmLock(real_, offset, n, flags);
  // A checkpoint that only waits for readers does not end the WAL; one that truncates it says so next (WalFile::truncate).
  if (rc == SQLITE_OK && (checkpointing_ || wal_ends())) return rc;
  hold.restart_over();
  if (rc != SQLITE_OK) return rc;
  real_->pMethods->xShmLock(real_, offset, n, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
  return SQLITE_BUSY;
}

bool MainFile::wal_ends() {
  return database_->wal_ends(
      [this](std::uint32_t page, std::span<const std::byte> zeros) {
        const auto size = static_cast<int>(zeros.size());
        return real_->pMethods->xWrite(real_, zeros.data(), size, static_cast<sqlite3_int64>(page - 1) * size);
      },
      [this] { return real_->pMethods->xSync(real_, SQLITE_SYNC_NORMAL); });
}

// The database file, in a checkpoint; with durability=replicated the WAL as well. SQLite counts such a checkpoint as not made, so the WAL keeps every page that it
// wrote; it is not begun anew either, since nothing begins on a handle that was reset. With durability=local commits in it may be nowhere else.
int MainFile::sync_failed(int rc) {
  const std::string what = fmt::format("Syncing the local copy {} failed (SQLite code {}): what the disk holds of it is not known.", database_->path(), rc);
  std::string sentence;
  if (database_->local()) {
    sentence =
        what + " Every transaction that was committed is in its WAL: open the database again, which checks the copy and sends what is not in the stream yet.";
    database_->doubt("a sync of the database file failed");
  } else {
    sentence = what + " Every acknowledged transaction is in the stream: open the database again.";
    database_->poison("sync failed");
  }
  database_->reset(ResetKind::broken, sentence);
  refuse_with(rc, std::move(sentence));
  return rc;
}

// The commit that was being synced may be on the disk or not, and SQLite tells its application that it failed. The copy is not given up: what it holds is checked
// when it is opened next, frame by frame, and a commit that is whole there is one that was made.
int MainFile::wal_sync_failed(int rc) {
  std::string sentence = fmt::format(
      "Syncing the WAL of the local copy {} failed (SQLite code {}): what the disk holds of the newest transactions is not known. Open the database again: that "
      "tells, and sends what is there.",
      database_->path(), rc);
  database_->doubt("a sync of its WAL failed");
  database_->reset(ResetKind::broken, sentence);
  refuse_with(rc, std::move(sentence));
  return rc;
}

int MainFile::sync(int flags) {
  if (registry_.forked()) return refuse(forked_sentence());
  const int rc = ONEPEN_FAILPOINT("capture.database_sync") ? SQLITE_IOERR_FSYNC : real_->pMethods->xSync(real_, flags);
  return rc == SQLITE_OK ? rc : sync_failed(rc);
}

// Only checkpoints write to the database file of a WAL database; those of a poisoned copy would only spread the damage.
int MainFile::write(const void* bytes, int size, sqlite3_int64 offset) {
  if (registry_.forked()) return refuse(forked_sentence());
  if (database_->poisoned()) return SQLITE_AUTH;
  return real_->pMethods->xWrite(real_, bytes, size, offset);
}

// SQLite asks the VFS about `PRAGMA locking_mode` and `PRAGMA journal_mode` only for the database that is named or first: both reach an attached one unasked
// when they name none, and a connection's default locking mode goes with every later ATTACH. What they do shows in the locks:
// - RESERVED is taken by nobody but the writer of a rollback journal (or of none: journal_mode=off). It would write past the WAL, into no stream.
// - EXCLUSIVE within a transaction begins locking_mode=exclusive. After it SQLite takes no lock of the wal-index, and no handle could be fenced (I7).
//   (The last connection takes EXCLUSIVE as well, to checkpoint when it closes; it reads nothing then.)
int MainFile::lock(int level) {
  if (registry_.forked()) return refuse(forked_sentence());
  if (level == SQLITE_LOCK_RESERVED) return refuse(rollback_sentence());
  if (level == SQLITE_LOCK_EXCLUSIVE && reading_) return refuse(exclusive_sentence());
  // What is pending lives in the WAL, which SQLite would delete after this.
  const bool closes = level == SQLITE_LOCK_EXCLUSIVE && !database_->follower() && level_ != SQLITE_LOCK_EXCLUSIVE;
  if (closes && !database_->hold().close_begins()) return SQLITE_BUSY;
  const int rc = real_->pMethods->xLock(real_, level);
  if (rc == SQLITE_OK) level_ = std::max(level_, level);
  else if (closes) database_->hold().close_over();
  return rc;
}

int MainFile::unlock(int level) {
  const int rc = real_->pMethods->xUnlock(real_, level);
  if (level_ == SQLITE_LOCK_EXCLUSIVE && level < level_ && rc == SQLITE_OK && !database_->follower()) database_->hold().close_over();
  if (rc == SQLITE_OK) level_ = std::min(level_, level);
  return rc;
}

int MainFile::unmap_index(int remove) {
  const bool deletes = remove != 0 && !database_->follower();
  if (deletes) keep_wal_ = !wal_ends();  // everything was checkpointed, and the WAL is deleted next
  const int rc = real_->pMethods->xShmUnmap(real_, remove);
  if (deletes && !keep_wal_) {
    watch().removed();
    database_->hold().restarted(0, 0);
  }
  return rc;
}

int MainFile::pragma(char** argument) {
  const std::string_view name = argument[1];
  const std::string_view value = argument[2] != nullptr ? argument[2] : "";
  const auto say = [&](int code, const std::string& sentence) {
    argument[0] = sqlite3_mprintf("%s", sentence.c_str());
    return code;
  };
  if (name == "onepen_check") {
    const auto confirmed = database_->confirm(database_->settings().commit_timeout);
    if (!confirmed) {
      refuse(confirmed.error().message);
      return say(SQLITE_AUTH, confirmed.error().message);
    }
    return say(SQLITE_OK, fmt::format("owner of '{}', epoch {}, confirmed at offset {}", database_->settings().name->text(),
                                      database_->status().owner.token.epoch.value, confirmed->text));
  }
  std::string sentence;
  if (sqlite3_stricmp(argument[1], "journal_mode") == 0 && !value.empty() && sqlite3_stricmp(argument[2], "wal") != 0)
    sentence = fmt::format("journal_mode={} is refused: Onepen captures commits from the WAL, so its databases stay in journal_mode=wal.", value);
  if (sqlite3_stricmp(argument[1], "locking_mode") == 0 && sqlite3_stricmp(argument[2] != nullptr ? argument[2] : "", "exclusive") == 0)
    sentence = exclusive_sentence();
  if (sentence.empty()) return real_->pMethods->xFileControl(real_, SQLITE_FCNTL_PRAGMA, argument);
  refuse_with(SQLITE_ERROR, sentence);
  return say(SQLITE_ERROR, sentence);
}

int MainFile::control(int op, void* argument) {
  switch (op) {
    case kDatabaseOp: *static_cast<OpenDatabase**>(argument) = database_.get(); return SQLITE_OK;
    case SQLITE_FCNTL_PDB: connection_ = static_cast<sqlite3**>(argument); return SQLITE_OK;
    case SQLITE_FCNTL_MMAP_SIZE: return SQLITE_NOTFOUND;
    case SQLITE_FCNTL_PRAGMA: return pragma(static_cast<char**>(argument));
    case SQLITE_FCNTL_VFSNAME: {
      const int rc = real_->pMethods->xFileControl(real_, op, argument);
      auto** name = static_cast<char**>(argument);
      if (rc != SQLITE_OK || *name == nullptr) return rc;
      char* both = sqlite3_mprintf("onepen/%s", *name);
      sqlite3_free(*name);
      *name = both;
      return SQLITE_OK;
    }
    default: return real_->pMethods->xFileControl(real_, op, argument);
  }
}

int MainFile::close() {
  const int rc = real_->pMethods->xClose(real_);
  if (level_ == SQLITE_LOCK_EXCLUSIVE && !database_->follower()) database_->hold().close_over();
  auto database = std::move(database_);
  Registry& registry = registry_;
  if (registry.forked()) {
    new std::shared_ptr<OpenDatabase>(std::move(database));  // the parent's: its threads are not here to be joined, its lock is not ours to give up
  } else {
    // Nobody can ask this connection any more, and a one-shot `sqlite3 < script` ends now.
    if (const auto left = registry.detach(database); !left) say_unsent(left.error().message);
  }
  return rc;
}

const sqlite3_io_methods MainFile::kMethods = {
    2,
    [](sqlite3_file* f) {
      return no_throw([&] {
        MainFile* file = main_file(f);
        forget_main_file(file);
        const int rc = file->close();
        file->~MainFile();
        return rc;
      });
    },
    [](sqlite3_file* f, void* bytes, int size, sqlite3_int64 offset) {
      return main_file(f)->real()->pMethods->xRead(main_file(f)->real(), bytes, size, offset);
    },
    [](sqlite3_file* f, const void* bytes, int size, sqlite3_int64 offset) { return no_throw([&] { return main_file(f)->write(bytes, size, offset); }); },
    [](sqlite3_file* f, sqlite3_int64 size) { return main_file(f)->real()->pMethods->xTruncate(main_file(f)->real(), size); },
    [](sqlite3_file* f, int flags) { return no_throw([&] { return main_file(f)->sync(flags); }); },
    [](sqlite3_file* f, sqlite3_int64* size) { return main_file(f)->real()->pMethods->xFileSize(main_file(f)->real(), size); },
    [](sqlite3_file* f, int level) { return no_throw([&] { return main_file(f)->lock(level); }); },
    [](sqlite3_file* f, int level) { return main_file(f)->unlock(level); },
    [](sqlite3_file* f, int* reserved) { return main_file(f)->real()->pMethods->xCheckReservedLock(main_file(f)->real(), reserved); },
    [](sqlite3_file* f, int op, void* argument) { return no_throw([&] { return main_file(f)->control(op, argument); }); },
    [](sqlite3_file* f) { return main_file(f)->real()->pMethods->xSectorSize(main_file(f)->real()); },
    // Power-safe overwrite is claimed so that the WAL is never padded with copies of the commit frame: the copy is a cache that is checked at open.
    [](sqlite3_file* f) { return main_file(f)->real()->pMethods->xDeviceCharacteristics(main_file(f)->real()) | SQLITE_IOCAP_POWERSAFE_OVERWRITE; },
    [](sqlite3_file* f, int region, int size, int extend, void volatile** out) {
      if (extend != 0 && region > 0 && ONEPEN_FAILPOINT("capture.index_region")) return SQLITE_IOERR_SHMSIZE;
      return main_file(f)->real()->pMethods->xShmMap(main_file(f)->real(), region, size, extend, out);
    },
    [](sqlite3_file* f, int offset, int n, int flags) { return no_throw([&] { return main_file(f)->shm_lock(offset, n, flags); }); },
    [](sqlite3_file* f) { main_file(f)->real()->pMethods->xShmBarrier(main_file(f)->real()); },
    [](sqlite3_file* f, int remove) { return no_throw([&] { return main_file(f)->unmap_index(remove); }); },
    nullptr,
    nullptr,
};

}  // namespace onepen::sqlite
