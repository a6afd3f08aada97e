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

// Folds the stream from its beginning to its tail (or to just after `until`) into a new database file at `path`, in WAL format, checking the sums before
// and after every commit. Errors: invalid (the file exists; a damaged record), state_mismatch (a commit does not fit the one before), not_found,
// unavailable, what the home refused. On an error no file is left.
Result<CommitState> rebuild_into(core::Stream& stream, const std::string& path, const ProgressFn& progress = {}, const std::optional<Offset>& until = {});

struct Comparison {
  CommitState stream, copy;         // equal in all but the offset when nothing differs
  std::uint32_t pages = 0;          // compared
  std::uint32_t differing = 0;
  std::vector<std::uint32_t> first;  // the first of those, at most kMaxNamedPages
  bool same() const { return differing == 0 && stream.page_count == copy.page_count && stream.page_sum == copy.page_sum; }
};
inline constexpr std::size_t kMaxNamedPages = 16;

// Rebuilds the stream up to the copy's position into a scratch file beside the copy and compares the bytes of every page. The copy stays as it is; no
// SQLite connection is on it. Errors: as rebuild_into.
Result<Comparison> compare(const Copy& copy, core::Stream& stream, const ProgressFn& progress = {});

}  // namespace onepen::sqlite
