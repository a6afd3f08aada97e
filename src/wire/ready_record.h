// The control appends of an owner about itself (fence.md, "The claim"). Pure. docs/formats/log-object.md.
//   {"record":"ready","endpoint":"..."}   it can serve now, and where
//   {"record":"released"}                 it ended in an orderly way, with nothing undecided: taking over from it is no quarrel
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"

namespace onepen::wire {

inline constexpr std::size_t kMaxEndpointBytes = 1024;

Bytes encode_ready(const std::string& endpoint);  // endpoint may be empty (embedded); longer than kMaxEndpointBytes: cut
std::optional<std::string> decode_ready(ByteView payload);  // none: another kind of control record, or a newer one

Bytes encode_released();
bool decode_released(ByteView payload);

}  // namespace onepen::wire
