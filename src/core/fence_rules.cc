#include "core/fence_rules.h"

#include <algorithm>

namespace onepen::core::rules {

Decision about(const StreamState& state) {
  Decision decision;
  decision.incarnation = state.incarnation;
  decision.tail = state.tail;
  if (state.config.kind == StreamKind::fence_required) tell(state.owner, decision);
  return decision;
}

void tell(const Producer& producer, Decision& decision) {
  decision.epoch = producer.epoch;
  decision.claim_id = producer.claim_id;
  decision.last = producer.last;
}

bool refuse(Decision& decision, Outcome outcome, Why why) {
  decision.outcome = outcome;
  decision.why = why;
  return true;
}

void see_time(StreamState& state, std::int64_t time_ms) { state.time_ms = std::max(state.time_ms, time_ms); }

bool missing(const StreamState& state, Decision& decision) {
  switch (state.presence) {
    case Presence::present: return false;
    case Presence::soft_deleted: return refuse(decision, Outcome::gone, Why::removed);
    case Presence::absent:
    case Presence::deleted: break;
  }
  return refuse(decision, Outcome::not_found, state.presence == Presence::deleted ? Why::removed : Why::absent);
}

bool other_history(const StreamState& state, const std::optional<Incarnation>& incarnation, bool required, Decision& decision) {
  if (incarnation && *incarnation != state.incarnation && guard_on(Guard::fence_incarnation)) {
    return refuse(decision, Outcome::incarnation_changed, Why::other_incarnation);
  }
  if (!incarnation && required) return refuse(decision, Outcome::invalid, Why::no_incarnation);
  // A suspect copy may lack what its owner saw acknowledged, so neither "closed" nor "duplicate" nor "gap" is sure: nothing is said but this.
  if (state.suspect) return refuse(decision, Outcome::fence_unavailable, Why::suspect);
  return false;
}

bool unfenced(const StreamState& state, std::string_view producer, ClaimId claim_id, Decision& decision) {
  if (producer.empty()) return refuse(decision, Outcome::fence_required, Why::no_producer);
  if (!state.owner_producer.empty() && producer != state.owner_producer) return refuse(decision, Outcome::fence_required, Why::other_producer);
  if (claim_id.nil()) return refuse(decision, Outcome::fence_required, Why::no_claim_id);
  return false;
}

namespace {
const ClosedEpoch* find_closed(const Producer& producer, Epoch epoch) {
  std::size_t low = 0, high = producer.closed.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (producer.closed[middle].epoch < epoch) low = middle + 1;
    else high = middle;
  }
  return low < producer.closed.size() && producer.closed[low].epoch == epoch ? &producer.closed[low] : nullptr;
}
}  // namespace

EpochView view_of(const Producer& producer, Epoch epoch) {
  if (producer.live && epoch == producer.epoch) return {producer.claim_id, producer.last, true};
  if (const ClosedEpoch* row = find_closed(producer, epoch)) return {row->claim_id, row->last, true};
  return {};
}

const Receipt* find_receipt(const Producer& producer, Epoch epoch, Sequence sequence) {
  const auto& receipts = producer.receipts;
  if (receipts.empty()) return nullptr;
  // The usual question is about the newest epoch, whose receipts lie one after the other at the end.
  const Receipt& newest = receipts.back();
  if (newest.epoch == epoch && sequence <= newest.sequence && newest.sequence.value - sequence.value < receipts.size()) {
    const Receipt& there = receipts[receipts.size() - 1 - static_cast<std::size_t>(newest.sequence.value - sequence.value)];
    if (there.epoch == epoch && there.sequence == sequence) return &there;
  }
  const auto key = [](const Receipt& r) { return std::pair(r.epoch, r.sequence); };
  std::size_t low = 0, high = receipts.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (key(receipts[middle]) < std::pair(epoch, sequence)) low = middle + 1;
    else high = middle;
  }
  return low < receipts.size() && key(receipts[low]) == std::pair(epoch, sequence) ? &receipts[low] : nullptr;
}

const PositionalReceipt* find_commit(const Producer& producer, Epoch epoch, CommitId commit) {
  for (std::size_t i = producer.commits.size(); i-- > 0;) {
    const PositionalReceipt& receipt = producer.commits[i];
    if (receipt.commit == commit && receipt.epoch == epoch) return &receipt;
  }
  return nullptr;
}

Applied fate_of(const Producer& producer, const Identity& identity) {
  const EpochView epoch = view_of(producer, identity.epoch);
  if (!epoch.known) return identity.epoch >= producer.known_from ? Applied::no : Applied::unknown;
  if (epoch.claim_id != identity.claim_id) return Applied::no;
  if (!identity.commit.nil()) {
    if (const PositionalReceipt* receipt = find_commit(producer, identity.epoch, identity.commit)) {
      return receipt->digest == identity.digest ? Applied::yes : Applied::no;
    }
    return identity.epoch > producer.dropped_commits ? Applied::no : Applied::unknown;
  }
  if (!identity.sequence) return Applied::unknown;  // a change without an identity of its own (trim, snapshot, ...)
  if (*identity.sequence > epoch.last) return Applied::no;
  if (!identity.claim_id.nil() && identity.sequence->value == 0) return Applied::yes;  // the claim itself: its id is its identity
  if (const Receipt* receipt = find_receipt(producer, identity.epoch, *identity.sequence)) {
    return receipt->digest == identity.digest ? Applied::yes : Applied::no;
  }
  return Applied::unknown;
}

bool epoch_closed(const Producer& producer, const Identity& identity, Why why, Decision& decision) {
  const EpochView epoch = view_of(producer, identity.epoch);
  if (epoch.known) decision.closed_sequence = epoch.last;
  decision.applied = fate_of(producer, identity);
  return refuse(decision, Outcome::epoch_closed, why);
}

bool not_current(StreamState& state, const Identity& identity, Decision& decision) {
  const Producer& owner = state.owner;
  if (identity.epoch < owner.epoch && guard_on(Guard::fence_epoch)) return epoch_closed(owner, identity, Why::epoch_old, decision);
  if (identity.epoch > owner.epoch) {
    // Somebody holds an epoch this stream never gave: what lies here is older than what that owner wrote (a raw copy put back).
    state.suspect = true;
    decision.changed = true;
    return refuse(decision, Outcome::fence_unavailable, Why::evidence);
  }
  if (identity.epoch == owner.epoch && !owner.live) return refuse(decision, Outcome::fence_required, Why::no_owner);
  if (view_of(owner, identity.epoch).claim_id != identity.claim_id && guard_on(Guard::fence_claim_id)) {
    return epoch_closed(owner, identity, Why::other_claim, decision);
  }
  return false;
}

bool namespace_refuses(const StreamState& state, Decision& decision) {
  switch (state.namespace_fence) {
    case NamespaceFence::open: return false;
    case NamespaceFence::write_fenced: return refuse(decision, Outcome::write_fenced, Why::namespace_fence);
    case NamespaceFence::read_fenced: return refuse(decision, Outcome::read_fenced, Why::namespace_fence);
    case NamespaceFence::quarantined: return refuse(decision, Outcome::quarantined, Why::namespace_fence);
    case NamespaceFence::unavailable: break;
  }
  return refuse(decision, Outcome::fence_unavailable, Why::namespace_fence);
}

bool tail_moved(const StreamState& state, const std::optional<Position>& if_tail, Decision& decision) {
  return if_tail && *if_tail != state.tail && refuse(decision, Outcome::base_mismatch, Why::tail_moved);
}

void close_epoch(Producer& producer, std::size_t rows_kept) {
  if (!producer.live) return;
  const Epoch oldest = producer.closed.empty() ? Epoch{} : producer.closed[0].epoch;
  if (producer.closed.push({producer.epoch, producer.claim_id, producer.last}, rows_kept)) {
    forget_through(producer, oldest);
  }
}

void forget(Producer& producer) {
  const Epoch floor = producer.epoch;
  const std::int64_t time = producer.last_time_ms;
  producer = Producer{};
  producer.epoch = floor;
  producer.last_time_ms = time;
  forget_through(producer, floor);
}

void forget_through(Producer& producer, Epoch epoch) { producer.known_from = std::max(producer.known_from, Epoch{epoch.value + 1}); }

}  // namespace onepen::core::rules
