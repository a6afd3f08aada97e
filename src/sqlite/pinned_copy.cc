#include "sqlite/pinned_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sqlite/platform_file.h"
#include "sqlite/wal_tail.h"

namespace onepen::sqlite {
namespace {

// Of the WAL, while a pin keeps SQLite from beginning it anew: this, or as much as the database has. A large database takes long to read, and one that is
// written to at full speed must get its snapshot all the same, else its log grows without end.
constexpr std::uint64_t kMostGrowthBytes = 256u << 20;

class PinnedWal final : public PinnedCopy {
 public:
  PinnedWal(io::Disk& disk, WalHold& hold, const std::string& path, WalHold::Boundary boundary)
      : hold_(hold), boundary_(std::move(boundary)), tail_(disk, path + "-wal") {}
  ~PinnedWal() override {
    file_.reset();
    hold_.unpin();
  }

  Result<> load(const std::string& path) {
    auto file = PlatformFile::open(path);
    if (!file) return tl::unexpected(file.error());
    file_ = std::move(*file);
    if (boundary_.place.frame == 0) return {};
    std::uint32_t before = boundary_.began_with;
    std::vector<std::uint32_t> written;
    const auto there = tail_.open();
    if (!there) return tl::unexpected(there.error());
    const WalPlace begin = tail_.place();
    while (*there && begin.salt1 == boundary_.place.salt1 && begin.salt2 == boundary_.place.salt2 && tail_.place().frame < boundary_.place.frame) {
      const auto frame = tail_.next(boundary_.place.frame);
      if (!frame) return tl::unexpected(frame.error());
      if (!*frame) break;
      frames_[(*frame)->page_number] = tail_.place().frame;
      written.push_back((*frame)->page_number);
      if ((*frame)->page_count_after != 0) commit(before, (*frame)->page_count_after, written);
    }
    if (tail_.place() == boundary_.place) return {};
    return tl::unexpected(Error{Outcome::unavailable, fmt::format("the WAL of {} is not what was published", path), {}});
  }

  const CommitState& state() const override { return boundary_.state; }

  Result<> read(std::uint32_t page_number, std::span<std::byte> image) override {
    if (gaps_.contains(page_number)) {
      std::fill(image.begin(), image.end(), std::byte{0});
      return {};
    }
    if (const auto found = frames_.find(page_number); found != frames_.end()) return tail_.read_image(found->second, image);
    return file_->read(static_cast<std::uint64_t>(page_number - 1) * image.size(), image);
  }

  bool overdue() const override {
    const WalHold::View view = hold_.view();
    const std::uint64_t page_size = boundary_.state.page_size, most = std::max(kMostGrowthBytes, boundary_.state.page_count * page_size);
    return hold_.closing() || std::uint64_t{view.published.frame - boundary_.place.frame} * page_size > most;
  }

 private:
  // One commit of the WAL: which pages are gaps after it (wal_hold.h).
  void commit(std::uint32_t& before, std::uint32_t after, std::vector<std::uint32_t>& written) {
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    update_gaps(gaps_, boundary_.state.page_size, before, after, written);
    before = after;
    written.clear();
  }

  WalHold& hold_;
  const WalHold::Boundary boundary_;
  WalTail tail_;
  std::unique_ptr<PlatformFile> file_;
  std::unordered_map<std::uint32_t, WalSlot> frames_;
  std::set<std::uint32_t> gaps_;
};

}  // namespace

Result<std::unique_ptr<PinnedCopy>> pin_copy(io::Disk& disk, WalHold& hold, const std::string& copy_path, Instant deadline) {
  auto boundary = hold.pin(deadline);
  if (!boundary)
    return tl::unexpected(
        Error{Outcome::unavailable, fmt::format("{} is busy (a checkpoint runs, commits are on their way, or it is being closed)", copy_path), {}});
  auto pinned = std::make_unique<PinnedWal>(disk, hold, copy_path, std::move(*boundary));
  if (auto loaded = pinned->load(copy_path); !loaded) return tl::unexpected(loaded.error());
  return pinned;
}

}  // namespace onepen::sqlite
