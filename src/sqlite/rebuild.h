// A whole stream folded into a fresh database file, every commit checked; and a copy compared with its stream, page by page. Blocking; one thread.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/home.h"
#include "sqlite/copy.h"

namespace onepen::sqlite {

using ProgressFn = std::function<void(const owner::Progress&)>;  // may be empty

// Up to where. Neither: to the tail.
struct RebuildUntil {
  std::optional<Offset> offset{};              // records up to it, itself included
  std::optional<std::int64_t> time_ms{};       // wall clock: records made until then. Stops at the first later one
};
struct RebuildOptions {
  RebuildUntil until{};
  ProgressFn progress{};
  bool from_snapshot = true;  // begin with the newest snapshot that is not behind `until`; false: only when the records before it are gone
  std::optional<Offset> begin{};  // with from_snapshot: begin with the snapshot at this very offset, and read everything behind it
};

// Folds a stream into a new database file at `path`, in WAL format, checking the sums before and after every commit. Answers the state it ends in; its offset
// is behind claims and control records that follow the last commit. Errors: invalid (the file exists; a damaged record), state_mismatch (a commit does not
// fit the one before; a snapshot does not fit its checksum), gone (what `until` names lies before everything that is kept), not_found, unavailable, what the
// home refused. On an error no file is left.
Result<CommitState> rebuild_into(Runtime& runtime, io::Disk& disk, core::Stream& stream, const std::string& path, const RebuildOptions& options);
// The same on this machine's disk.
Result<CommitState> rebuild_into(core::Stream& stream, const std::string& path, const ProgressFn& progress = {}, const std::optional<Offset>& until = {});

struct Comparison {
  CommitState stream, copy;         // equal in all but the offset when nothing differs
  std::uint32_t pages = 0;          // compared
  std::uint32_t differing = 0;
  std::vector<std::uint32_t> first;  // the first of those, at most kMaxNamedPages
  bool same() const { return differing == 0 && stream.page_count == copy.page_count && stream.page_sum == copy.page_sum; }
};
inline constexpr std::size_t kMaxNamedPages = 16;

// Rebuilds the stream up to the copy's position into a scratch file beside the copy and compares the bytes of every page, as they are at the copy's state():
// pending commits are left out (a page that only they have changed is compared by its hash when its bytes are no more). The copy stays as it is; no SQLite
// connection is on it. Errors: as rebuild_into.
Result<Comparison> compare(const Copy& copy, core::Stream& stream, const ProgressFn& progress = {});
Result<Comparison> compare(Runtime& runtime, io::Disk& disk, const Copy& copy, core::Stream& stream, const ProgressFn& progress = {});

}  // namespace onepen::sqlite
