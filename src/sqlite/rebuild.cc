#include "sqlite/rebuild.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/apply.h"
#include "sqlite/snapshot_choice.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> refused(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }

Result<> removed(io::Disk& disk, const DatabaseFiles& files) {
  for (const std::string& path : {files.batch(), files.wal(), files.shm(), files.snapshot(), files.db}) {
    if (auto done = remove_from(disk, path); !done) return done;
  }
  return {};
}

// Calls `take` with every record behind the position, until the tail or `until`. position() may go back (a fold that began anew).
Result<> read_all(core::Stream& stream, const std::function<Offset()>& position, const RebuildUntil& until, const ProgressFn& progress,
                  const std::function<Result<bool>(const core::Record&)>& take) {
  std::uint64_t done_bytes = 0;
  for (Offset from = position();;) {
    auto read = stream.read(from, core::ReadLimit{});
    if (!read) return refused(read.error());
    bool anew = false;
    for (const core::Record& record : read->records) {
      if (until.offset && record.next > *until.offset) return {};
      if (until.time_ms && record.time_ms > *until.time_ms) return {};
      auto taken = take(record);
      if (!taken) return tl::unexpected(taken.error());
      done_bytes += record.payload.size();
      anew = !*taken;
      if (anew) break;
    }
    if (progress && !read->records.empty()) progress({"read", done_bytes, 0, read->next.text});
    from = anew ? position() : read->next;
    if (read->up_to_date && !anew) return {};
  }
}

bool not_behind(const core::SnapshotInfo& info, const RebuildUntil& until) {
  return (!until.offset || !(info.offset > *until.offset)) && (!until.time_ms || info.time_ms <= *until.time_ms);
}

class Rebuild {
 public:
  Rebuild(Runtime& runtime, io::Disk& disk, core::Stream& stream, const std::string& path, const RebuildOptions& options)
      : runtime_(runtime), disk_(disk), stream_(stream), files_{path}, options_(options) {}

  Result<CommitState> run() {
    auto done = options_.from_snapshot ? from_snapshot() : Result<bool>(false);
    if (!done) return tl::unexpected(done.error());
    auto read = fold();
    if (!read && read.error().outcome == Outcome::gone && !*done) {
      // What a snapshot covers was trimmed.
      if (auto emptied = removed(disk_, files_); !emptied) return tl::unexpected(emptied.error());
      done = from_snapshot();
      if (!done) return tl::unexpected(done.error());
      if (!*done) return tl::unexpected(too_old(read.error()));
      read = fold();
    }
    if (!read) return tl::unexpected(read.error());
    return state_;
  }

 private:
  Result<bool> from_snapshot() {
    SnapshotChoice choice;
    choice.wanted = [this](const core::SnapshotInfo& info) { return options_.begin ? info.offset == *options_.begin : not_behind(info, options_.until); };
    choice.load.sync = false;
    auto state = begin_with_snapshot(runtime_, disk_, SnapshotSource{stream_}, files_.db, table_, choice);
    if (!state) return tl::unexpected(state.error());
    if (!*state) return false;
    state_ = **state;
    return true;
  }

  Result<> fold() {
    Applier applier(disk_, files_, std::move(table_), state_, {});
    auto read = read_all(
        stream_, [&] { return state_.offset; }, options_.until, options_.progress,
        [&](const core::Record& record) -> Result<bool> {
          if (auto applied = applier.apply(record); !applied) return tl::unexpected(applied.error());
          return true;
        });
    if (!read) {
      table_ = PageTable{};
      state_ = CommitState{};
      return read;
    }
    if (auto settled = applier.settle(); !settled) return settled;
    state_ = std::as_const(applier).state();
    return {};
  }

  Error too_old(const Error& gone) const {
    const std::string what = options_.until.offset ? "offset " + options_.until.offset->text : options_.until.time_ms ? "that time" : "its beginning";
    return Error{Outcome::gone, fmt::format("{} of '{}' lies before everything that is kept ({})", what, stream_.name().text(), gone.message), gone.current};
  }

  Runtime& runtime_;
  io::Disk& disk_;
  core::Stream& stream_;
  const DatabaseFiles files_;
  const RebuildOptions& options_;
  PageTable table_;
  CommitState state_;
};

// The pages of a copy as they are at its state(): in the WAL up to its place, else in the database file.
class CopyPages {
 public:
  static Result<CopyPages> open(io::Disk& disk, const Copy& copy) {
    CopyPages pages(copy);
    auto db = open_on(disk, copy.db_path(), io::OpenMode::read);
    if (!db) return tl::unexpected(db.error());
    pages.db_ = std::move(*db);
    const std::string wal_path = copy.db_path() + "-wal";
    auto wal = read_wal(disk, wal_path);
    if (!wal) return tl::unexpected(wal.error());
    const WalPlace place = copy.place();
    if (wal->page_count == 0) return pages;
    auto file = open_on(disk, wal_path, io::OpenMode::read);
    if (!file) return tl::unexpected(file.error());
    pages.wal_ = std::move(*file);
    const std::uint32_t upto = place.salt1 == wal->salt1 && place.salt2 == wal->salt2 ? place.frame : 0;
    for (std::size_t i = upto; i < wal->frames.size(); ++i) pages.overtaken_.insert(wal->frames[i].page_number);
    wal->frames.resize(upto);
    for (const auto& [page, frame] : view_of(*wal, 0, copy.wal_began_with()).frame_of) pages.in_wal_[page] = frame == 0 ? 0 : wal->frames[frame - 1].image_at;
    return pages;
  }

  // False: the bytes are no more, only the hash is.
  Result<bool> read(std::uint32_t page, std::span<std::byte> image) {
    const auto at = in_wal_.find(page);
    if (at != in_wal_.end() && at->second == 0) {
      std::fill(image.begin(), image.end(), std::byte{0});
      return true;
    }
    auto got = at != in_wal_.end() ? wal_->read_at(at->second, image) : db_->read_at((std::uint64_t{page} - 1) * image.size(), image);
    if (!got) return tl::unexpected(of_disk(got.error()));
    std::fill(image.begin() + static_cast<std::ptrdiff_t>(*got), image.end(), std::byte{0});
    return at != in_wal_.end() || overtaken_.count(page) == 0 || page_hash_of(page, image) == copy_.page_hash(page);
  }

 private:
  explicit CopyPages(const Copy& copy) : copy_(copy) {}
  const Copy& copy_;
  DiskFilePtr db_, wal_;
  std::unordered_map<std::uint32_t, std::uint64_t> in_wal_;  // page -> where its image is; 0: zeros
  std::unordered_set<std::uint32_t> overtaken_;
};

// Page by page; the lock-byte page has no content.
Result<> compare_pages(io::Disk& disk, const Copy& copy, const std::string& theirs, std::uint32_t page_size, std::uint32_t page_count, Comparison& out) {
  auto ours = CopyPages::open(disk, copy);
  if (!ours) return tl::unexpected(ours.error());
  auto stream = open_on(disk, theirs, io::OpenMode::read);
  if (!stream) return tl::unexpected(stream.error());
  Bytes left(page_size), right(page_size);
  for (std::uint32_t n = 1; n <= page_count; ++n) {
    if (n == lock_byte_page(page_size)) continue;
    auto bytes = ours->read(n, left);
    if (!bytes) return tl::unexpected(bytes.error());
    auto got = of_disk((*stream)->read_at((std::uint64_t{n} - 1) * page_size, right));
    if (!got) return tl::unexpected(got.error());
    ++out.pages;
    const bool both = n <= out.copy.page_count && n <= out.stream.page_count && *got == page_size;
    if (both && (*bytes ? left == right : page_hash_of(n, right) == copy.page_hash(n))) continue;
    ++out.differing;
    if (out.first.size() < kMaxNamedPages) out.first.push_back(n);
  }
  return {};
}

}  // namespace

Result<> Copy::catch_up(core::Stream& stream, const ProgressFn& progress) {
  const auto take = [this](const core::Record& record) -> Result<bool> {
    const std::uint64_t before = restarts();
    if (auto applied = apply(record); !applied) return tl::unexpected(applied.error());
    return restarts() == before;
  };
  const auto from = [this] { return position(); };
  if (auto begun = begin(stream); !begun) return begun;
  const std::uint64_t before = restarts();
  auto read = read_all(stream, from, {}, progress, take);
  if (!read && read.error().outcome == Outcome::gone) {
    if (!position().text.empty()) {
      if (auto emptied = gone_from(stream); !emptied) return emptied;
    } else if (restarts() == before) {
      return read;  // the beginning is gone, and there is no snapshot
    }
    if (auto begun = begin(stream); !begun) return begun;
    read = read_all(stream, from, {}, progress, take);
  }
  return read ? settle() : read;
}

Result<CommitState> rebuild_into(Runtime& runtime, io::Disk& disk, core::Stream& stream, const std::string& path, const RebuildOptions& options) {
  const DatabaseFiles files{path};
  for (const std::string& taken : {files.db, files.wal(), files.batch()}) {
    if (is_there(disk, taken)) {
      return tl::unexpected(Error{Outcome::invalid, fmt::format("{} exists already: name a file that does not, or move it away", taken), std::nullopt});
    }
  }
  auto state = Rebuild(runtime, disk, stream, path, options).run();
  if (!state) {
    static_cast<void>(removed(disk, files));  // the first error is what the caller must know
    return state;
  }
  static_cast<void>(remove_from(disk, files.batch()));  // what is left of parts without their last
  return state;
}

Result<CommitState> rebuild_into(core::Stream& stream, const std::string& path, const ProgressFn& progress, const std::optional<Offset>& until) {
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  RebuildOptions options;
  options.until.offset = until;
  options.progress = progress;
  return rebuild_into(*runtime, *disk, stream, path, options);
}

Result<Comparison> compare(Runtime& runtime, io::Disk& disk, const Copy& copy, core::Stream& stream, const ProgressFn& progress) {
  Comparison out;
  out.copy = copy.state();
  const DatabaseFiles scratch{copy.folder() + "/compare"};
  if (auto cleared = removed(disk, scratch); !cleared) return tl::unexpected(cleared.error());  // left over from a comparison that was killed
  RebuildOptions options;
  options.until.offset = copy.state().offset;
  options.progress = progress;
  auto state = rebuild_into(runtime, disk, stream, scratch.db, options);
  if (!state) return tl::unexpected(state.error());
  out.stream = *state;
  Result<> done;
  const std::uint32_t pages = std::max(out.stream.page_count, out.copy.page_count);
  if (pages != 0 && out.stream.page_size == out.copy.page_size) done = compare_pages(disk, copy, scratch.db, out.copy.page_size, pages, out);
  else if (pages != 0) out.differing = pages;
  static_cast<void>(removed(disk, scratch));  // only tidies
  if (!done) return tl::unexpected(done.error());
  return out;
}

Result<Comparison> compare(const Copy& copy, core::Stream& stream, const ProgressFn& progress) {
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  return compare(*runtime, *disk, copy, stream, progress);
}

}  // namespace onepen::sqlite
