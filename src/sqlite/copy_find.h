// Finds out what a copy holds when it is taken: which of the states its files speak of is where in the WAL, and which commits come behind it. Reads only
// (but for a database file that does not exist yet, into which the WAL is folded). docs/formats/copy-state.md, "What is made of it".
//
//   T0 (file pages) ──commit──▶ sum ──commit──▶ sum ──commit──▶ sum     a state is found where both its place and its sum are
//   same boot, same file, whole table: that is all. Else every page of the database is hashed too, and the last sum must be the one this gives.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sqlite/copy_pages.h"
#include "sqlite/copy_state.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {

struct DatabaseFiles {
  std::string db;  // "-wal" and "-shm" beside it are SQLite's
  std::string wal() const { return db + "-wal"; }
  std::string shm() const { return db + "-shm"; }
  std::string batch() const { return db + "-batch"; }
  std::string snapshot() const { return db + "-snapshot"; }
};

inline bool same_salts(const WalPlace& place, const WalContent& wal) { return wal.valid() && place.salt1 == wal.salt1 && place.salt2 == wal.salt2; }
inline std::uint32_t last_frame(const WalContent& wal) { return static_cast<std::uint32_t>(wal.frames.size()); }

// One commit of a WAL.
struct WalCommit {
  std::uint32_t begin = 0, end = 0;  // frames begin+1 .. end
  std::uint32_t page_count = 0;      // of the database after it
  std::uint64_t sum = 0;             // page sum after it
  std::uint64_t bytes = 0;           // its frames
  std::vector<PageHash> hashes;      // pages it writes, rising
};

// The commits of a WAL after frame `after`, each with its sum, upon a table that holds the database there. A page that a commit grows the database over
// without a frame for it is a page of zeros (wal_file.h, WalView).
std::vector<WalCommit> commits_of(const WalContent& wal, std::uint32_t after, const PageTable& table);

struct FoundDatabase {
  wire::RunningSum sum;
  std::uint32_t page_size = 0;
  std::uint64_t bytes = 0;
  std::uint64_t inode = 0;
};

struct FoundCopy {
  bool fits = false;
  std::string why;  // it does not: a sentence
  std::optional<FoundDatabase> database;  // when every page was hashed
  CommitState state;
  WalPlace place;
  PageTable table;                        // at `state`; keeps account of what differs from the file `pages`
  std::optional<PagesHeader> header;      // what the file `pages` is; none: it must be written anew
  bool header_stale = false;              // it says something else of the WAL than `header`, which must be written before anything changes
  std::vector<WalCommit> pending;         // behind `state`; when it does not fit: what may be unsent
  bool pending_known = true;              // false: where the unsent ones begin could not be told
  std::optional<CommitState> missed;      // a newer state that was written down, and is not there
  std::optional<WalPlace> missed_place;
  std::vector<std::uint32_t> wal_pages;
  std::uint32_t wal_began_with = kUnknownCount;  // pages of the database at the WAL's beginning; all ones: not known
  bool wal_valid = false;
  std::uint64_t dropped = 0;              // commits behind the last one that can be read: SQLite drops them
  bool scanned = false;
};

// record: of the state file; none: nothing is known of the copy. Errors: unavailable (disk).
Result<FoundCopy> find_copy(io::Disk& disk, const DatabaseFiles& files, const std::optional<CopyRecord>& record, const BootId& boot, PagesFile& pages);

}  // namespace onepen::sqlite
