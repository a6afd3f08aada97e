#include "sqlite/wal_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/failpoint.h"
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
  Forward(int fd, const std::string& path) : fd_(fd), path_(path), buffer_(std::size_t{1} << 20) {}
  Result<ByteView> next(std::size_t size) {  // fewer at the end
    if (have_ - at_ < size) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(have_), buffer_.begin());
      have_ -= at_;
      at_ = 0;
      auto got = read_at(fd_, from_, std::span(buffer_).subspan(have_), path_);
      if (!got) return tl::unexpected(got.error());
      from_ += *got;
      have_ += *got;
    }
    const ByteView out = ByteView(buffer_).subspan(at_, std::min(size, have_ - at_));
    at_ += out.size();
    return out;
  }

 private:
  int fd_;
  const std::string& path_;
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

Result<WalContent> read_wal(const std::string& path) {
  WalContent content;
  auto file = open_file(path, OpenMode::read);
  if (!file) {
    if (file.error().outcome == Outcome::not_found) return content;
    return tl::unexpected(file.error());
  }
  Forward in(file->fd(), path);
  auto bytes = in.next(kWalHeaderBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  Header header;
  if (!parse_header(*bytes, header)) return content;
  content.page_size = header.page_size;
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
    const WalFrame frame{big(head), big(head + 4), at + kWalFrameHeaderBytes};
    if (frame.page_number == 0) break;
    content.frames.push_back(frame);
    if (frame.page_count_after != 0) {
      committed = content.frames.size();
      content.page_count = frame.page_count_after;
    }
  }
  content.frames.resize(committed);
  return content;
}

Result<WalWriter> WalWriter::create(const std::string& path, std::uint32_t page_size, std::uint64_t salt) {
  ONEPEN_CHECK(wire::valid_page_size(page_size), "a page size");
  WalWriter wal;
  wal.path_ = path;
  wal.page_size_ = page_size;
  wal.salt_ = salt;
  auto file = open_file(path, OpenMode::create);
  if (!file) return tl::unexpected(file.error());
  wal.file_ = std::move(*file);
  if (auto cut = cut_file(wal.file_.fd(), 0, path); !cut) return tl::unexpected(cut.error());
  std::byte header[kWalHeaderBytes]{};
  put_big(header, kMagicLittle);
  put_big(header + 4, kWalVersion);
  put_big(header + 8, page_size);
  put_big(header + 16, static_cast<std::uint32_t>(salt >> 32));
  put_big(header + 20, static_cast<std::uint32_t>(salt));
  wal.sum_.add(ByteView(header, 24), false);
  put_big(header + 24, wal.sum_.one);
  put_big(header + 28, wal.sum_.two);
  if (auto put = write_at(wal.file_.fd(), 0, header, path); !put) return tl::unexpected(put.error());
  wal.end_ = kWalHeaderBytes;
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
  if (ONEPEN_FAILPOINT("copy.wal_frame")) return tl::unexpected(file_error("write", path_, 5));
  if (auto put = write_at(file_.fd(), end_, buffer_, path_); !put) return tl::unexpected(put.error());
  const std::uint64_t image_at = end_ + kWalFrameHeaderBytes;
  end_ += buffer_.size();
  return image_at;
}

Result<> WalWriter::seal() { return cut_file(file_.fd(), end_, path_); }

Result<> WalWriter::read_image(std::uint64_t image_at, std::span<std::byte> out) const {
  auto got = read_at(file_.fd(), image_at, out, path_);
  if (!got) return tl::unexpected(got.error());
  if (*got != out.size()) return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} is shorter than what was written to it", path_), std::nullopt});
  return {};
}

Result<std::uint32_t> fold_wal(const WalContent& wal, int wal_fd, const std::string& wal_path, int db_fd, const std::string& db_path) {
  if (wal.page_count == 0) return 0;
  std::unordered_map<std::uint32_t, std::uint64_t> newest;
  for (const WalFrame& frame : wal.frames) newest[frame.page_number] = frame.image_at;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> pages(newest.begin(), newest.end());
  std::sort(pages.begin(), pages.end());
  Bytes image(wal.page_size);
  for (const auto& [number, image_at] : pages) {
    if (number > wal.page_count) continue;
    if (ONEPEN_FAILPOINT("copy.fold_page")) return tl::unexpected(file_error("write", db_path, 5));
    auto got = read_at(wal_fd, image_at, image, wal_path);
    if (!got) return tl::unexpected(got.error());
    if (auto put = write_at(db_fd, (std::uint64_t{number} - 1) * wal.page_size, image, db_path); !put) return tl::unexpected(put.error());
  }
  if (ONEPEN_FAILPOINT("copy.fold_cut")) return tl::unexpected(file_error("resize", db_path, 5));
  if (auto cut = cut_file(db_fd, std::uint64_t{wal.page_count} * wal.page_size, db_path); !cut) return tl::unexpected(cut.error());
  return wal.page_count;
}

}  // namespace onepen::sqlite
