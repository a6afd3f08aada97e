// Reading the stream to learn what became of appends, and looking at it to learn whether we still own it.
#include <algorithm>

#include "core/writer_step.h"

namespace onepen::core {

// Our epoch is closed. The refusal says what became of this very append; where it cannot, or where the offset is wanted, the stream does: its records of
// our epoch all stand before the claim that closed it (I2), so whatever is not there by then never will be.
void Writer::closed(Step& s, Flight flight, const Refusal& refusal) {
  const bool some_landed = refusal.closed_sequence && *refusal.closed_sequence >= flight.batch->first;
  if (refusal.applied == Applied::no && !some_landed) {
    Finished then = finished_by(refusal);
    decide(s, flight, Fate::Kind::refused, error_of(then));
    finish(s, std::move(then));
    return;
  }
  look(s, std::move(flight), refusal);
}

void Writer::look(Step& s, Flight flight, Refusal cause) {
  Deciding deciding{std::move(flight), std::move(cause), {}, acknowledged_};
  deciding.found.resize(deciding.flight.tickets.size());
  s.out.request = AskRead{deciding.from};
  *doing() = std::move(deciding);
}

void Writer::on(Step& s, ReadAnswered& event) {
  Doing* what = doing();
  auto* placed = what != nullptr ? std::get_if<Deciding>(what) : nullptr;
  if (placed == nullptr) return;
  Deciding deciding = std::move(*placed);
  if (!event.answer) {
    look_failed(s, std::move(deciding), event.answer.error());
    return;
  }
  deciding.flight.failures = 0;
  const AppendBatch& batch = *deciding.flight.batch;
  for (const Record& record : event.answer->records) {
    if (record.kind == RecordKind::claim && record.epoch > epoch_) {
      deciding.newer = owner_of(record);
      break;
    }
    if (record.epoch != epoch_ || record.claim_id != claim_id_ || record.sequence < batch.first) continue;
    const std::uint64_t i = record.sequence.value - batch.first.value;
    if (i >= batch.appends.size()) continue;
    if (record.kind == batch.appends[i].kind && record.payload == batch.appends[i].payload) deciding.found[i] = record.next;
    else deciding.other_bytes = true;
  }
  const bool all = std::all_of(deciding.found.begin(), deciding.found.end(), [](const auto& offset) { return offset.has_value(); });
  if (all || deciding.newer || deciding.other_bytes || event.answer->up_to_date) {
    settle(s, std::move(deciding));
    return;
  }
  deciding.from = event.answer->next;
  s.out.request = AskRead{deciding.from};
  *what = std::move(deciding);
}

void Writer::look_failed(Step& s, Deciding deciding, const Refusal& refusal) {
  const bool said_applied = deciding.cause.outcome == Outcome::epoch_closed && deciding.cause.applied == Applied::yes;
  if (said_applied) {  // the read was for the offset only
    acknowledge(s, deciding.flight, deciding.flight.tickets.size(), {});
    finish(s, finished_by(deciding.cause));
    return;
  }
  if (refusal.outcome == Outcome::unknown || refusal.outcome == Outcome::unavailable || out_of_sight(refusal)) {
    ++deciding.flight.failures;
    deciding.again = s.at.now + backoff(deciding.flight.failures);
    *doing() = std::move(deciding);
    return;
  }
  // Trimmed, removed or forbidden: the stream cannot tell any more. Only the next takeover's checksum can.
  Finished then = finished_by(deciding.cause.outcome == Outcome::epoch_closed ? deciding.cause : refusal);
  decide(s, deciding.flight, Fate::Kind::undecided, error_of(then));
  finish(s, std::move(then));
}

// Everything that could be read was read. What was found is acknowledged, a prefix.
void Writer::settle(Step& s, Deciding deciding) {
  std::vector<Offset> offsets;
  for (const auto& offset : deciding.found) {
    if (!offset) break;
    offsets.push_back(*offset);
  }
  Flight& flight = deciding.flight;
  acknowledge(s, flight, offsets.size(), offsets);
  Refusal cause = deciding.cause;
  if (deciding.newer) {
    if (cause.outcome != Outcome::epoch_closed) cause = Refusal{Outcome::epoch_closed, {}};
    if (!cause.current) cause.current = deciding.newer;
  }
  const bool fenced = cause.outcome == Outcome::epoch_closed;
  if (flight.tickets.empty() && !fenced) {  // all there: an answer was lost, nothing else
    landed(s);
    return;
  }
  Fate::Kind rest = Fate::Kind::refused;
  const bool cannot_land = deciding.newer.has_value() || deciding.other_bytes;  // their epoch is over, or their sequence is taken
  if (fenced && cause.applied == Applied::yes) rest = Fate::Kind::undecided;    // the home contradicts itself
  else if (!cannot_land && (flight.may_have_landed || fenced)) rest = Fate::Kind::undecided;
  Finished then = finished_by(cause);
  decide(s, flight, rest, error_of(then));
  finish(s, std::move(then));
}

// A look while nothing of ours is in flight: the stream must end exactly as we know it.
void Writer::check(Step& s, const StreamStat& stat) {
  if (stat.incarnation != incarnation_) {
    finish(s, finished_by(Refusal{Outcome::incarnation_changed, "its incarnation is " + to_text(stat.incarnation)}));
    return;
  }
  if (stat.epoch > epoch_) {
    finish(s, finished_by(Refusal{Outcome::epoch_closed, {}, owner_of(stat)}));
    return;
  }
  const std::optional<Owner> current = stat.epoch.value == 0 ? std::nullopt : std::optional<Owner>(owner_of(stat));
  if (stat.epoch < epoch_) {
    finish_lost(s, "the stream has forgotten our claim of epoch " + std::to_string(epoch_.value) + "; its newest is epoch " + std::to_string(stat.epoch.value),
                current);
    return;
  }
  if (stat.claim_id == claim_id_ && stat.last_sequence < last_) {
    finish_lost(s,
                "the stream has lost acknowledged writes: it is at sequence " + std::to_string(stat.last_sequence.value) + ", acknowledged was " +
                    std::to_string(last_.value),
                current);
    return;
  }
  std::string trouble;
  if (stat.claim_id != claim_id_) trouble = "the stream has another claim of epoch " + std::to_string(epoch_.value) + " than ours";
  else if (stat.last_sequence > last_)
    trouble = "somebody else writes under our claim: the stream is at sequence " + std::to_string(stat.last_sequence.value) + ", we wrote " +
              std::to_string(last_.value);
  if (trouble.empty()) return;
  finish(s, finished_by(Refusal{Outcome::cloned, trouble, current}));
}

}  // namespace onepen::core
