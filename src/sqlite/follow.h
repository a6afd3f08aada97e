// Follows a stream on a thread of its own: reads on, and lets a live copy (copy.h, go_live) show each batch of commits. It never writes to the home.
//
//     read ──records──▶ apply, settle ──▶ read …          up to date: wait for more, as the home can; a failure is tried again, more and more slowly
//
// A stream that was restored, or trimmed past where the copy is, is read anew, and readers see it when it is whole. What cannot be followed any further ends it, once
// (`ended`): the stream was removed; somebody wrote to the copy; its disk failed. Readers go on with what they see, if they are let (I8: it carries its offset).
// Thread-safety: begin and stop from one thread; the rest from any.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/runtime.h"
#include "core/home.h"
#include "sqlite/copy.h"
#include "sqlite/waiters.h"

namespace onepen::sqlite {

inline constexpr std::chrono::milliseconds kFollowLook{100};

struct FollowStatus {
  CommitState state;  // what readers that begin now see, at least
  std::optional<Instant> contact{};  // the home said at this time, or later, that nothing more was there than was read
  std::string trouble{};  // why the home has not been read since; empty: all is well
  std::optional<Error> ended{};  // nothing more is read
  bool over = false;  // the same, and a turn wanted it so
};

// What whoever follows does between two reads, on the following thread (a standby looks after the owner, and may take over).
enum class FollowTurn : std::uint8_t {
  go_on,
  moved,  // the copy was read on, or that was tried: it is asked where it stands
  over,  // nothing more is read: the copy is somebody else's business from here on
};
struct FollowManners {
  std::chrono::nanoseconds look = kFollowLook;  // how long one wait for more lasts; then the home is asked anew
  core::Pace pace{};  // of the home; where each look is paid for it reads at this pace, in place of waits
  std::function<FollowTurn(core::Stream&)> turn{};  // after each read; `stream` is that thread's
  std::function<std::chrono::nanoseconds()> patience{};  // until the next turn, at most
  std::shared_ptr<std::atomic<int>> company = std::make_shared<std::atomic<int>>(0);  // how many follow in this process, with this one
};

class Follow {
 public:
  // Everything outlives it. copy: live. ended: called once, on its thread, unless a turn said `over`.
  Follow(Runtime& runtime, Copy& copy, std::unique_ptr<core::Stream> stream, std::string name, std::function<void(const Error&)> ended, Log log,
         FollowManners manners = {});
  ~Follow();  // stop()
  void begin();
  void stop();
  void wake();  // takes a turn soon

  FollowStatus status() const;
  // Readers that begin after it returned see everything up to `offset`. Errors: unavailable: not within the time, and why; what ended it; invalid: no offset.
  Result<> wait_for(const Offset& offset, Instant deadline);
  // Whether the home was asked within `most`; asks at once if not, and waits for the answer until `deadline`. Errors: unavailable: how long ago it was.
  Result<> fresh(std::chrono::nanoseconds most, Instant deadline);

 private:
  struct Run {
    bool news, up_to_date;
  };
  void run();
  Result<std::optional<Run>> read_on();
  void in_trouble(const std::string& why);
  Result<> begin_anew(const core::Refusal& why);
  bool take_turn();
  std::chrono::nanoseconds least_of(std::chrono::nanoseconds time) const;
  void pause(std::chrono::nanoseconds time);
  void failed(const Error& error);

  Runtime& runtime_;
  Copy& copy_;
  std::unique_ptr<core::Stream> stream_;
  const std::string name_;
  const std::function<void(const Error&)> ended_;
  const Log log_;
  const FollowManners manners_;
  std::atomic<bool> stop_{false}, asked_{false};
  std::unique_ptr<Signal> wake_;
  Waiters changed_;
  std::chrono::nanoseconds backoff_{0};
  Offset position_;  // where the next read begins: behind records that settle() does not show yet
  mutable Mutex mutex_;
  FollowStatus status_ ONEPEN_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> thread_;  // last
};

}  // namespace onepen::sqlite
