// Parts of apply() that several commands share; inside core only. The numbers are the steps of fence.md, "Order of checks".
#pragma once
#include "base/guard.h"
#include "core/fence.h"

namespace onepen::core::rules {

// A Decision about `state` as it is, with nothing decided yet.
Decision about(const StreamState& state);
void tell(const Producer& producer, Decision& decision);

// Decides: always returns true, so that a check reads `return refuse(...)`.
bool refuse(Decision& decision, Outcome outcome, Why why);

inline bool fits(std::string_view text) { return text.size() <= kMaxIdBytes; }
inline bool fits(std::uint64_t number) { return number <= kMaxWireNumber; }
inline bool fits_time(std::int64_t time_ms) { return time_ms >= 0 && fits(static_cast<std::uint64_t>(time_ms)); }
void see_time(StreamState& state, std::int64_t time_ms);

// Step 2.
bool missing(const StreamState& state, Decision& decision);
// Step 3, the part about incarnations; then the suspect state, in which nothing about the past is certain enough to be said.
bool other_history(const StreamState& state, const std::optional<Incarnation>& incarnation, bool required, Decision& decision);
// Step 3 of a fence-required stream: producer and claim id.
bool unfenced(const StreamState& state, std::string_view producer, ClaimId claim_id, Decision& decision);

// One epoch of an owner: the current one, or a closed one that the table still knows.
struct EpochView {
  ClaimId claim_id;
  Sequence last;
  bool known = false;
};
EpochView view_of(const Producer& producer, Epoch epoch);

// What identifies a request inside its epoch.
struct Identity {
  Epoch epoch;
  ClaimId claim_id;
  std::optional<Sequence> sequence{};
  CommitId commit{};
  Digest digest{};
};
// What became of exactly this append (Producer-Applied); never guessed (I4).
Applied fate_of(const Producer& producer, const Identity& identity);
const Receipt* find_receipt(const Producer& producer, Epoch epoch, Sequence sequence);
const PositionalReceipt* find_commit(const Producer& producer, Epoch epoch, CommitId commit);
bool epoch_closed(const Producer& producer, const Identity& identity, Why why, Decision& decision);

// Step 4 of every change but claims on a fence-required stream: epoch and claim id. May mark the stream suspect.
bool not_current(StreamState& state, const Identity& identity, Decision& decision);

// Steps 5 and 6.
bool namespace_refuses(const StreamState& state, Decision& decision);
bool tail_moved(const StreamState& state, const std::optional<Position>& if_tail, Decision& decision);

// Writes the row of the producer's current epoch, which ends now.
void close_epoch(Producer& producer, std::size_t rows_kept);
// Leaves the floor and nothing else.
void forget(Producer& producer);
// What epochs up to `epoch` applied is known only where a row says so.
void forget_through(Producer& producer, Epoch epoch);

}  // namespace onepen::core::rules
