// The first and the last thing a user does: an existing SQLite file becomes the first commit of a stream, and a stream becomes a plain SQLite file again.
// Blocking; one thread. Uses plain SQLite on the platform's own VFS.
#pragma once
#include <string>
#include <vector>

#include "owner/owner.h"
#include "sqlite/rebuild.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

struct ImportReport {
  CommitState state;        // after the commit; offset and incarnation only when it was sent
  std::uint64_t bytes = 0;  // of the database
  std::uint64_t sent_bytes = 0;
  std::uint32_t parts = 0;
};

// Reads one consistent image of the SQLite file `file` (other programs may be using it) through a scratch file at `scratch` (made, removed again; room for
// the whole database), checks it, and hands its pages as the parts of commit 1 to `sink`, in WAL format. Errors: not_found; invalid (not a SQLite
// database, encrypted, damaged, without any page); unavailable (locked, disk); the sink's.
Result<ImportReport> import_database(const std::string& file, const std::string& scratch, const wire::PartEncoder::Sink& sink, const ProgressFn& progress = {});

// The same, sent through an Owner of a stream without commits; returns once it is acknowledged. part_timeout: how long one part may stand still.
// Errors: also state_mismatch when `copy` holds commits; unknown when the home did not say whether the last part is in the stream.
Result<ImportReport> import_through(Runtime& runtime, owner::Owner& owner, const Copy& copy, const std::string& file, std::chrono::nanoseconds part_timeout,
                                    const ProgressFn& progress = {});

// Writes the stream's database to a new plain SQLite file (rollback journal, so that any program reads it; no Onepen needed). It appears under its name
// only when it is whole. Errors: invalid (the file exists), not_found (no stream, or no commit in it), as rebuild_into.
Result<CommitState> export_database(core::Stream& stream, const std::string& target, const ProgressFn& progress = {});
// The files it works in, beside the target; of this process. Gone when it returns.
std::vector<std::string> export_scratch(const std::string& target);

}  // namespace onepen::sqlite
