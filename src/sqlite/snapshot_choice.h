// Which snapshot a database begins with: the newest one that can be read.
//
//   the newest ──damaged──▶ the one before ──damaged──▶ … ──▶ the log from its beginning ──trimmed──▶ refused: which part, and what to do
//
// A home keeps two, and the log behind the older one (docs/formats/snapshot.md), so one damaged file costs nothing but the time to read more log.
// Blocking; one thread.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/log.h"
#include "sqlite/snapshot_load.h"

namespace onepen::sqlite {

struct SnapshotChoice {
  std::function<bool(const core::SnapshotInfo&)> wanted{};  // those that may be begun with; empty: all
  SnapshotLoad load{};
  Log log{};  // a warning for each that cannot be read, and what is done instead
};

// As load_snapshot(). None, and no file: there is no snapshot that is wanted; or none of them can be read, and the log is there from its beginning.
// Errors: state_mismatch (none can be read, and the log is trimmed: names the damage, and what to do); invalid (a newer format); unavailable; what the home
// refused. On an error no file is left, and `table` is empty.
Result<std::optional<CommitState>> begin_with_snapshot(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const std::string& db_path,
                                                       PageTable& table, const SnapshotChoice& choice = {});

}  // namespace onepen::sqlite
