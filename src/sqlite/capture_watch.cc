#include "sqlite/capture_watch.h"

#include <cstring>
#include <utility>

#include "sqlite/wal_frames.h"

namespace onepen::sqlite {
namespace {
constexpr std::size_t kIsInit = 12, kFrameCount = 16, kPageCount = 20, kChecksum = 24, kSalts = 32,
                      kContentEnd = 40;  // [16, 40): frame count, page count, frame checksum, salts

void put_be32(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

WalIndexHeader content_of(const WalEnd& end) {
  WalIndexHeader header{};
  const std::uint32_t native[] = {end.frame, end.page_count, end.checksum1, end.checksum2};
  std::memcpy(header.data() + kFrameCount, native, sizeof native);
  put_be32(header.data() + kSalts, end.salt1);
  put_be32(header.data() + kSalts + 4, end.salt2);
  return header;
}
}  // namespace

bool initialised(const WalIndexHeader& header) { return header[kIsInit] != 0; }

std::uint32_t frame_count(const WalIndexHeader& header) {
  std::uint32_t count = 0;
  std::memcpy(&count, header.data() + kFrameCount, sizeof count);
  return count;
}

std::uint32_t page_count(const WalIndexHeader& header) {
  std::uint32_t count = 0;
  std::memcpy(&count, header.data() + kPageCount, sizeof count);
  return count;
}

std::pair<std::uint32_t, std::uint32_t> salts(const WalIndexHeader& header) {
  return {read_be32(header.data() + kSalts), read_be32(header.data() + kSalts + 4)};
}

WalChecksum checksum(const WalIndexHeader& header) {
  WalChecksum sum;
  std::memcpy(&sum.one, header.data() + kChecksum, sizeof sum.one);
  std::memcpy(&sum.two, header.data() + kChecksum + 4, sizeof sum.two);
  return sum;
}

bool same_content(const WalIndexHeader& a, const WalIndexHeader& b) {
  return std::memcmp(a.data() + kFrameCount, b.data() + kFrameCount, kContentEnd - kFrameCount) == 0;
}

void CaptureWatch::found(const WalEnd& end) {
  const std::lock_guard lock(mutex_);
  last_ = content_of(end);
  only_content_ = true;
}

void CaptureWatch::unpublished(const WalEnd& end) {
  const std::lock_guard lock(mutex_);
  unpublished_ = content_of(end);
}

bool CaptureWatch::take_revived() {
  const std::lock_guard lock(mutex_);
  return std::exchange(revived_, false);
}

bool CaptureWatch::taken(const std::optional<WalIndexHeader>& header) {
  const std::lock_guard lock(mutex_);
  if (!header || !initialised(*header)) {
    recovering_ = true;
    return true;
  }
  // A follower's readers have had this index since before it took over: the WAL was scanned, and says what the index must say of it.
  if (last_ && only_content_) return same_content(*last_, *header);
  if (last_) return *last_ == *header;
  // The first lock of ours, and somebody's index is there: our copy was handed over with an empty WAL.
  return frame_count(*header) == 0;
}

bool CaptureWatch::releasing(const std::optional<WalIndexHeader>& header) {
  const std::lock_guard lock(mutex_);
  if (!header || !initialised(*header)) return true;  // nothing was made of it
  const bool recovered = std::exchange(recovering_, false);
  if (recovered) {
    revived_ = unpublished_ && same_content(*unpublished_, *header);
    const bool ours = revived_ || (last_ ? same_content(*last_, *header) : frame_count(*header) == 0);
    if (!ours) return false;
  }
  if (recovered || frame_count(*header) != (last_ ? frame_count(*last_) : 0)) unpublished_.reset();
  last_ = *header;
  only_content_ = false;
  return true;
}

void CaptureWatch::removed() {
  const std::lock_guard lock(mutex_);
  last_.reset();
  only_content_ = false;
  unpublished_.reset();
  recovering_ = false;
}

}  // namespace onepen::sqlite
