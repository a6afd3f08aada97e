// A database file that nobody has open. The pages of a batch of commits are written as frames of a WAL of our own beside it (the batch file):
//
//     batch file full  →  state file says {settled, new}  →  batch file becomes db-wal  →  folded into db  →  page table merged  →  db-wal removed
//     kill: db settled     kill: db settled                  kill: the WAL holds new: to recover, or to fold again                 kill: db new
//
// A commit of several parts is in the batch file as frames without a commit mark until its last part came, so memory holds 16 bytes a changed page and
// never the images; an unfinished one is taken back by going on writing over it. Thread-safety: none.
#pragma once
#include <unordered_map>
#include <vector>

#include "sqlite/commit_target.h"
#include "sqlite/copy_find.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {

inline constexpr std::uint64_t kMaxBatchBytes = 64u << 20;  // a batch is settled when it grew past this (one commit may be longer)

class FoldTarget final : public CommitTarget {
 public:
  // The database file has no WAL. A left-over batch file is scrap and written over.
  FoldTarget(io::Disk& disk, DatabaseFiles files) : disk_(disk), files_(std::move(files)) {}

  Result<> begin(const CommitState& state, std::uint32_t page_size) override;
  Result<> add(std::uint32_t page, std::uint32_t page_count_after, ByteView image) override;
  void end(std::uint32_t page_count) override;
  void take_back() override;
  Result<> read(std::uint32_t page, std::span<std::byte> out) override;
  bool full() const override { return batch_ && batch_->bytes() > kMaxBatchBytes; }
  Result<> settle(const CommitState& settled, const CommitState& next, PageTable& table, const SettleHooks& hooks) override;
  // SQLite may open the database next, and a descriptor of ours closed after that would drop its locks.
  void rest() override { db_.reset(); }
  void close() override;

 private:
  Result<> open_db();
  Result<> ensure_batch(const CommitState& state, std::uint32_t page_size);
  Result<> fold(const CommitState& next, PageTable& table, const WalPlace& place, const SettleHooks& hooks);
  Result<> carry_over(WalWriter& old, const CommitState& state, std::uint32_t page_size);

  io::Disk& disk_;
  DatabaseFiles files_;
  DiskFilePtr db_;
  std::optional<WalWriter> batch_;
  WalWriter::Mark committed_{};  // end of the last whole commit in the batch file
  std::unordered_map<std::uint32_t, std::uint64_t> newest_;  // pages of the whole commits of the batch: where their image is
  bool unfinished_ = false;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> images_;  // of the commit that began: page number, where its image is in the batch file
};

}  // namespace onepen::sqlite
