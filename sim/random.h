// The simulator's only randomness: splitmix64 from one seed. Same seed, same numbers, on every machine.
#pragma once
#include <cstdint>

namespace onepen::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed ^ 0x6f6e6570656e2031ull) { next(); }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1)); }
  bool chance(std::uint32_t per_mille) { return below(1000) < per_mille; }

 private:
  std::uint64_t state_;
};

}  // namespace onepen::sim
