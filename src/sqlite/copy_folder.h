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

// The name of a network filesystem by its statfs magic; empty: local as far as we know. SQLite's locks and shared memory do not hold over a network.
std::string_view network_filesystem(std::int64_t magic);

}  // namespace onepen::sqlite
