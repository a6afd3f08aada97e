// Strong ids of the fence. Plain values; no I/O, no randomness (ids are drawn through base/runtime.h).
#pragma once
#include <onepen/result.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace onepen {

// Largest number allowed on any wire: 2^53-1, so that JSON readers keep it exactly.
inline constexpr std::uint64_t kMaxWireNumber = (std::uint64_t{1} << 53) - 1;

// Number of an append inside its epoch; the claim is 0.
struct Sequence {
  std::uint64_t value = 0;
  auto operator<=>(const Sequence&) const = default;
};

// 128 random bits with a purpose. Nil (all zero) means "none".
template <class Tag>
struct Id128 {
  std::uint64_t hi = 0, lo = 0;
  auto operator<=>(const Id128&) const = default;
  bool nil() const { return hi == 0 && lo == 0; }
};
namespace detail {
std::string hex128(std::uint64_t hi, std::uint64_t lo);                                // 32 lower-case hex digits
bool parse_hex128(std::string_view text, std::uint64_t& hi, std::uint64_t& lo);        // exactly 32 hex digits
}  // namespace detail
template <class Tag>
std::string to_text(Id128<Tag> id) {
  return detail::hex128(id.hi, id.lo);
}
template <class Tag>
bool parse(std::string_view text, Id128<Tag>& id) {
  return detail::parse_hex128(text, id.hi, id.lo);
}

using ClaimId = Id128<struct ClaimIdTag>;          // identifies one claim; two claimers of one epoch differ in it
using Incarnation = Id128<struct IncarnationTag>;  // one history of a stream
using PutId = Id128<struct PutIdTag>;              // one attempt to create an object; the same for every resend (B2)

// XXH3-64 of a payload; part of an append's identity.
struct Digest {
  std::uint64_t value = 0;
  auto operator<=>(const Digest&) const = default;
};

// Name of a stream (a database): 1..200 bytes; segments of [A-Za-z0-9._-] separated by single '/', none of them "." or "..", none starting with '.'.
// Anything else is refused with a sentence, so that a name can never leave its home's folder.
class StreamName {
 public:
  static Result<StreamName> parse(std::string_view text);
  const std::string& text() const { return text_; }
  auto operator<=>(const StreamName&) const = default;

 private:
  explicit StreamName(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace onepen
