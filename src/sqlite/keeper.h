// Keeps the ownership of an open database, which may be absent for a while, and sends what durability=local has pending.
//
//                     opened with the home                          opened without it (offline=1)
//                            │                                               │
//                            ▼          the stream has a new history         ▼
//                         owner ──────────────────────────────────▶ no owner yet ──▶ reset: fenced, rewound, removed
//                            ▲                                               │
//                            └───────── conditional self-claim ◀─────────────┘       reads the stream first; exactly own epoch + 1, over its own claim
//
// Without an owner durability=local goes on committing; a COMMIT of durability=replicated waits for the owner within its commit_timeout.
// One thread: it claims again, hands over, and it is the one on which the LocalSender works. Nothing on it touches SQLite.
// Thread-safety: begin and stop from one thread; the rest from any.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "sqlite/local_sender.h"

namespace onepen::sqlite {

struct Ownership {
  std::shared_ptr<owner::Owner> owner;  // null: nobody at the moment
  Incarnation incarnation{};
};

// Where a commit finds the owner it is sent by.
class OwnerSeat {
 public:
  virtual ~OwnerSeat() = default;
  virtual Ownership current() const = 0;
  // Waits for one; none at the deadline, and when there will be none any more.
  virtual Ownership wait_for_owner(Instant deadline) = 0;
};

// What the keeper needs of the open database. Called on the keeper's thread; outlives it.
class KeeperDesk {
 public:
  virtual ~KeeperDesk() = default;
  // Opens the home where that was not possible before, and claims. Errors: Owner::open's.
  virtual Result<std::shared_ptr<owner::Owner>> claim_again(const owner::SelfClaim& claim, owner::Fold& fold, owner::ClaimLog& claims) = 0;
  virtual void owner_came(owner::Owner& owner) = 0;
  virtual void lost(ResetKind kind, std::string message, std::optional<Owner> current) = 0;
  virtual bool is_reset() const = 0;
  virtual void tell_listeners() = 0;             // of a reset that nobody told yet
  virtual void sent(std::uint64_t bytes) = 0;    // acknowledged bytes of log
  // Handing over: no write transaction begins from here on (empty: they do again); true: none is left at the deadline.
  virtual bool drain(const std::string& successor, Instant deadline) = 0;
  virtual std::unique_ptr<core::Stream> session() = 0;
};

inline constexpr std::chrono::milliseconds kDirectoryLinger{20}, kMeteredLinger{250};

struct KeeperOptions {
  bool local = false;  // durability=local
  std::optional<std::chrono::nanoseconds> max_linger{};  // none: kDirectoryLinger or kMeteredLinger
};

class Keeper final : public OwnerSeat {
 public:
  // Everything outlives it.
  Keeper(Runtime& runtime, io::Disk& disk, Copy& copy, WalHold& hold, KeeperDesk& desk, std::string name, const KeeperOptions& options, Log log);
  ~Keeper() override;  // stop()
  // Starts its thread. owner null: offline. Errors: state_mismatch: an owner without an incarnation.
  Result<> begin(std::shared_ptr<owner::Owner> owner);

  Ownership current() const override;
  Ownership wait_for_owner(Instant deadline) override;
  bool offline() const;  // no owner has been there since the database was opened
  // Everything published before the call is in the stream, and a look at it begun after the last acknowledgement found us still the owner.
  Result<Offset> synced(Instant deadline);
  // Waits until nothing is pending. Errors: unavailable: says how much is left, and why.
  Result<> flush(Instant deadline);
  // The home's last words about what is pending; empty: all is well.
  std::string trouble() const;
  // The owner was reset because the stream has a new history: the keeper looks whether it can go on.
  void history_changed();
  // A standby stands ready: no new writers, all is sent, the ownership released, and the handle is reset when it has claimed. Else this one goes on, by a self-claim.
  void hand_over(std::string successor);
  // "Closed: 3 commits of 'app' ... are not in the stream yet", and who sends them: unavailable. goes_on: this handle stays open.
  Error left_over(std::string_view what, bool goes_on = false) const;
  // Nothing more is sent. end() only says so; stop() waits for the thread, which may wait for its owner: that one is stopped in between.
  void end();
  void stop();

 private:
  class GoingOn;
  void run();
  void linger(const owner::Owner& owner);
  void send(const Ownership& now);
  void hand_over_now();
  void claim();
  void claim_failed(const Error& error);
  void set_trouble(std::string trouble);
  void pause(std::chrono::nanoseconds time);

  Runtime& runtime_;
  Copy& copy_;
  WalHold& hold_;
  KeeperDesk& desk_;
  const std::string name_;  // of the database
  const KeeperOptions options_;
  const Log log_;
  LocalSender sender_;
  std::atomic<bool> stop_{false}, history_changed_{false}, hand_over_{false};
  std::optional<core::Linger> linger_;  // once there is an owner: it knows the home
  std::chrono::nanoseconds backoff_{0};
  std::vector<ClaimId> sent_claims_;  // self-claims that nobody answered; keeper's thread
  mutable Mutex mutex_;
  Ownership now_ ONEPEN_GUARDED_BY(mutex_);
  bool was_owner_ ONEPEN_GUARDED_BY(mutex_) = false;
  std::string trouble_ ONEPEN_GUARDED_BY(mutex_);
  std::string successor_ ONEPEN_GUARDED_BY(mutex_);
  std::unique_ptr<Thread> thread_;  // last
};

}  // namespace onepen::sqlite
