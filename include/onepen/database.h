// onepen/database.h: a SQLite database with exactly one writer. open() claims it: the process that had it is refused from its next write on.
//
// Concept: a Database is one ownership of one name at one Home, with a local copy that SQLite works on. connect() hands out plain sqlite3*; nobody wraps
// SQLite. A COMMIT returns once the home has acknowledged it. When somebody else opens the database this one *resets*, for good: its COMMITs and new
// transactions fail with SQLITE_AUTH, read transactions that were open go on, and status() and on_reset() say why.
// Thread-safety: Database is thread-safe and movable. A Connection is used by one thread at a time, as SQLite says.
// Errors: Result (onepen/result.h); no exception crosses.
// Ownership: the copy is unlocked and the ownership ended when the Database and all its Connections are gone.
#pragma once
#include <onepen/home.h>
#include <onepen/reset.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct sqlite3;

namespace onepen {

enum class Durability : std::uint8_t {
  replicated,  // COMMIT returns once the home has acknowledged it
  local,       // COMMIT is durable here when SQLite says so (PRAGMA synchronous) and follows to the home in the background; synced() waits for it there
};

enum class Takeover : std::uint8_t {
  always,   // the last to open wins
  if_dead,  // refuse (held) while the owner gives signs of life
  never,    // open only what nobody owns
};

struct Progress {
  std::string_view step;            // "warm", "claim", "read", "snapshot", "wait", "flush"
  std::uint64_t done_bytes = 0, total_bytes = 0;  // total 0: not known
};

struct OpenOptions {
  Durability durability = Durability::replicated;
  Takeover takeover = Takeover::always;
  std::string owner_name;           // for people; at most 256 bytes
  std::string cache_root;           // folder of local copies, absolute; empty: ONEPEN_CACHE, else ~/.cache/onepen
  bool offline = false;  // durability=local: when the home is out of reach, open from a trusted local copy; goes live when nobody opened meanwhile
  // Gives signs of life, so that a standby (onepen/follower.h), or an open with Takeover::if_dead, can tell within so long that this owner is gone; and can be asked
  // to hand over. With if_dead: how long open() watches. None: no signs, and 30 s. At least 100 ms.
  std::optional<Duration> term{};
  bool confirm_reads = false;  // each read transaction is first confirmed by the home
  // How soon an idle owner notices that it was fenced. None: 1 s in a directory; in a bucket, where each look is paid for, at its next commit.
  std::optional<Duration> notice_within{};
  // How long a COMMIT waits for the home before it fails. When the home refused it for certain (its disk is full) it is taken back, and the handle goes on; when
  // the home was silent it may be in the stream, and the handle resets `unresolved`.
  Duration commit_timeout{30'000};
  std::uint64_t max_pending_bytes = std::uint64_t{1} << 30;  // durability=local: bytes of commits not yet in the stream; above it COMMIT waits, then is refused
  // What commits cost (docs/operating/buckets.md). max_linger: durability=local: how long a commit waits at most for others before it is sent, under load; one on an
  // idle database is sent at once, and synced() waits for none. None: 20 ms in a directory, 250 ms in a bucket. At most 1 min.
  std::optional<Duration> max_linger{};
  // Objects of the log written a second, on average; after a rest a second's worth at once. Commits above it wait (COMMIT does, with durability=replicated) and go
  // together. It goes before max_linger. None: no bound. 0.1 to 10,000.
  std::optional<double> max_objects_per_second{};
  std::uint64_t snapshot_after = 0;  // bytes of log since the newest snapshot that make a new one; 0: as many as the database has, at least 8 MiB
  std::function<void(const Progress&)> progress{};  // of open(), on its thread
  std::uint32_t page_size = 4'096;  // bytes, of a database that is made: a power of two, 512..65536
};

struct CloseSqlite {
  void operator()(sqlite3*) const;
};
using Connection = std::unique_ptr<sqlite3, CloseSqlite>;
using Listening = std::shared_ptr<void>;  // dropping it unregisters

struct Status {
  enum class Role : std::uint8_t {
    owner,
    offline,  // opened without the home: commits are kept here until it can be reached
    reset,
  } role;
  Token token;  // this ownership
  Offset acknowledged;  // everything before it is in the stream
  std::uint64_t pending_commits;  // not yet decided
  std::optional<Reset> reset;
  // The folder to which open() moved the local copy that was there, because it holds commits that the stream cannot take any more, or is not trusted; empty:
  // it moved none. Its manifest.json says why; `onepen salvage` shows it, and makes a database of it.
  std::string salvaged{};
  // Requests of this process to the bucket since the database was opened, by kind: "get", "list", "create" (a log object, a part of a snapshot), "put", "erase"; those that were repeated
  // included. Empty: the home is no bucket.
  std::vector<std::pair<std::string, std::uint64_t>> requests{};
};

class Database {
 public:
  // Errors: held, claim_races, unavailable, unknown, invalid (name, options, a newer format), unauthorised, state_mismatch (the stream does not fit itself).
  // A name that is not there is made.
  static Result<Database> open(const Home& home, std::string_view name, OpenOptions options = {});
  // A connection to it; as many as you like. Errors: epoch_closed and its kin once the handle is reset, unavailable.
  Result<Connection> connect();
  // All commits so far are in the stream, and a look at it begun after the last of them found this process still its owner.
  Result<Offset> synced(Duration limit = Duration{30'000});
  // Called once, on Onepen's thread, or at once when already reset. It must not call back.
  [[nodiscard]] Listening on_reset(std::function<void(const Reset&)> listener);
  Status status() const;
  // Ends this handle; the ownership ends when its Connections are closed too. Sends what is pending for up to `flush`, and says what it could not
  // (unknown, unavailable): with durability=local that stays in the local copy, and the next open on this machine sends it. Idempotent; the destructor
  // does it.
  Result<> close(Duration flush = Duration{5'000});

 private:
  friend class Follower;  // take_over()
  explicit Database(std::shared_ptr<struct DatabaseState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct DatabaseState> state_;
};

}  // namespace onepen
