#include "sqlite/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/fold_target.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> damaged(std::string what) { return tl::unexpected(Error{Outcome::invalid, std::move(what), std::nullopt}); }
tl::unexpected<Error> diverged(std::string what) { return tl::unexpected(Error{Outcome::state_mismatch, std::move(what), std::nullopt}); }

std::string tell(const wire::RunningSum& sum) { return fmt::format("{:016x} over {} pages", sum.page_sum, sum.page_count); }

}  // namespace

Applier::Applier(io::Disk& disk, DatabaseFiles files, PageTable table, CommitState state, Hooks hooks)
    : db_path_(files.db),
      target_(std::make_unique<FoldTarget>(disk, std::move(files))),
      table_(std::move(table)),
      state_(state),
      settled_(std::move(state)),
      hooks_(std::move(hooks)) {}

std::unique_ptr<CommitTarget> Applier::aim_at(std::unique_ptr<CommitTarget> target) {
  void_run();
  ONEPEN_CHECK(state_ == settled_, "another target, and nothing on its way to this one");
  return std::exchange(target_, std::move(target));
}

Result<> Applier::apply(const core::Record& record) {
  if (record.kind == core::RecordKind::data) return apply_part(record);
  // A claim closes the epoch that wrote the parts so far: without their last part they never become a commit.
  if (record.kind == core::RecordKind::claim) void_run();
  if (!run_) moved_on(record);  // with an unfinished run the position stays before its first part
  return {};
}

void Applier::moved_on(const core::Record& record) {
  state_.offset = record.next;
  state_.incarnation = record.incarnation;
}

Result<> Applier::apply_part(const core::Record& record) {
  auto part = wire::decode_part(record.payload);
  if (!part) {
    return damaged(fmt::format("the record before offset {} of the stream cannot be read: {}", record.next.text, part.error().message));
  }
  if (part->number == 1) {
    void_run();
    if (!part->last && target_->settles_before_parts()) {
      if (auto settled = settle(); !settled) return settled;
    }
    if (auto begun = begin_run(record, *part); !begun) return begun;
  } else if (!run_ || run_->parts + 1 != part->number || !(run_->head == part->head) || run_->epoch != record.epoch || run_->claim_id != record.claim_id ||
             run_->incarnation != record.incarnation) {
    return damaged(fmt::format("the record before offset {} is part {} of commit {}, which does not follow what came before it", record.next.text, part->number,
                               part->head.ordinal));
  }
  run_->parts = part->number;
  for (std::size_t i = 0; i < part->pages.size(); ++i) {
    const bool commits = part->last && i + 1 == part->pages.size();
    if (auto added = add_page(part->pages[i], commits, part->sum_after); !added) return added;
  }
  if (!part->last) return {};
  finish_run(record);
  return target_->full() ? settle() : Result<>{};
}

Result<> Applier::begin_run(const core::Record& record, const wire::Part& part) {
  const wire::CommitHead& head = part.head;
  if (head.ordinal != state_.ordinal + 1) {
    return diverged(fmt::format("the stream's next commit is number {}, this copy holds {} commits", head.ordinal, state_.ordinal));
  }
  if (!(head.before == table_.running()) && guard_on(Guard::commit_fits)) {
    return diverged(
        fmt::format("commit {} was made on a database with page sum {}, this copy has {}", head.ordinal, tell(head.before), tell(table_.running())));
  }
  if (table_.page_size() != 0 && head.page_size != table_.page_size()) {
    return diverged(fmt::format("commit {} has pages of {} bytes, this copy has pages of {}", head.ordinal, head.page_size, table_.page_size()));
  }
  run_ = Run{};
  run_->head = head;
  run_->incarnation = record.incarnation;
  run_->epoch = record.epoch;
  run_->claim_id = record.claim_id;
  image_.resize(head.page_size);
  present_.resize(head.page_size);
  return target_->begin(state_, head.page_size);
}

Result<> Applier::add_page(const wire::PageEntry& entry, bool commits, std::uint64_t sum_after) {
  if (!run_->hashes.empty() && entry.number <= run_->hashes.back().first) {
    return damaged(fmt::format("commit {} has page {} after page {}: pages must rise", run_->head.ordinal, entry.number, run_->hashes.back().first));
  }
  ByteView previous;
  if (entry.encoding == wire::PageEncoding::delta) {
    if (entry.number > table_.page_count())
      return damaged(fmt::format("commit {}: page {} is a delta, and was not there before", run_->head.ordinal, entry.number));
    if (auto got = target_->read(entry.number, present_); !got) return got;
    previous = present_;
  }
  if (auto done = codec_.unpack(entry, previous, image_); !done) return done;
  run_->hashes.emplace_back(entry.number, page_hash_of(entry.number, image_));
  if (commits) {
    if (auto gaps = add_gaps(); !gaps) return gaps;
    const std::uint64_t sum = table_.sum_after(run_->head.page_count_after, run_->hashes, run_->head.page_size);
    if (sum != sum_after && guard_on(Guard::commit_fits)) {
      return diverged(fmt::format("commit {} says that the database has page sum {} after it, its pages give {}", run_->head.ordinal,
                                  tell({sum_after, run_->head.page_count_after}), tell({sum, run_->head.page_count_after})));
    }
  }
  return target_->add(entry.number, commits ? run_->head.page_count_after : 0, image_);
}

// A page the database grew over without writing it is a page of zeros (page_sum.h). It is written, so that no older bytes of the file show through.
Result<> Applier::add_gaps() {
  const std::uint32_t lock_page = lock_byte_page(run_->head.page_size);
  const Bytes zeros(run_->head.page_size);
  auto written = std::lower_bound(run_->hashes.begin(), run_->hashes.end(), PageHash{table_.page_count() + 1, 0});
  std::uint32_t gaps = 0;
  for (std::uint64_t number = std::uint64_t{table_.page_count()} + 1; number <= run_->head.page_count_after; ++number) {
    const auto page = static_cast<std::uint32_t>(number);
    if (written != run_->hashes.end() && written->first == page) {
      ++written;
      continue;
    }
    if (page == lock_page) continue;
    if (++gaps > kMaxGapPages)
      return damaged(fmt::format("commit {} grows the database by more than {} pages it does not write", run_->head.ordinal, kMaxGapPages));
    if (auto added = target_->add(page, 0, zeros); !added) return added;
  }
  return {};
}

void Applier::finish_run(const core::Record& record) {
  table_.commit(run_->head.page_count_after, run_->hashes, run_->head.page_size);
  target_->end(run_->head.page_count_after);
  state_.offset = record.next;
  state_.incarnation = record.incarnation;
  state_.ordinal = run_->head.ordinal;
  state_.page_sum = table_.sum();
  state_.page_count = table_.page_count();
  state_.page_size = table_.page_size();
  run_.reset();
}

void Applier::void_run() {
  if (!run_) return;
  run_.reset();
  target_->take_back();
}

Result<> Applier::check_landed(const CommitState& next, const std::vector<PageHash>& hashes) const {
  if (run_ || !(state_ == settled_)) return diverged("a commit lands while records of the stream are being applied");
  const std::uint64_t sum = table_.sum_after(next.page_count, hashes, next.page_size);
  if (sum != next.page_sum || (table_.page_size() != 0 && table_.page_size() != next.page_size)) {
    return diverged(fmt::format("commit {} should leave page sum {}, its pages give {}", next.ordinal, tell({next.page_sum, next.page_count}),
                                tell({sum, next.page_count})));
  }
  return {};
}

void Applier::landed(const CommitState& next, const std::vector<PageHash>& hashes) {
  table_.commit(next.page_count, hashes, next.page_size);
  state_ = next;
  settled_ = next;
}

Result<> Applier::replace(const CommitState& next, const PageTable& table, const ReadPage& image) {
  void_run();
  ONEPEN_CHECK(state_ == settled_, "another database, and nothing on its way into this one");
  if (table.page_size() != table_.page_size())
    return diverged(fmt::format("the database of the stream has pages of {} bytes now, this copy has pages of {}", table.page_size(), table_.page_size()));
  std::vector<PageHash> changed;
  const std::uint32_t lock_page = lock_byte_page(next.page_size);
  for (std::uint32_t page = 1; page <= next.page_count; ++page) {
    if (page != lock_page && (page > table_.page_count() || table_.hash(page) != table.hash(page))) changed.emplace_back(page, table.hash(page));
  }
  if (changed.empty()) changed.emplace_back(1, table.hash(1));  // it may be shorter all the same, and a commit has a page
  image_.resize(next.page_size);
  present_.resize(next.page_size);
  const auto put = [&]() -> Result<> {
    if (auto begun = target_->begin(state_, next.page_size); !begun) return begun;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      if (auto got = image(changed[i].first, image_); !got) return got;
      if (auto added = target_->add(changed[i].first, i + 1 == changed.size() ? next.page_count : 0, image_); !added) return added;
    }
    return {};
  }();
  if (!put) return target_->take_back(), put;  // nothing of it comes with the next commit
  target_->end(next.page_count);
  table_.commit(next.page_count, changed, next.page_size);
  state_ = next;
  ONEPEN_CHECK(table_.sum() == next.page_sum, "what differs was replaced");
  return settle();
}

void Applier::close_files() {
  target_->close();
  run_.reset();
}

Result<> Applier::settle() {
  auto done = settle_changes();
  target_->rest();
  return done;
}

Result<> Applier::settle_changes() {
  if (state_ == settled_) return {};
  if (ONEPEN_FAILPOINT("copy.before_settle")) return io_failed("settle", db_path_);
  if (auto done = target_->settle(settled_, state_, table_, hooks_); !done) return done;
  settled_ = state_;
  return {};
}

}  // namespace onepen::sqlite
