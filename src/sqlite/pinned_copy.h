// A commit of an open database held still (pin.h): a hold on the WAL, the map of the WAL up to that commit, and the database file read through the platform's
// VFS. Never a plain descriptor of the database file: closing one would drop SQLite's locks (sqlite.org/howtocorrupt, 2.2).
#pragma once
#include "sqlite/pin.h"
#include "sqlite/wal_hold.h"

namespace onepen::sqlite {

// Waits, at most until `deadline`, until a commit can be held: a checkpoint that is running ends, and what checkpoints have copied is acknowledged.
// `copy_path`: of the database file. All outlive it. Errors: unavailable.
Result<std::unique_ptr<PinnedCopy>> pin_copy(io::Disk& disk, WalHold& hold, const std::string& copy_path, Instant deadline);

}  // namespace onepen::sqlite
