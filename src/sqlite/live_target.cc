#include "sqlite/live_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/vfs.h"
#include "sqlite/wal_frames.h"
#include "sqlite/wal_tail.h"

namespace onepen::sqlite {
namespace {

// For the write lock, which SQLite takes for moments only: to recover, or to end a checkpoint.
constexpr std::chrono::seconds kLockWithin{5};
constexpr std::chrono::microseconds kLockEvery{500};
constexpr std::chrono::milliseconds kHoldEvery{10};  // a WAL that is waited for is looked at

Result<PlainConnection> open_keeper(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, platform_vfs()->zName);
  PlainConnection db(raw);
  if (code != SQLITE_OK) return tl::unexpected(plain_error(code, "open", path, raw != nullptr ? sqlite3_errmsg(raw) : "no memory"));
  sqlite3_busy_timeout(db.get(), kPlainBusyMs);
  // What is in the WAL stays there when this closes: the next opening goes on from it.
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  for (const char* sql : {"PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=0", "SELECT count(*) FROM sqlite_schema"}) {
    if (auto done = plain_value(db.get(), path, sql); !done) return tl::unexpected(done.error());
  }
  return db;
}

}  // namespace

Result<std::unique_ptr<LiveTarget>> LiveTarget::open(Runtime& runtime, io::Disk& disk, const DatabaseFiles& files, const CommitState& state,
                                                     const WalPlace& place, const SettleHooks& hooks, const LiveLimits& limits) {
  std::unique_ptr<LiveTarget> live(new LiveTarget(runtime, disk, files, limits));
  auto keeper = open_keeper(files.db);
  if (!keeper) return tl::unexpected(keeper.error());
  live->keeper_ = std::move(*keeper);
  auto file = PlatformFile::open(files.db);
  if (!file) return tl::unexpected(file.error());
  live->file_ = std::move(*file);
  live->index_ = std::make_unique<WalIndex>(live->file_->file());
  if (auto locked = live->lock(); !locked) return tl::unexpected(locked.error());
  auto found = live->find(state, place, hooks);
  if (found) found = live->see();
  live->index_->unlock();
  if (!found) return tl::unexpected(found.error());
  return live;
}

Error LiveTarget::foreign() const {
  return Error{Outcome::state_mismatch,
               fmt::format("{} was written by something else than Onepen: a follower's database is only to be read. Open it read-only there", files_.db),
               {}};
}

Result<> LiveTarget::see() {
  const auto header = index_->header();
  if (!header) return tl::unexpected(header.error());
  if (*header) seen_ = **header;
  return {};
}

Result<> LiveTarget::lock() {
  const Instant deadline = runtime_.now() + kLockWithin;
  for (;;) {
    const auto got = index_->try_lock();
    if (!got) return tl::unexpected(got.error());
    if (*got) return {};
    if (runtime_.now() >= deadline)
      return tl::unexpected(Error{Outcome::unavailable, fmt::format("the WAL of {} is locked by another program: close it there", files_.db), {}});
    runtime_.sleep_until(runtime_.now() + kLockEvery);
  }
}

// What is in the WAL, and what its index says of it. They differ where a process was killed between its commit frame and the index, or between the index and the
// header of a new WAL, while others had the database open.
Result<> LiveTarget::find(const CommitState& state, const WalPlace& place, const SettleHooks& hooks) {
  const auto header = index_->header();
  if (!header) return tl::unexpected(header.error());
  const auto scan = scan_wal(disk_, files_.wal());
  if (!scan) return tl::unexpected(scan.error());
  if (!*header) return tl::unexpected(Error{Outcome::unavailable, fmt::format("the WAL of {} has no index", files_.db), {}});
  head_.frames = frame_count(**header);
  head_.page_count = page_count(**header);
  head_.page_size = state.page_size;
  head_.sum = checksum(**header);
  std::tie(head_.salt1, head_.salt2) = salts(**header);
  page_count_ = state.page_count;
  if (scan->end.frame == 0) return head_.frames == 0 ? begin_wal(state, hooks) : tl::unexpected(foreign());
  if (scan->page_size != state.page_size || !(scan->end == place)) return tl::unexpected(foreign());
  // An index without frames is behind this WAL, or was begun anew when the database file had all of it: then the WAL counts once more, and says the same.
  const bool same_wal = scan->end.salt1 == head_.salt1 && scan->end.salt2 == head_.salt2;
  if (same_wal ? head_.frames > scan->end.frame : head_.frames != 0) return tl::unexpected(foreign());
  return take_wal(*scan);
}

Result<> LiveTarget::take_wal(const WalScan& scan) {
  auto wal = WalWriter::resume(disk_, files_.wal(), scan.page_size, scan.end, scan.checksum);
  if (!wal) return tl::unexpected(wal.error());
  wal_.emplace(std::move(*wal));
  published_ = wal_->mark();
  std::uint64_t at = kWalHeaderBytes + kWalFrameHeaderBytes;
  for (const TailFrame& frame : scan.frames) {
    newest_[frame.page_number] = at;
    at += kWalFrameHeaderBytes + scan.page_size;
    if (frame.page_count_after != 0) std::erase_if(newest_, [&](const auto& page) { return page.first > frame.page_count_after; });
  }
  if (head_.frames == scan.end.frame) return {};
  for (std::uint32_t frame = head_.frames + 1; frame <= scan.end.frame; ++frame) {
    if (auto added = index_->add(frame, scan.frames[frame - 1].page_number); !added) return added;
  }
  head_.frames = scan.end.frame;
  head_.salt1 = scan.end.salt1;
  head_.salt2 = scan.end.salt2;
  head_.page_count = scan.page_count;
  head_.sum = scan.checksum;
  return index_->publish(head_);
}

// The database file has everything. The header is written when the copy has noted it (copy.h), and before any frame.
Result<> LiveTarget::begin_wal(const CommitState& state, const SettleHooks& hooks) {
  if (head_.salt1 == 0 && head_.salt2 == 0) {
    head_.salt1 = static_cast<std::uint32_t>(runtime_.random_u64());
    head_.salt2 = static_cast<std::uint32_t>(runtime_.random_u64());
  }
  if (hooks.begun) {
    if (auto noted = hooks.begun(head_.salt1, head_.salt2); !noted) return noted;
  }
  auto wal = WalWriter::begin(disk_, files_.wal(), state.page_size, head_.salt1, head_.salt2);
  if (!wal) return tl::unexpected(wal.error());
  wal_.emplace(std::move(*wal));
  published_ = wal_->mark();
  newest_.clear();
  checkpointed_at_ = 0;
  return {};
}

Result<> LiveTarget::begin(const CommitState& state, std::uint32_t page_size) {
  running_.clear();
  if (!wal_ || page_size != head_.page_size)
    return io_failed("write", files_.wal());  // an earlier settling failed half way; (a database never changes its page size)
  static_cast<void>(state);
  return {};
}

// Into the WAL with what is held, but for the last `left` of it, which commits when `mark` says so.
Result<> LiveTarget::write_held(std::size_t left, std::uint32_t mark) {
  for (; held_.size() - written_ > left; ++written_) {
    Held& frame = held_[written_];
    if (frame.page == 0) continue;  // beyond the end since
    const auto at = wal_->add(frame.page, mark, frame.image);
    if (!at) return tl::unexpected(at.error());
    pages_.push_back(frame.page);
    if (frame.commit == commit_) running_.emplace_back(frame.page, *at);
    else newest_[frame.page] = *at;
    held_at_.erase(frame.page);
  }
  if (written_ == held_.size()) drop_held();
  return {};
}

void LiveTarget::drop_held() {
  held_.clear();
  held_at_.clear();
  written_ = held_bytes_ = 0;
}

Result<> LiveTarget::add(std::uint32_t page, std::uint32_t page_count_after, ByteView image) {
  if (const auto known = held_at_.find(page); known != held_at_.end()) {  // of an earlier commit of this batch: nobody will see it as it was then
    Held& frame = held_[known->second];
    frame.commit = commit_;
    std::copy(image.begin(), image.end(), frame.image.begin());
  } else {
    if (held_bytes_ + image.size() > limits_.held_bytes) {
      if (auto written = write_held(0, 0); !written) return written;
    }
    held_at_[page] = held_.size();
    held_.push_back({page, commit_, Bytes(image.begin(), image.end())});
    held_bytes_ += image.size();
  }
  if (page_count_after != 0 || guard_on(Guard::live_whole_batch)) return {};
  if (auto written = write_held(0, 0); !written) return written;
  if (auto locked = lock(); !locked) return locked;  // the mutation: readers see a commit page by page
  CommitState half;
  half.page_count = page_count_;
  auto shown = publish(half);
  index_->unlock();
  return shown;
}

void LiveTarget::end(std::uint32_t page_count) {
  for (const auto& [number, at] : running_) newest_[number] = at;
  running_.clear();
  if (page_count < page_count_) {
    std::erase_if(newest_, [&](const auto& page) { return page.first > page_count; });
    for (Held& frame : held_) {
      if (frame.page <= page_count) continue;
      held_at_.erase(frame.page);
      frame.page = 0;
    }
  }
  page_count_ = page_count;
  ++commit_;
}

// Only commits of several parts can be: everything before them was published (settles_before_parts).
void LiveTarget::take_back() {
  drop_held();
  running_.clear();
  pages_.clear();
  if (wal_) wal_->rewind(published_);
}

Result<> LiveTarget::read(std::uint32_t page, std::span<std::byte> out) {
  if (const auto held = held_at_.find(page); held != held_at_.end()) {
    std::copy(held_[held->second].image.begin(), held_[held->second].image.end(), out.begin());
    return {};
  }
  const auto known = newest_.find(page);
  if (known == newest_.end()) return file_->read(std::uint64_t{page - 1} * out.size(), out);
  return wal_->read_image(known->second, out);
}

Result<> LiveTarget::settle(const CommitState& settled, const CommitState& next, PageTable& table, const SettleHooks& hooks) {
  const bool same = next.ordinal == settled.ordinal && next.page_sum == settled.page_sum && next.page_count == settled.page_count;
  if (same && held_.empty()) return hooks.remember ? hooks.remember(settled, next, std::nullopt) : Result<>{};
  while (!held_.empty() && held_.back().page == 0) held_.pop_back();
  if (!wal_ || held_.size() == written_) return io_failed("settle", files_.db);
  if (auto written = write_held(1, 0); !written) return written;
  if (auto locked = lock(); !locked) return locked;
  auto done = [&]() -> Result<> {
    const auto header = index_->header();
    if (!header) return tl::unexpected(header.error());
    if (!*header || !same_content(**header, seen_)) return tl::unexpected(foreign());
    if (hooks.remember) {
      const WalPlace place{head_.salt1, head_.salt2, wal_->mark().frames + 1};
      if (auto kept = hooks.remember(settled, next, place); !kept) return kept;
    }
    if (ONEPEN_FAILPOINT("live.before_commit_frame")) return io_failed("write", files_.wal());
    if (auto written = write_held(0, page_count_); !written) return written;
    if (auto published = publish(next); !published) return published;
    if (hooks.published) hooks.published({head_.salt1, head_.salt2, head_.frames});
    return {};
  }();
  index_->unlock();
  if (done) done = tend(next, table, hooks);
  if (!done) wal_.reset();  // what the WAL holds is not known: the next opening tells
  return done;
}

Result<> LiveTarget::publish(const CommitState& next) {
  if (ONEPEN_FAILPOINT("live.before_publish")) return io_failed("publish in", files_.wal());
  std::uint32_t frame = head_.frames;
  for (const std::uint32_t page : pages_) {
    if (auto added = index_->add(++frame, page); !added) return added;
  }
  pages_.clear();
  published_ = wal_->mark();
  ONEPEN_CHECK(frame == published_.frames, "every frame has its entry");
  head_.frames = frame;
  head_.page_count = next.page_count;
  head_.sum = published_.sum;
  if (auto done = index_->publish(head_); !done) return done;
  return see();
}

Result<> LiveTarget::tend(const CommitState& next, PageTable& table, const SettleHooks& hooks) {
  if (published_.end < checkpointed_at_ + limits_.checkpoint_bytes) return {};
  checkpointed_at_ = published_.end;
  auto anew = checkpoint(next, table, hooks);
  if (!anew || *anew || published_.end < hold_at_) return anew.map([](bool) {});
  const Instant until = runtime_.now() + limits_.hold;
  while (anew && !*anew && runtime_.now() < until) {
    runtime_.sleep_until(runtime_.now() + kHoldEvery);
    anew = checkpoint(next, table, hooks);
  }
  if (anew && !*anew) hold_at_ = 2 * published_.end;
  return anew.map([](bool) {});
}

Result<bool> LiveTarget::checkpoint(const CommitState& next, PageTable& table, const SettleHooks& hooks) {
  if (ONEPEN_FAILPOINT("live.before_checkpoint")) return io_failed("checkpoint", files_.db);
  const int rc = sqlite3_wal_checkpoint_v2(keeper_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) return tl::unexpected(plain_error(rc, "checkpoint", files_.db, sqlite3_errmsg(keeper_.get())));
  if (auto locked = lock(); !locked) return tl::unexpected(locked.error());
  auto done = end_wal(next, table, hooks);
  index_->unlock();
  return done;
}

Result<bool> LiveTarget::end_wal(const CommitState& next, PageTable& table, const SettleHooks& hooks) {
  const auto ends = index_->try_hold_readers();
  if (!ends) return tl::unexpected(ends.error());
  if (!*ends) return false;
  // First what tells the next opening that the database file has all of it; then the WAL may go.
  if (hooks.folded) {
    if (auto merged = hooks.folded(table, next, {head_.salt1, head_.salt2, head_.frames}); !merged) return tl::unexpected(merged.error());
  }
  if (ONEPEN_FAILPOINT("live.before_restart")) return io_failed("begin anew", files_.wal());
  if (auto restarted = index_->restart(head_, head_.salt1 + 1, static_cast<std::uint32_t>(runtime_.random_u64())); !restarted)
    return tl::unexpected(restarted.error());
  if (auto seen = see(); !seen) return tl::unexpected(seen.error());
  if (ONEPEN_FAILPOINT("live.restarted")) return io_failed("begin anew", files_.wal());
  hold_at_ = limits_.hold_bytes;
  return begin_wal(next, hooks).map([] { return true; });
}

void LiveTarget::close() {
  index_.reset();
  file_.reset();
  keeper_.reset();
  wal_.reset();
  drop_held();
  running_.clear();
  pages_.clear();
}

}  // namespace onepen::sqlite
