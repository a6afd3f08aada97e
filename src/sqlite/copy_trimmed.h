// What became of pending commits when the log was trimmed past the place where they would meet the stream (fence.md, "Takeover", rule 4). Pure but for the
// reads of the stream; thread-safety: none.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "core/home.h"
#include "sqlite/copy_find.h"
#include "sqlite/copy_state.h"

namespace onepen::sqlite {

// How many of the pending commits, the first ones, landed: at least, and at most. Equal: it is known.
struct LandedRange {
  std::size_t least = 0, most = 0;
  bool known() const { return least == most; }
};
// By the closed-epoch table: `closed` is the last applied sequence of the ownership that `mark` speaks of; parts[i]: the appends of the i-th pending commit. A
// commit counts with its last part; in between there may be as many other records as the mark allows.
LandedRange landed_by_sequence(const SentMark& mark, Sequence closed, std::span<const std::uint32_t> parts);

// The last applied sequence of an ownership that a later claim closed; none: it is not closed, the table does not have it (any more), or this home keeps none.
// Errors: what the home refused.
Result<std::optional<Sequence>> closed_sequence(core::Stream& stream, const core::OwnerToken& token);

// A snapshot says what the database was at its offset. When that is `state`, or `state` with the first of the pending commits, so many landed, and the reader
// goes on from there.
struct SnapshotMeeting {
  core::SnapshotInfo info;
  std::size_t landed = 0;
};
// The newest that fits; none. Errors: what the home refused.
Result<std::optional<SnapshotMeeting>> meet_snapshot(core::Stream& stream, const CommitState& state, std::span<const WalCommit> pending);

}  // namespace onepen::sqlite
