#include "home/object/log_ahead.h"

#include <algorithm>

namespace onepen::home {

LogAhead::LogAhead(Runtime& runtime, ObjectStore& store, KeyOf key, std::uint64_t first, std::uint64_t last)
    : store_(store), key_(std::move(key)), next_(first), unasked_(first), last_(last), crew_(runtime, "log-ahead", store.at_once()) {
  ask_more();
}

// Twice as many as are under way: whoever folds is given time.
void LogAhead::ask_more() {
  const auto most = std::clamp<std::uint64_t>(kAheadBytes / std::max<std::uint64_t>(largest_, 1), 1, 2 * store_.at_once());
  for (; unasked_ <= last_ && crew_.asked() < most; ++unasked_) crew_.ask([&store = store_, key = key_(unasked_)] { return store.get(key); });
}

std::optional<Bytes> LogAhead::take(std::uint64_t id) {
  if (!covers(id)) return std::nullopt;
  std::optional<Result<Bytes>> got;
  for (; next_ <= id; ++next_) {
    ask_more();
    got = crew_.take();
  }
  if (!got || !*got) return std::nullopt;
  largest_ = seen_ ? std::max<std::uint64_t>(largest_, (*got)->size()) : (*got)->size();
  seen_ = true;
  ask_more();
  return std::move(**got);
}

}  // namespace onepen::home
