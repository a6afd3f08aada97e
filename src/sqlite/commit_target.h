// Where the pages of commits go that are read from a stream (apply.h): a batch file that is folded into a database nobody has open (fold_target.h), or the WAL of
// one that is being read (live_target.h). Thread-safety: none.
//
//   begin ─▶ add … add(marked) ─▶ end      a commit is whole: read() sees it            settle ─▶ all whole commits are the database's
//      └──▶ add … ─▶ take_back             it never becomes one
#pragma once
#include <functional>
#include <optional>
#include <span>

#include "sqlite/copy.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {

// What whoever keeps the state of the database does about a settling.
struct SettleHooks {
  // Called before the database changes: remember that it holds `settled`, or `next`, which ends at `place` in the WAL that there is then (none: only the offset
  // moved on).
  std::function<Result<>(const CommitState& settled, const CommitState& next, const std::optional<WalPlace>& place)> remember{};
  // Everything up to `place` is in the database file, and synced: before that WAL goes. `table`: at `next`.
  std::function<Result<>(PageTable& table, const CommitState& next, const WalPlace& place)> folded{};
  // Only where SQLite connections read. A WAL with these salts is about to begin upon that; a batch of commits was published, and ends at `place`.
  std::function<Result<>(std::uint32_t salt1, std::uint32_t salt2)> begun{};
  std::function<void(const WalPlace& place)> published{};
};

class CommitTarget {
 public:
  virtual ~CommitTarget() = default;
  // A commit begins, upon `state`. Errors of all: unavailable (disk), and what a target names.
  virtual Result<> begin(const CommitState& state, std::uint32_t page_size) = 0;
  virtual Result<> add(std::uint32_t page, std::uint32_t page_count_after, ByteView image) = 0;  // page_count_after: not 0 on the commit's last page
  virtual void end(std::uint32_t page_count) = 0;
  virtual void take_back() = 0;
  // As whole commits left it; zeros beyond the end of the file.
  virtual Result<> read(std::uint32_t page, std::span<std::byte> out) = 0;
  // Whole commits are to be settled before one of several parts begins.
  virtual bool settles_before_parts() const { return false; }
  virtual bool full() const = 0;  // what waits for settle() is a lot: settle now
  // `table`: at `next`. An unfinished commit stays unfinished, and is taken back or goes on afterwards.
  virtual Result<> settle(const CommitState& settled, const CommitState& next, PageTable& table, const SettleHooks& hooks) = 0;
  // settle() ended, well or not: nothing of the database file is held open any more where that would disturb SQLite.
  virtual void rest() {}
  virtual void close() = 0;  // before the files are moved away
};

}  // namespace onepen::sqlite
