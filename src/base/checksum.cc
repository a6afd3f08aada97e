#include "base/checksum.h"

#include <xxhash.h>

namespace onepen {
std::uint64_t xxh3(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
std::uint64_t xxh3(ByteView bytes, std::uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }
}  // namespace onepen
