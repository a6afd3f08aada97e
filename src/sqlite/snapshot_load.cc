#include "sqlite/snapshot_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "sqlite/snapshot_part.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> disk_failed(const io::DiskError& error) { return tl::unexpected(Error{Outcome::unavailable, error.message, std::nullopt}); }

// One snapshot being read by several threads: the caller's, and helpers. With sessions of their own the helpers fetch parts themselves; without them they are
// handed those that the caller fetched, while the caller fetches the next; when all have enough to do the caller does the work itself.
class SnapshotReading {
 public:
  // `file`: where the pages go; none: they are only checked.
  SnapshotReading(Runtime& runtime, const SnapshotSource& source, const core::SnapshotInfo& info, const SnapshotAbout& about, io::DiskFile* file,
                  const SnapshotLoad& options)
      : runtime_(runtime), source_(source), info_(info), about_(about), file_(file), options_(options), hashes_(about.page_count), runs_(info.parts) {}

  Result<PageTable> read();

 private:
  struct Fetched {
    std::uint32_t part = 0;
    Bytes bytes;
  };
  struct Helper {
    std::unique_ptr<Signal> handed;         // something waits, or no more comes
    std::unique_ptr<core::Stream> session;  // null: it is handed parts
    std::unique_ptr<Thread> thread;
  };

  std::optional<std::uint32_t> take();
  bool fetch(core::Stream& stream, Fetched& into);
  bool offer(Fetched& fetched);
  std::optional<Fetched> handed(bool& ended);
  void take_in(const Fetched& fetched, SnapshotUnpacker& unpacker);
  Result<> take_in_pages(const Fetched& fetched, SnapshotUnpacker& unpacker);
  Result<> write(const SnapshotPart& part, ByteView images);
  void help(Helper& helper);
  void caller_reads();
  void make_helpers();
  void finish_helpers();
  Result<PageTable> whole();
  void fail(Error error);
  tl::unexpected<Error> misfit(std::uint32_t part, std::string_view why, Outcome outcome = Outcome::state_mismatch) const;

  Runtime& runtime_;
  const SnapshotSource& source_;
  const core::SnapshotInfo& info_;
  const SnapshotAbout about_;
  io::DiskFile* const file_;
  const SnapshotLoad& options_;
  std::vector<Helper> helpers_;  // the caller's
  bool hand_over_ = false;

  Mutex mutex_;
  std::uint32_t next_ ONEPEN_GUARDED_BY(mutex_) = 0;
  bool all_fetched_ ONEPEN_GUARDED_BY(mutex_) = false;
  std::deque<Fetched> waiting_ ONEPEN_GUARDED_BY(mutex_);  // for helpers, at most one each
  std::optional<Error> failure_ ONEPEN_GUARDED_BY(mutex_);
  std::uint64_t done_bytes_ ONEPEN_GUARDED_BY(mutex_) = 0;
  // Written under the mutex, read when only the caller is left.
  std::vector<std::uint64_t> hashes_;        // of pages 1, 2, ...; of those that no part has: not yet
  std::vector<std::vector<PageRun>> runs_;  // of each part
};

tl::unexpected<Error> SnapshotReading::misfit(std::uint32_t part, std::string_view why, Outcome outcome) const {
  return tl::unexpected(
      Error{outcome, fmt::format("snapshot {} of the stream cannot be used: part {} of {}: {}", info_.id, part, info_.parts, why), std::nullopt});
}

void SnapshotReading::fail(Error error) {
  const Lock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
}

// The next part to fetch; none: there are no more, or it ended early.
std::optional<std::uint32_t> SnapshotReading::take() {
  if (options_.stop != nullptr && options_.stop->load(std::memory_order_acquire)) {
    fail({Outcome::unavailable, fmt::format("reading snapshot {} was given up: it was asked to stop", info_.id), std::nullopt});
  }
  const Lock lock(mutex_);
  if (failure_ || next_ >= info_.parts) return std::nullopt;
  return next_++;
}

bool SnapshotReading::fetch(core::Stream& stream, Fetched& into) {
  auto bytes = stream.snapshot_part(info_, into.part);
  if (bytes) {
    into.bytes = std::move(*bytes);
    return true;
  }
  const core::Refusal& refusal = bytes.error();
  const bool damage = refusal.outcome == Outcome::not_found || refusal.outcome == Outcome::fence_unavailable;  // of this snapshot, not of the log
  if (damage || refusal.outcome == Outcome::invalid) fail(misfit(into.part, refusal.message).value());
  else fail({refusal.outcome, refusal.message, refusal.current});
  return false;
}

// Leaves it to the helpers when they have not enough waiting.
bool SnapshotReading::offer(Fetched& fetched) {
  {
    const Lock lock(mutex_);
    if (waiting_.size() >= helpers_.size()) return false;
    waiting_.push_back(std::move(fetched));
  }
  for (const Helper& helper : helpers_) helper.handed->notify();
  return true;
}

// `ended`: nothing waits, and nothing more comes.
std::optional<SnapshotReading::Fetched> SnapshotReading::handed(bool& ended) {
  const Lock lock(mutex_);
  ended = failure_.has_value() || (waiting_.empty() && all_fetched_);
  if (ended || waiting_.empty()) return std::nullopt;
  Fetched first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

void SnapshotReading::take_in(const Fetched& fetched, SnapshotUnpacker& unpacker) {
  if (auto taken = take_in_pages(fetched, unpacker); !taken) fail(taken.error());
}

Result<> SnapshotReading::take_in_pages(const Fetched& fetched, SnapshotUnpacker& unpacker) {
  auto part = decode_snapshot_part(fetched.bytes);
  if (!part) return misfit(fetched.part, part.error().message, part.error().outcome);
  if (part->number != fetched.part) return misfit(fetched.part, fmt::format("it says that it is part {}", part->number));
  if (part->page_size != about_.page_size || part->page_count != about_.page_count) {
    return misfit(fetched.part, fmt::format("it is of a database of {} pages of {} bytes, the snapshot of one of {} pages of {} bytes", part->page_count,
                                            part->page_size, about_.page_count, about_.page_size));
  }
  auto images = unpacker.unpack(*part);
  if (!images) return misfit(fetched.part, images.error().message);
  if (auto written = write(*part, *images); !written) return written;
  std::vector<std::uint64_t> hashes(part->pages);
  auto hash = hashes.begin();
  for (const PageRun& run : part->runs) {
    for (std::uint32_t i = 0; i < run.count; ++i, ++hash) {
      const auto at = static_cast<std::size_t>(hash - hashes.begin()) * part->page_size;
      *hash = page_hash_of(run.first + i, images->subspan(at, part->page_size));
    }
  }
  const Lock lock(mutex_);
  hash = hashes.begin();
  for (const PageRun& run : part->runs) {
    std::copy_n(hash, run.count, hashes_.begin() + (run.first - 1));
    hash += run.count;
  }
  done_bytes_ += images->size();
  runs_[fetched.part] = std::move(part->runs);
  return {};
}

Result<> SnapshotReading::write(const SnapshotPart& part, ByteView images) {
  if (file_ == nullptr) return {};
  std::size_t taken = 0;
  for (const PageRun& run : part.runs) {
    const std::uint64_t at = (std::uint64_t{run.first} - 1) * part.page_size;
    const ByteView pages = images.subspan(taken, std::size_t{run.count} * part.page_size);
    if (auto written = file_->write_at(at, pages); !written) return disk_failed(written.error());
    if (options_.sync) file_->sync_soon(at, pages.size());
    taken += pages.size();
  }
  return {};
}

// A helper's thread.
void SnapshotReading::help(Helper& helper) {
  SnapshotUnpacker unpacker;
  if (helper.session) {
    Fetched fetched;
    while (auto part = take()) {
      fetched.part = *part;
      if (!fetch(*helper.session, fetched)) return;
      take_in(fetched, unpacker);
    }
    return;
  }
  for (bool ended = false;;) {
    const auto fetched = handed(ended);
    if (ended) return;
    if (fetched) take_in(*fetched, unpacker);
    // Ends early when the process is being stopped; the caller then does what is left.
    else if (!helper.handed->wait_until(runtime_.now() + std::chrono::hours(1))) return;
  }
}

void SnapshotReading::caller_reads() {
  SnapshotUnpacker unpacker;
  Fetched fetched;
  while (auto part = take()) {
    fetched.part = *part;
    if (!fetch(source_.stream, fetched)) break;
    if (!hand_over_ || !offer(fetched)) take_in(fetched, unpacker);
    if (!options_.progress) continue;
    std::uint64_t done = 0;
    {
      const Lock lock(mutex_);
      done = done_bytes_;
    }
    options_.progress(done, std::uint64_t{about_.page_count} * about_.page_size);
  }
  {
    const Lock lock(mutex_);
    all_fetched_ = true;
  }
  // What waits still, since every helper is busy.
  for (bool ended = false; !ended;) {
    const auto left = handed(ended);
    if (left) take_in(*left, unpacker);
  }
}

void SnapshotReading::make_helpers() {
  helpers_.resize(std::min(options_.helpers, info_.parts - 1));
  for (Helper& helper : helpers_) {
    helper.handed = runtime_.make_signal();
    if (!hand_over_) helper.session = source_.another ? source_.another() : source_.stream.another();
    hand_over_ = helper.session == nullptr;
  }
  // All of them one way or the other.
  for (Helper& helper : helpers_) {
    if (hand_over_) helper.session.reset();
    helper.thread = runtime_.spawn("snapshot", [this, &helper] { help(helper); });
  }
}

void SnapshotReading::finish_helpers() {
  for (Helper& helper : helpers_) helper.handed->notify();
  for (Helper& helper : helpers_) helper.thread.reset();
}

Result<PageTable> SnapshotReading::read() {
  if (info_.parts > 1) make_helpers();
  caller_reads();
  finish_helpers();
  {
    const Lock lock(mutex_);
    if (failure_) return tl::unexpected(*failure_);
  }
  return whole();
}

// Each part's pages behind those of the part before, and all of them together the database that the snapshot says it is.
Result<PageTable> SnapshotReading::whole() {
  const PageTable of_zeros(about_.page_size);
  std::uint32_t above = 0;
  const auto zeros_up_to = [&](std::uint32_t last) {
    while (above < last) ++above, hashes_[above - 1] = of_zeros.zero_hash(above, about_.page_size);
  };
  for (std::uint32_t part = 0; part < info_.parts; ++part) {
    if (runs_[part].empty()) return misfit(part, "it was not read");
    const std::uint32_t first = runs_[part].front().first;
    if (first <= above) return misfit(part, fmt::format("its pages begin with {}, and the part before ends with {}", first, above));
    for (const PageRun& run : runs_[part]) {
      zeros_up_to(run.first - 1);
      above = run.last();
    }
  }
  zeros_up_to(about_.page_count);
  PageTable table(about_.page_size, std::move(hashes_));
  if (!guard_on(Guard::snapshot_fits) || table.sum() == about_.page_sum) return table;
  return tl::unexpected(
      Error{Outcome::state_mismatch,
            fmt::format("snapshot {} of the stream cannot be used: its {} parts have the page sum {:016x}, and commit {}, which it says it is of, has "
                        "{:016x}",
                        info_.id, info_.parts, table.sum(), about_.ordinal, about_.page_sum),
            std::nullopt});
}

Result<SnapshotAbout> about_of(const core::SnapshotInfo& info) {
  auto about = decode_snapshot_about(info.about);
  if (!about) {
    return tl::unexpected(
        Error{about.error().outcome, fmt::format("snapshot {} of the stream cannot be used: {}", info.id, about.error().message), std::nullopt});
  }
  if (info.parts > about->page_count) {
    return tl::unexpected(Error{Outcome::state_mismatch,
                                fmt::format("snapshot {} of the stream cannot be used: {} parts for {} pages", info.id, info.parts, about->page_count),
                                std::nullopt});
  }
  return about;
}

CommitState state_of(const core::SnapshotInfo& info, const SnapshotAbout& about) {
  return {info.offset, info.incarnation, about.ordinal, about.page_sum, about.page_count, about.page_size};
}

Result<PageTable> load_into(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const core::SnapshotInfo& info, const SnapshotAbout& about,
                            const std::string& db_path, const SnapshotLoad& options) {
  // Away with what was there, and not cut to nothing: ext4 takes a file that was emptied and closed for one that must be on the disk at once.
  static_cast<void>(disk.remove(db_path));
  auto file = disk.open(db_path, io::OpenMode::create);
  if (!file) return disk_failed(file.error());
  if (auto grown = (*file)->cut(std::uint64_t{about.page_count} * about.page_size); !grown) return disk_failed(grown.error());
  auto table = SnapshotReading(runtime, source, info, about, file->get(), options).read();
  if (!table) return table;
  if (ONEPEN_FAILPOINT("snapshot.loaded")) return disk_failed({5, "failpoint snapshot.loaded"});
  if (options.sync) {
    if (auto synced = (*file)->sync(); !synced) return disk_failed(synced.error());
  }
  return table;
}

}  // namespace

Result<CommitState> load_snapshot(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const core::SnapshotInfo& info, const std::string& db_path,
                                  PageTable& table, const SnapshotLoad& options) {
  table = PageTable{};
  auto about = about_of(info);
  if (!about) return tl::unexpected(about.error());
  if (about->page_count == 0) {
    static_cast<void>(disk.remove(db_path));  // no commit, no file
    return state_of(info, *about);
  }
  auto loaded = load_into(runtime, disk, source, info, *about, db_path, options);
  if (!loaded) {
    static_cast<void>(disk.remove(db_path));  // what cannot be removed is written over by the next one
    return tl::unexpected(loaded.error());
  }
  table = std::move(*loaded);
  return state_of(info, *about);
}

Result<CommitState> check_snapshot(Runtime& runtime, const SnapshotSource& source, const core::SnapshotInfo& info, const SnapshotLoad& options) {
  auto about = about_of(info);
  if (!about) return tl::unexpected(about.error());
  if (about->page_count == 0) return state_of(info, *about);
  auto checked = SnapshotReading(runtime, source, info, *about, nullptr, options).read();
  if (!checked) return tl::unexpected(checked.error());
  return state_of(info, *about);
}

}  // namespace onepen::sqlite
