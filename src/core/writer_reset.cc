// The end of a handle: once, for good, and told so that a person knows what to do.
#include "base/guard.h"
#include "core/writer_step.h"

namespace onepen::core {
namespace {

std::string was(Epoch ours, Sequence last) {
  return "This handle was epoch " + std::to_string(ours.value) + "; " +
         (last.value == 0 ? std::string("it has no write in the stream. ") : "its last write in the stream is sequence " + std::to_string(last.value) + ". ");
}

}  // namespace

Outcome outcome_of(ResetKind kind) {
  switch (kind) {
    case ResetKind::fenced: return Outcome::epoch_closed;
    case ResetKind::rewound: return Outcome::incarnation_changed;
    case ResetKind::removed: return Outcome::gone;
    case ResetKind::diverged: return Outcome::cloned;
    case ResetKind::refused: return Outcome::unauthorised;
    case ResetKind::broken: return Outcome::unavailable;
    case ResetKind::unresolved: return Outcome::unknown;
  }
  return Outcome::unknown;
}

Error error_of(const Finished& finished) { return Error{finished.outcome, finished.reset.message, finished.reset.current}; }

std::string describe(const Owner& owner) {
  std::string who;
  if (!owner.name.empty()) who = "'" + owner.name + "'";
  if (owner.pid != 0) who += (who.empty() ? "pid " : ", pid ") + std::to_string(owner.pid);
  if (!owner.host.empty()) who += (who.empty() ? "host " : " on host ") + owner.host;
  if (who.empty()) who = "another owner";
  return who + " (epoch " + std::to_string(owner.token.epoch.value) + ")";
}

Owner owner_of(const Record& claim) {
  return Owner{Token{to_text(claim.incarnation), claim.epoch, to_text(claim.claim_id)}, claim.owner.name, claim.owner.host, {}, claim.owner.pid};
}

Owner owner_of(const StreamStat& stat) {
  return Owner{Token{to_text(stat.incarnation), stat.epoch, to_text(stat.claim_id)}, stat.owner.name, stat.owner.host, stat.endpoint, stat.owner.pid};
}

std::string fenced_message(std::string_view stream, Epoch ours, Sequence last_in_stream, const std::optional<Owner>& current) {
  return "fenced: '" + std::string(stream) + "' is now written by " + (current ? describe(*current) : std::string("a newer owner")) + ". " +
         was(ours, last_in_stream) + std::string(kOnlyToTakeItBack);
}

Finished Writer::finished(ResetKind kind, std::string message, Outcome outcome, std::optional<Owner> current) const {
  Finished then{Reset{kind, std::move(message), epoch_}, outcome};
  then.reset.current = std::move(current);
  return then;
}

Finished Writer::finished_by(const Refusal& refusal) const {
  const std::string name = "'" + config_.stream + "'";
  const std::string why = refusal.message.empty() ? std::string(word(refusal.outcome)) : refusal.message;
  switch (refusal.outcome) {
    case Outcome::epoch_closed:
      return finished(ResetKind::fenced, fenced_message(config_.stream, epoch_, refusal.closed_sequence.value_or(last_), refusal.current),
                      Outcome::epoch_closed, refusal.current);
    case Outcome::incarnation_changed:
      return finished(ResetKind::rewound,
                      "rewound: " + name + " has a new history; ours was incarnation " + to_text(incarnation_) + " (" + why + "). " + was(epoch_, last_) +
                          "Open the database again to go on from the new history.",
                      Outcome::incarnation_changed, refusal.current);
    case Outcome::not_found:
    case Outcome::gone:
      return finished(
          ResetKind::removed,
          "removed: the stream of " + name + " is gone (" + why + "). " + was(epoch_, last_) + "Find out who removed it before opening the database again.",
          refusal.outcome, refusal.current);
    case Outcome::cloned:
    case Outcome::duplicate:
    case Outcome::sequence_gap:
      return finished(ResetKind::diverged,
                      "diverged: what this handle wrote to " + name + " is not what the stream has (" + why + "). " + was(epoch_, last_) +
                          "Nothing more is written by it. Open the database again to go on from what the stream has.",
                      Outcome::cloned, refusal.current);
    default:
      return finished(
          ResetKind::refused,
          "refused: the home takes no more writes of " + name + " (" + why + "). " + was(epoch_, last_) + "Open the database again when the cause is gone.",
          refusal.outcome, refusal.current);
  }
}

// The flight of an unresolved handle is decided. Its reset was told when the front gave up; the first wins. What a split put back into the queue had been
// refused with the rest of its batch, and is not sent again.
void Writer::end_unresolved(Step& s) {
  Finished first = std::move(std::get<Unresolved>(state_).then);
  refuse_queue(s, error_of(first), true);
  state_ = std::move(first);
}

void Writer::finish(Step& s, Finished then) {
  if (std::holds_alternative<Unresolved>(state_)) {
    end_unresolved(s);
    return;
  }
  refuse_queue(s, error_of(then), true);
  s.out.reset = then.reset;
  if (guard_on(Guard::reset_final)) state_ = std::move(then);
  else state_ = Owning{Idle{s.at.now + config_.notice_within}};
}

// An older copy of the home was put back under us: evidence of the future, which only the owner sees (fence.md, "Incarnations").
void Writer::finish_lost(Step& s, std::string what, std::optional<Owner> current) {
  if (std::holds_alternative<Owning>(state_)) s.out.suspect = what;
  finish(s, finished(ResetKind::diverged,
                     "diverged: the home of '" + config_.stream + "' holds less than it acknowledged (" + what + "). " + was(epoch_, last_) +
                         "Nothing more is written by it. Put the home's newer state back; if that is lost for good, run `onepen adopt` on it to go on from "
                         "what is left.",
                     Outcome::cloned, std::move(current)));
}

void Writer::on(Step& s, GiveUp& event) {
  auto* owning = std::get_if<Owning>(&state_);
  if (owning == nullptr) return;
  Finished then = finished(event.kind, std::move(event.message), outcome_of(event.kind));
  const Flight* flight = nullptr;
  bool sure = false;  // no attempt of it can be in the stream, or on its way there
  if (const auto* sending = std::get_if<Sending>(&owning->doing)) flight = &sending->flight;
  if (const auto* deciding = std::get_if<Deciding>(&owning->doing)) flight = &deciding->flight;
  if (const auto* resending = std::get_if<Resending>(&owning->doing)) {
    flight = &resending->flight;
    sure = !flight->may_have_landed;
  }
  if (flight == nullptr) {
    finish(s, std::move(then));
    return;
  }
  if (event.kind != ResetKind::unresolved) {
    decide(s, *flight, sure ? Fate::Kind::refused : Fate::Kind::undecided, error_of(then));
    finish(s, std::move(then));
    return;
  }
  // What was never sent stays unsent; the flight goes on until it is decided, because it may be in the stream (fence.md, "In flight and unknown").
  decide(s, *flight, Fate::Kind::undecided, error_of(then));
  refuse_queue(s, error_of(then), true);
  s.out.reset = then.reset;
  Doing doing = std::move(owning->doing);
  state_ = Unresolved{std::move(doing), std::move(then)};
}

}  // namespace onepen::core
