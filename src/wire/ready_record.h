// The `ready` record: the control append by which an owner says that it can serve now, and where (fence.md, "The claim"):
// {"record":"ready","endpoint":"..."}. Pure. docs/formats/log-object.md.
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"

namespace onepen::wire {

inline constexpr std::size_t kMaxEndpointBytes = 1024;

Bytes encode_ready(const std::string& endpoint);  // endpoint may be empty (embedded); longer than kMaxEndpointBytes: cut
std::optional<std::string> decode_ready(ByteView payload);  // none: another kind of control record, or a newer one

}  // namespace onepen::wire
