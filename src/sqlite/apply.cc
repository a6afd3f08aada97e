#include "sqlite/apply.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/failpoint.h"
#include "io/paths.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> damaged(std::string what) { return tl::unexpected(Error{Outcome::invalid, std::move(what), std::nullopt}); }
tl::unexpected<Error> diverged(std::string what) { return tl::unexpected(Error{Outcome::state_mismatch, std::move(what), std::nullopt}); }

std::string tell(const wire::RunningSum& sum) { return fmt::format("{:016x} over {} pages", sum.page_sum, sum.page_count); }

}  // namespace

Applier::Applier(io::Disk& disk, DatabaseFiles files, PageTable table, CommitState state, Hooks hooks)
    : disk_(disk), files_(std::move(files)), table_(std::move(table)), state_(state), settled_(std::move(state)), hooks_(std::move(hooks)) {}

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
  return batch_->bytes() > kMaxBatchBytes ? settle() : Result<>{};
}

Result<> Applier::begin_run(const core::Record& record, const wire::Part& part) {
  const wire::CommitHead& head = part.head;
  if (head.ordinal != state_.ordinal + 1) {
    return diverged(fmt::format("the stream's next commit is number {}, this copy holds {} commits", head.ordinal, state_.ordinal));
  }
  if (!(head.before == table_.running())) {
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
  return ensure_batch(head.page_size);
}

Result<> Applier::ensure_batch(std::uint32_t page_size) {
  image_.resize(page_size);
  present_.resize(page_size);
  if (batch_) return {};
  // The file is made anew, so its salt need not be random: no older frame can be taken for one of its own.
  auto batch = WalWriter::create(disk_, files_.batch(), page_size, xxh3(as_bytes(state_.offset.text), state_.ordinal));
  if (!batch) return tl::unexpected(batch.error());
  batch_.emplace(std::move(*batch));
  committed_ = batch_->mark();
  newest_.clear();
  return {};
}

Result<> Applier::open_db() {
  if (db_) return {};
  auto db = open_on(disk_, files_.db, io::OpenMode::create);
  if (!db) return tl::unexpected(db.error());
  db_ = std::move(*db);
  return {};
}

Result<> Applier::read_present(std::uint32_t page_number, std::span<std::byte> out) {
  if (auto at = newest_.find(page_number); at != newest_.end()) return batch_->read_image(at->second, out);
  if (auto open = open_db(); !open) return open;
  auto got = of_disk(db_->read_at((std::uint64_t{page_number} - 1) * out.size(), out));
  if (!got) return tl::unexpected(got.error());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(*got), out.end(), std::byte{0});
  return {};
}

Result<> Applier::add_page(const wire::PageEntry& entry, bool commits, std::uint64_t sum_after) {
  if (!run_->hashes.empty() && entry.number <= run_->hashes.back().first) {
    return damaged(fmt::format("commit {} has page {} after page {}: pages must rise", run_->head.ordinal, entry.number, run_->hashes.back().first));
  }
  ByteView previous;
  if (entry.encoding == wire::PageEncoding::delta) {
    if (entry.number > table_.page_count())
      return damaged(fmt::format("commit {}: page {} is a delta, and was not there before", run_->head.ordinal, entry.number));
    if (auto got = read_present(entry.number, present_); !got) return got;
    previous = present_;
  }
  if (auto done = codec_.unpack(entry, previous, image_); !done) return done;
  run_->hashes.emplace_back(entry.number, page_hash_of(entry.number, image_));
  if (commits) {
    if (auto gaps = add_gaps(); !gaps) return gaps;
    const std::uint64_t sum = table_.sum_after(run_->head.page_count_after, run_->hashes, run_->head.page_size);
    if (sum != sum_after) {
      return diverged(fmt::format("commit {} says that the database has page sum {} after it, its pages give {}", run_->head.ordinal,
                                  tell({sum_after, run_->head.page_count_after}), tell({sum, run_->head.page_count_after})));
    }
  }
  auto at = batch_->add(entry.number, commits ? run_->head.page_count_after : 0, image_);
  if (!at) return tl::unexpected(at.error());
  run_->images.emplace_back(entry.number, *at);
  return {};
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
    auto at = batch_->add(page, 0, zeros);
    if (!at) return tl::unexpected(at.error());
    run_->images.emplace_back(page, *at);
  }
  return {};
}

void Applier::finish_run(const core::Record& record) {
  table_.commit(run_->head.page_count_after, run_->hashes, run_->head.page_size);
  for (const auto& [number, at] : run_->images) newest_[number] = at;
  std::erase_if(newest_, [&](const auto& page) { return page.first > run_->head.page_count_after; });
  state_.offset = record.next;
  state_.incarnation = record.incarnation;
  state_.ordinal = run_->head.ordinal;
  state_.page_sum = table_.sum();
  state_.page_count = table_.page_count();
  state_.page_size = table_.page_size();
  committed_ = batch_->mark();
  run_.reset();
}

void Applier::void_run() {
  if (!run_) return;
  run_.reset();
  if (batch_) batch_->rewind(committed_);
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

void Applier::close_files() {
  db_.reset();
  batch_.reset();
  run_.reset();
}

Result<> Applier::settle() {
  auto done = settle_changes();
  db_.reset();  // SQLite may open the database next, and a descriptor of ours closed after that would drop its locks
  return done;
}

Result<> Applier::settle_changes() {
  if (state_ == settled_) return {};
  if (ONEPEN_FAILPOINT("copy.before_settle")) return io_failed("settle", files_.db);
  const bool changed = state_.ordinal != settled_.ordinal;
  if (changed && !batch_) return io_failed("settle", files_.db);  // an earlier attempt failed half way: the next opening goes on from what is on the disk
  const std::optional<WalPlace> place = changed ? std::optional(WalPlace{batch_->salt1(), batch_->salt2(), committed_.frames}) : std::nullopt;
  if (changed && !run_) {
    if (auto sealed = batch_->seal(); !sealed) return sealed;
  }
  if (hooks_.remember) {
    if (auto kept = hooks_.remember(settled_, state_, place); !kept) return kept;
  }
  if (changed) {
    if (auto folded = fold_batch(*place); !folded) return folded;
  }
  settled_ = state_;
  return {};
}

Result<> Applier::fold_batch(const WalPlace& place) {
  WalContent content;
  content.page_size = state_.page_size;
  WalView view;
  view.page_count = state_.page_count;
  content.frames.reserve(newest_.size());
  for (const auto& [number, at] : newest_) {
    content.frames.push_back({number, 0, at, 0});
    view.frame_of[number] = static_cast<std::uint32_t>(content.frames.size());
  }
  if (auto moved = rename_on(disk_, files_.batch(), files_.wal()); !moved) return moved;
  // Before the database file changes: with the WAL before this one back after a loss of power, its commits would stand upon a database that has them and more,
  // look as if they were pending, and undo what came after them when they are sent again (simulator, sqlite seed 475).
  if (auto synced = of_disk(disk_.sync_folder(io::folder_of(files_.db))); !synced) return synced;
  if (ONEPEN_FAILPOINT("copy.batch_is_wal")) return io_failed("fold", files_.db);
  WalWriter old = std::move(*batch_);
  batch_.reset();
  if (auto open = open_db(); !open) return open;
  if (auto folded = fold_wal(content, view, old.file(), *db_, files_.db); !folded) return tl::unexpected(folded.error());
  if (auto synced = of_disk(db_->sync()); !synced) return synced;
  if (ONEPEN_FAILPOINT("copy.folded")) return io_failed("fold", files_.db);
  if (hooks_.folded) {
    if (auto merged = hooks_.folded(table_, state_, place); !merged) return merged;
  }
  if (auto removed = remove_from(disk_, files_.wal()); !removed) return removed;
  newest_.clear();
  return run_ ? carry_run_over(old) : Result<>{};
}

// The parts of an unfinished commit that were written into the batch just folded go to the head of the next one.
Result<> Applier::carry_run_over(WalWriter& old) {
  if (auto made = ensure_batch(run_->head.page_size); !made) return made;
  for (auto& [number, at] : run_->images) {
    if (auto got = old.read_image(at, image_); !got) return got;
    auto now = batch_->add(number, 0, image_);
    if (!now) return tl::unexpected(now.error());
    at = *now;
  }
  return {};
}

}  // namespace onepen::sqlite
