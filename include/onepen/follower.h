// onepen/follower.h: a database that is read beside its writer. It claims nothing, never writes to the home, and goes on by itself.
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
};

struct FollowerStatus {
  Offset offset;  // reads that begin now see everything up to it, at least
  std::uint64_t commits;  // since the beginning of the stream
  std::optional<Duration> staleness;  // since the home last said that there was nothing more; none: it has not yet
  std::string trouble;  // why it has not said so since; empty: all is well
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
  // Called once, on Onepen's thread, or at once when already reset. It must not call back.
  [[nodiscard]] Listening on_reset(std::function<void(const Reset&)> listener);

 private:
  explicit Follower(std::shared_ptr<struct FollowerState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct FollowerState> state_;
};

}  // namespace onepen
