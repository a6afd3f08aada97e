// The local copy of one database on this machine: numbered folders under the cache root, each locked by one process; the place where SQLite really
// works. The stream is the truth; a copy is a cache that is checked, never assumed (I9), and one that does not fit is moved aside, never deleted.
//
//   <cache root>/<hash of home url>/<name>/<n>/   db  db-wal  db-shm  pages  state  claims  lock
//
// Page sum of a database: the sum modulo 2^64 of XXH3-64(page image, seed = page number) over its pages, the lock-byte page excluded; with the page
// count it is the "running checksum" that every commit frame names before and after.
//
// What a copy holds after a kill: just before a commit frame is written to the WAL (and after its acknowledgement), will_land() writes the state it is
// about to have, and where in the WAL, beside the one it has. At acquire the commits of the WAL are walked from its beginning, and each one's running sum is
// counted; the state whose place and sum are found is the copy's. With durability=local the WAL runs ahead of the stream: state() and place() say up to
// where its commits are in the stream, and everything behind is pending.
//
//     table `pages` = hash of each page at the WAL's beginning ──commit──commit──[state(), place()]──pending──pending   end of the WAL
//
// Opening costs the same however large the database is: only the frames of the WAL are hashed. After a restart of the machine, or when the file is another
// one, every page is hashed and compared. The WAL stays as it is (only db-shm is removed, so that SQLite recovers); it is folded into db only when records
// of the stream must be written into the database, which is never while something is pending.
//
// What the VFS shim tells, in this order, whenever SQLite begins its WAL:   wal_restarting() ─▶ wal_begun(salts) ─▶ the header is written
//   (no wal_restarting() before the first WAL of an opening that found none). What is told of a WAL is durable before the WAL is begun, so one of which
//   nothing was told is another database's, or an older one that came back: it counts only when it repeats what the database has, and a copy with any other
//   commit in it goes to salvage. So does one whose WAL is damaged in front of commits that nobody has sent, which SQLite's recovery would drop without a word.
// Thread-safety: state(), place(), behind(), owned() and page_hash() from any thread; acquire..settle, pending() and wal_pages() on the opening thread;
// will_land under SQLite's WAL write lock, acknowledged on the sender's thread, wal_restarting and wal_begun under the write lock or after the last close,
// remember_owned, poison and doubt on any: those that write wait for each other.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/runtime.h"
#include "io/disk.h"
#include "owner/owner.h"
#include "sqlite/wal_place.h"

namespace onepen::sqlite {

// The database at a boundary between two commits.
struct CommitState {
  Offset offset;  // position in the stream just after the commit, or after claims and control records that followed it; empty: nothing yet
  Incarnation incarnation{};  // nil: nothing yet
  std::uint64_t ordinal = 0;  // commits since the beginning of the stream
  std::uint64_t page_sum = 0;
  std::uint32_t page_count = 0;
  std::uint32_t page_size = 0;  // 0: no commit yet
  bool operator==(const CommitState&) const = default;
};

// A commit that the WAL holds and the stream, as far as is known, does not.
struct PendingCommit {
  std::uint64_t ordinal = 0;
  WalPlace end;
  std::uint32_t page_count = 0;  // of the database after it
  std::uint64_t page_sum = 0;  // the same
  std::uint32_t pages = 0;  // that it changes
  std::uint64_t wal_bytes = 0;  // its frames
};

struct CopyPlace {
  std::string cache_root, home_url;
  StreamName name;
};

enum class CopyUse : std::uint8_t { write, read };

// Of a copy that is read while it goes on (live_target.h).
struct LiveLimits {
  std::uint64_t checkpoint_bytes = 4u << 20;  // of WAL since the last checkpoint
  std::uint64_t batch_bytes = 8u << 20;  // a batch is published when it grew past this (one commit may be longer)
  std::uint64_t held_bytes = 1u << 20;  // of it, in memory: pages that several of its commits write are written once
  // A WAL that grew so large because some reader always reads from it: commits are held back for at most `hold`, until those that read now have ended (whoever begins
  // meanwhile reads the database file alone) and it can begin anew. In vain: again when it is twice as large. No reader waits; a commit is seen so much later.
  std::uint64_t hold_bytes = 1u << 30;
  std::chrono::milliseconds hold{1000};
};

class Copy : public owner::Fold, public owner::ClaimLog {
 public:
  // Takes an unlocked copy (one with unsent commits, else the newest) or makes another, and finds out what it holds. One that does not fit is moved to
  // <cache root>/salvage/<name>/<time>-<kind>/ and replaced by an empty one. Errors: unavailable (disk), invalid (newer format).
  // To read (a follower) one without unsent commits: what nobody has sent is no part of the stream. Call it while no SQLite connection of this process is on a
  // copy of this database.
  static Result<std::unique_ptr<Copy>> acquire(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const Log& log, CopyUse use = CopyUse::write);

  // A replica: the database file lies where the user said, for plain SQLite of any process to read, and what is known of it in the folder "<db_path>-onepen"
  // beside. It is only followed: begin_anew() while it holds nothing, then go_live(), and catch_up() never. What lies there and is no replica of this database
  // is refused (invalid); a replica that was written to, or that a loss of power has torn, is moved to "<db_path>.<time>-<kind>", and it holds nothing again.
  // Errors: invalid; unavailable (disk; another process keeps it; it is open while it would have to be moved).
  static Result<std::unique_ptr<Copy>> acquire_at(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const std::string& db_path, const Log& log);

  // Reads from position() to the tail, applies and settles: how a follower and the command line bring a copy up to date. While no SQLite connection is
  // on the copy. progress may be empty. Errors: not_found (no such stream), what the home refused, what apply() answers.
  Result<> catch_up(core::Stream& stream, const std::function<void(const owner::Progress&)>& progress = {});

  // From here on what apply() is given is written into the WAL, under SQLite connections that read meanwhile (live_target.h): a follower's. Nothing is pending,
  // everything is settled, and there is a commit. A copy that turns out not to fit its stream is not moved aside then, since it is open: apply() and start_over()
  // answer state_mismatch (diverged) or gone, and it is left to the next acquire. rest() ends it: no more is applied, and connections may close.
  // Errors: unavailable; state_mismatch: somebody else wrote to it.
  virtual Result<> go_live(const LiveLimits& limits) = 0;
  // A replica that holds nothing: reads the whole stream. Live, and the stream has no position behind which to read on: everything is read anew, and what differs is shown as one change. While it reads, readers see
  // what was there. Errors: Copy::catch_up's; state_mismatch: a database with pages of another size.
  virtual Result<> begin_anew(core::Stream& stream, const std::function<void(const owner::Progress&)>& progress = {}) = 0;
  virtual void rest() = 0;
  // Live so far, and its process has become the owner: from here on SQLite itself writes, upon a WAL in which everything is in the stream. release() when that is set up:
  // until then no connection can end the WAL.
  virtual void own() = 0;
  virtual void release() = 0;
  virtual const std::string& db_path() const = 0;  // the file exists once a commit was applied and settled
  virtual const std::string& folder() const = 0;  // of this copy: db, db-wal, db-shm, pages, state, claims, lock
  // The newest commit that this copy holds and that is known to be in the stream. Its offset moves on with claims and control records behind it.
  virtual CommitState state() const = 0;
  // Where that commit ends in the WAL. Salts that are not the WAL's (0: there is none): before the WAL's first frame.
  virtual WalPlace place() const = 0;
  // True: it was written down that the stream holds commits which this copy does not (it was killed between acknowledgement and frame, or its disk lost
  // them). It must be read on before anything is committed: never opened offline. apply() ends it.
  virtual bool behind() const = 0;
  // The whole commits of the WAL after place(), in order, as acquire() found them; apply() takes away those that it finds in the stream.
  virtual const std::vector<PendingCommit>& pending() const = 0;
  // The WAL as acquire() left it: page of each frame, in order (frame 1 first). SQLite's recovery will find the same.
  virtual const std::vector<std::uint32_t>& wal_pages() const = 0;
  // Pages of the database at the beginning of that WAL; all ones: not known. (For the gap pages of the commits that are in it: wal_hold.h.)
  virtual std::uint32_t wal_began_with() const { return 0xffffffff; }
  virtual std::uint64_t page_hash(std::uint32_t page_number) const = 0;  // at state(); 0 beyond the end
  // The commit whose frame is about to be written locally is in the stream at `next.offset`; hashes: its changed pages (number, new hash), each once.
  // place: where the commit frame will be; without one the next acquire tells by the sum at the end of the WAL alone. One write of 512 bytes, no sync. From
  // here on state() is `next`: if the frame then cannot be written, poison(). Errors: unavailable (disk);
  // state_mismatch when next.page_sum is not what the hashes give (a bug of the caller; nothing was written).
  virtual Result<> will_land(const CommitState& next, std::vector<std::pair<std::uint32_t, std::uint64_t>> hashes, const WalPlace& place = {}) = 0;
  // durability=local: the commit that ends at `place`, and was written to the WAL before, is in the stream now; `sequence`: that of its last append under the
  // ownership last told to remember_owned(); none: it was sent under another. Errors and hashes as above.
  virtual Result<> acknowledged(const CommitState& next, std::vector<std::pair<std::uint32_t, std::uint64_t>> hashes, const WalPlace& place,
                                std::optional<Sequence> sequence) = 0;
  // A record of another kind (of a snapshot, say) is about to be appended among the commits, and later: it is in the stream. What became of pending commits
  // can be told by how many appends landed only when it is known how many of those were commits. record_ahead: one write, synced. From any thread.
  virtual Result<> record_ahead() = 0;
  virtual void record_landed(Sequence sequence) = 0;
  // What is committed from here on is sent under no ownership so far (an offline opening, with nothing pending). One write, synced.
  virtual Result<> nothing_was_sent() = 0;
  // SQLite is about to begin the WAL anew, or to delete it: everything in it is in the database file, and acknowledged. `sync`: make the page table durable
  // (durability=local: so that a loss of power leaves a table from which the next WAL's commits can be told apart). Errors: unavailable: then SQLite must
  // not go on with it.
  virtual Result<> wal_restarting(bool sync) = 0;
  // SQLite is about to write the header of a new WAL with these salts. place() is its beginning from here on. One small write, synced.
  virtual Result<> wal_begun(std::uint32_t salt1, std::uint32_t salt2) = 0;
  // The ownership as it was answered: what an offline opening and a conditional claim stand on. remember_owned: one write, synced. nullopt: never owned.
  virtual Result<> remember_owned(const core::OwnerToken& token) = 0;
  virtual std::optional<core::OwnerToken> owned() const = 0;
  // Moves everything aside (a handle found that its pending commits can never be sent). Returns the folder. The copy is empty afterwards. While no SQLite
  // connection is on it.
  virtual Result<std::string> salvage(std::string_view kind, std::string_view why) = 0;
  virtual std::string salvaged() const { return {}; }  // the last folder to which this one moved what it had; empty: none. On the opening thread
  virtual Result<> poison(std::string_view why) = 0;  // not to be trusted again: the next acquire moves it aside
  // What the disk holds of db or of its WAL is not known (a sync failed); together they still have everything: the next acquire writes the WAL again,
  // hashes every page, and goes on with what fits. Nothing is moved aside for this alone: commits that nobody has sent are sent then. One write, synced.
  // Errors: unavailable.
  virtual Result<> doubt(std::string_view why) = 0;
  virtual Result<> close() = 0;  // after SQLite closed: unlocks. Idempotent; the destructor does it too
};

}  // namespace onepen::sqlite
