#include "sqlite/copy.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "base/failpoint.h"
#include "sqlite/copy_local.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> being_stopped() { return tl::unexpected(Error{Outcome::unavailable, "this process is being stopped", std::nullopt}); }

}  // namespace

LocalCopy::LocalCopy(Runtime& runtime, io::Disk& disk, CopyPlace place, Log log, CopyFolder folder, const std::string& replica)
    : runtime_(runtime),
      disk_(disk),
      place_of_copy_(std::move(place)),
      log_(std::move(log)),
      folder_(std::move(folder)),
      files_{replica.empty() ? folder_.path + "/db" : replica},
      boot_(current_boot_id(disk)),
      turn_(runtime),
      replica_(!replica.empty()) {}

// ---- what others read

CommitState LocalCopy::state() const {
  Lock lock(mutex_);
  return applier_->state();
}

WalPlace LocalCopy::place() const {
  Lock lock(mutex_);
  return wal_there_ && place_ ? *place_ : WalPlace{};
}

bool LocalCopy::behind() const {
  Lock lock(mutex_);
  return missed_ && missed_->ordinal > applier_->state().ordinal;
}

std::uint64_t LocalCopy::page_hash(std::uint32_t page_number) const {
  Lock lock(mutex_);
  return std::as_const(*applier_).table().hash(page_number);
}

std::optional<core::OwnerToken> LocalCopy::owned() const {
  Lock lock(mutex_);
  return owned_;
}

// ---- what a running database tells

Result<> LocalCopy::write_record(const CommitState& previous, const std::optional<WalPlace>& previous_place, const CommitState& next,
                                 const std::optional<WalPlace>& next_place, bool sync) {
  if (inode_ == 0 && !doubted_) {
    auto stamp = stamp_of(disk_, files_.db);
    if (!stamp) return tl::unexpected(stamp.error());
    inode_ = stamp->inode;
  }
  CopyRecord record;
  record.previous = previous;
  record.next = next;
  record.previous_place = previous_place;
  record.next_place = next_place;
  record.owned = owned_;
  if (sent_ && sent_at_ == next.ordinal) record.sent = sent_;
  record.boot = boot_;
  record.inode = doubted_ ? 0 : inode_;
  record.poisoned = poisoned_.has_value();
  record.why = poisoned_.value_or("");
  if (!state_file_) return io_failed("write the state of", files_.db);  // a move to salvage stopped half way
  return state_file_->write(record, sync);
}

Result<> LocalCopy::land(const CommitState& next, const std::vector<PageHash>& hashes, const std::optional<WalPlace>& place, std::optional<Sequence> sequence) {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  from_scratch_ = false;
  if (auto fits = applier_->check_landed(next, hashes); !fits) return fits;
  {
    Lock lock(mutex_);
    sent_.reset();
    if (sequence) {
      std::erase_if(records_landed_, [&](Sequence one) { return one < *sequence; });
      sent_ = SentMark{*sequence, records_out_ + static_cast<std::uint32_t>(records_landed_.size())};
      sent_at_ = next.ordinal;
    }
  }
  if (auto kept = write_record(std::as_const(*applier_).state(), place_, next, place); !kept) return kept;
  Lock lock(mutex_);
  applier_->landed(next, hashes);
  place_ = place;
  wal_there_ = place.has_value();
  if (landed_ < found_pending_.size() && place && found_pending_[landed_].end == place->frame) ++landed_;
  return {};
}

Result<> LocalCopy::will_land(const CommitState& next, std::vector<PageHash> hashes, const WalPlace& place) {
  return land(next, hashes, place == WalPlace{} ? std::nullopt : std::optional(place), std::nullopt);
}

Result<> LocalCopy::acknowledged(const CommitState& next, std::vector<PageHash> hashes, const WalPlace& place, std::optional<Sequence> sequence) {
  ONEPEN_CHECK(place.frame != 0, "an acknowledged commit is in the WAL");
  return land(next, hashes, place, sequence);
}

Result<> LocalCopy::write_record_again(bool sync) {
  const CommitState now = std::as_const(*applier_).state();
  if (missed_ && missed_->ordinal > now.ordinal) return write_record(now, place_, *missed_, missed_place_, sync);
  return write_record(now, place_, now, place_, sync);
}

Result<> LocalCopy::record_ahead() {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  {
    Lock lock(mutex_);
    ++records_out_;
    if (!sent_) return {};  // nothing is told by it
    ++sent_->others;
  }
  return write_record_again(true);
}

Result<> LocalCopy::nothing_was_sent() {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  {
    Lock lock(mutex_);
    sent_ = SentMark{Sequence{std::numeric_limits<std::uint64_t>::max()}, 0};
    sent_at_ = std::as_const(*applier_).state().ordinal;
  }
  return write_record_again(true);
}

void LocalCopy::record_landed(Sequence sequence) {
  Lock lock(mutex_);
  if (records_out_ == 0) return;
  --records_out_;
  if (sent_ && sent_->sequence < sequence) records_landed_.push_back(sequence);
}

Result<> LocalCopy::merge_table(PageTable& table, const CommitState& state, const WalPlace& at, bool sync) {
  auto stamp = stamp_of(disk_, files_.db);
  if (!stamp) return tl::unexpected(stamp.error());
  inode_ = stamp->inode;
  return pages_->merge(table, state, at, *stamp, sync);
}

Result<> LocalCopy::wal_restarting(bool sync) {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  // Readers of the table may look meanwhile: the merge changes only its account of what changed, which nobody else reads.
  if (auto merged = merge_table(applier_->table(), std::as_const(*applier_).state(), place_.value_or(WalPlace{}), sync); !merged) return merged;
  Lock lock(mutex_);
  if (!place_) place_ = WalPlace{};
  wal_there_ = false;
  return {};
}

Result<> LocalCopy::wal_begun(std::uint32_t salt1, std::uint32_t salt2) {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  {
    Lock lock(mutex_);
    const bool again = place_ && wal_there_ && place_->salt1 == salt1 && place_->salt2 == salt2;  // the same header once more
    if (again && (place_->frame != 0 || pages_->header().begun == std::pair(salt1, salt2))) return {};
  }
  // Without a merge before it the table is not the beginning of this WAL: the next acquire hashes everything, and takes no commit of it for pending.
  const auto stated = std::as_const(*applier_).state();
  const bool upon_table = pages_->header().state.ordinal == stated.ordinal && pages_->header().state.page_sum == stated.page_sum && !pages_->header().merging;
  if (upon_table) {
    if (auto noted = pages_->note_begun(salt1, salt2); !noted) return noted;
  }
  Lock lock(mutex_);
  place_ = WalPlace{salt1, salt2, 0};
  wal_there_ = true;
  return {};
}

Result<> LocalCopy::remember_owned(const core::OwnerToken& token) {
  const CopyTurn::Held turn(turn_);
  if (!turn) return being_stopped();
  {
    Lock lock(mutex_);
    owned_ = token;
    sent_ = SentMark{owner::kReadySequence, 0};  // pending commits come behind it
    sent_at_ = std::as_const(*applier_).state().ordinal;
    records_out_ = 0;
    records_landed_.clear();
  }
  return write_record_again(true);
}

Result<> LocalCopy::poison(std::string_view why) {
  const CopyTurn::Held turn(turn_);
  log_(LogLevel::error, fmt::format("the local copy {} is not trusted any more: {}", folder_.path, why));
  if (!turn) return being_stopped();
  if (!poisoned_) poisoned_ = std::string(why);
  const CommitState now = std::as_const(*applier_).state();
  return write_record(now, place_, now, place_, true);
}

Result<> LocalCopy::doubt(std::string_view why) {
  const CopyTurn::Held turn(turn_);
  log_(LogLevel::error, fmt::format("the local copy {} is read whole when it is opened next: {}", folder_.path, why));
  if (!turn) return being_stopped();
  doubted_ = true;
  const CommitState now = std::as_const(*applier_).state();
  return write_record(now, place_, now, place_, true);
}

Result<> LocalCopy::close() {
  folder_.lock.reset();
  return {};
}

Result<std::unique_ptr<Copy>> Copy::acquire(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const Log& log, CopyUse use) {
  auto folder = choose_copy(disk, place, log, use);
  if (!folder) return tl::unexpected(folder.error());
  auto copy = std::make_unique<LocalCopy>(runtime, disk, place, log, std::move(*folder));
  if (auto loaded = copy->load(); !loaded) return tl::unexpected(loaded.error());
  return copy;
}

}  // namespace onepen::sqlite
