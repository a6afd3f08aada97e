// Makes a snapshot of a database: reads the pages of one commit held still (pin.h), writes them as parts (snapshot_part.h), and lets it count only when
// what was read is that commit, page for page. Reading it again: snapshot_load.h.
// Blocking; each call on one thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core/home.h"
#include "io/disk.h"
#include "sqlite/pin.h"

namespace onepen::sqlite {

// done and total: bytes of pages, in page order. May be empty.
using SnapshotProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

// Writes the parts and answers `about`, for SnapshotWriter::finish (or core::HistoryRequest::snapshot). Nothing counts yet. Errors: unavailable (*stop
// became true, the pin is overdue, the disk); state_mismatch (the pages are not the pinned commit: their page sum is another one); what the home refused.
Result<Bytes> write_snapshot_parts(PinnedCopy& pin, core::SnapshotWriter& writer, const SnapshotProgress& progress = {},
                                   const std::atomic<bool>* stop = nullptr);

// The same, and finish(): from its answer on the snapshot counts.
Result<core::SnapshotInfo> write_snapshot(PinnedCopy& pin, core::SnapshotWriter& writer, const SnapshotProgress& progress = {},
                                          const std::atomic<bool>* stop = nullptr);

// A database file that nobody has open and whose WAL is folded in, as a pin: for a snapshot of what rebuild_into() made. page_count 0: `path` is not read.
// `disk` outlives it. Errors: unavailable.
Result<std::unique_ptr<PinnedCopy>> pin_file(io::Disk& disk, const std::string& path, const CommitState& state);

}  // namespace onepen::sqlite
