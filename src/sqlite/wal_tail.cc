#include "sqlite/wal_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "wire/commit_frame.h"

namespace onepen::sqlite {
namespace {

constexpr std::uint32_t kTailMagicLittle = 0x377f0682, kTailMagicBig = 0x377f0683;  // the lowest bit: words of the checksum are big-endian
constexpr std::uint32_t kTailVersion = 3007000;  // the only one there is; SQLite opens no other
constexpr std::size_t kTailBufferBytes = 256u << 10;

std::uint32_t be32_at(ByteView bytes, std::size_t at) { return read_be32(reinterpret_cast<const std::uint8_t*>(bytes.data() + at)); }

tl::unexpected<Error> tail_error(const io::DiskError& error) { return tl::unexpected(Error{Outcome::unavailable, error.message, {}}); }

}  // namespace

Result<bool> WalTail::open() {
  file_.reset();
  page_size_ = salt1_ = salt2_ = frame_ = 0;
  buffer_first_ = 1, buffer_frames_ = 0;
  image_ = {};
  auto file = disk_.open(path_, io::OpenMode::read);
  if (!file && file.error().code == ENOENT) return false;
  if (!file) return tail_error(file.error());
  std::array<std::byte, kWalHeaderBytes> header{};
  const auto got = (*file)->read_at(0, header);
  if (!got) return tail_error(got.error());
  if (*got < header.size()) return false;
  const std::uint32_t magic = be32_at(header, 0);
  if ((magic != kTailMagicLittle && magic != kTailMagicBig) || be32_at(header, 4) != kTailVersion) return false;
  big_endian_ = magic == kTailMagicBig;
  sum_ = {};
  sum_.add(ByteView(header).first(24), big_endian_);
  if (sum_.one != be32_at(header, 24) || sum_.two != be32_at(header, 28)) return false;
  const std::uint32_t page_size = be32_at(header, 8);
  if (!wire::valid_page_size(page_size)) return false;
  page_size_ = page_size;
  salt1_ = be32_at(header, 16);
  salt2_ = be32_at(header, 20);
  file_ = std::move(*file);
  return true;
}

// Brings the frame after frame_ into the buffer. False: the file ends before it.
Result<bool> WalTail::fill(std::uint32_t end) {
  const std::uint32_t wanted = frame_ + 1;
  if (wanted >= buffer_first_ && wanted < buffer_first_ + buffer_frames_) return true;
  const std::size_t frame_bytes = kWalFrameHeaderBytes + page_size_;
  const std::uint32_t frames = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(kTailBufferBytes / frame_bytes), 1, end - frame_);
  buffer_.resize(frames * frame_bytes);
  const auto got = file_->read_at(static_cast<std::uint64_t>(wal_slot_offset(page_size_, wanted)), buffer_);
  if (!got) return tail_error(got.error());
  buffer_first_ = wanted;
  buffer_frames_ = static_cast<std::uint32_t>(*got / frame_bytes);
  return buffer_frames_ > 0;
}

Result<std::optional<TailFrame>> WalTail::next(std::uint32_t end) {
  if (!file_ || frame_ >= end) return std::optional<TailFrame>{};
  const auto there = fill(end);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return std::optional<TailFrame>{};
  const std::size_t frame_bytes = kWalFrameHeaderBytes + page_size_;
  const ByteView frame = ByteView(buffer_).subspan((frame_ + 1 - buffer_first_) * frame_bytes, frame_bytes);
  const TailFrame found{be32_at(frame, 0), be32_at(frame, 4)};
  if (found.page_number == 0 || be32_at(frame, 8) != salt1_ || be32_at(frame, 12) != salt2_) return std::optional<TailFrame>{};
  WalChecksum sum = sum_;
  sum.add(frame.first(8), big_endian_);
  sum.add(frame.subspan(kWalFrameHeaderBytes), big_endian_);
  if (sum.one != be32_at(frame, 16) || sum.two != be32_at(frame, 20)) return std::optional<TailFrame>{};
  sum_ = sum;
  ++frame_;
  image_ = frame.subspan(kWalFrameHeaderBytes);
  return std::optional(found);
}

Result<> WalTail::read_image(WalSlot slot, std::span<std::byte> out) const {
  const auto at = static_cast<std::uint64_t>(wal_slot_offset(page_size_, slot)) + kWalFrameHeaderBytes;
  const auto got = file_->read_at(at, out);
  if (!got) return tail_error(got.error());
  if (*got < out.size()) return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} ends in the middle of frame {}", path_, slot), {}});
  return {};
}

Result<WalScan> scan_wal(io::Disk& disk, const std::string& path) {
  WalTail tail(disk, path);
  WalScan scan;
  const auto there = tail.open();
  if (!there) return tl::unexpected(there.error());
  if (!*there) return scan;
  scan.page_size = tail.page_size();
  scan.end = tail.place();
  scan.checksum = tail.checksum();
  for (;;) {
    const auto frame = tail.next(kMaxWalFrames);
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) break;
    scan.frames.push_back(**frame);
    if ((*frame)->page_count_after == 0) continue;
    scan.end = tail.place();
    scan.page_count = (*frame)->page_count_after;
    scan.checksum = tail.checksum();
  }
  scan.frames.resize(scan.end.frame);
  return scan;
}

}  // namespace onepen::sqlite
