// What in the WAL of an open database is not in the stream yet, and what therefore must not go away: the pending commits of durability=local live in SQLite's
// own WAL, so SQLite may not begin it anew before they are acknowledged.
//
//      acknowledged          published                     acknowledged == published: SQLite may begin the WAL anew, or delete it
//   |---------------|----------------------|.......        else the exclusive locks it would take for that are answered SQLITE_BUSY
//    in the stream    pending: kept here     being written
//
// Also: the gap pages of this WAL (pages that a commit grew the database over without writing them). They are pages of zeros in the stream; in the file SQLite
// leaves there whatever was there, which nobody reads. Before the WAL ends they are made zeros in the file as well, so that it has the stream's page sum.
//
// Meeting point of three kinds of threads: committers (publish, under SQLite's write lock; they never wait here but for room), the keeper's thread
// (acknowledge), and those that wait (synced, close). Thread-safe.
#pragma once
#include <atomic>
#include <set>
#include <span>
#include <vector>

#include "sqlite/copy.h"
#include "sqlite/waiters.h"

namespace onepen::sqlite {

// How a WAL was found when the database was opened (wal_tail.h).
struct WalBeginning {
  CommitState state;      // after the acknowledged one
  WalPlace published;     // its last whole commit
  WalPlace acknowledged;  // of them, the last one that is in the stream
  std::uint64_t pending = 0;
  std::set<std::uint32_t> gaps;
  std::uint32_t began_with = UINT32_MAX;  // pages of the database before its first commit; all ones: not known
};

class WalHold {
 public:
  explicit WalHold(Runtime& runtime);

  struct View {
    WalPlace published, acknowledged;
    std::uint64_t published_commits = 0, acknowledged_commits = 0;  // since the database was opened; what was pending then counts as published
    std::uint64_t pending() const { return published_commits - acknowledged_commits; }
    std::uint32_t pending_frames() const { return pending() == 0 ? 0 : published.frame - acknowledged.frame; }
  };
  View view() const;
  bool pending() const { return view().pending() != 0; }
  // May SQLite begin its WAL anew, or delete it?
  bool held() const;

  void begin(WalBeginning found);
  // ---- under SQLite's write lock
  // One more commit of durability=local is in the wal-index: from here on it can be sent.
  void publish(const WalPlace& end);
  // A replicated commit: acknowledged before it was published.
  void landed(const WalPlace& end, CommitState state);
  // A checkpoint wants to begin. False: something is pinned; or it comes right after a commit (automatic, as far as can be told), as the one before it did, and
  // few frames are new since: SQLite makes one after each commit while the WAL is large, but here the WAL stays large until the sender is done with it.
  // ended: what it has copied, at most, is the frames up to `backfilled`.
  bool checkpoint_begins(bool after_commit);
  void checkpoint_ended(std::uint32_t backfilled);
  // The restart lock is about to be taken: false: held. From then on nothing is pinned until restarted() or restart_over().
  bool restart_begins();
  void restart_over();
  // The last connection closes: nothing is pinned any more. False: held.
  bool close_begins();
  void close_over();
  // The WAL begins anew with these salts (0: it was deleted). Nothing is pending.
  void restarted(std::uint32_t salt1, std::uint32_t salt2);

  // ---- the keeper's thread
  void acknowledge(const WalPlace& end, CommitState state);
  // Waits until more than `taken` commits are published, at most until `until`. False, here and below: the process is being stopped.
  bool rest(std::uint64_t taken, Instant until);
  // While more collects: only an urgent() waiter ends it.
  bool linger(Instant until);
  bool nap(Instant until);  // only wake() ends it
  void wake();  // the resting thread, whatever it waits for

  // ---- whoever waits
  Waiters& changed() { return changed_; }  // woken by every acknowledge() and by wake_waiters()
  void wake_waiters() { changed_.wake_all(); }
  // While one lives, the sender does not linger.
  class Urgent {
   public:
    explicit Urgent(WalHold& hold);
    ~Urgent();
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;

   private:
    WalHold& hold_;
  };
  bool urgent() const { return urgent_.load() > 0; }

  // ---- pins: the last acknowledged commit, held still until unpin(). None at the deadline, and when the database is being closed.
  struct Boundary {
    CommitState state;
    WalPlace place;
    std::uint32_t began_with = UINT32_MAX;  // WalBeginning::began_with
  };
  std::optional<Boundary> pin(Instant deadline);
  void unpin();
  bool closing() const;
  void no_more_pins();  // for good

  // ---- gap pages
  // A commit: the database had `before` pages and has `after`; written: its pages, rising.
  void note_pages(std::uint32_t page_size, std::uint32_t before, std::uint32_t after, std::span<const std::uint32_t> written);
  bool is_gap(std::uint32_t page) const;
  std::vector<std::uint32_t> gaps() const;
  void gaps_zeroed();

 private:
  friend class Urgent;
  enum class Sleeper : std::uint8_t { awake, lingering, resting };

  Runtime& runtime_;
  const std::unique_ptr<Signal> work_;
  Waiters changed_;
  std::atomic<int> urgent_{0};
  mutable Mutex mutex_;
  View view_ ONEPEN_GUARDED_BY(mutex_);
  Sleeper sleeper_ ONEPEN_GUARDED_BY(mutex_) = Sleeper::awake;
  CommitState state_ ONEPEN_GUARDED_BY(mutex_);  // after view_.acknowledged
  std::uint32_t began_with_ ONEPEN_GUARDED_BY(mutex_) = UINT32_MAX;
  std::uint32_t backfilled_ ONEPEN_GUARDED_BY(mutex_) = 0;  // frames of this WAL that checkpoints may have copied into the database file
  std::optional<std::uint32_t> automatic_at_ ONEPEN_GUARDED_BY(mutex_);  // published frame at the last automatic checkpoint
  int pins_ ONEPEN_GUARDED_BY(mutex_) = 0, checkpoints_ ONEPEN_GUARDED_BY(mutex_) = 0, closes_ ONEPEN_GUARDED_BY(mutex_) = 0;
  bool restarting_ ONEPEN_GUARDED_BY(mutex_) = false, ended_ ONEPEN_GUARDED_BY(mutex_) = false;
  std::set<std::uint32_t> gaps_ ONEPEN_GUARDED_BY(mutex_);
};

std::uint64_t zero_page_hash(std::uint32_t page_number, std::uint32_t page_size);
// Adds and removes what a commit makes of a set of gap pages. page_size: for the page that SQLite never writes.
void update_gaps(std::set<std::uint32_t>& gaps, std::uint32_t page_size, std::uint32_t before, std::uint32_t after, std::span<const std::uint32_t> written);

}  // namespace onepen::sqlite
