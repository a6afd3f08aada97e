// Begins a database with a snapshot (snapshot.h): parts are fetched, checked and written into a fresh file, several at a time; what does not fit is refused.
// Blocking; each call on one thread, which spawns a few more (SnapshotLoad::helpers).
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/runtime.h"
#include "core/home.h"
#include "io/disk.h"
#include "sqlite/page_sum.h"
#include "sqlite/snapshot.h"

namespace onepen::sqlite {

// Where parts come from.
struct SnapshotSource {
  core::Stream& stream;                                  // used by the calling thread only
  // A further session at the same stream, so that several parts are fetched at a time. Empty: stream.another(). A null answer: one at a time, and only the
  // checking and writing of them is shared.
  std::function<std::unique_ptr<core::Stream>()> another{};
};

// Each thread has one part in hand: its bytes and its pages, together at most 16 MiB, so 64 MiB with the caller's. Whether more are worth it from a bucket is not
// measured on a quiet machine yet (docs/bench.md).
inline constexpr std::uint32_t kSnapshotHelpers = 3;

struct SnapshotLoad {
  SnapshotProgress progress{};  // called on the calling thread
  const std::atomic<bool>* stop = nullptr;
  bool sync = true;  // the file's bytes are durable when it returns (its name is not)
  std::uint32_t helpers = kSnapshotHelpers;  // threads beside the calling one, at most
};

// Writes the database into the file at `db_path`, whatever was there before, and the hash of every page into `table`. Answers the commit it is at, with
// info.offset and info.incarnation. A snapshot of a stream without commits makes no file (page_count 0).
// Errors: state_mismatch (a part is damaged or missing, or all of them together are not the database `about` says: which snapshot, which part); invalid (a
// newer format); unavailable (disk; *stop); what the home refused. On an error no file is left, and `table` is empty.
Result<CommitState> load_snapshot(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const core::SnapshotInfo& info, const std::string& db_path,
                                  PageTable& table, const SnapshotLoad& options = {});

// Reads every part and checks the same, without writing anything. Errors: as above.
Result<CommitState> check_snapshot(Runtime& runtime, const SnapshotSource& source, const core::SnapshotInfo& info, const SnapshotLoad& options = {});

}  // namespace onepen::sqlite
