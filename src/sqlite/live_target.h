// The WAL of a database that SQLite connections are reading meanwhile, of this process or of others: a follower's. Each batch of commits becomes one transaction of
// that WAL, which readers see at once or not at all; none of them waits (wal_index.h). It is the only writer; SQLite itself only reads, recovers and checkpoints.
//
//     frames written behind the end ─▶ state file says {settled, new} ─▶ last frame, which commits ─▶ index moves over them ─▶ (checkpoint ─▶ WAL begun anew)
//     kill: settled                    kill: settled                      kill: new                    kill: new                kill: new
//
// A WAL that grew past LiveLimits::checkpoint_bytes is checkpointed by SQLite, and begun anew when everything was copied and nobody reads from it. Readers that
// always overlap keep it from that, up to LiveLimits::hold_bytes; a reader that never ends its transaction does for ever, as with any SQLite database. Thread-safety: none.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/runtime.h"
#include "sqlite/commit_target.h"
#include "sqlite/copy_find.h"
#include "sqlite/plain_sqlite.h"
#include "sqlite/platform_file.h"
#include "sqlite/wal_file.h"
#include "sqlite/wal_index.h"

namespace onepen::sqlite {

struct WalScan;  // wal_tail.h

class LiveTarget final : public CommitTarget {
 public:
  // The database file exists; it and its WAL hold `state`, which ends at `place` of the WAL. Connections may read already. hooks: those of settle().
  // Errors: unavailable; state_mismatch: the WAL holds something else.
  static Result<std::unique_ptr<LiveTarget>> open(Runtime& runtime, io::Disk& disk, const DatabaseFiles& files, const CommitState& state, const WalPlace& place,
                                                  const SettleHooks& hooks, const LiveLimits& limits = {});
  ~LiveTarget() override { close(); }

  Result<> begin(const CommitState& state, std::uint32_t page_size) override;
  Result<> add(std::uint32_t page, std::uint32_t page_count_after, ByteView image) override;
  void end(std::uint32_t page_count) override;
  void take_back() override;
  Result<> read(std::uint32_t page, std::span<std::byte> out) override;
  bool full() const override { return wal_ && wal_->bytes() - published_.end + held_bytes_ > limits_.batch_bytes; }
  bool settles_before_parts() const override { return true; }
  // Errors besides: state_mismatch: somebody else wrote to the database.
  Result<> settle(const CommitState& settled, const CommitState& next, PageTable& table, const SettleHooks& hooks) override;
  void close() override;

  std::uint64_t wal_bytes() const { return wal_ ? published_.end : 0; }

 private:
  LiveTarget(Runtime& runtime, io::Disk& disk, const DatabaseFiles& files, const LiveLimits& limits)
      : runtime_(runtime), disk_(disk), files_(files), limits_(limits), hold_at_(limits.hold_bytes) {}
  Result<> find(const CommitState& state, const WalPlace& place, const SettleHooks& hooks);
  Result<> take_wal(const WalScan& scan);
  Result<> begin_wal(const CommitState& state, const SettleHooks& hooks);
  Result<> lock();
  Result<> write_held(std::size_t left, std::uint32_t mark);
  void drop_held();
  Result<> publish(const CommitState& next);
  Result<> see();
  Result<> tend(const CommitState& next, PageTable& table, const SettleHooks& hooks);
  // False: somebody reads from it, and it goes on growing.
  Result<bool> checkpoint(const CommitState& next, PageTable& table, const SettleHooks& hooks);
  Result<bool> end_wal(const CommitState& next, PageTable& table, const SettleHooks& hooks);
  Error foreign() const;

  Runtime& runtime_;
  io::Disk& disk_;
  DatabaseFiles files_;
  LiveLimits limits_;
  PlainConnection keeper_;  // checkpoints, and keeps the index and the WAL in their places
  std::unique_ptr<PlatformFile> file_;
  std::unique_ptr<WalIndex> index_;
  std::optional<WalWriter> wal_;
  WalHead head_;  // as published
  WalIndexHeader seen_{};  // as it was left: anything else is a foreign write
  WalWriter::Mark published_{};  // where that ends
  std::vector<std::uint32_t> pages_;  // of the frames behind it
  std::unordered_map<std::uint32_t, std::uint64_t> newest_;  // pages of whole commits that are in the WAL: where their image is
  std::vector<std::pair<std::uint32_t, std::uint64_t>> running_;  // the same of the commit that began
  // Frames of this batch that are not written yet, each page once: of what a page was after an earlier commit of it, no reader will ever see anything. The last one
  // commits, when it is known that no other commit follows it in this batch.
  struct Held {
    std::uint32_t page = 0;  // 0: beyond the end of the database since
    std::uint64_t commit = 0;
    Bytes image;
  };
  std::vector<Held> held_;
  std::size_t written_ = 0;  // of them
  std::uint64_t held_bytes_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> held_at_;
  std::uint64_t commit_ = 0;  // the one that runs; counts up
  std::uint32_t page_count_ = 0;  // of the database after the newest whole commit
  std::uint64_t checkpointed_at_ = 0;  // bytes of WAL, when it was last tried
  std::uint64_t hold_at_ = 0;  // bytes of WAL at which commits are held back for it
};

}  // namespace onepen::sqlite
