// A core::Stream that writes down what its caller was told, and checks at once what can be told at once: currency of reads (I8), claims written ahead.
#pragma once
#include <memory>

#include "core/home.h"
#include "sim/history.h"

namespace onepen::sim {

class RecordingStream : public core::Stream {
 public:
  RecordingStream(History& history, Process& process, std::unique_ptr<core::Stream> under) : history_(history), process_(process), under_(std::move(under)) {}
  const StreamName& name() const override { return under_->name(); }
  std::unique_ptr<core::Stream> another() override { return under_->another(); }  // snapshots are read with it
  core::Answer<core::StreamStat> stat() override;
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override;
  core::Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override;
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override;
  core::Answer<bool> wait(const Offset& from, Instant deadline) override;
  core::Answer<bool> beat(const std::string& liveness, ByteView content) override { return under_->beat(liveness, content); }
  core::Answer<std::optional<Bytes>> pulse(const std::string& liveness) override;
  core::Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override { return begins(), under_->newest_snapshot(); }
  core::Answer<std::vector<core::SnapshotInfo>> snapshots() override { return begins(), under_->snapshots(); }
  core::Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) override;
  core::Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken& token, const Offset& at) override;
  core::Answer<core::Tended> tend(const core::TendRequest& request) override;
  core::Answer<std::vector<core::HistoryEvent>> events() override { return under_->events(); }
  core::Answer<core::Usage> usage() override { return under_->usage(); }
  core::Answer<core::HistoryReceipt> begin_history(const core::HistoryRequest& request) override;
  core::Answer<bool> remove(const core::RemoveRequest& request) override { return under_->remove(request); }
  core::Answer<bool> report_suspect(const core::OwnerToken& token, std::string_view what) override { return under_->report_suspect(token, what); }

 private:
  void begins() {
    if (!process_.dead) ++history_.from_nothing[process_.name];
  }
  std::optional<core::ClaimReceipt> stored_instead(const core::Refusal& refusal, const core::ClaimRequest& request);
  void stood_in(const core::ClaimRequest& request);
  void looked(const core::StreamStat& stat, Instant before);
  void self_claimed(const core::ClaimRequest& request, const core::ClaimReceipt& receipt);
  void applied(const core::AppendBatch& batch, const core::AppendReceipt& receipt);

  History& history_;
  Process& process_;
  std::unique_ptr<core::Stream> under_;
  std::set<PutId> sent_;  // attempts sent before: a refusal of a later one says nothing about the first
};

}  // namespace onepen::sim
