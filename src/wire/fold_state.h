// What a fold of a log knows at one place, as packs and snapshots keep it (wire/pack.h): from it anybody folds on without the objects before. Pure.
// docs/formats/pack.md. Thread-safety: plain values and pure functions.
#pragma once
#include <string>

#include "base/bytes.h"
#include "core/fence_state.h"

namespace onepen::wire {

struct FoldState {
  core::StreamState state;
  std::uint64_t next_id = 1;        // the first object not folded
  std::uint64_t prev_id = 0;        // the last object that counts before it, and its own checksum
  std::uint64_t prev_checksum = 0;
  std::uint64_t claim_at = 0;       // id of the newest claim
  std::uint32_t ordinal = 0;        // of the newest history
  std::uint64_t content_from = 0;   // id of the object with which what the stream holds began: its first claim, or a history that cut the one before
  std::uint64_t log_bytes = 0;      // of all objects before next_id
  std::string endpoint;             // of the owner's `ready` record
  bool released = false;            // the owner said that it ended
  std::int64_t removed_ms = 0;      // a tombstone: when
  std::string suspect;              // the evidence, and who saw it; empty: it is not suspect
  bool operator==(const FoldState&) const = default;
};

void encode(ByteWriter& out, const FoldState& fold);
// Reads what encode() wrote; `wrong` says what is not right (left empty when all is).
FoldState decode_fold_state(ByteReader& in, std::string& wrong);

}  // namespace onepen::wire
