// onepen/follower.h: a database that is read beside its writer. It claims nothing, never writes to the home, and goes on by itself. And a warm standby: it becomes
// the writer when it is told to, or when the owner is gone.
//
// Concept: a Follower reads the stream of one name at one Home into a local copy, on a thread of its own. connect() hands out plain read-only sqlite3*; they never
// wait for what comes in, and see whole transactions only, in order. All Followers of a process of one database and cache root share one copy.
// Thread-safety: Follower is thread-safe and movable. A Connection is used by one thread at a time, as SQLite says.
// Errors: Result (onepen/result.h); no exception crosses.
// Ownership: following ends, and the copy is unlocked, when the Follower and all its Connections are gone.
#pragma once
#include <onepen/database.h>

#include <optional>

namespace onepen {

struct FollowOptions {
  std::string cache_root;  // folder of local copies, absolute; empty: ONEPEN_CACHE, else ~/.cache/onepen
  std::optional<Duration> max_staleness{};  // reads are refused when the home was last heard longer ago; none: never
  std::function<void(const Progress&)> progress{};  // of open(), on its thread
  // A standby. It claims when the owner closed, or handed over, or gave no sign of life for a whole term by this machine's monotonic clock (time in which it could not
  // look counts little). Its claim lands only upon what it watched, so two standbys, or one that was wrong, lose nothing. An owner opened without
  // OpenOptions::term gives no signs but its commits: an idle one counts as gone.
  bool takeover_when_owner_dead = false;
  Duration term{30'000};  // at least 100 ms
  OpenOptions as_owner{};  // what it is the owner with then; without a term of its own: this one. cache_root and progress: this follower's
  std::function<void()> on_take_over{};  // once, on Onepen's thread, when it has taken over by itself: take_over() then answers at once. It must not call back
};

struct FollowerStatus {
  Offset offset;  // reads that begin now see everything up to it, at least
  std::uint64_t commits;  // since the beginning of the stream
  std::optional<Duration> staleness;  // since the home last said that there was nothing more; none: it has not yet
  std::string trouble;  // why it has not said so since; empty: all is well
  bool owner = false;  // it has taken over: take_over() hands the Database out
  std::optional<Reset> reset;  // it was removed, or its copy written to or lost: nothing is read any more, and reads are refused
};

class Follower {
 public:
  // Brings the copy up to what is there, then goes on. Errors: not_found, unavailable, invalid (name, options), unauthorised, state_mismatch (the stream does not
  // fit itself).
  static Result<Follower> open(const Home& home, std::string_view name, FollowOptions options = {});
  // A read-only connection; as many as you like. Errors: epoch_closed once it is reset, unavailable.
  Result<Connection> connect();
  // Read your writes: reads that begin after it returned see everything up to `offset`, which Database::synced() returned. Errors: unavailable (not within
  // `limit`: how far it is, and why), or what ended it.
  Result<> wait_for(const Offset& offset, Duration limit);
  FollowerStatus status() const;
  // Becomes the owner, in place: whoever has the copy open reads on, and the Follower is used up when that succeeded. An owner that gives signs of life is asked to hand
  // over first, for at most 5 s: it sends what is pending and lets go, and its writers are refused for milliseconds only. Then, and for any other owner, this is an open
  // with Takeover::always. Errors: Database::open's; then it follows on. `options` count unless it has taken over by itself; cache_root: this follower's.
  Result<Database> take_over(OpenOptions options = {}) &&;
  // Called once, on Onepen's thread, or at once when already reset. It must not call back.
  [[nodiscard]] Listening on_reset(std::function<void(const Reset&)> listener);

 private:
  explicit Follower(std::shared_ptr<struct FollowerState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct FollowerState> state_;
};

}  // namespace onepen
