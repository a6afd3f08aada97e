// Which of the numbered copies of a database this process works on: chosen and locked under one short lock, so that processes that open at the same
// moment each get their own and do not multiply copies. Thread-safety: none.
#pragma once
#include <vector>

#include "io/disk.h"
#include "sqlite/copy.h"
#include "sqlite/copy_disk.h"
#include "sqlite/copy_find.h"

namespace onepen::sqlite {

struct CopyFolder {
  std::string path;  // <cache root>/<home>/<name>/<n>
  DiskFilePtr lock;  // flock held while open. A fork()ed child holds it too, until it ends or execs
};

// An unlocked copy with unsent commits (to read: none that has, or may have, such), else the newest unlocked one, else a new number.
// Errors: unavailable (disk; a network filesystem), invalid (newer format).
Result<CopyFolder> choose_copy(io::Disk& disk, const CopyPlace& place, const Log& log, CopyUse use = CopyUse::write);

// Process id of a program that has this database open in SQLite right now; 0: none, or not to be told.
std::int64_t sqlite_user_of(io::Disk& disk, const DatabaseFiles& files);

// The folder above the numbered copies.
std::string copies_folder(const CopyPlace& place);

// One numbered copy as it lies there, also while a process works on it: for `onepen status`. Changes nothing (its lock is tried for a moment); what it says of a copy in
// use may be a moment old.
struct CopyGlance {
  std::string folder;
  bool in_use = false;  // a process holds its lock
  CommitState acknowledged;  // as written down
  std::optional<core::OwnerToken> owned{};
  std::uint64_t unsent = 0, unsent_bytes = 0;  // whole commits of its WAL behind the acknowledged one
  bool unsent_known = true;  // false: opening it will tell
  std::string trouble;  // why nothing can be said
};
Result<std::vector<CopyGlance>> copies_here(io::Disk& disk, const CopyPlace& place);
// The same of any folder above numbered copies; none: there is no such folder.
Result<std::vector<CopyGlance>> copies_in(io::Disk& disk, const std::string& parent);

// Refuses a place where SQLite's locks and shared memory do not hold: network, user-space and unknown filesystems, by the text of /proc/self/mountinfo.
// real_path: an existing folder, without symbolic links. Errors: unavailable, naming the mount. Pure.
Result<> judge_cache_root(std::string_view mountinfo, const std::string& real_path);

}  // namespace onepen::sqlite
