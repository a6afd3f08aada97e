#include "sqlite/capture_watch.h"

#include <cstring>
#include <utility>

namespace onepen::sqlite {
namespace {
constexpr std::size_t kIsInit = 12, kFrameCount = 16, kContentEnd = 40;  // [16, 40): frame count, page count, frame checksum, salts

bool same_content(const WalIndexHeader& a, const WalIndexHeader& b) {
  return std::memcmp(a.data() + kFrameCount, b.data() + kFrameCount, kContentEnd - kFrameCount) == 0;
}
}  // namespace

bool initialised(const WalIndexHeader& header) { return header[kIsInit] != 0; }

std::uint32_t frame_count(const WalIndexHeader& header) {
  std::uint32_t count = 0;
  std::memcpy(&count, header.data() + kFrameCount, sizeof count);
  return count;
}

bool CaptureWatch::taken(const std::optional<WalIndexHeader>& header) {
  const std::lock_guard lock(mutex_);
  if (!header || !initialised(*header)) {
    recovering_ = true;
    return true;
  }
  if (last_) return *last_ == *header;
  // The first lock of ours, and somebody's index is there: our copy was handed over with an empty WAL.
  return frame_count(*header) == 0;
}

bool CaptureWatch::releasing(const std::optional<WalIndexHeader>& header) {
  const std::lock_guard lock(mutex_);
  if (!header || !initialised(*header)) return true;  // nothing was made of it
  const bool recovered = std::exchange(recovering_, false);
  if (recovered) {
    const bool ours = last_ ? same_content(*last_, *header) : frame_count(*header) == 0;
    if (!ours) return false;
  }
  last_ = *header;
  return true;
}

void CaptureWatch::removed() {
  const std::lock_guard lock(mutex_);
  last_.reset();
  recovering_ = false;
}

}  // namespace onepen::sqlite
