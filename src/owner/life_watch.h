// Is the owner of a stream gone? (homes.md 1, "Liveness"; fence.md, "The claim".) Advice for a standby: the claim that follows is conditional upon exactly what was
// seen, so a wrong answer costs at most an ownership that changes hands, never a commit.
//
//     look ──sign of life──▶ silence 0      look ──nothing new──▶ silence grows by the time since the last look      silence ≥ term ──▶ gone
//
// A sign of life is a claim, an append, or a change of the owner's liveness object. Time is the watcher's own monotonic clock, and only as much of it counts as was
// watched: a gap between two looks (the watcher stood still, or its home was out of reach) counts as a quarter of the term at most. So a machine that wakes up
// looks for a good part of a term again before it takes anything from anybody. An owner that told a longer term than the watcher's is given that. Pure; thread-safety: none.
#pragma once
#include <algorithm>
#include <optional>

#include "base/runtime.h"
#include "owner/owner.h"

namespace onepen::owner {

class LifeWatch {
 public:
  struct Sight {
    ClaimId claim;
    Offset tail;
    std::optional<Bytes> pulse{};  // content of the liveness object; none: there is none
    bool operator==(const Sight&) const = default;
  };

  explicit LifeWatch(std::chrono::nanoseconds term) : term_(term) {}

  // One look, that succeeded: the home was asked at `now` or later. True: a sign of life, or the first look.
  bool saw(Instant now, Sight sight);
  bool gone() const { return silence_ >= std::max(term_, owners_); }
  std::chrono::nanoseconds silence() const { return silence_; }
  const std::optional<Sight>& last() const { return last_; }
  void begin_again() { last_.reset(), silence_ = {}; }  // as if nothing had been seen

 private:
  const std::chrono::nanoseconds term_;
  std::chrono::nanoseconds owners_{0};  // the term that the owner told
  std::chrono::nanoseconds silence_{0};
  std::optional<Sight> last_;
  Instant looked_{};
};

}  // namespace onepen::owner
