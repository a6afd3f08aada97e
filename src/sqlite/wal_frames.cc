#include "sqlite/wal_frames.h"

#include <algorithm>

#include "sqlite/wal_file.h"

namespace onepen::sqlite {
namespace {
// wal.c: HASHTABLE_NPAGE, and what the first region holds less for the wal-index header.
constexpr std::uint32_t kSlotsPerRegion = 4096;
constexpr std::uint32_t kSlotsInFirstRegion = 4096 - 136 / 4;
}  // namespace

std::uint32_t read_be32(const std::uint8_t* b) {
  return static_cast<std::uint32_t>(b[0]) << 24 | static_cast<std::uint32_t>(b[1]) << 16 | static_cast<std::uint32_t>(b[2]) << 8 | b[3];
}

std::int64_t wal_slot_offset(std::uint32_t page_size, WalSlot slot) {
  return static_cast<std::int64_t>(kWalHeaderBytes) + static_cast<std::int64_t>(slot - 1) * static_cast<std::int64_t>(kWalFrameHeaderBytes + page_size);
}

int wal_index_region(WalSlot slot) { return static_cast<int>((slot + kSlotsPerRegion - kSlotsInFirstRegion - 1) / kSlotsPerRegion); }

WalWrite classify_wal_write(std::uint32_t page_size, std::int64_t offset, int size) {
  if (offset == 0 && size == static_cast<int>(kWalHeaderBytes)) return {WalWriteKind::wal_header, 0};
  const auto header = static_cast<std::int64_t>(kWalHeaderBytes);
  if (page_size == 0 || offset < header) return {};
  const auto frame = static_cast<std::int64_t>(kWalFrameHeaderBytes + page_size);
  const auto slot = static_cast<WalSlot>((offset - header) / frame + 1);
  const std::int64_t within = (offset - header) % frame;
  if (within == 0 && size == static_cast<int>(kWalFrameHeaderBytes)) return {WalWriteKind::frame_header, slot};
  if (within == static_cast<std::int64_t>(kWalFrameHeaderBytes) && size == static_cast<int>(page_size)) return {WalWriteKind::frame_page, slot};
  return {};
}

void WalFrames::found(Salts salts, const std::unordered_map<std::uint32_t, WalSlot>& newest, WalSlot committed) {
  salts_ = salts;
  committed_map_ = newest;
  committed_ = committed;
  running_.clear();
  for (const auto& [page, slot] : newest) highest_ = std::max(highest_, page);
}

void WalFrames::begin(WalSlot committed) {
  if (committed == 0) committed_map_.clear();
  committed_ = committed;
  running_.clear();
}

void WalFrames::restart(Salts salts) {
  salts_ = salts;
  highest_ = 0;
  committed_map_.clear();
  committed_ = 0;
  running_.clear();
}

void WalFrames::frame(WalSlot slot, std::uint32_t page_number) {
  if (slot <= committed_) return;  // a checksum written anew
  const std::size_t index = slot - committed_ - 1;
  if (index >= running_.size()) running_.resize(index + 1, 0);
  running_[index] = page_number;
}

std::optional<std::vector<ChangedPage>> WalFrames::changes(WalSlot commit_slot, std::uint32_t page_count_after) const {
  if (commit_slot <= committed_ || commit_slot - committed_ > running_.size()) return std::nullopt;
  std::vector<ChangedPage> pages;
  pages.reserve(commit_slot - committed_);
  for (WalSlot slot = committed_ + 1; slot <= commit_slot; ++slot) {
    const std::uint32_t number = running_[slot - committed_ - 1];
    if (number == 0) return std::nullopt;
    if (number <= page_count_after) pages.push_back({number, slot});
  }
  std::sort(pages.begin(), pages.end(),
            [](const ChangedPage& a, const ChangedPage& b) { return a.number != b.number ? a.number < b.number : a.slot > b.slot; });
  pages.erase(std::unique(pages.begin(), pages.end(), [](const ChangedPage& a, const ChangedPage& b) { return a.number == b.number; }), pages.end());
  return pages;
}

std::optional<std::size_t> WalFrames::running_pages(WalSlot commit_slot, std::uint32_t page_count_after) const {
  if (commit_slot <= committed_ || commit_slot - committed_ > running_.size()) return std::nullopt;
  std::size_t pages = 0;
  for (WalSlot slot = committed_ + 1; slot <= commit_slot; ++slot) {
    const std::uint32_t number = running_[slot - committed_ - 1];
    if (number == 0) return std::nullopt;
    if (number <= page_count_after) ++pages;
  }
  return pages;
}

void WalFrames::land(WalSlot commit_slot, std::uint32_t page_count_after) {
  for (WalSlot slot = committed_ + 1; slot <= commit_slot; ++slot) {
    const std::uint32_t number = running_[slot - committed_ - 1];
    committed_map_[number] = slot;
    highest_ = std::max(highest_, number);
  }
  if (highest_ > page_count_after) {  // cut: what comes back is no continuation of it
    std::erase_if(committed_map_, [&](const auto& entry) { return entry.first > page_count_after; });
    highest_ = page_count_after;
  }
  committed_ = commit_slot;
  running_.clear();
}

std::optional<WalSlot> WalFrames::committed_slot(std::uint32_t page_number) const {
  const auto found = committed_map_.find(page_number);
  if (found == committed_map_.end()) return std::nullopt;
  return found->second;
}

}  // namespace onepen::sqlite
