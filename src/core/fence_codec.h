// Bytes of a StreamState: versioned, checksummed, bounded. Format: docs/formats/fence-state.md.
#pragma once
#include "core/fence_state.h"

namespace onepen::core {

// The same state always gives the same bytes.
Bytes encode(const StreamState& state);

// Errors: invalid (damaged, cut, not ours: the message says what and where), unavailable never. A newer format version says so in its message.
// Never allocates more than the input justifies.
Result<StreamState> decode_stream_state(ByteView bytes);

}  // namespace onepen::core
