// What the handles of a memory home share, and the session that one of them has of one stream. Inside memory_home.cc (which reads) and memory_changes.cc
// (which changes) only.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/memory_home.h"
#include "tests/support/memory_log.h"

namespace onepen::testing {

struct MemoryHome::Shared {
  std::mutex mutex;
  std::map<std::string, Log> logs;
  std::map<std::string, Bytes> pulses;
};

class MemoryHome::Session : public core::Stream {
 public:
  Session(MemoryHome& home, StreamName name) : home_(home), name_(std::move(name)) {}
  const StreamName& name() const override { return name_; }

  // memory_home.cc
  core::Answer<core::StreamStat> stat() override;
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override;
  core::Answer<bool> wait(const Offset& from, Instant deadline) override;
  core::Answer<std::optional<Bytes>> pulse(const std::string& liveness) override;
  core::Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override;
  core::Answer<std::vector<core::SnapshotInfo>> snapshots() override;
  core::Answer<core::Usage> usage() override;
  core::Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) override;

  // memory_changes.cc
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override;
  core::Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override;
  core::Answer<bool> beat(const std::string& liveness, ByteView content) override;
  core::Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken& token, const Offset& at) override;
  core::Answer<core::Tended> tend(const core::TendRequest& request) override;
  core::Answer<core::HistoryReceipt> begin_history(const core::HistoryRequest& request) override;
  core::Answer<bool> remove(const core::RemoveRequest& request) override;
  core::Answer<bool> report_suspect(const core::OwnerToken& token, std::string_view) override;

 private:
  template <class T>
  core::Answer<T> with_trouble(const CallInfo& info, std::function<core::Answer<T>()> run) {
    Hook hook;
    {
      const std::lock_guard lock(home_.mutex_);
      ++home_.calls_[info.call];
      hook = home_.hook_;
    }
    const Trouble trouble = hook ? hook(info) : Trouble::none;
    switch (trouble) {
      case Trouble::none: return run();
      case Trouble::unavailable: return tl::unexpected(core::Refusal{Outcome::unavailable, "the memory home is out of reach"});
      case Trouble::lost_request: break;
      case Trouble::lost_answer: (void)run(); break;
      case Trouble::late_request: {
        const std::lock_guard lock(home_.mutex_);
        home_.late_.push_back([run] { (void)run(); });
        break;
      }
      case Trouble::repeated: (void)run(); return run();
    }
    return tl::unexpected(core::Refusal{Outcome::unknown, "the answer of the memory home was lost"});
  }

  // memory_home.cc
  Log* find();
  static bool present(const Log* log);
  core::Refusal missing(const Log* log) const;
  core::Refusal refusal(Log& log, const core::Decision& decision, Epoch ours) const;
  core::Answer<core::StreamStat> do_stat();
  static core::StreamStat stat_now(const Log& log_now);
  core::Answer<core::ReadResult> do_read(const Offset& from, const core::ReadLimit& limit);
  core::Answer<bool> do_wait(const Offset& from, Instant deadline);

  // memory_changes.cc
  core::Answer<core::ClaimReceipt> do_claim(const core::ClaimRequest& request);
  core::Answer<core::AppendReceipt> do_append(const core::AppendBatch& batch);
  core::Answer<bool> append_one(Log& log, const core::AppendBatch& batch, std::size_t i, core::AppendReceipt& receipt);
  void put(Log& log, core::Record record, Epoch epoch, ClaimId claim_id, Sequence sequence, std::int64_t time_ms);
  core::Answer<bool> owner_change(Log& log, const core::OwnerToken& token, core::Change change, std::optional<core::Position> at);
  std::optional<core::Refusal> not_owner(const core::OwnerToken& token);
  core::Answer<std::unique_ptr<core::SnapshotWriter>> do_begin_snapshot(const core::OwnerToken& token, const Offset& at);
  core::Answer<core::SnapshotInfo> keep(const core::OwnerToken& token, Snapshot snapshot);
  core::Answer<core::Tended> do_tend(const core::TendRequest& request);
  core::Answer<core::HistoryReceipt> do_begin_history(const core::HistoryRequest& request);
  core::Answer<bool> do_remove(const core::RemoveRequest& request);
  core::Answer<bool> do_report_suspect(const core::OwnerToken& token);

  MemoryHome& home_;
  const StreamName name_;
};

}  // namespace onepen::testing
