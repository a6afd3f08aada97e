// The owner thread: runs the machine, makes the blocking calls, hands out answers.
#include <fmt/format.h>

#include <algorithm>

#include "base/failpoint.h"
#include "owner/runner.h"

namespace onepen::owner {

void Runner::run() {
  if (options_.liveness) beat_at_ = runtime_.now();
  if (options_.liveness && options_.on_successor) ask_at_ = runtime_.now();
  step(core::Tick{});  // learns when to look
  while (true) {
    Mail mail = take();
    if (mail.give_up) step(std::move(*mail.give_up));  // before what is queued: that was not sent, and now never is
    if (mail.any()) step(std::move(mail.queued));
    take_back(std::move(mail.withdrawals));
    if (mail.leave) break;
    tell_listeners();
    beat_when_due();
    look_for_successor();
    if (request_) {
      const core::Request request = std::move(*request_);
      request_.reset();
      const Instant asked = runtime_.now();
      core::Event answer = carry_out(*stream_, request);
      if (std::holds_alternative<core::BatchAnswered>(answer)) {
        const auto took = runtime_.now() - asked;
        const Lock lock(mutex_);
        pacing_.append_took = took;
      }
      remember_trouble(answer);
      if (ONEPEN_FAILPOINT("owner.before_answer")) break;
      Mail meanwhile = take();  // first what came in while it was out, so that the next batch takes it along
      if (meanwhile.any() && !meanwhile.give_up) step(std::move(meanwhile.queued));
      step(std::move(answer));
      if (meanwhile.give_up) {
        step(std::move(*meanwhile.give_up));
        if (meanwhile.any()) step(std::move(meanwhile.queued));
      }
      take_back(std::move(meanwhile.withdrawals));
      if (meanwhile.leave) break;
      continue;
    }
    if (!sleep()) break;
  }
  end();
}

Runner::Mail Runner::take() {
  const Lock lock(mutex_);
  Mail mail = std::move(mail_);
  mail_ = Mail{};
  mail_.leave = mail.leave;
  if (gathering_) {
    std::swap(mail_.queued.appends, mail.queued.appends);
    return mail;
  }
  queued_bytes_ += mail_bytes_;
  mail_bytes_ = 0;
  return mail;
}

void Runner::step(core::Event event) {
  const bool was_unresolved = std::holds_alternative<core::Unresolved>(writer_.state());
  if (ids_used_) moment_ = draw_moment(runtime_);
  moment_.now = runtime_.now();
  moment_.wall_ms = runtime_.wall_ms();
  core::Effects effects = writer_.step(moment_, std::move(event));
  ids_used_ = effects.request.has_value();  // ids go into requests only
  if (effects.request) request_ = std::move(effects.request);
  if (std::holds_alternative<core::Finished>(writer_.state())) request_.reset();  // a batch made a moment before the reset stays unsent
  wake_at_ = effects.wake_at;
  if (effects.suspect) report_suspect(effects);
  std::vector<Signal*> wake;
  {
    const Lock lock(mutex_);
    wake = publish(effects);
  }
  for (Signal* signal : wake) signal->notify();
  if (was_unresolved && !effects.decided.empty()) {
    const bool landed = effects.decided.back().fate.kind == core::Fate::Kind::acknowledged;
    options_.log(LogLevel::warn, "'" + name_ + "': the append that was given up " + (landed ? "is in the stream" : "is not in the stream and never will be"));
  }
  tell_listeners();
}

// What this owner saw keeps everybody else from writing upon a stream that lost acknowledged commits.
void Runner::report_suspect(core::Effects& effects) {
  const auto told = stream_->report_suspect(core::OwnerToken{writer_.incarnation(), writer_.epoch(), writer_.claim_id()}, *effects.suspect);
  if (effects.reset && !told) effects.reset->message += fmt::format(" (The home could not be told: {})", told.error().message);
}

// Whether each could be taken back is told by its fate.
void Runner::take_back(std::vector<core::Withdraw> withdrawals) {
  if (withdrawals.empty()) return;
  const std::uint64_t count = withdrawals.size();
  for (core::Withdraw& withdraw : withdrawals) step(std::move(withdraw));
  std::vector<Signal*> wake;
  {
    const Lock lock(mutex_);
    withdrawals_answered_ += count;
    for (const Waiter& waiter : waiters_) {
      if (ready(waiter.wanted)) wake.push_back(waiter.signal);
    }
  }
  for (Signal* signal : wake) signal->notify();
}

// Why what is asked for does not come to pass, in the home's own words: a full disk must be told as one to whoever gives up waiting.
void Runner::remember_trouble(const core::Event& answer) {
  std::string trouble;
  if (const auto* batch = std::get_if<core::BatchAnswered>(&answer); batch != nullptr && !batch->answer) trouble = batch->answer.error().message;
  if (const auto* stat = std::get_if<core::StatAnswered>(&answer); stat != nullptr && !stat->answer) trouble = stat->answer.error().message;
  if (const auto* read = std::get_if<core::ReadAnswered>(&answer); read != nullptr && !read->answer) trouble = read->answer.error().message;
  const Lock lock(mutex_);
  trouble_ = std::move(trouble);
}

// Answers under the lock; the caller wakes their waiters without it.
std::vector<Signal*> Runner::publish(core::Effects& effects) {
  bool refused = false;
  for (core::Decided& decided : effects.decided) {
    if (decided.fate.kind == core::Fate::Kind::refused) {
      refused = true;
      untold_ = std::max(untold_, decided.ticket);
      untold_error_ = decided.fate.error;
    }
    fates_.decide(decided.ticket, std::move(decided.fate));
  }
  if (refused && !effects.reset) {
    // What came in since the machine refused its queue stands behind the refused ones just the same.
    for (const core::Pending& pending : mail_.queued.appends) {
      if (pending.ticket == 0) continue;
      untold_ = std::max(untold_, pending.ticket);
      fates_.decide(pending.ticket, Fate{Fate::Kind::refused, {}, untold_error_});
    }
    mail_.queued.appends.clear();
    mail_bytes_ = 0;
  }
  for (core::Confirmed& confirmed : effects.confirmed) {
    if (const auto at = confirms_.find(confirmed.id); at != confirms_.end()) at->second = std::move(confirmed.result);
  }
  if (effects.reset && !reset_) {
    reset_ = effects.reset;
    if (const auto* finished = std::get_if<core::Finished>(&writer_.state())) reset_outcome_ = finished->outcome;
    else reset_outcome_ = core::outcome_of(reset_->kind);
  }
  queued_bytes_ = writer_.queued_bytes();
  pacing_.next_batch = writer_.next_batch();
  status_.acknowledged = writer_.acknowledged();
  std::vector<Signal*> wake;
  for (const Waiter& waiter : waiters_) {
    if (ready(waiter.wanted)) wake.push_back(waiter.signal);
  }
  return wake;
}

// On this thread, once, without the lock: a listener may look at status(), and must not call anything else.
void Runner::tell_listeners() {
  std::optional<Reset> reset;
  {
    const Lock lock(mutex_);
    reset = reset_;
  }
  if (reset) listeners_.tell(*reset);
}

bool Runner::sleep() {
  Instant until = wake_at_.value_or(Instant::max());
  if (beat_at_) until = std::min(until, *beat_at_);
  if (ask_at_) until = std::min(until, *ask_at_);
  const Instant before = runtime_.now();
  if (until > before && work_->wait_until(until)) return true;
  const Instant now = runtime_.now();
  if (until > before && now == before) return false;
  if (wake_at_ && *wake_at_ <= now) step(core::Tick{});
  return true;
}

// So many in a term that a watcher misses none. Advice: nothing depends on whether one arrives.
void Runner::beat_when_due() {
  if (!beat_at_ || runtime_.now() < *beat_at_) return;
  const bool over = !std::holds_alternative<core::Owning>(writer_.state());
  if (over) {
    beat_at_.reset();
    return;
  }
  const Instant due = *beat_at_;
  const std::string content = sign_of_life(++beats_, options_.term);
  (void)stream_->beat(liveness(), as_bytes(content));
  const Instant now = runtime_.now();
  beat_at_ = now + options_.term / kSignsInATerm;
  // It stood still, or the home did not serve, for so long that somebody may have taken over: a look tells, also when nothing else asks for one.
  if (now - due >= options_.term / 2) step(core::Queued{{}, {core::Confirm{}}});
}

// A standby that stands ready says so beside our own sign of life.
void Runner::look_for_successor() {
  if (!ask_at_ || runtime_.now() < *ask_at_) return;
  if (!beat_at_ || !std::holds_alternative<core::Owning>(writer_.state())) {
    ask_at_.reset();
    return;
  }
  if (const auto found = stream_->pulse(successor_object(liveness()))) {
    std::string now = *found ? std::string(as_text(**found)).substr(0, kMostSuccessorBytes) : std::string();
    const bool another = now != successor_;
    successor_ = std::move(now);
    if (another && !successor_.empty()) options_.on_successor(successor_);
  }
  ask_at_ = options_.metered ? *beat_at_ : runtime_.now() + options_.notice_within;
}

void Runner::end() {
  std::vector<Signal*> wake;
  {
    const Lock lock(mutex_);
    ended_ = true;
    for (const Waiter& waiter : waiters_) wake.push_back(waiter.signal);
  }
  for (Signal* signal : wake) signal->notify();
  tell_listeners();
}

}  // namespace onepen::owner
