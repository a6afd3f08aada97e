// The toy database of the simulator: a fold that counts the records and chains their checksums, kept by each machine like a local copy; payloads that
// are unique in a run; and the real claim log, whose answers are written down.
#pragma once
#include <memory>

#include "owner/claim_log.h"
#include "owner/owner.h"
#include "sim/disk.h"
#include "sim/history.h"

namespace onepen::sim {

struct CopyState {
  Offset position;
  std::uint64_t count = 0, sum = 0;
};

// The copy of one database on one machine: what was settled there last. It outlives the process.
struct Copy {
  CopyState settled;
};

class ToyFold : public owner::Fold {
 public:
  ToyFold(History& history, Process& process, Copy& copy) : history_(history), process_(process), copy_(copy), state_(copy.settled) {}
  Offset position() const override { return state_.position; }
  Result<> apply(const core::Record& record) override;
  Result<> start_over() override;
  Result<> settle() override;
  const CopyState& state() const { return state_; }

 private:
  History& history_;
  Process& process_;
  Copy& copy_;
  CopyState state_;
};

class RecordingClaimLog : public owner::ClaimLog {
 public:
  RecordingClaimLog(History& history, Process& process, std::unique_ptr<owner::DiskClaimLog> under)
      : history_(history), process_(process), under_(std::move(under)) {}
  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) override;
  Epoch highest() const override { return under_->highest(); }

 private:
  History& history_;
  Process& process_;
  std::unique_ptr<owner::DiskClaimLog> under_;
};

// One append of a commit of `parts`; `id` is unique in the run.
Bytes toy_payload(std::uint64_t id, std::uint32_t part, std::uint32_t parts, std::size_t filler);

}  // namespace onepen::sim
