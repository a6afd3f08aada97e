// Folds the records of a stream into a database file that nobody has open.
//
// Concept: the changed pages of a batch of commits are written as frames of a WAL of our own beside the database (the batch file); each commit's `before`
// is compared with the database as it is and its `after` is computed from the pages, so that a copy never shows a state the stream does not have (I9).
// settle() makes the batch count:
//
//     batch file full  →  state file says {settled, new}  →  batch file becomes db-wal  →  folded into db  →  page table merged  →  db-wal removed
//     kill: db settled     kill: db settled                  kill: the WAL holds new: to recover, or to fold again                 kill: db new
//
// A commit of several parts is in the batch file as frames without a commit mark until its last part came, so memory holds 16 bytes a changed page and
// never the images; an unfinished run is taken back by going on writing over it. Thread-safety: none.
#pragma once
#include <functional>
#include <optional>
#include <unordered_map>

#include "core/home.h"
#include "sqlite/copy.h"
#include "sqlite/copy_find.h"
#include "sqlite/page_sum.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {

inline constexpr std::uint64_t kMaxBatchBytes = 64u << 20;   // a batch is settled when it grew past this (one commit may be longer)
inline constexpr std::uint32_t kMaxGapPages = 1u << 20;      // pages a commit may grow over without writing them

class Applier {
 public:
  struct Hooks {
    // Called before the database file changes: remember that it holds `settled`, or `next`, which ends at `place` in the WAL that the batch becomes (none:
    // only the offset moved on).
    std::function<Result<>(const CommitState& settled, const CommitState& next, const std::optional<WalPlace>& place)> remember{};
    // Everything of that WAL is in the database file, and synced: before the WAL goes. `table`: at `next`.
    std::function<Result<>(PageTable& table, const CommitState& next, const WalPlace& place)> folded{};
  };

  // `table` and `state` describe the database file as it is, without a WAL. A left-over batch file is scrap and written over.
  Applier(io::Disk& disk, DatabaseFiles files, PageTable table, CommitState state, Hooks hooks);

  // The records after position(), in order. Errors: invalid (a damaged part, or data that is no commit), state_mismatch (diverged: the commit's checksum
  // is not the database's), unavailable (disk). After an error only position() of the last settle() holds: make a new Applier.
  Result<> apply(const core::Record& record);
  Result<> settle();

  // A commit that SQLite itself wrote, or writes, is in the stream; nothing may be waiting for settle(). check_landed: state_mismatch when `next` is not what
  // the hashes give; changes nothing. landed: takes it over.
  Result<> check_landed(const CommitState& next, const std::vector<PageHash>& hashes) const;
  void landed(const CommitState& next, const std::vector<PageHash>& hashes);
  // The database stands at a later offset of the stream, no commit between.
  void moved_on(const core::Record& record);
  void close_files();  // before the files are moved away; nothing but reading is possible afterwards

  Offset position() const { return state_.offset; }
  const CommitState& state() const { return state_; }
  const PageTable& table() const { return table_; }
  PageTable& table() { return table_; }
  bool unfinished() const { return run_.has_value(); }  // parts without their last part so far

 private:
  struct Run {  // the parts of one commit so far
    wire::CommitHead head;
    Incarnation incarnation;
    Epoch epoch;
    ClaimId claim_id;
    std::uint32_t parts = 0;
    std::vector<PageHash> hashes;
    std::vector<std::pair<std::uint32_t, std::uint64_t>> images;  // page number, where its image is in the batch file
  };

  Result<> apply_part(const core::Record& record);
  Result<> begin_run(const core::Record& record, const wire::Part& part);
  Result<> add_page(const wire::PageEntry& entry, bool commits, std::uint64_t sum_after);
  Result<> add_gaps();
  Result<> read_present(std::uint32_t page_number, std::span<std::byte> out);
  Result<> settle_changes();
  Result<> open_db();
  Result<> ensure_batch(std::uint32_t page_size);
  void finish_run(const core::Record& record);
  void void_run();
  Result<> fold_batch(const WalPlace& place);
  Result<> carry_run_over(WalWriter& old);

  io::Disk& disk_;
  DatabaseFiles files_;
  PageTable table_;
  CommitState state_, settled_;
  Hooks hooks_;
  wire::PageCodec codec_;
  DiskFilePtr db_;
  std::optional<WalWriter> batch_;
  WalWriter::Mark committed_{};  // end of the last complete commit in the batch file
  std::unordered_map<std::uint32_t, std::uint64_t> newest_;  // pages of the complete commits of the batch: where their image is
  std::optional<Run> run_;
  Bytes image_, present_;
};

}  // namespace onepen::sqlite
