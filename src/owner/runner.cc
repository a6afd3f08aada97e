// The callers' side of the running owner: leave a message, wait for its answer.
#include "owner/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "wire/ready_record.h"

namespace onepen::owner {
namespace {

constexpr std::chrono::nanoseconds kInterruptSlice = std::chrono::milliseconds(20);  // how soon an interrupt is noticed: nobody signals it

constexpr std::chrono::nanoseconds kReleaseWait = std::chrono::seconds(1);  // stop() waits at most so long for its `released` record

// withdraw() waits so long for the request that is out: its answer may be the refusal that lets the append be taken back.
constexpr std::chrono::nanoseconds kWithdrawWait = std::chrono::seconds(1);

Error closing(const std::string& name) { return Error{Outcome::closed, fmt::format("'{}' is being closed by this process; nothing more is taken", name), {}}; }

}  // namespace

Runner::Runner(Runtime& runtime, std::unique_ptr<core::Stream> stream, Options options, Opened opened)
    : runtime_(runtime),
      options_(std::move(options)),
      name_(stream->name().text()),
      work_(runtime.make_signal()),
      stream_(std::move(stream)),
      writer_(std::move(opened.writer)) {
  {
    const Lock lock(mutex_);
    status_.token = writer_.token();
    status_.acknowledged = writer_.acknowledged();
    status_.claim_requests = opened.claim_requests;
    status_.notice = std::move(opened.notice);
    pacing_.metered = options_.metered;
    // This owner serves from now on, at that endpoint. Nobody waits for it. The first of all (kReadySequence).
    mail_.queued.appends.push_back(core::Pending{0, core::RecordKind::control, wire::encode_ready(options_.endpoint)});
  }
  listeners_.add([this](const Reset& reset) { options_.log(LogLevel::warn, reset.message); });
  thread_ = runtime_.spawn("onepen-owner", [this] { run(); });
}

Runner::~Runner() { (void)stop(runtime_.now()); }

Error Runner::reset_error() const { return Error{reset_outcome_, reset_->message, reset_->current}; }

// Somebody was told that `ticket` was refused: the commit it belongs to is given up, and the next submit is another one's.
void Runner::told(Ticket ticket) {
  if (ticket < untold_) return;
  untold_ = 0;
  untold_error_.reset();
}

// Of the mailbox: as much as one batch takes.
bool Runner::full() const { return mail_.queued.appends.size() >= options_.max_undecided || mail_bytes_ >= options_.max_batch_bytes; }

Result<Ticket> Runner::submit(Bytes payload, Instant deadline, core::RecordKind kind, More more) {
  const Wanted space{Wanted::What::space, payload.size()};
  if (kind == core::RecordKind::claim) return tl::unexpected(Error{Outcome::invalid, "a claim is not submitted: it is made by opening", {}});
  while (true) {
    Ticket ticket = 0;
    bool gathering = false;
    {
      const Lock lock(mutex_);
      if (reset_ && guard_on(Guard::reset_final)) return tl::unexpected(reset_error());  // I7
      if (stopping_) return tl::unexpected(closing(name_));
      if (untold_error_) {
        Error error = *untold_error_;
        told(untold_);
        return tl::unexpected(std::move(error));
      }
      if (ready(space)) {
        ticket = fates_.add();
        mail_bytes_ += payload.size();  // NOLINT(bugprone-use-after-move): a ticket is never 0: nothing comes round again after the move below
        mail_.queued.appends.push_back(core::Pending{ticket, kind, std::move(payload)});
        gathering_ = more == More::yes && !full();
        gathering = gathering_;
      }
    }
    if (ticket != 0) {
      if (!gathering) work_->notify();
      return ticket;
    }
    if (!wait_for(space, deadline, nullptr)) {
      return tl::unexpected(
          Error{Outcome::unavailable,
                fmt::format("{} bytes wait to be sent to '{}' and the home does not take them; this append was not queued", options_.max_queue_bytes, name_),
                {}});
    }
  }
}

std::string Runner::last_answer() const {
  return trouble_.empty() ? std::string("the home gave no answer in time") : "the home did not take it in time; its last answer: " + trouble_;
}

Fate Runner::wait(Ticket ticket, Instant deadline, const std::atomic<bool>* interrupted) {
  const bool decided = wait_for({Wanted::What::fate, ticket}, deadline, interrupted);
  const Lock lock(mutex_);
  if (!decided || !fates_.decided(ticket)) {
    const std::string why = decided ? "the handle was closed" : interrupted != nullptr && interrupted->load() ? "the wait was interrupted" : last_answer();
    return Fate{Fate::Kind::undecided, {}, Error{Outcome::unknown, fmt::format("{}: this append to '{}' may be in the stream, now or later", why, name_), {}}};
  }
  Fate fate = fates_.of(ticket);
  if (fate.kind == Fate::Kind::refused) told(ticket);
  return fate;
}

Fate Runner::withdraw(Ticket ticket) {
  std::uint64_t number = 0;
  {
    const Lock lock(mutex_);
    if (!fates_.decided(ticket) && !reset_) {
      std::string why = trouble_.empty() ? std::string("the home did not take it in time") : last_answer();
      if (why.back() != '.' && why.back() != '?') why += '.';
      number = ++withdrawals_asked_;
      gathering_ = false;  // the machine takes back what it knows
      mail_.withdrawals.push_back(core::Withdraw{
          ticket, Error{Outcome::unavailable, fmt::format("{} It was taken back: it is not in the stream of '{}', and never will be.", why, name_), {}}});
    }
  }
  if (number != 0) {
    work_->notify();
    (void)wait_for({Wanted::What::withdrawn, number}, runtime_.now() + kWithdrawWait, nullptr);
  }
  Fate fate = wait(ticket, runtime_.now(), nullptr);
  const Lock lock(mutex_);
  if (number != 0 && fate.kind == Fate::Kind::refused) told(untold_);  // whoever takes an append back knows what stood behind it
  return fate;
}

Result<Offset> Runner::confirm(Instant deadline) {
  core::ConfirmId id = 0;
  {
    const Lock lock(mutex_);
    if (reset_) return tl::unexpected(reset_error());
    if (stopping_) return tl::unexpected(closing(name_));
    id = ++last_confirm_;
    confirms_[id];
    mail_.queued.confirms.push_back(core::Confirm{id, fates_.last()});
    gathering_ = false;  // what it comes after goes before it
  }
  work_->notify();
  (void)wait_for({Wanted::What::confirmed, id}, deadline, nullptr);
  const Lock lock(mutex_);
  const std::optional<Result<Offset>> result = std::move(confirms_[id]);
  confirms_.erase(id);
  if (!result) {
    return tl::unexpected(
        Error{Outcome::unknown,
              fmt::format("'{}' was not confirmed in time: {}. What was written before may or may not be in the stream", name_, last_answer()),
              {}});
  }
  if (*result && untold_error_) {  // something submitted before was refused and nobody knows yet
    Error error = *untold_error_;
    told(untold_);
    return tl::unexpected(std::move(error));
  }
  return *result;
}

void Runner::reset(ResetKind kind, std::string message) {
  bool ended = false;
  {
    const Lock lock(mutex_);
    if (reset_) return;  // the first wins
    reset_ = Reset{kind, message, status_.token.epoch};
    reset_outcome_ = core::outcome_of(kind);
    mail_.give_up = core::GiveUp{kind, std::move(message)};
    ended = ended_;
  }
  if (ended) tell_listeners();
  else work_->notify();
}

void Runner::on_reset(std::function<void(const Reset&)> listener) { listeners_.add(std::move(listener)); }

Pacing Runner::pacing() const {
  const Lock lock(mutex_);
  return pacing_;
}

Status Runner::status() const {
  const Lock lock(mutex_);
  Status status = status_;
  status.pending = fates_.pending();
  status.trouble = trouble_;
  status.reset = reset_;
  return status;
}

// Nothing is undecided and the stream is ours: the next one to open need not think that we died, or that we quarrel. Advice: nothing depends on whether it
// lands. Answers its ticket; 0: there was no reason, or no time, for it.
Ticket Runner::release(Instant flush_deadline) {
  const Instant now = runtime_.now();
  const Instant until = std::min<Instant>(flush_deadline, now + kReleaseWait);
  Ticket ticket = 0;
  {
    const Lock lock(mutex_);
    if (until <= now || reset_ || ended_ || fates_.pending() != 0 || !trouble_.empty()) return 0;
    ticket = fates_.add();
    mail_.queued.appends.push_back(core::Pending{ticket, core::RecordKind::control, wire::encode_released()});
  }
  work_->notify();
  (void)wait_for({Wanted::What::fate, ticket}, until, nullptr);
  return ticket;
}

Result<> Runner::stop(Instant flush_deadline) {
  bool second = false;
  {
    const Lock lock(mutex_);
    if (stopped_) return *stopped_;
    second = std::exchange(stopping_, true);
  }
  if (second) {
    (void)wait_for({Wanted::What::stopped}, Instant::max(), nullptr);
    const Lock lock(mutex_);
    return stopped_.value_or(Result<>{});
  }
  (void)wait_for({Wanted::What::drained}, flush_deadline, nullptr);
  const Ticket farewell = release(flush_deadline);
  {
    const Lock lock(mutex_);
    mail_.leave = true;
  }
  work_->notify();
  thread_.reset();  // ends when the request that is out is answered, which the home bounds
  std::vector<Signal*> wake;
  Result<> result;
  {
    const Lock lock(mutex_);
    std::vector<Ticket> left;
    fates_.each_pending([&](Ticket ticket) {
      if (ticket != farewell) left.push_back(ticket);
    });
    if (!left.empty()) {
      const Error error{
          Outcome::unknown,
          fmt::format("'{}' was closed before {} of its appends were decided: they may be in the stream. Opening it again tells.", name_, left.size()),
          {}};
      for (const Ticket ticket : left) fates_.decide(ticket, Fate{Fate::Kind::undecided, {}, error});
      result = tl::unexpected(error);
    }
    stopped_ = result;
    for (const Waiter& waiter : waiters_) wake.push_back(waiter.signal);
  }
  for (Signal* signal : wake) signal->notify();
  return result;
}

bool Runner::ready(const Wanted& wanted) const {
  switch (wanted.what) {
    case Wanted::What::fate: return fates_.decided(wanted.number) || ended_;
    case Wanted::What::confirmed: {
      const auto at = confirms_.find(wanted.number);
      return at == confirms_.end() || at->second.has_value() || ended_;
    }
    case Wanted::What::withdrawn: return withdrawals_answered_ >= wanted.number || ended_;
    case Wanted::What::space: {
      const std::uint64_t waiting = mail_bytes_ + queued_bytes_;
      return waiting == 0 || waiting + wanted.number <= options_.max_queue_bytes || reset_ || stopping_;
    }
    case Wanted::What::drained: return fates_.pending() == 0 || reset_ || ended_;
    case Wanted::What::stopped: return stopped_.has_value();
  }
  return true;
}

// True: it is so now. False: the deadline, the interrupt, or the process is being stopped.
bool Runner::wait_for(const Wanted& wanted, Instant deadline, const std::atomic<bool>* interrupted) {
  Signal* signal = nullptr;
  bool gathered = false;
  {
    const Lock lock(mutex_);
    if (ready(wanted)) return true;
    if (deadline <= Instant::min()) return false;  // it only asks what is there
    if (!free_signals_.empty()) {
      signal = free_signals_.back();
      free_signals_.pop_back();
      waiters_.push_back({wanted, signal});
    }
    gathered = std::exchange(gathering_, false);  // whoever waits, for a fate or for space, waits for what waits for more
  }
  if (gathered) work_->notify();
  if (signal == nullptr) {
    std::unique_ptr<Signal> made = runtime_.make_signal();
    signal = made.get();
    const Lock lock(mutex_);
    signals_.push_back(std::move(made));
    waiters_.push_back({wanted, signal});
  }
  const bool so = sleep_on(*signal, wanted, deadline, interrupted);
  const Lock lock(mutex_);
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.signal == signal; });
  free_signals_.push_back(signal);  // a notify still under way wakes its next user for nothing, who then looks again
  return so;
}

bool Runner::sleep_on(Signal& signal, const Wanted& wanted, Instant deadline, const std::atomic<bool>* interrupted) {
  while (true) {
    {
      const Lock lock(mutex_);
      if (ready(wanted)) return true;
    }
    const Instant before = runtime_.now();
    if (before >= deadline || (interrupted != nullptr && interrupted->load())) return false;
    const Instant slice = interrupted != nullptr ? std::min<Instant>(deadline, before + kInterruptSlice) : deadline;
    if (!signal.wait_until(slice) && runtime_.now() == before) return false;  // no time passed: the process is being stopped
  }
}

}  // namespace onepen::owner
