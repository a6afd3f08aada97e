#include "sqlite/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/page_sum.h"
#include "sqlite/snapshot_part.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> given_up(std::string why) { return tl::unexpected(Error{Outcome::unavailable, std::move(why), std::nullopt}); }
tl::unexpected<Error> home_refused(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }

// Reads and hashes every page; those with content go to `packer`. Answers the page sum of what was read.
Result<std::uint64_t> pack_pages(PinnedCopy& pin, SnapshotPacker& packer, const SnapshotProgress& progress, const std::atomic<bool>* stop) {
  const CommitState& state = pin.state();
  constexpr std::uint32_t kAskEvery = 256;  // pages, between two looks at what may end it early
  Bytes image(state.page_size);
  std::uint64_t sum = 0;
  for (std::uint32_t n = 1; n <= state.page_count; ++n) {
    if (n % kAskEvery == 0) {
      if (stop != nullptr && stop->load(std::memory_order_acquire)) return given_up("the snapshot was given up: it was asked to stop");
      if (pin.overdue()) return given_up("the snapshot was given up: the WAL grew too far while it was being made, or the database is being closed");
      if (progress && n % (kAskEvery * 8) == 0) progress(std::uint64_t{n} * state.page_size, std::uint64_t{state.page_count} * state.page_size);
    }
    if (n == lock_byte_page(state.page_size)) continue;
    if (auto read = pin.read(n, image); !read) return tl::unexpected(read.error());
    sum += page_hash_of(n, image);
    if (auto added = packer.add(n, image); !added) return tl::unexpected(added.error());
  }
  return sum;
}

class FilePin final : public PinnedCopy {
 public:
  FilePin(std::unique_ptr<io::DiskFile> file, CommitState state) : file_(std::move(file)), state_(std::move(state)) {}
  const CommitState& state() const override { return state_; }
  Result<> read(std::uint32_t page_number, std::span<std::byte> image) override {
    auto got = file_->read_at((std::uint64_t{page_number} - 1) * state_.page_size, image);
    if (!got) return tl::unexpected(Error{Outcome::unavailable, got.error().message, std::nullopt});
    std::fill(image.begin() + static_cast<std::ptrdiff_t>(*got), image.end(), std::byte{0});  // a shorter file's missing pages are zeros
    return {};
  }
  bool overdue() const override { return false; }

 private:
  std::unique_ptr<io::DiskFile> file_;
  CommitState state_;
};

}  // namespace

Result<Bytes> write_snapshot_parts(PinnedCopy& pin, core::SnapshotWriter& writer, const SnapshotProgress& progress, const std::atomic<bool>* stop) {
  const CommitState state = pin.state();
  if (state.page_count == 0) return encode_snapshot_about({});
  SnapshotPacker packer(state.page_size, state.page_count, [&](ByteView part) -> Result<> {
    if (ONEPEN_FAILPOINT("snapshot.part")) return given_up("failpoint snapshot.part");
    auto added = writer.add(part);
    if (!added) return home_refused(added.error());
    return {};
  });
  auto sum = pack_pages(pin, packer, progress, stop);
  if (!sum) return tl::unexpected(sum.error());
  if (auto rest = packer.finish(); !rest) return tl::unexpected(rest.error());
  // Whoever begins with the snapshot sees none of the commits before it: it must be the commit it says, or nobody may ever find it (I9).
  if (guard_on(Guard::snapshot_fits) && *sum != state.page_sum) {
    return tl::unexpected(
        Error{Outcome::state_mismatch,
              fmt::format("no snapshot was made: the pages of the local copy at commit {} have the page sum {:016x}, and the commit says {:016x}. "
                          "The copy is damaged: close the database, and run `onepen verify`",
                          state.ordinal, *sum, state.page_sum),
              std::nullopt});
  }
  return encode_snapshot_about({state.ordinal, state.page_sum, state.page_count, state.page_size});
}

Result<core::SnapshotInfo> write_snapshot(PinnedCopy& pin, core::SnapshotWriter& writer, const SnapshotProgress& progress, const std::atomic<bool>* stop) {
  auto about = write_snapshot_parts(pin, writer, progress, stop);
  if (!about) return tl::unexpected(about.error());
  if (ONEPEN_FAILPOINT("snapshot.before_finish")) return given_up("failpoint snapshot.before_finish");
  auto info = writer.finish(*about);
  if (!info) return home_refused(info.error());
  return *info;
}

Result<std::unique_ptr<PinnedCopy>> pin_file(io::Disk& disk, const std::string& path, const CommitState& state) {
  if (state.page_count == 0) return std::make_unique<FilePin>(nullptr, state);
  auto file = disk.open(path, io::OpenMode::read);
  if (!file) return tl::unexpected(Error{Outcome::unavailable, file.error().message, std::nullopt});
  return std::make_unique<FilePin>(std::move(*file), state);
}

}  // namespace onepen::sqlite
