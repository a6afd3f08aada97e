// Commits that the stream does not have yet, and how they meet the ones it has (fence.md, "Takeover", rules 1 to 3). Where their place was trimmed:
// copy_trimmed.cc.
#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "sqlite/copy_local.h"

namespace onepen::sqlite {

const std::vector<PendingCommit>& LocalCopy::pending() const {
  pending_ = pending_now();
  return pending_;
}

std::vector<PendingCommit> LocalCopy::pending_now() const {
  Lock lock(mutex_);
  std::vector<PendingCommit> all;
  all.reserve(found_pending_.size() - landed_);
  std::uint64_t ordinal = 0;
  if (applier_) ordinal = std::as_const(*applier_).state().ordinal;
  else if (state_file_ && state_file_->record()) ordinal = state_file_->record()->next.ordinal;
  for (std::size_t i = landed_; i < found_pending_.size(); ++i) {
    const WalCommit& commit = found_pending_[i];
    PendingCommit out;
    out.ordinal = ++ordinal;
    const WalPlace place = place_.value_or(WalPlace{});
    out.end = {place.salt1, place.salt2, commit.end};
    out.page_count = commit.page_count;
    out.page_sum = commit.sum;
    out.pages = static_cast<std::uint32_t>(commit.hashes.size());
    out.wal_bytes = commit.bytes;
    all.push_back(out);
  }
  return all;
}

// Those of a running database: more may have been made since it was acquired.
Result<> LocalCopy::find_pending_again() {
  auto wal = read_wal(disk_, files_.wal(), true);
  if (!wal) return tl::unexpected(wal.error());
  const WalPlace place = place_.value_or(WalPlace{});
  const std::uint32_t after = wal->valid() && place.salt1 == wal->salt1 && place.salt2 == wal->salt2 ? place.frame : 0;
  if (after > wal->frames.size()) return {};
  auto commits = commits_of(*wal, after, std::as_const(*applier_).table());
  Lock lock(mutex_);
  found_pending_ = std::move(commits);
  landed_ = 0;
  return {};
}

// While commits of ours are pending the stream's are compared with them; none is written into the database (fence.md, "Takeover").
Result<> LocalCopy::meet(const core::Record& record) {
  if (record.kind == core::RecordKind::data) return meet_part(record);
  if (record.kind == core::RecordKind::claim) meeting_.reset();
  if (!meeting_) {
    record_stale_ = true;
    {
      Lock lock(mutex_);
      applier_->moved_on(record);
    }
    saw(record);
  }
  return {};
}

Result<> LocalCopy::meet_part(const core::Record& record) {
  auto part = wire::decode_part(record.payload);
  if (!part) {
    return tl::unexpected(Error{
        Outcome::invalid, fmt::format("the record before offset {} of the stream cannot be read: {}", record.next.text, part.error().message), std::nullopt});
  }
  if (part->number == 1) {
    meeting_ = Meeting{part->head, record.incarnation, record.epoch, record.claim_id, 0};
  } else if (!meeting_ || meeting_->parts + 1 != part->number || !(meeting_->head == part->head) || meeting_->epoch != record.epoch ||
             meeting_->claim_id != record.claim_id || meeting_->incarnation != record.incarnation) {
    return tl::unexpected(Error{Outcome::invalid,
                                fmt::format("the record before offset {} is part {} of commit {}, which does not follow what came before it", record.next.text,
                                            part->number, part->head.ordinal),
                                std::nullopt});
  }
  meeting_->parts = part->number;
  if (!part->last) return {};
  const wire::CommitHead head = meeting_->head;
  meeting_.reset();
  // By order alone a commit of somebody else would be taken for ours; by the sums before and after it cannot be.
  const bool ours = meets(head) && part->sum_after == found_pending_[landed_].sum;
  if (ours || !guard_on(Guard::copy_landed_by_sum)) {
    land_first(record.next, record.incarnation);
    saw(record);
    return {};
  }
  const std::uint64_t unsent = found_pending_.size() - landed_;
  return give_up(record, "fenced",
                 fmt::format("commit {} of the stream (epoch {}) was made by somebody else: {} commit{} of this copy behind commit {} can never be sent",
                             head.ordinal, record.epoch.value, unsent, unsent == 1 ? "" : "s", state().ordinal));
}

bool LocalCopy::meets(const wire::CommitHead& head) const {
  const CommitState now = state();
  return head.ordinal == now.ordinal + 1 && head.before == wire::RunningSum{now.page_sum, now.page_count} && head.page_size == now.page_size &&
         head.page_count_after == found_pending_[landed_].page_count;
}

// The first pending commit is in the stream, which stands at `next`.
void LocalCopy::land_first(const Offset& next_offset, const Incarnation& incarnation) {
  const CopyTurn::Held turn(turn_);
  WalCommit& commit = found_pending_[landed_];
  CommitState next = std::as_const(*applier_).state();
  next.offset = next_offset;
  next.incarnation = incarnation;
  ++next.ordinal;
  next.page_sum = commit.sum;
  next.page_count = commit.page_count;
  Lock lock(mutex_);
  applier_->landed(next, commit.hashes);
  place_->frame = commit.end;
  began_incarnation_ = incarnation;
  commit.hashes = {};
  ++landed_;
}

// A record of the ownership under which what is pending was sent: the rest comes behind it.
void LocalCopy::saw(const core::Record& record) {
  Lock lock(mutex_);
  if (!owned_ || !sent_ || !(record.claim_id == owned_->claim_id) || !(record.incarnation == owned_->incarnation)) return;
  sent_->sequence = std::max(sent_->sequence, record.sequence);
  sent_at_ = std::as_const(*applier_).state().ordinal;
}

}  // namespace onepen::sqlite
