#include "core/fence_view.h"

#include <fmt/format.h>

namespace onepen::core {
namespace {

std::string person(const Owner& owner) {
  std::string text = owner.name.empty() ? std::string("an unnamed owner") : fmt::format("'{}'", owner.name);
  if (owner.pid != 0) text += fmt::format(" (process {})", owner.pid);
  if (!owner.host.empty()) text += fmt::format(" on host {}", owner.host);
  return text;
}

std::string now_owned(const std::optional<Owner>& owner, const Decision& decision) {
  if (!owner) return fmt::format("nobody owns it now; epochs up to {} are used up", decision.epoch.value);
  return fmt::format("it is now owned by {} (epoch {})", person(*owner), decision.epoch.value);
}

std::string what_became(const Decision& decision) {
  switch (decision.applied) {
    case Applied::yes: return "This request had been applied before that epoch was closed.";
    case Applied::no: return "This request was not applied.";
    case Applied::unknown: return "Whether this request was applied is not known here any more; only reading the stream tells.";
  }
  return {};
}

std::string epoch_closed_text(std::string_view stream, const std::optional<Owner>& owner, const Decision& d, Epoch ours) {
  switch (d.why) {
    case Why::other_claim:
      return fmt::format("Epoch {} of '{}' belongs to another claim: {}. {} Stop writing with this handle.", ours.value, stream, now_owned(owner, d),
                         what_became(d));
    case Why::base_claimed:
      return fmt::format(
          "The claim of epoch {} on '{}' was conditional and its base is no longer the newest claim: {}. Nothing was stored. Do not claim "
          "again unless you mean to take it.",
          ours.value, stream, now_owned(owner, d));
    case Why::claim_not_higher:
      if (d.applied == Applied::yes) break;  // its own late retry: told like an append
      return fmt::format("The claim of epoch {} on '{}' is not above every epoch seen: {}. Nothing was stored. Claim a higher epoch if you mean to take it.",
                         ours.value, stream, now_owned(owner, d));
    default: break;
  }
  std::string text = fmt::format("Epoch {} of '{}' is closed: {}. ", ours.value, stream, now_owned(owner, d));
  if (d.closed_sequence) text += fmt::format("The last append of epoch {} in the stream is sequence {}. ", ours.value, d.closed_sequence->value);
  return text + what_became(d) + " Stop writing with this handle.";
}

std::string invalid_text(std::string_view stream, const Decision& d, Epoch ours) {
  switch (d.why) {
    case Why::no_incarnation: return fmt::format("The request for '{}' names no incarnation; every change of a fence-required stream must.", stream);
    case Why::not_fenced_stream:
      return fmt::format("'{}' is a plain stream: it takes no claims, claim ids or positional appends. Create it with Stream-Fence: required.", stream);
    case Why::epoch_jump:
      return fmt::format("Epoch {} of '{}' is more than {} above the current epoch {}. Claim the next epoch.", ours.value, stream, kMaxEpochJump,
                         d.epoch.value);
    case Why::epoch_skips_start: return fmt::format("Epoch {} of '{}' is new and must begin with sequence 0.", ours.value, stream);
    case Why::position: return fmt::format("The position named for '{}' is not one that this change may have there.", stream);
    case Why::other_bytes: return fmt::format("A commit id was used again on '{}' with other bytes. Draw a new one for every commit.", stream);
    default: return fmt::format("The request for '{}' is not well formed; nothing was changed. Correct it before sending it again.", stream);
  }
}

std::string message_of(std::string_view stream, const StreamState& state, const std::optional<Owner>& owner, const Decision& d, Epoch ours) {
  switch (d.outcome) {
    case Outcome::applied: return fmt::format("The change of '{}' was applied.", stream);
    case Outcome::duplicate:
      if (d.why == Why::no_receipt)
        return fmt::format(
            "This sequence of epoch {} was applied to '{}' earlier, but its receipt is not kept any more. Read the stream to learn what it holds.", ours.value,
            stream);
      return fmt::format("The request for '{}' had been applied already; this is its first answer again.", stream);
    case Outcome::epoch_closed: return epoch_closed_text(stream, owner, d, ours);
    case Outcome::cloned:
      return fmt::format("Two processes write '{}' under one claim of epoch {}: the stream holds other bytes under this sequence. Stop both and open again.",
                         stream, ours.value);
    case Outcome::fence_required: {
      const std::string_view what = d.why == Why::other_producer ? "the request comes from another producer than the stream's"
                                    : d.why == Why::no_owner     ? "nobody has claimed this incarnation yet"
                                                                 : "the request carries no claim";
      return fmt::format("'{}' takes changes from its owner only, and {}. Claim it first.", stream, what);
    }
    case Outcome::sequence_gap:
      return fmt::format("Sequence {} of epoch {} does not follow on '{}': {} is expected. Send from there, in order.", d.received.value_or(Sequence{}).value,
                         ours.value, stream, d.expected.value_or(Sequence{}).value);
    case Outcome::incarnation_changed:
      return fmt::format("'{}' has another history now: incarnation {}. Take the new history; the old token is of no use.", stream, to_text(d.incarnation));
    case Outcome::base_mismatch: return fmt::format("The tail of '{}' is not where the request expected it. Read what came since and decide again.", stream);
    case Outcome::write_fenced: return fmt::format("Writes to '{}' are stopped while it moves. Wait for the move to end.", stream);
    case Outcome::read_fenced: return fmt::format("Reads and writes of '{}' are stopped while it moves. Wait for the move to end.", stream);
    case Outcome::quarantined: return fmt::format("'{}' is being filled by a move and is not open yet. Wait for the move to end.", stream);
    case Outcome::fence_unavailable:
      return state.suspect || d.why == Why::evidence
                 ? fmt::format(
                       "'{}' was marked suspect: a request proved that this copy of the stream is older than what its owner wrote. Nothing changes until "
                       "`onepen adopt` begins a new incarnation.",
                       stream)
                 : fmt::format("Whether '{}' may be written cannot be told now. Wait for the move to end.", stream);
    case Outcome::closed: return fmt::format("'{}' is closed: it takes no more appends.", stream);
    case Outcome::state_mismatch: {
      const std::string_view what = d.why == Why::content_type ? "the content type differs from the stream's"
                                    : d.why == Why::stream_seq ? "Stream-Seq is not above the last one"
                                                               : "the stream exists with another configuration";
      return fmt::format("The request does not fit '{}': {}.", stream, what);
    }
    case Outcome::content_mismatch: return invalid_text(stream, d, ours);
    case Outcome::too_large: return fmt::format("The append is larger than '{}' takes (at most {} bytes).", stream, state.config.max_append_bytes);
    case Outcome::quota:
      return d.why == Why::producer_limit ? fmt::format("'{}' has {} producers, as many as a stream may have.", stream, state.producers.size())
                                          : fmt::format("'{}' is full ({} of {} bytes).", stream, state.stored_bytes, state.config.max_stream_bytes);
    case Outcome::not_found: return fmt::format("There is no stream '{}'.", stream);
    case Outcome::gone: return fmt::format("'{}' was removed; only its forks still read from it.", stream);
    default: return invalid_text(stream, d, ours);
  }
}

}  // namespace

std::optional<Owner> owner_of(const StreamState& state) {
  if (state.presence != Presence::present || !state.owner.live) return std::nullopt;
  Owner owner;
  owner.token = Token{to_text(state.incarnation), state.owner.epoch, to_text(state.owner.claim_id)};
  owner.name = state.owner_info.name;
  owner.host = state.owner_info.host;
  owner.pid = state.owner_info.pid;
  return owner;
}

StreamStat stat_of(const StreamState& state) {
  StreamStat stat;
  stat.incarnation = state.incarnation;
  if (state.owner.live) {
    stat.epoch = state.owner.epoch;
    stat.claim_id = state.owner.claim_id;
    stat.last_sequence = state.owner.last;
    stat.owner = state.owner_info;
    stat.claimed_ms = state.claimed_ms;
  }
  stat.floor = state.owner.epoch;
  stat.newest_claim = state.newest_claim;
  stat.claims_since_data = state.claims_since_data;
  stat.recent_contenders = state.contenders;
  stat.closed = state.closed;
  return stat;
}

ClaimReceipt claim_receipt_of(const Decision& decision) {
  ClaimReceipt receipt;
  receipt.incarnation = decision.incarnation;
  receipt.epoch = decision.epoch;
  receipt.claim_id = decision.claim_id;
  receipt.closed_epoch = decision.closed_epoch;
  receipt.closed_sequence = decision.closed_sequence.value_or(Sequence{});
  return receipt;
}

Refusal refusal_of(std::string_view stream, const StreamState& state, const Decision& decision, Epoch ours) {
  Refusal refusal{decision.outcome, {}};
  refusal.current = owner_of(state);
  refusal.message = message_of(stream, state, refusal.current, decision, ours);
  refusal.applied = decision.applied;
  if (decision.outcome == Outcome::epoch_closed) refusal.closed_sequence = decision.closed_sequence;
  refusal.expected_sequence = decision.expected;
  return refusal;
}

AdminAct act_of(HistoryAct act) {
  switch (act) {
    case HistoryAct::restore: return AdminAct::restore;
    case HistoryAct::adopt: return AdminAct::adopt;
    case HistoryAct::forced_recovery: return AdminAct::forced_recovery;
    case HistoryAct::accept_loss: return AdminAct::accept_loss;
  }
  return AdminAct::restore;
}

std::optional<Outcome> read_refusal(const StreamState& state) {
  switch (state.namespace_fence) {
    case NamespaceFence::open:
    case NamespaceFence::write_fenced: return std::nullopt;
    case NamespaceFence::read_fenced: return Outcome::read_fenced;
    case NamespaceFence::quarantined: return Outcome::quarantined;
    case NamespaceFence::unavailable: return Outcome::fence_unavailable;
  }
  return Outcome::fence_unavailable;
}

}  // namespace onepen::core
