// Which of the numbered copies of a database this process works on: chosen and locked under one short lock, so that processes that open at the same
// moment each get their own and do not multiply copies. Thread-safety: none.
#pragma once
#include "io/disk.h"
#include "sqlite/copy.h"
#include "sqlite/copy_file.h"

namespace onepen::sqlite {

struct CopyFolder {
  std::string path;  // <cache root>/<home>/<name>/<n>
  File lock;         // flock held while open. A fork()ed child holds it too, until it ends or execs
};

// The newest unlocked copy, else a new number. Errors: unavailable (disk; a network filesystem), invalid (newer format).
Result<CopyFolder> choose_copy(io::Disk& disk, const CopyPlace& place, const Log& log);

// The folder above the numbered copies.
std::string copies_folder(const CopyPlace& place);

// Refuses a place where SQLite's locks and shared memory do not hold: network, user-space and unknown filesystems, by the text of /proc/self/mountinfo.
// real_path: an existing folder, without symbolic links. Errors: unavailable, naming the mount. Pure.
Result<> judge_cache_root(std::string_view mountinfo, const std::string& real_path);

}  // namespace onepen::sqlite
