#include "sqlite/wal_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/failpoint.h"
#include "sqlite/page_sum.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {
namespace {

constexpr std::uint32_t kMagicLittle = 0x377f0682, kMagicBig = 0x377f0683;  // the words of checksums are read little- or big-endian
constexpr std::uint32_t kWalVersion = 3007000;

std::uint32_t big(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 | std::to_integer<std::uint32_t>(at[2]) << 8 |
         std::to_integer<std::uint32_t>(at[3]);
}
void put_big(std::byte* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(value >> (24 - 8 * i) & 0xff);
}

struct Header {
  bool big_endian = false;
  std::uint32_t page_size = 0;
  std::uint32_t salt_one = 0, salt_two = 0;
  WalChecksum sum;
};

bool parse_header(ByteView bytes, Header& header) {
  if (bytes.size() < kWalHeaderBytes) return false;
  const std::uint32_t magic = big(bytes.data());
  if (magic != kMagicLittle && magic != kMagicBig) return false;
  header.big_endian = magic == kMagicBig;
  if (big(bytes.data() + 4) != kWalVersion) return false;
  header.page_size = big(bytes.data() + 8);
  if (!wire::valid_page_size(header.page_size)) return false;
  header.salt_one = big(bytes.data() + 16);
  header.salt_two = big(bytes.data() + 20);
  header.sum.add(bytes.first(24), header.big_endian);
  return header.sum == WalChecksum{big(bytes.data() + 24), big(bytes.data() + 28)};
}

// Reads a file from front to back with few system calls.
class Forward {
 public:
  explicit Forward(io::DiskFile& file) : file_(file), buffer_(std::size_t{1} << 20) {}
  Result<ByteView> next(std::size_t size) {  // fewer at the end
    if (have_ - at_ < size) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(have_), buffer_.begin());
      have_ -= at_;
      at_ = 0;
      auto got = file_.read_at(from_, std::span(buffer_).subspan(have_));
      if (!got) return tl::unexpected(of_disk(got.error()));
      from_ += *got;
      have_ += *got;
    }
    const ByteView out = ByteView(buffer_).subspan(at_, std::min(size, have_ - at_));
    at_ += out.size();
    return out;
  }

 private:
  io::DiskFile& file_;
  Bytes buffer_;
  std::size_t at_ = 0, have_ = 0;
  std::uint64_t from_ = 0;
};

}  // namespace

void WalChecksum::add(ByteView bytes, bool big_endian) {
  ONEPEN_CHECK(bytes.size() % 8 == 0, "WAL checksums go over multiples of 8 bytes");
  const bool swap = big_endian == (std::endian::native == std::endian::little);
  std::uint32_t a = one, b = two;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint32_t word[2];
    std::memcpy(word, bytes.data() + i, 8);
    if (swap) word[0] = __builtin_bswap32(word[0]), word[1] = __builtin_bswap32(word[1]);
    a += word[0] + b;
    b += word[1] + a;
  }
  one = a, two = b;
}

Result<WalContent> read_wal(io::Disk& disk, const std::string& path, bool with_hashes) {
  WalContent content;
  auto file = open_on(disk, path, io::OpenMode::read);
  if (!file) {
    if (file.error().outcome == Outcome::not_found) return content;
    return tl::unexpected(file.error());
  }
  Forward in(**file);
  auto bytes = in.next(kWalHeaderBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  Header header;
  if (!parse_header(*bytes, header)) return content;
  content.page_size = header.page_size;
  content.salt1 = header.salt_one;
  content.salt2 = header.salt_two;
  WalChecksum sum = header.sum;
  std::size_t committed = 0;
  const std::size_t frame_bytes = kWalFrameHeaderBytes + header.page_size;
  for (std::uint64_t at = kWalHeaderBytes;; at += frame_bytes) {
    bytes = in.next(frame_bytes);
    if (!bytes) return tl::unexpected(bytes.error());
    if (bytes->size() < frame_bytes) break;
    const std::byte* head = bytes->data();
    if (big(head + 8) != header.salt_one || big(head + 12) != header.salt_two) break;
    sum.add(bytes->first(8), header.big_endian);
    sum.add(bytes->subspan(kWalFrameHeaderBytes), header.big_endian);
    if (!(sum == WalChecksum{big(head + 16), big(head + 20)})) break;
    WalFrame frame{big(head), big(head + 4), at + kWalFrameHeaderBytes};
    if (frame.page_number == 0) break;
    if (with_hashes) frame.hash = page_hash_of(frame.page_number, bytes->subspan(kWalFrameHeaderBytes));
    content.frames.push_back(frame);
    ++content.whole;
    if (frame.page_count_after != 0) {
      committed = content.frames.size();
      content.page_count = frame.page_count_after;
    }
  }
  content.frames.resize(committed);
  return content;
}

Result<std::vector<RawCommit>> raw_commits(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint32_t salt1, std::uint32_t salt2,
                                           std::uint32_t after, std::uint32_t max_gap) {
  std::vector<RawCommit> commits;
  auto file = open_on(disk, path, io::OpenMode::read);
  if (!file) {
    if (file.error().outcome == Outcome::not_found) return commits;
    return tl::unexpected(file.error());
  }
  std::vector<std::uint32_t> pages;
  std::uint32_t gap = 0;
  for (std::uint32_t number = after + 1; gap <= max_gap; ++number) {
    std::array<std::byte, kWalFrameHeaderBytes> head{};
    auto got = of_disk((*file)->read_at(kWalHeaderBytes + std::uint64_t{number - 1} * (kWalFrameHeaderBytes + page_size), head));
    if (!got) return tl::unexpected(got.error());
    if (*got < head.size()) break;
    if (big(head.data()) == 0 || big(head.data() + 8) != salt1 || big(head.data() + 12) != salt2) {
      ++gap;
      continue;
    }
    gap = 0;
    pages.push_back(big(head.data()));
    if (const std::uint32_t count = big(head.data() + 4); count != 0) commits.push_back({number, count, std::exchange(pages, {})});
  }
  return commits;
}

Result<WalWriter> WalWriter::open(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint64_t salt) {
  ONEPEN_CHECK(wire::valid_page_size(page_size), "a page size");
  WalWriter wal;
  wal.path_ = path;
  wal.page_size_ = page_size;
  wal.salt_ = salt;
  auto file = open_on(disk, path, io::OpenMode::create);
  if (!file) return tl::unexpected(file.error());
  wal.file_ = std::move(*file);
  return wal;
}

Result<> WalWriter::write_header() {
  std::byte header[kWalHeaderBytes]{};
  put_big(header, kMagicLittle);
  put_big(header + 4, kWalVersion);
  put_big(header + 8, page_size_);
  put_big(header + 16, salt1());
  put_big(header + 20, salt2());
  sum_.add(ByteView(header, 24), false);
  put_big(header + 24, sum_.one);
  put_big(header + 28, sum_.two);
  end_ = kWalHeaderBytes;
  return of_disk(file_->write_at(0, header));
}

Result<WalWriter> WalWriter::create(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint64_t salt) {
  auto wal = open(disk, path, page_size, salt);
  if (!wal) return wal;
  if (auto cut = of_disk(wal->file_->cut(0)); !cut) return tl::unexpected(cut.error());
  if (auto put = wal->write_header(); !put) return tl::unexpected(put.error());
  return wal;
}

Result<WalWriter> WalWriter::begin(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint32_t salt1, std::uint32_t salt2) {
  auto wal = open(disk, path, page_size, std::uint64_t{salt1} << 32 | salt2);
  if (!wal) return wal;
  if (auto put = wal->write_header(); !put) return tl::unexpected(put.error());
  return wal;
}

Result<WalWriter> WalWriter::resume(io::Disk& disk, const std::string& path, std::uint32_t page_size, const WalPlace& end, WalChecksum sum) {
  auto wal = open(disk, path, page_size, std::uint64_t{end.salt1} << 32 | end.salt2);
  if (!wal) return wal;
  wal->sum_ = sum;
  wal->frames_ = end.frame;
  wal->end_ = kWalHeaderBytes + std::uint64_t{end.frame} * (kWalFrameHeaderBytes + page_size);
  return wal;
}

Result<std::uint64_t> WalWriter::add(std::uint32_t page_number, std::uint32_t page_count_after, ByteView image) {
  ONEPEN_CHECK(image.size() == page_size_ && page_number != 0, "a whole page");
  buffer_.resize(kWalFrameHeaderBytes + page_size_);
  std::byte* head = buffer_.data();
  put_big(head, page_number);
  put_big(head + 4, page_count_after);
  put_big(head + 8, static_cast<std::uint32_t>(salt_ >> 32));
  put_big(head + 12, static_cast<std::uint32_t>(salt_));
  std::copy(image.begin(), image.end(), buffer_.begin() + kWalFrameHeaderBytes);
  sum_.add(ByteView(buffer_).first(8), false);
  sum_.add(image, false);
  put_big(head + 16, sum_.one);
  put_big(head + 20, sum_.two);
  if (ONEPEN_FAILPOINT("copy.wal_frame")) return io_failed("write", path_);
  if (auto put = of_disk(file_->write_at(end_, buffer_)); !put) return tl::unexpected(put.error());
  const std::uint64_t image_at = end_ + kWalFrameHeaderBytes;
  end_ += buffer_.size();
  ++frames_;
  return image_at;
}

Result<> WalWriter::seal() { return of_disk(file_->cut(end_)); }

Result<> WalWriter::read_image(std::uint64_t image_at, std::span<std::byte> out) const {
  auto got = of_disk(file_->read_at(image_at, out));
  if (!got) return tl::unexpected(got.error());
  if (*got != out.size()) return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} is shorter than what was written to it", path_), std::nullopt});
  return {};
}

WalView view_of(const WalContent& wal, std::uint32_t after, std::uint32_t count_before) {
  WalView view;
  std::uint32_t begin = after;
  for (std::uint32_t i = after; i < wal.frames.size(); ++i) {
    const std::uint32_t count = wal.frames[i].page_count_after;
    if (count == 0) continue;
    const std::uint32_t before = view.page_count != 0 ? view.page_count : count_before == kUnknownCount ? count : count_before;
    if (count < before) std::erase_if(view.frame_of, [&](const auto& page) { return page.first > count; });
    for (std::uint64_t n = std::uint64_t{before} + 1; n <= count; ++n) {
      if (n != lock_byte_page(wal.page_size)) view.frame_of[static_cast<std::uint32_t>(n)] = 0;
    }
    for (; begin <= i; ++begin) {
      if (wal.frames[begin].page_number <= count) view.frame_of[wal.frames[begin].page_number] = begin + 1;
    }
    view.page_count = count;
  }
  return view;
}

Result<std::uint32_t> fold_wal(const WalContent& wal, const WalView& view, io::DiskFile& wal_file, io::DiskFile& db, const std::string& db_path) {
  if (view.page_count == 0) return 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pages(view.frame_of.begin(), view.frame_of.end());
  std::sort(pages.begin(), pages.end());
  Bytes image(wal.page_size);
  for (const auto& [number, frame] : pages) {
    if (ONEPEN_FAILPOINT("copy.fold_page")) return io_failed("write", db_path);
    if (frame == 0) {
      std::fill(image.begin(), image.end(), std::byte{0});
    } else if (auto got = of_disk(wal_file.read_at(wal.frames[frame - 1].image_at, image)); !got) {
      return tl::unexpected(got.error());
    }
    if (auto put = of_disk(db.write_at((std::uint64_t{number} - 1) * wal.page_size, image)); !put) return tl::unexpected(put.error());
  }
  if (ONEPEN_FAILPOINT("copy.fold_cut")) return io_failed("resize", db_path);
  if (auto cut = of_disk(db.cut(std::uint64_t{view.page_count} * wal.page_size)); !cut) return tl::unexpected(cut.error());
  return view.page_count;
}

}  // namespace onepen::sqlite
