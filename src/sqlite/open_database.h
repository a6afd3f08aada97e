// One open database of this process: its copy, its owner, its capture, shared by all connections to it.
//
//   acquired (copy locked) ──start()──> owner ──────────────> reset (final; I7)        follower: no owner, no capture, read only
//                             │            └── stop() ──> stopped
//                             └── refused: nothing was claimed, or the claim is lost
//
// The place where a reset is remembered: every connection asks reset_flag() before it begins a transaction.
// Thread-safety: acquire, start and stop run on one thread at a time (the registry sees to it); the rest from any thread.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "sqlite/capture.h"
#include "sqlite/capture_watch.h"
#include "sqlite/open_database_settings.h"

namespace onepen::sqlite {

// What the rooms below need, made once by whoever wires the process (the extension, the C++ API, a test). Outlives every database.
struct Environment {
  Runtime* runtime = nullptr;
  io::Disk* disk = nullptr;
  Log log{};
  std::function<Result<std::unique_ptr<core::Home>>(const std::string& url)> open_home;
  // The same anew, for a child after fork(): nothing in it that a thread of the parent may have held. Empty: children cannot open.
  std::function<Environment()> after_fork{};
};

// For onepen_status() and the C++ API. A value.
struct DatabaseStatus {
  std::string name, home_url, copy_path;
  bool follower = false;
  owner::Status owner{};
  CommitState copy{};
  std::optional<Reset> reset{};
};

class OpenDatabase final : public ResetSink {
 public:
  // Locks a copy. Errors: Copy::acquire's.
  static Result<std::unique_ptr<OpenDatabase>> acquire(const Environment& environment, OpenSettings settings);
  // Claims (or, as a follower, only reads), brings the copy up to date, and makes the first commit of a database that has none.
  // Errors: Owner::open's; not_found: a follower, or create = false, and no such database.
  Result<> start(bool follower, bool create);
  // After the last connection closed: sends what is pending for a while and unlocks the copy.
  void stop();
  ~OpenDatabase() override;

  const OpenSettings& settings() const { return settings_; }
  const std::string& path() const { return copy_->db_path(); }
  bool started() const { return capture_ != nullptr || follower_; }
  bool follower() const { return follower_; }
  Capture& capture() { return *capture_; }
  Copy& copy() { return *copy_; }
  CaptureWatch& watch() { return watch_; }

  // reads=confirmed, onepen_synced(): still the owner, and everything committed so far is in the stream.
  Result<Offset> confirm(std::chrono::nanoseconds limit);
  // In a child after fork(): it has the memory of the process that opened, but not its threads, and perhaps its locked mutexes. Nothing works there but close.
  bool forked() const { return ::getpid() != opened_by_; }
  bool reset_flag() const { return reset_flag_.load(std::memory_order_acquire); }
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  // ResetSink. The first reset wins.
  void reset(ResetKind kind, std::string message) override;
  void reset_after(const Error& refusal) override;
  std::optional<Reset> current_reset() const override;
  void poison(std::string_view why) override;
  void freeze() override { poisoned_.store(true, std::memory_order_release); }
  void on_reset(std::function<void(const Reset&)> listener);

  DatabaseStatus status() const;  // in a child after fork(): role reset, and the sentence
  void note_committed();  // under the write lock, after a commit: for status()

 private:
  OpenDatabase(const Environment& environment, OpenSettings settings, std::unique_ptr<Copy> copy);
  Result<> start_owner(std::unique_ptr<core::Stream> stream, bool create);
  Result<> first_commit();

  const Environment& environment_;
  OpenSettings settings_;
  std::unique_ptr<Copy> copy_;
  std::unique_ptr<core::Home> home_;
  std::unique_ptr<owner::Owner> owner_;
  std::unique_ptr<Capture> capture_;
  CaptureWatch watch_;
  const pid_t opened_by_ = ::getpid();
  bool follower_ = false, stopped_ = false;
  std::atomic<bool> reset_flag_{false}, poisoned_{false};
  mutable Mutex mutex_;
  std::optional<Reset> reset_ ONEPEN_GUARDED_BY(mutex_);
  CommitState committed_ ONEPEN_GUARDED_BY(mutex_);
};

}  // namespace onepen::sqlite
