#include "core/group_commit.h"

#include <algorithm>

namespace onepen::core {
namespace {

constexpr int kSmoothing = 4;  // one create that was slow moves the mean by a quarter

std::chrono::nanoseconds apart(double per_second) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(1 / per_second));
}

}  // namespace

Instant WriteRate::next() const {
  if (per_second_ <= 0 || !used_up_to_) return Instant::min();
  // One object is paid for in `apart`; a rest of a second, or of the time of one object, may be caught up.
  return *used_up_to_ - std::max<std::chrono::nanoseconds>(std::chrono::seconds(1) - apart(per_second_), {});
}

void WriteRate::wrote(Instant now) {
  if (per_second_ <= 0) return;
  used_up_to_ = (used_up_to_ ? std::max(*used_up_to_, now) : now) + apart(per_second_);
}

Instant Linger::send_at(const Waiting& waiting) const {
  if (!answered_ || waiting.commits >= kFullBatchCommits || waiting.bytes >= kFullBatchBytes) return Instant::min();
  return *answered_ + linger_;
}

void Linger::answered(Instant now, std::uint64_t commits, std::chrono::nanoseconds create) {
  create_ = answered_ ? create_ + (create - create_) / kSmoothing : create;
  answered_ = now;
  const auto least = std::max(create_, kFirstLinger);
  linger_ = commits > 1 ? std::max(2 * linger_, least) : std::max(linger_ / 2, create_);
  linger_ = std::min(linger_, most_);
}

}  // namespace onepen::core
