// Folds the records of a stream into a database: each commit's `before` is compared with the database as it is and its `after` is computed from the pages, so
// that a copy never shows a state the stream does not have (I9). Where the pages go, and how a batch of commits is made to count: commit_target.h.
//
// A commit of several parts waits for its last one; parts whose epoch a claim closed before that never become a commit. Thread-safety: none.
#pragma once
#include <memory>
#include <optional>

#include "core/home.h"
#include "sqlite/commit_target.h"
#include "sqlite/copy_find.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

inline constexpr std::uint32_t kMaxGapPages = 1u << 20;  // pages a commit may grow over without writing them

class Applier {
 public:
  using Hooks = SettleHooks;

  // `table` and `state` describe the database file as it is, without a WAL: a FoldTarget.
  Applier(io::Disk& disk, DatabaseFiles files, PageTable table, CommitState state, Hooks hooks);
  // From here on pages go there. Nothing waits for settle(); an unfinished commit is taken back, and read again from position(), which lies before its first part.
  // Answers the target before, which nobody has closed yet.
  std::unique_ptr<CommitTarget> aim_at(std::unique_ptr<CommitTarget> target);

  // The records after position(), in order. Errors: invalid (a damaged part, or data that is no commit), state_mismatch (diverged: the commit's checksum
  // is not the database's), unavailable (disk). After an error only position() of the last settle() holds: make a new Applier.
  Result<> apply(const core::Record& record);
  Result<> settle();

  // The database becomes another one, of which `table` has the hashes and `image` reads the pages: what differs is written and settled at once. Nothing waits for
  // settle(); an unfinished commit is taken back. Errors: as settle(), and those of `image`; state_mismatch: pages of another size.
  using ReadPage = std::function<Result<>(std::uint32_t page, std::span<std::byte> out)>;
  Result<> replace(const CommitState& next, const PageTable& table, const ReadPage& image);

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
  };

  Result<> apply_part(const core::Record& record);
  Result<> begin_run(const core::Record& record, const wire::Part& part);
  Result<> add_page(const wire::PageEntry& entry, bool commits, std::uint64_t sum_after);
  Result<> add_gaps();
  Result<> settle_changes();
  void finish_run(const core::Record& record);
  void void_run();

  std::string db_path_;
  std::unique_ptr<CommitTarget> target_;
  PageTable table_;
  CommitState state_, settled_;
  Hooks hooks_;
  wire::PageCodec codec_;
  std::optional<Run> run_;
  Bytes image_, present_;
};

}  // namespace onepen::sqlite
