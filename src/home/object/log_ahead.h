// The next objects of a log, fetched before they are asked for: several at a time, handed out in order (homes.md: cold open). Only bytes: whether an object counts
// is the fold's to say, and the mark that makes it count is read after it was folded, so after it was fetched (B6). Used by one thread.
#pragma once
#include "home/object/object_store.h"
#include "home/object/request_crew.h"

namespace onepen::home {

// Bytes that are fetched and not folded, about: objects are counted by the largest one seen. Before any was seen each counts as the most that an owner puts into
// one by itself (owner::Options::max_batch_bytes).
inline constexpr std::uint64_t kAheadBytes = 64u << 20;
inline constexpr std::uint64_t kAheadGuess = 8u << 20;

class LogAhead {
 public:
  using KeyOf = std::function<std::string(std::uint64_t id)>;
  // `runtime` and `store` outlive it. Objects first … last, which a listing named.
  LogAhead(Runtime& runtime, ObjectStore& store, KeyOf key, std::uint64_t first, std::uint64_t last);

  bool covers(std::uint64_t id) const { return id >= next_ && id <= last_; }
  // Those before it are not asked for any more. None: it is not covered, or could not be fetched: whoever asks for it then is told why.
  std::optional<Bytes> take(std::uint64_t id);

 private:
  void ask_more();

  ObjectStore& store_;
  const KeyOf key_;
  std::uint64_t next_, unasked_;
  const std::uint64_t last_;
  std::uint64_t largest_ = kAheadGuess;
  bool seen_ = false;
  RequestCrew crew_;
};

}  // namespace onepen::home
