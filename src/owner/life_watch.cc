#include "owner/life_watch.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"

namespace onepen::owner {

bool LifeWatch::saw(Instant now, Sight sight) {
  const bool lives = !last_ || !(*last_ == sight);
  if (lives) silence_ = {};
  else if (guard_on(Guard::silence_was_watched)) silence_ += std::min<std::chrono::nanoseconds>(now - looked_, term_ / 4);
  else silence_ += now - looked_;
  owners_ = sight.pulse ? term_told(*sight.pulse) : std::chrono::nanoseconds{};
  last_ = std::move(sight);
  looked_ = now;
  return lives;
}

}  // namespace onepen::owner
