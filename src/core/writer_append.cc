// Owning: batches, one on its way at a time; what each answer means (docs/outcomes.md is the table, fence.md "In flight and unknown" the rules).
#include <algorithm>

#include "base/check.h"
#include "base/guard.h"
#include "core/writer_step.h"

namespace onepen::core {
namespace {

// Refusals of one append that leave the handle usable.
bool leaves_usable(Outcome outcome) {
  switch (outcome) {
    case Outcome::write_fenced:
    case Outcome::read_fenced:
    case Outcome::quarantined:
    case Outcome::fence_unavailable:
    case Outcome::too_large: return true;
    default: return false;
  }
}

bool mixed_kinds(const AppendBatch& batch) {
  return std::any_of(batch.appends.begin(), batch.appends.end(), [&](const Append& a) { return a.kind != batch.appends.front().kind; });
}

}  // namespace

void Writer::on(Step& s, Queued& event) {
  const auto* unresolved = std::get_if<Unresolved>(&state_);
  const auto* finished = unresolved != nullptr ? &unresolved->then : std::get_if<Finished>(&state_);
  for (Pending& pending : event.appends) {
    queued_bytes_ += pending.payload.size();
    queue_.push_back(std::move(pending));
  }
  for (const Confirm& confirm : event.confirms) confirms_.push_back(confirm);
  if (finished != nullptr) {
    refuse_queue(s, error_of(*finished), true);  // I7
    return;
  }
  pump(s);
}

// The confirms whose appends are all decided.
Checking Writer::covered() const {
  const auto first_pending = std::find_if(queue_.begin(), queue_.end(), [](const Pending& p) { return p.ticket != 0; });
  Checking checking;
  for (const Confirm& confirm : confirms_) {
    if (first_pending == queue_.end() || confirm.after < first_pending->ticket) checking.covers.push_back(confirm.id);
  }
  return checking;
}

// Of what is queued: not before then. A control record tells who owns the stream, or that nobody does any more: it does not wait.
std::optional<Instant> Writer::held_until() const {
  if (queue_.empty() || queue_.front().kind == RecordKind::control) return {};
  return rate_.next();
}

// Idle: the confirms whose appends are all decided go first (one read serves them all), then whatever is queued.
void Writer::pump(Step& s) {
  auto* owning = std::get_if<Owning>(&state_);
  if (owning == nullptr || !std::holds_alternative<Idle>(owning->doing)) return;
  Checking checking = covered();
  if (!checking.covers.empty() && failed_looks_ == 0) {
    owning->doing = std::move(checking);
    s.out.request = AskStat{};
    return;
  }
  if (!queue_.empty() && held_until().value_or(s.at.now) <= s.at.now) send_next_batch(s);
  else if (!checking.covers.empty()) {  // the last look failed: not at once again
    auto& idle = std::get<Idle>(owning->doing);
    idle.look_at = std::min(idle.look_at, s.at.now + backoff(failed_looks_));
  }
}

void Writer::send_next_batch(Step& s) {
  auto batch = std::make_shared<AppendBatch>();
  batch->incarnation = incarnation_;
  batch->epoch = epoch_;
  batch->claim_id = claim_id_;
  batch->first = next_;
  batch->attempt = s.at.attempt;
  batch->time_ms = s.at.wall_ms;
  Flight flight;
  std::uint64_t bytes = 0;
  while (!queue_.empty() && flight.tickets.size() < config_.max_undecided) {
    Pending& pending = queue_.front();
    if (!flight.tickets.empty() && bytes + pending.payload.size() > config_.max_batch_bytes) break;
    bytes += pending.payload.size();
    queued_bytes_ -= pending.payload.size();
    flight.tickets.push_back(pending.ticket);
    batch->appends.push_back(Append{pending.kind, std::move(pending.payload)});
    queue_.pop_front();
  }
  next_.value += flight.tickets.size();
  flight.batch = std::move(batch);
  send(s, std::move(flight));
}

void Writer::send(Step& s, Flight flight) {
  rate_.wrote(s.at.now);
  s.out.request = flight.batch;
  *doing() = Sending{std::move(flight)};
}

void Writer::resend_later(Step& s, Flight flight) {
  ++flight.failures;
  const Instant at = s.at.now + backoff(flight.failures);
  *doing() = Resending{std::move(flight), at};
}

void Writer::on(Step& s, BatchAnswered& event) {
  Doing* what = doing();
  auto* sending = what != nullptr ? std::get_if<Sending>(what) : nullptr;
  if (sending == nullptr) return;  // the handle was reset meanwhile, and its waiters were told `undecided`
  Flight flight = std::move(sending->flight);
  if (event.answer) applied(s, std::move(flight), *event.answer);
  else refused(s, std::move(flight), event.answer.error());
}

void Writer::applied(Step& s, Flight flight, const AppendReceipt& receipt) {
  const std::size_t count = std::min(receipt.offsets.size(), flight.tickets.size());
  if (count == 0) {  // a success that shows nothing is none
    flight.may_have_landed = true;
    resend_later(s, std::move(flight));
    return;
  }
  acknowledge(s, flight, count, receipt.offsets);
  if (!flight.tickets.empty()) {  // a home without batches stopped in the middle; the rest is asked for alone
    send(s, std::move(flight));
    return;
  }
  landed(s);
}

// The flight is decided. What comes next depends on whether the front still waits.
void Writer::landed(Step& s) {
  if (std::holds_alternative<Unresolved>(state_)) {
    end_unresolved(s);
    return;
  }
  failed_looks_ = 0;
  *doing() = Idle{s.at.now + config_.notice_within};  // an answered append is a look at the fence
  pump(s);
}

// The first `count` appends of the flight are in the stream. What is left of the flight is a batch of its own.
void Writer::acknowledge(Step& s, Flight& flight, std::size_t count, const std::vector<Offset>& offsets) {
  for (std::size_t i = 0; i < count; ++i) {
    Offset offset = i < offsets.size() ? offsets[i] : Offset{};
    if (!offset.text.empty()) acknowledged_ = offset;
    const Sequence sequence{flight.batch->first.value + i};
    if (flight.tickets[i] != 0) s.out.decided.push_back(Decided{flight.tickets[i], Fate{Fate::Kind::acknowledged, std::move(offset), {}, sequence}});
  }
  last_ = Sequence{flight.batch->first.value + count - 1};
  flight.tickets.erase(flight.tickets.begin(), flight.tickets.begin() + static_cast<std::ptrdiff_t>(count));
  if (flight.tickets.empty()) return;
  auto rest = std::make_shared<AppendBatch>(*flight.batch);
  rest->first.value += count;
  rest->attempt = s.at.attempt;
  rest->appends.erase(rest->appends.begin(), rest->appends.begin() + static_cast<std::ptrdiff_t>(count));
  flight.batch = std::move(rest);
}

void Writer::refused(Step& s, Flight flight, const Refusal& refusal) {
  if (out_of_sight(refusal)) {
    resend_later(s, std::move(flight));
    return;
  }
  switch (refusal.outcome) {
    case Outcome::unavailable:  // this attempt certainly did not land; the same bytes again
      resend_later(s, std::move(flight));
      return;
    case Outcome::applied:  // no refusal at all: whoever answered this does not speak our protocol
    case Outcome::unknown:
    case Outcome::claim_races:
    case Outcome::not_owner:
      if (!guard_on(Guard::unknown_resend)) {
        refused_or_unknown(s, std::move(flight), refusal);
        return;
      }
      flight.may_have_landed = true;  // I4
      resend_later(s, std::move(flight));
      return;
    case Outcome::epoch_closed: closed(s, std::move(flight), refusal); return;
    case Outcome::duplicate:  // without a receipt: the stream knows
    case Outcome::cloned:
      flight.may_have_landed = flight.may_have_landed || refusal.outcome == Outcome::duplicate;
      look(s, std::move(flight), refusal);
      return;
    case Outcome::sequence_gap: {
      const auto expected = refusal.expected_sequence;
      const bool part_landed = !expected || (*expected > flight.batch->first && expected->value <= flight.batch->first.value + flight.tickets.size());
      if (part_landed) {
        look(s, std::move(flight), refusal);
        return;
      }
      if (*expected <= last_) {  // it acknowledged more than it has now; nothing of this flight can be there
        const std::string what = "the stream has lost acknowledged writes: it expects sequence " + std::to_string(expected->value) + ", acknowledged was " +
                                 std::to_string(last_.value);
        decide(s, flight, flight.may_have_landed ? Fate::Kind::undecided : Fate::Kind::refused, Error{Outcome::cloned, "diverged: " + what, {}});
        finish_lost(s, what, refusal.current);
        return;
      }
      abandon(s, flight, refusal);
      return;
    }
    case Outcome::incarnation_changed:
    case Outcome::not_found:
    case Outcome::gone: abandon(s, flight, refusal); return;
    default: refused_or_unknown(s, std::move(flight), refusal); return;
  }
}

// Nothing can be appended under this claim any more, and the stream cannot be asked.
void Writer::abandon(Step& s, const Flight& flight, const Refusal& refusal) {
  Finished then = finished_by(refusal);
  decide(s, flight, flight.may_have_landed ? Fate::Kind::undecided : Fate::Kind::refused, error_of(then));
  finish(s, std::move(then));
}

// A definite refusal of this attempt. It counts only when no earlier attempt may have landed.
void Writer::refused_or_unknown(Step& s, Flight flight, const Refusal& refusal) {
  if (flight.may_have_landed) {
    resend_later(s, std::move(flight));
    return;
  }
  const std::size_t count = flight.tickets.size();
  if (count > 1 && (mixed_kinds(*flight.batch) || refusal.outcome == Outcome::too_large)) {
    split(s, std::move(flight), refusal.outcome == Outcome::too_large);
    return;
  }
  // Never in the stream, and no attempt of it can land any more: the home still expects this very sequence.
  next_ = flight.batch->first;
  const Error error = error_of(refusal);
  decide(s, flight, Fate::Kind::refused, error);
  if (!leaves_usable(refusal.outcome) && guard_on(Guard::unknown_resend)) {
    finish(s, finished_by(refusal));
    return;
  }
  refuse_queue(s, error, false);
  landed(s);
  // Is it a move of the namespace, or did the home lose what it acknowledged? A look tells, at once.
  Idle* idle = doing() != nullptr ? std::get_if<Idle>(doing()) : nullptr;
  if (idle != nullptr && refusal.outcome == Outcome::fence_unavailable) idle->look_at = s.at.now;
}

// The refusal may concern only a part of the batch: control records are never fenced with data, and a batch can be too large where each append is not.
// Nothing of it landed, so its parts may go again under other attempts, in the same order and with the same sequences.
void Writer::split(Step& s, Flight flight, bool halve) {
  const std::size_t count = flight.tickets.size();
  std::size_t keep = count / 2;
  const auto& appends = flight.batch->appends;
  if (!halve) {
    keep = 1;
    while (keep < count && appends[keep].kind == appends[0].kind) ++keep;
  }
  for (std::size_t i = count; i > keep; --i) {
    queued_bytes_ += appends[i - 1].payload.size();
    queue_.push_front(Pending{flight.tickets[i - 1], appends[i - 1].kind, appends[i - 1].payload});
  }
  auto first = std::make_shared<AppendBatch>(*flight.batch);
  first->appends.resize(keep);
  first->attempt = s.at.attempt;
  flight.tickets.resize(keep);
  flight.batch = std::move(first);
  next_ = Sequence{flight.batch->first.value + keep};
  send(s, std::move(flight));
}

void Writer::decide(Step& s, const Flight& flight, Fate::Kind kind, const Error& error) {
  for (const Ticket ticket : flight.tickets) {
    if (ticket != 0) s.out.decided.push_back(Decided{ticket, Fate{kind, {}, error}});
  }
}

// Never sent, so certainly not in the stream. `confirms` too when the handle is over.
void Writer::refuse_queue(Step& s, const Error& error, bool confirms) {
  for (const Pending& pending : queue_) {
    if (pending.ticket != 0) s.out.decided.push_back(Decided{pending.ticket, Fate{Fate::Kind::refused, {}, error}});
  }
  queue_.clear();
  queued_bytes_ = 0;
  if (!confirms) return;
  for (const Confirm& confirm : confirms_) s.out.confirmed.push_back(Confirmed{confirm.id, tl::unexpected(error)});
  confirms_.clear();
}

}  // namespace onepen::core
