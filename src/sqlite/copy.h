// The local copy of one database on this machine: numbered folders under the cache root, each locked by one process; the place where SQLite really
// works. The stream is the truth; a copy is a cache that is checked, never assumed (I9), and one that does not fit is moved aside, never deleted.
//
//   <cache root>/<hash of home url>/<name>/<n>/   db  db-wal  db-shm  state  claims  lock
//
// Page sum of a database: the sum modulo 2^64 of XXH3-64(page image, seed = page number) over its pages, the lock-byte page excluded; with the page
// count it is the "running checksum" that every commit frame names before and after.
//
// What a copy holds after a kill: just before a commit frame is written to the WAL (and after its acknowledgement), will_land() writes the state it is
// about to have beside the one it has. After WAL recovery the copy's real page sum equals one of the two, or the copy is not trusted.
// Thread-safety: none of its own; acquire..settle run on the opening thread, will_land under SQLite's WAL write lock.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/runtime.h"
#include "io/disk.h"
#include "owner/owner.h"

namespace onepen::sqlite {

// The database at a boundary between two commits.
struct CommitState {
  Offset offset;              // position in the stream just after the commit, or after claims and control records that followed it; empty: nothing yet
  Incarnation incarnation{};  // nil: nothing yet
  std::uint64_t ordinal = 0;  // commits since the beginning of the stream
  std::uint64_t page_sum = 0;
  std::uint32_t page_count = 0;
  std::uint32_t page_size = 0;  // 0: no commit yet
  bool operator==(const CommitState&) const = default;
};

struct CopyPlace {
  std::string cache_root, home_url;
  StreamName name;
};

class Copy : public owner::Fold, public owner::ClaimLog {
 public:
  // Takes the newest unlocked copy or makes another; folds its WAL, checks it against its state. One that does not fit is moved to
  // <cache root>/salvage/<name>/<time>-diverged/ and replaced by an empty one. Errors: unavailable (disk), invalid (newer format).
  // A follower takes its copy in the same way. Call it while no SQLite connection of this process is on a copy of this database.
  static Result<std::unique_ptr<Copy>> acquire(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const Log& log);

  // Reads from position() to the tail, applies and settles: how a follower and the command line bring a copy up to date. While no SQLite connection is
  // on the copy. progress may be empty. Errors: not_found (no such stream), what the home refused, what apply() answers.
  Result<> catch_up(core::Stream& stream, const std::function<void(const owner::Progress&)>& progress = {});

  virtual const std::string& db_path() const = 0;  // the file exists once a commit was applied and settled
  virtual const std::string& folder() const = 0;   // of this copy: db, db-wal, db-shm, state, claims, lock
  virtual const CommitState& state() const = 0;
  virtual std::uint64_t page_hash(std::uint32_t page_number) const = 0;  // 0 beyond the end
  // The commit whose frame is about to be written locally is in the stream at `next.offset`; hashes: its changed pages (number, new hash), each once.
  // One write of 512 bytes, no sync. From here on state() is `next`: if the frame then cannot be written, poison(). Errors: unavailable (disk);
  // state_mismatch when next.page_sum is not what the hashes give (a bug of the caller; nothing was written).
  virtual Result<> will_land(const CommitState& next, std::vector<std::pair<std::uint32_t, std::uint64_t>> hashes) = 0;
  virtual Result<> poison(std::string_view why) = 0;  // not to be trusted again: the next acquire moves it aside
  virtual Result<> close() = 0;                       // after SQLite closed: unlocks. Idempotent; the destructor does it too
};

}  // namespace onepen::sqlite
