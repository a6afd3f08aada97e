#pragma once
#include <cstdint>

namespace onepen::sqlite {

// Where a commit ends in the copy's WAL: the WAL is told by its salts (SQLite draws new ones whenever it begins it anew). frame 0: before its first frame.
struct WalPlace {
  std::uint32_t salt1 = 0, salt2 = 0;
  std::uint32_t frame = 0;
  bool operator==(const WalPlace&) const = default;
};

}  // namespace onepen::sqlite
