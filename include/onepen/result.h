// onepen/result.h: what happened, told by what the caller may do next.
//
// Concept: every function of Onepen that can fail returns Result<T>; no exception crosses the API. An Error says which of the outcomes of
// docs/outcomes.md it is, what happened to what and what to do (message, for people), and who owns the stream now when the home said so.
// `unknown` is its own outcome: the request may or may not have been applied, and is never guessed.
// Thread-safety: plain values.
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace onepen {

using Duration = std::chrono::milliseconds;

enum class Outcome : std::uint8_t {
#define ONEPEN_OUTCOME(name, word, http, code, sqlstate, retry, may) name,
#include <onepen/outcomes.def>
#undef ONEPEN_OUTCOME
};

// The public word of an outcome ("epoch-closed"). Never fails.
std::string_view word(Outcome);

// A period of ownership. Grows within an incarnation; the pair (incarnation, epoch) is never reused (I5). 0 = nobody yet. At most 2^53-1.
struct Epoch {
  std::uint64_t value = 0;
  auto operator<=>(const Epoch&) const = default;
};

// Opaque position in a stream; sorts in stream order. Empty = the beginning.
struct Offset {
  std::string text;
  auto operator<=>(const Offset&) const = default;
};

// One ownership, never reused: what a user carries to every write. Incarnation and claim id are 32 hex digits.
struct Token {
  std::string incarnation;
  Epoch epoch;
  std::string claim_id;
  bool operator==(const Token&) const = default;
};

// Who made the newest claim. `endpoint` is empty until that owner can serve.
struct Owner {
  Token token;
  std::string name, host, endpoint;
  std::int64_t pid = 0;
  bool operator==(const Owner&) const = default;
};

struct Error {
  Outcome outcome;
  std::string message;           // a whole sentence: what happened, to what, what to do
  std::optional<Owner> current;  // who owns it now, when the home said so
};

template <class T = void>
using Result = tl::expected<T, Error>;

}  // namespace onepen
