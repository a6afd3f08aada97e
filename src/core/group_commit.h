// When the next batch goes to the home: two bounds that pull in opposite directions. Pure; a value; thread-safety: none.
//
//   WriteRate   what it may cost: so many objects a second, on average; what was not used for a second may be used at once
//   Linger      how long a commit may wait for company when nobody waits for it (durability=local): adapts to the load and to the time that a create takes
//
//   answered ──── linger ────▶ next batch      an idle log is past its linger: the first commit goes at once
//        company in the batch: twice as long, up to `most`        a batch of one: half as long, not below what a create takes
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/runtime.h"

namespace onepen::core {

class WriteRate {
 public:
  explicit WriteRate(double per_second) : per_second_(per_second) {}  // 0: no bound
  // The earliest time at which one more object may be written. In any t seconds it lets pass at most per_second * (t + 1) objects, and at least one.
  Instant next() const;
  void wrote(Instant now);  // also what had to be written whatever the rate says: it counts

 private:
  double per_second_;
  std::optional<Instant> used_up_to_{};  // the time at which all that was written is paid for
};

inline constexpr std::chrono::nanoseconds kFirstLinger = std::chrono::milliseconds(1);

// What waits to be sent.
struct Waiting {
  std::uint64_t commits = 0, bytes = 0;
};

class Linger {
 public:
  explicit Linger(std::chrono::nanoseconds most) : most_(most) {}
  // When what waits should go: in the past, at once. With a full batch waiting there is no time to lose.
  Instant send_at(const Waiting& waiting) const;
  // A batch of so many commits was answered; a create took so long.
  void answered(Instant now, std::uint64_t commits, std::chrono::nanoseconds create);
  std::chrono::nanoseconds now() const { return linger_; }

 private:
  std::chrono::nanoseconds most_;
  std::chrono::nanoseconds linger_{0}, create_{0};  // create_: smoothed
  std::optional<Instant> answered_{};
};

inline constexpr std::uint64_t kFullBatchCommits = 256;        // what one batch takes (fence.md: a writer keeps at most 256 undecided appends)
inline constexpr std::uint64_t kFullBatchBytes = 4u << 20;     // of WAL

}  // namespace onepen::core
