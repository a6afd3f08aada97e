// One open database of this process: its copy, its owner, its capture, shared by all connections to it.
//
//   acquired (copy locked) ──start()──> owner ──────────────> reset (final; I7)        follower: no owner, no capture, read only; the
//                             │          ▲ │                                         copy goes on while it is read (follow.h)
//                             │          │ └── stop() ──> stopped                       │
//                             │          ├── claims itself                              │ take_over(), or by itself (standby=1)
//                             │          └──────────────────────────────────────────────┘ its readers go on
//                             ├──start()──> offline (offline=1, durability=local, the home is out of reach)
//                             └── refused: nothing was claimed, or the claim is lost
//
// The place where a reset is remembered: every connection asks reset_flag() before it begins a transaction.
// Thread-safety: acquire, start and stop run on one thread at a time (the registry sees to it); the rest from any thread.
#pragma once
#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "io/fork_mark.h"
#include "owner/reset_listeners.h"
#include "owner/standby.h"
#include "sqlite/capture.h"
#include "sqlite/capture_watch.h"
#include "sqlite/caretaker.h"
#include "sqlite/follow.h"
#include "sqlite/keeper.h"
#include "sqlite/open_database_settings.h"

namespace onepen::sqlite {

// What the rooms below need, made once by whoever wires the process (the extension, the C++ API, a test). Outlives every database.
struct Environment {
  Runtime* runtime = nullptr;
  io::Disk* disk = nullptr;
  Log log{};
  std::function<Result<std::unique_ptr<core::Home>>(const std::string& url)> open_home;
  std::shared_ptr<const io::ForkMark> fork_mark = std::make_shared<const io::ForkMark>();
  // The same anew, for a child after fork(): nothing in it that a thread of the parent may have held. Empty: children cannot open.
  std::function<Environment()> after_fork{};
  LiveLimits live{};  // of followers
  std::shared_ptr<std::atomic<int>> followers = std::make_shared<std::atomic<int>>(0);  // of this process (FollowManners::company)
};

// For onepen_status() and the C++ API. A value.
struct DatabaseStatus {
  std::string name, home_url, copy_path;
  bool follower = false, standby = false, offline = false;
  DurabilityMode durability = DurabilityMode::replicated;
  owner::Status owner{};
  CommitState copy{};  // durability=local: the last acknowledged commit
  std::uint64_t pending_commits = 0, pending_bytes = 0;  // not known to be in the stream; bytes of the WAL
  std::string trouble{};                                 // why they are not, in the home's last words; empty: all is well
  GrowthStatus growth{};
  std::optional<Reset> reset{};
  std::string salvaged{};  // where this opening moved the copy that was there; empty: it moved none
  core::RequestCounts requests{};            // Home::requests() since this was opened; other databases at the same home of this process count along
  std::uint64_t opening_requests = 0;        // how many of them until it owned the stream; a follower that took over was not counted
  std::optional<std::chrono::milliseconds> contact_age{};  // of a follower: since the home last said that nothing more was there than was read
};

// How a follower becomes the owner.
enum class TakeOver : std::uint8_t {
  at_once,  // as any open does
  gently,   // an owner that can be asked (term=) hands over first, and nobody's COMMIT is refused for want of an owner longer than it takes
};

inline constexpr std::chrono::seconds kGentleWithin{5};  // then, or at a metered home somewhat later, take_over(gently) claims all the same

class OpenDatabase final : public ResetSink, KeeperDesk, CaretakerSeat {
 public:
  // Locks a copy. Errors: Copy::acquire's.
  static Result<std::unique_ptr<OpenDatabase>> acquire(const Environment& environment, OpenSettings settings);
  // Claims (or, as a follower, only reads), brings the copy up to date, and makes the first commit of a database that has none.
  // Errors: Owner::open's; not_found: a follower, or create = false, and no such database.
  Result<> start(bool follower, bool create);
  // After the last connection closed: sends what is pending for a while (settings().close_flush, or `flush`) and unlocks the copy. Errors, once: what could
  // not be sent (unavailable: it stays in the copy), or is not decided (unknown).
  Result<> stop(std::optional<std::chrono::nanoseconds> flush = {});
  ~OpenDatabase() override;

  const OpenSettings& settings() const { return *now_.load(std::memory_order_acquire); }
  const std::string& path() const { return copy_->db_path(); }
  bool started() const { return keeper() != nullptr || follower(); }
  bool follower() const { return follower_.load(std::memory_order_acquire); }
  Capture& capture() { return *capture_; }
  Copy& copy() { return *copy_; }
  CaptureWatch& watch() { return watch_; }
  WalHold& hold() { return hold_; }
  bool local() const { return settings_.durability == DurabilityMode::local; }
  std::uint32_t page_size() const { return page_size_; }  // of an owner's database, once it started

  // reads=confirmed, onepen_synced(): still the owner, and everything committed so far is in the stream.
  Result<Offset> confirm(std::chrono::nanoseconds limit);
  // A follower becomes the owner, with what `as` says, in place: its readers go on, and it is open for writing from then on. Errors: Owner::open's; then it follows
  // on. What is the owner already answers well.
  Result<> take_over(const OpenSettings& as, TakeOver how);
  // A standby (standby=1): called once, on a thread of Onepen's, when it has taken over by itself; at once when it has. It must not call back.
  void on_take_over(std::function<void()> listener);
  // A write transaction wants to begin, or is over. Errors: not_owner: this process is handing the database over.
  Result<> writer_enters();
  void writer_leaves();
  // A follower. wait_for: readers that begin from now on see everything up to `offset`. check_staleness: may a read begin (max_staleness)? Errors: Follow's.
  Result<> wait_for(const Offset& offset, std::chrono::nanoseconds limit);
  Result<> check_staleness();
  // durability=local: commits that are not in the stream; sends them, for at most so long. Errors: unavailable: what is left, and why.
  bool pending() const { return keeper() != nullptr && hold_.pending(); }
  Result<> flush(std::chrono::nanoseconds limit);
  // In a child after fork(): it has the memory of the process that opened, but not its threads, and perhaps its locked mutexes. Nothing works there but close.
  bool forked() const { return environment_.fork_mark->forked(); }
  bool reset_flag() const { return reset_flag_.load(std::memory_order_acquire); }
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  // ResetSink. The first reset wins.
  void reset(ResetKind kind, std::string message) override;
  void reset_after(const Error& refusal) override;
  std::optional<Reset> current_reset() const override;
  void poison(std::string_view why) override;
  void doubt(std::string_view why);  // Copy::doubt; nothing more is written into its database file
  void freeze() override { poisoned_.store(true, std::memory_order_release); }
  void on_reset(std::function<void(const Reset&)> listener);

  DatabaseStatus status() const;  // in a child after fork(): role reset, and the sentence
  void note_committed();  // under the write lock, after a commit: for status()
  // SQLite is about to begin its WAL anew, or to delete it: everything in it is in the database file, and nobody reads from it. False: it must not.
  void landed(const WalPlace& end);  // it was published as well
  Result<core::SnapshotInfo> snapshot_now();  // Caretaker::snapshot_now
  // SQLite would begin its WAL anew, but something in it is pending. Waits for the sender, when the WAL has at least `least` bytes and the home takes appends.
  // True: nothing is pending any more. Under the write lock.
  bool wait_for_sender(std::uint64_t least, std::chrono::nanoseconds patience);
  bool wal_ends(const std::function<int(std::uint32_t page, std::span<const std::byte> zeros)>& write, const std::function<int()>& sync);

 private:
  OpenDatabase(const Environment& environment, OpenSettings settings, std::unique_ptr<Copy> copy);
  Result<> open_home();
  Result<> start_following();
  void on_follow_ended(const Error& error);
  Result<> start_owner(bool create);
  Result<> begin_to_own(std::shared_ptr<owner::Owner> owner);
  // Following thread (open_database_standby.cc).
  FollowTurn take_turn(core::Stream& stream);
  Result<> claim_as_follower(const owner::Chance& chance);
  std::chrono::nanoseconds gentle_within() const;
  Keeper* keeper() const { return keeper_now_.load(std::memory_order_acquire); }
  Caretaker* caretaker() const { return caretaker_now_.load(std::memory_order_acquire); }
  Result<> start_offline(const Error& why);
  Result<> start_capture(std::shared_ptr<owner::Owner> owner);
  Result<> find_wal();
  Result<> first_commit(owner::Owner& owner);
  owner::Options owner_options(const OpenSettings& settings);
  void set_reset(Reset reset);
  void on_owner_reset(const Reset& reset);
  std::shared_ptr<owner::Owner> owner() const;
  core::RequestCounts requests() const;
  // KeeperDesk
  Result<std::shared_ptr<owner::Owner>> claim_again(const owner::SelfClaim& claim, owner::Fold& fold, owner::ClaimLog& claims) override;
  void owner_came(owner::Owner& owner) override;
  void lost(ResetKind kind, std::string message, std::optional<Owner> current) override;
  bool is_reset() const override { return reset_flag(); }
  void tell_listeners() override;
  void sent(std::uint64_t bytes) override;
  bool drain(const std::string& successor, Instant deadline) override;
  // CaretakerSeat; KeeperDesk's session() as well
  std::unique_ptr<core::Stream> session() override;
  std::optional<core::OwnerToken> token() override;
  std::uint64_t database_bytes() override;
  Offset position() override;
  Result<std::unique_ptr<PinnedCopy>> pin() override;
  Result<Offset> append_record(core::RecordKind kind, Bytes payload) override;

  const Environment& environment_;
  OpenSettings settings_;
  std::optional<OpenSettings> as_owner_;  // of a follower that took over
  std::atomic<const OpenSettings*> now_{&settings_};
  std::unique_ptr<Copy> copy_;
  std::unique_ptr<core::Home> home_;  // start() and the keeper's thread
  core::RequestCounts requests_before_;  // home_now_ tells that it is there
  std::atomic<const core::Home*> home_now_{nullptr};  // home_, for status()
  std::atomic<std::uint64_t> opening_requests_{0};
  WalHold hold_;
  std::unique_ptr<Keeper> keeper_;
  std::unique_ptr<owner::Standby> standby_;  // following thread
  std::unique_ptr<Follow> follow_;  // ended, but there, when the follower took over
  std::unique_ptr<Caretaker> caretaker_;
  std::atomic<Keeper*> keeper_now_{nullptr};  // the same as above, for threads that may ask while a follower takes over
  std::atomic<Caretaker*> caretaker_now_{nullptr};
  std::unique_ptr<Capture> capture_;
  CaptureWatch watch_;
  std::string salvaged_;  // Copy::salvaged, as it was when this was opened
  std::uint32_t page_size_ = 0;
  std::uint64_t patient_from_ = 0;  // bytes of WAL; under the write lock
  bool stopped_ = false;
  std::atomic<bool> follower_{false}, reset_flag_{false}, poisoned_{false}, closing_{false};
  // Handing over: writers that are inside, and whether another may enter.
  std::atomic<int> writers_{0};
  std::atomic<bool> draining_{false};
  owner::ResetListeners listeners_;
  mutable Mutex mutex_;
  std::optional<Reset> reset_ ONEPEN_GUARDED_BY(mutex_);
  CommitState committed_ ONEPEN_GUARDED_BY(mutex_);
  std::string successor_ ONEPEN_GUARDED_BY(mutex_);  // to whom it is handed over
  struct Wish {
    OpenSettings as;
    TakeOver how;
    std::optional<Instant> until{};  // set: the owner was asked; from then on the claim comes all the same, or says why it cannot
    std::optional<Result<>> answer{};
  };
  std::shared_ptr<Wish> wish_ ONEPEN_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> take_over_listeners_ ONEPEN_GUARDED_BY(mutex_);
  bool took_over_ ONEPEN_GUARDED_BY(mutex_) = false;  // by itself
  Waiters wishes_;
};

}  // namespace onepen::sqlite
