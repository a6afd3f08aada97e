// XXH3-64 for everything of ours. Pure.
#pragma once
#include "base/bytes.h"
#include "base/ids.h"

namespace onepen {
std::uint64_t xxh3(ByteView bytes);
std::uint64_t xxh3(ByteView bytes, std::uint64_t seed);
inline Digest digest_of(ByteView payload) { return Digest{xxh3(payload)}; }
}  // namespace onepen
