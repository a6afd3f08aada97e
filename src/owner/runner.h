// The running owner: one thread that runs the writer machine; everybody else leaves messages and waits for answers.
//
//   submit, confirm, reset ──▶ mailbox ──▶ owner thread: Writer::step ──▶ request (blocks) ──▶ step ──▶ answers, reset ──▶ wakes who waited for that
//
// While a request is out, what is submitted collects in the mailbox and goes into the next batch as a whole: group commit without a timer. What is submitted with
// More::yes stays in the mailbox until the rest of its batch is there, or somebody waits.
// A COMMIT costs two thread switches: to the owner thread, which makes the blocking append itself, and back.
// mutex_ guards the mailbox and the answers; it is never held across a call of a port, a listener or a log sink.
#pragma once
#include <map>
#include <vector>

#include "base/mutex.h"
#include "owner/carry.h"
#include "owner/fates.h"
#include "owner/open.h"
#include "owner/reset_listeners.h"

namespace onepen::owner {

class Runner : public Owner {
 public:
  Runner(Runtime& runtime, std::unique_ptr<core::Stream> stream, Options options, Opened opened);
  ~Runner() override;

  Result<Ticket> submit(Bytes payload, Instant deadline, core::RecordKind kind, More more) override ONEPEN_EXCLUDES(mutex_);
  Fate wait(Ticket ticket, Instant deadline, const std::atomic<bool>* interrupted) override ONEPEN_EXCLUDES(mutex_);
  Fate withdraw(Ticket ticket) override ONEPEN_EXCLUDES(mutex_);
  Result<Offset> confirm(Instant deadline) override ONEPEN_EXCLUDES(mutex_);
  void reset(ResetKind kind, std::string message) override ONEPEN_EXCLUDES(mutex_);
  void on_reset(std::function<void(const Reset&)> listener) override ONEPEN_EXCLUDES(mutex_);
  Status status() const override ONEPEN_EXCLUDES(mutex_);
  Pacing pacing() const override ONEPEN_EXCLUDES(mutex_);
  Result<> stop(Instant flush_deadline) override ONEPEN_EXCLUDES(mutex_);

 private:
  // What somebody waits for.
  struct Wanted {
    enum class What : std::uint8_t { fate, confirmed, withdrawn, space, drained, stopped } what;
    std::uint64_t number = 0;  // ticket, confirm id, number of a withdrawal, or bytes
  };
  struct Waiter {
    Wanted wanted;
    Signal* signal;
  };
  struct Mail {
    core::Queued queued;
    std::vector<core::Withdraw> withdrawals;
    std::optional<core::GiveUp> give_up;
    bool leave = false;
    bool any() const { return !queued.appends.empty() || !queued.confirms.empty(); }
  };

  // runner.cc: the callers' side
  bool ready(const Wanted& wanted) const ONEPEN_REQUIRES(mutex_);
  bool wait_for(const Wanted& wanted, Instant deadline, const std::atomic<bool>* interrupted) ONEPEN_EXCLUDES(mutex_);
  bool sleep_on(Signal& signal, const Wanted& wanted, Instant deadline, const std::atomic<bool>* interrupted) ONEPEN_EXCLUDES(mutex_);
  Error reset_error() const ONEPEN_REQUIRES(mutex_);
  void told(Ticket ticket) ONEPEN_REQUIRES(mutex_);
  bool full() const ONEPEN_REQUIRES(mutex_);
  Ticket release(Instant flush_deadline) ONEPEN_EXCLUDES(mutex_);

  // runner_thread.cc: the owner thread's side
  void run();
  Mail take() ONEPEN_EXCLUDES(mutex_);
  void step(core::Event event) ONEPEN_EXCLUDES(mutex_);
  void report_suspect(core::Effects& effects);
  void take_back(std::vector<core::Withdraw> withdrawals) ONEPEN_EXCLUDES(mutex_);
  std::vector<Signal*> publish(core::Effects& effects) ONEPEN_REQUIRES(mutex_);
  void remember_trouble(const core::Event& answer) ONEPEN_EXCLUDES(mutex_);
  std::string last_answer() const ONEPEN_REQUIRES(mutex_);
  void tell_listeners() ONEPEN_EXCLUDES(mutex_);
  bool sleep();  // until mail or the next thing to do; false: the process is being stopped
  void beat_when_due();
  void look_for_successor();
  std::string liveness() const { return options_.info.liveness.empty() ? to_text(writer_.claim_id()) : options_.info.liveness; }
  void end() ONEPEN_EXCLUDES(mutex_);

  Runtime& runtime_;
  const Options options_;
  const std::string name_;
  std::unique_ptr<Signal> work_;

  // Owner thread only.
  std::unique_ptr<core::Stream> stream_;
  core::Writer writer_;
  core::Moment moment_;
  bool ids_used_ = true;  // those of moment_: the next step needs new ones
  std::optional<core::Request> request_;
  std::optional<Instant> wake_at_;
  std::optional<Instant> beat_at_, ask_at_;
  std::uint64_t beats_ = 0;
  std::string successor_;  // as it was told

  ResetListeners listeners_;

  mutable Mutex mutex_;
  Mail mail_ ONEPEN_GUARDED_BY(mutex_);
  std::uint64_t mail_bytes_ ONEPEN_GUARDED_BY(mutex_) = 0;
  bool gathering_ ONEPEN_GUARDED_BY(mutex_) = false;  // the appends in the mailbox wait for more
  std::uint64_t queued_bytes_ ONEPEN_GUARDED_BY(mutex_) = 0;  // in the machine, not yet sent
  Fates fates_ ONEPEN_GUARDED_BY(mutex_);
  Ticket untold_ ONEPEN_GUARDED_BY(mutex_) = 0;  // the last refused ticket that nobody was told of; 0: none
  std::optional<Error> untold_error_ ONEPEN_GUARDED_BY(mutex_);
  std::uint64_t withdrawals_asked_ ONEPEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t withdrawals_answered_ ONEPEN_GUARDED_BY(mutex_) = 0;
  core::ConfirmId last_confirm_ ONEPEN_GUARDED_BY(mutex_) = 0;
  std::map<core::ConfirmId, std::optional<Result<Offset>>> confirms_ ONEPEN_GUARDED_BY(mutex_);  // those somebody waits for
  std::vector<Waiter> waiters_ ONEPEN_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Signal>> signals_ ONEPEN_GUARDED_BY(mutex_);  // all of them; they end with the owner
  std::vector<Signal*> free_signals_ ONEPEN_GUARDED_BY(mutex_);
  std::optional<Reset> reset_ ONEPEN_GUARDED_BY(mutex_);
  Outcome reset_outcome_ ONEPEN_GUARDED_BY(mutex_) = Outcome::unknown;
  Status status_ ONEPEN_GUARDED_BY(mutex_);
  Pacing pacing_ ONEPEN_GUARDED_BY(mutex_){Instant::min()};
  std::string trouble_ ONEPEN_GUARDED_BY(mutex_);  // the message of the home's last refusal; empty when it answered well, or not at all
  bool stopping_ ONEPEN_GUARDED_BY(mutex_) = false;
  bool ended_ ONEPEN_GUARDED_BY(mutex_) = false;  // the owner thread has left its loop
  std::optional<Result<>> stopped_ ONEPEN_GUARDED_BY(mutex_);

  std::unique_ptr<Thread> thread_;  // last: it uses all of the above
};

}  // namespace onepen::owner
