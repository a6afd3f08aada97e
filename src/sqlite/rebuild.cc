#include "sqlite/rebuild.h"

#include <fmt/format.h>

#include <algorithm>

#include "sqlite/apply.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> refused(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }

// Calls `take` with every record from `from` on, until the tail or `until`.
Result<> read_all(core::Stream& stream, Offset from, const std::optional<Offset>& until, const ProgressFn& progress,
                  const std::function<Result<>(const core::Record&)>& take) {
  std::uint64_t done_bytes = 0;
  for (;;) {
    auto read = stream.read(from, core::ReadLimit{});
    if (!read) return refused(read.error());
    for (const core::Record& record : read->records) {
      if (until && record.next > *until) return {};
      if (auto taken = take(record); !taken) return taken;
      done_bytes += record.payload.size();
    }
    if (progress && !read->records.empty()) progress({"read", done_bytes, 0, read->next.text});
    from = read->next;
    if (read->up_to_date) return {};
  }
}

void remove_files(const DatabaseFiles& files) {
  for (const std::string& path : {files.batch(), files.wal(), files.shm(), files.db}) static_cast<void>(remove_file(path));
}

// Page by page; the lock-byte page has no content.
Result<> compare_files(const std::string& ours, const std::string& theirs, std::uint32_t page_size, std::uint32_t page_count, Comparison& out) {
  auto a = open_file(ours, OpenMode::read);
  if (!a) return tl::unexpected(a.error());
  auto b = open_file(theirs, OpenMode::read);
  if (!b) return tl::unexpected(b.error());
  Bytes left(page_size), right(page_size);
  for (std::uint32_t n = 1; n <= page_count; ++n) {
    if (n == lock_byte_page(page_size)) continue;
    const std::uint64_t at = (std::uint64_t{n} - 1) * page_size;
    auto got_left = read_at(a->fd(), at, left, ours);
    if (!got_left) return tl::unexpected(got_left.error());
    auto got_right = read_at(b->fd(), at, right, theirs);
    if (!got_right) return tl::unexpected(got_right.error());
    ++out.pages;
    if (*got_left == page_size && *got_right == page_size && left == right) continue;
    ++out.differing;
    if (out.first.size() < kMaxNamedPages) out.first.push_back(n);
  }
  return {};
}

}  // namespace

Result<> Copy::catch_up(core::Stream& stream, const ProgressFn& progress) {
  const auto take = [this](const core::Record& record) { return apply(record); };
  auto read = read_all(stream, position(), {}, progress, take);
  if (!read && read.error().outcome == Outcome::gone && !position().text.empty()) {
    if (auto emptied = start_over(); !emptied) return emptied;
    read = read_all(stream, position(), {}, progress, take);
  }
  return read ? settle() : read;
}

Result<CommitState> rebuild_into(core::Stream& stream, const std::string& path, const ProgressFn& progress, const std::optional<Offset>& until) {
  const DatabaseFiles files{path};
  for (const std::string& taken : {files.db, files.wal(), files.batch()}) {
    if (file_exists(taken)) {
      return tl::unexpected(Error{Outcome::invalid, fmt::format("{} exists already: name a file that does not, or move it away", taken), std::nullopt});
    }
  }
  CommitState state;
  const auto run = [&]() -> Result<> {
    Applier applier(files, PageTable{}, CommitState{}, [](const CommitState&, const CommitState&) -> Result<> { return {}; });
    auto read = read_all(stream, Offset{}, until, progress, [&](const core::Record& record) { return applier.apply(record); });
    if (!read) return read;
    if (auto settled = applier.settle(); !settled) return settled;
    state = applier.state();
    return {};
  };
  auto done = run();
  if (!done) {
    remove_files(files);
    return tl::unexpected(done.error());
  }
  static_cast<void>(remove_file(files.batch()));  // what is left of parts without their last
  return state;
}

Result<Comparison> compare(const Copy& copy, core::Stream& stream, const ProgressFn& progress) {
  Comparison out;
  out.copy = copy.state();
  const DatabaseFiles scratch{copy.folder() + "/compare"};
  remove_files(scratch);  // left over from a comparison that was killed
  auto state = rebuild_into(stream, scratch.db, progress, copy.state().offset);
  if (!state) return tl::unexpected(state.error());
  out.stream = *state;
  Result<> done;
  const std::uint32_t pages = std::max(out.stream.page_count, out.copy.page_count);
  if (pages != 0 && out.stream.page_size == out.copy.page_size) done = compare_files(copy.db_path(), scratch.db, out.copy.page_size, pages, out);
  else if (pages != 0) out.differing = pages;
  remove_files(scratch);
  if (!done) return tl::unexpected(done.error());
  return out;
}

}  // namespace onepen::sqlite
