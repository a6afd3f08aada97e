#include "sqlite/fold_target.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/failpoint.h"
#include "io/paths.h"

namespace onepen::sqlite {

Result<> FoldTarget::begin(const CommitState& state, std::uint32_t page_size) {
  images_.clear();
  unfinished_ = true;
  return ensure_batch(state, page_size);
}

Result<> FoldTarget::ensure_batch(const CommitState& state, std::uint32_t page_size) {
  if (batch_) return {};
  // The file is made anew, so its salt need not be random: no older frame can be taken for one of its own.
  auto batch = WalWriter::create(disk_, files_.batch(), page_size, xxh3(as_bytes(state.offset.text), state.ordinal));
  if (!batch) return tl::unexpected(batch.error());
  batch_.emplace(std::move(*batch));
  committed_ = batch_->mark();
  newest_.clear();
  return {};
}

Result<> FoldTarget::open_db() {
  if (db_) return {};
  auto db = open_on(disk_, files_.db, io::OpenMode::create);
  if (!db) return tl::unexpected(db.error());
  db_ = std::move(*db);
  return {};
}

Result<> FoldTarget::add(std::uint32_t page, std::uint32_t page_count_after, ByteView image) {
  auto at = batch_->add(page, page_count_after, image);
  if (!at) return tl::unexpected(at.error());
  images_.emplace_back(page, *at);
  return {};
}

void FoldTarget::end(std::uint32_t page_count) {
  for (const auto& [number, at] : images_) newest_[number] = at;
  std::erase_if(newest_, [&](const auto& page) { return page.first > page_count; });
  committed_ = batch_->mark();
  unfinished_ = false;
  images_.clear();
}

void FoldTarget::take_back() {
  unfinished_ = false;
  images_.clear();
  if (batch_) batch_->rewind(committed_);
}

Result<> FoldTarget::read(std::uint32_t page, std::span<std::byte> out) {
  if (auto at = newest_.find(page); at != newest_.end()) return batch_->read_image(at->second, out);
  if (auto open = open_db(); !open) return open;
  auto got = of_disk(db_->read_at((std::uint64_t{page} - 1) * out.size(), out));
  if (!got) return tl::unexpected(got.error());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(*got), out.end(), std::byte{0});
  return {};
}

void FoldTarget::close() {
  db_.reset();
  batch_.reset();
  unfinished_ = false;
  images_.clear();
}

Result<> FoldTarget::settle(const CommitState& settled, const CommitState& next, PageTable& table, const SettleHooks& hooks) {
  const bool changed = next.ordinal != settled.ordinal;
  if (changed && !batch_) return io_failed("settle", files_.db);  // an earlier attempt failed half way: the next opening goes on from what is on the disk
  const std::optional<WalPlace> place = changed ? std::optional(WalPlace{batch_->salt1(), batch_->salt2(), committed_.frames}) : std::nullopt;
  if (changed && !unfinished_) {
    if (auto sealed = batch_->seal(); !sealed) return sealed;
  }
  if (hooks.remember) {
    if (auto kept = hooks.remember(settled, next, place); !kept) return kept;
  }
  return changed ? fold(next, table, *place, hooks) : Result<>{};
}

Result<> FoldTarget::fold(const CommitState& next, PageTable& table, const WalPlace& place, const SettleHooks& hooks) {
  WalContent content;
  content.page_size = next.page_size;
  WalView view;
  view.page_count = next.page_count;
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
  if (hooks.folded) {
    if (auto merged = hooks.folded(table, next, place); !merged) return merged;
  }
  if (auto removed = remove_from(disk_, files_.wal()); !removed) return removed;
  newest_.clear();
  return unfinished_ ? carry_over(old, next, next.page_size) : Result<>{};
}

// The pages of an unfinished commit that were written into the batch just folded go to the head of the next one.
Result<> FoldTarget::carry_over(WalWriter& old, const CommitState& state, std::uint32_t page_size) {
  if (auto made = ensure_batch(state, page_size); !made) return made;
  Bytes image(page_size);
  for (auto& [number, at] : images_) {
    if (auto got = old.read_image(at, image); !got) return got;
    auto now = batch_->add(number, 0, image);
    if (!now) return tl::unexpected(now.error());
    at = *now;
  }
  return {};
}

}  // namespace onepen::sqlite
