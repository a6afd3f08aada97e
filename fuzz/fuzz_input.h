// What the fuzz targets share: small draws from the input, and the word for a broken promise.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace onepen::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

inline ByteView view(const std::uint8_t* data, std::size_t size) { return std::as_bytes(std::span(data, size)); }

// Draws from the input, from front to back; nothing but zeros behind its end.
class Source {
 public:
  explicit Source(ByteView bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = std::to_integer<std::uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return value;
  }
  bool flag() { return (byte() & 1) != 0; }
  std::uint32_t below(std::uint32_t limit) { return byte() % limit; }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }
  ByteView take(std::size_t size) {
    const auto out = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(out.size());
    return out;
  }
  ByteView rest() { return take(bytes_.size()); }
  std::string text(std::size_t most) { return std::string(as_text(take(byte() % (most + 1)))); }

 private:
  ByteView bytes_;
};

// The bytes filled up to `size - 8`, and a checksum that fits: random bytes never have one, and what is behind it would not be reached.
inline Bytes sealed_to(std::size_t size, ByteView inside) {
  Bytes out = to_bytes(inside);
  out.resize(size - 8);
  const auto sum = xxh3(out);
  ByteWriter(out).u<std::uint64_t>(sum);
  return out;
}

}  // namespace onepen::fuzz
