#include "home/object/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace onepen::home {
namespace {

template <class T>
bool read_number(std::string_view text, T& value, int base = 10) {
  auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return bad == std::errc{} && end == text.data() + text.size();
}
constexpr std::size_t kOrdinalDigits = 6, kIdDigits = 16, kIndexDigits = 5, kTagDigits = 8;
constexpr std::size_t kOffsetBytes = kOrdinalDigits + 1 + kIdDigits + 1 + kIndexDigits + 1 + kTagDigits;
constexpr std::size_t kNameDigits = 20;

}  // namespace

std::uint32_t offset_tag(const Incarnation& incarnation, const ClaimId& claim_id) {
  auto folded = incarnation.hi ^ incarnation.lo ^ claim_id.hi ^ claim_id.lo;
  return static_cast<std::uint32_t>(folded ^ (folded >> 32));
}

Offset to_offset(std::uint32_t ordinal, core::Position at, const Incarnation& incarnation, const ClaimId& claim_id) {
  return Offset{fmt::format("{:06}.{:016}.{:05}.{:08x}", ordinal, at.high, at.low, offset_tag(incarnation, claim_id))};
}

std::optional<ParsedOffset> parse_offset(const Offset& offset) {
  std::string_view text = offset.text;
  if (text.size() != kOffsetBytes) return std::nullopt;
  ParsedOffset out;
  auto part = [&](std::size_t from, std::size_t n) { return text.substr(from, n); };
  constexpr std::size_t kIdAt = kOrdinalDigits + 1, kIndexAt = kIdAt + kIdDigits + 1, kTagAt = kIndexAt + kIndexDigits + 1;
  if (text[kIdAt - 1] != '.' || text[kIndexAt - 1] != '.' || text[kTagAt - 1] != '.') return std::nullopt;
  if (!read_number(part(0, kOrdinalDigits), out.ordinal) || !read_number(part(kIdAt, kIdDigits), out.at.high) ||
      !read_number(part(kIndexAt, kIndexDigits), out.at.low) || !read_number(part(kTagAt, kTagDigits), out.tag, 16))
    return std::nullopt;
  return out;
}

std::string object_name(std::uint64_t id) { return fmt::format("{:020}", id); }

std::optional<std::uint64_t> object_id(std::string_view name) {
  std::uint64_t id = 0;
  if (name.size() != kNameDigits || !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  if (!read_number(name, id) || id == 0) return std::nullopt;
  return id;
}

std::string pack_name(std::uint64_t first, std::uint64_t last) { return object_name(first) + "-" + object_name(last); }

std::optional<PackRun> pack_run(std::string_view name) {
  if (name.size() != 2 * kNameDigits + 1 || name[kNameDigits] != '-') return std::nullopt;
  auto first = object_id(name.substr(0, kNameDigits)), last = object_id(name.substr(kNameDigits + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return PackRun{*first, *last};
}

std::string snapshot_id(std::uint64_t id, const PutId& put) { return object_name(id) + "-" + to_text(put); }

std::optional<std::uint64_t> snapshot_at(std::string_view id) {
  PutId put;
  if (id.size() <= kNameDigits || id[kNameDigits] != '-' || !parse(id.substr(kNameDigits + 1), put)) return std::nullopt;
  return object_id(id.substr(0, kNameDigits));
}

namespace {
constexpr std::string_view kCutPrefix = "cut-";
}

std::string cut_name(std::uint64_t id) { return std::string(kCutPrefix) + object_name(id); }

std::optional<std::uint64_t> cut_at(std::string_view name) {
  if (!name.starts_with(kCutPrefix)) return std::nullopt;
  return object_id(name.substr(kCutPrefix.size()));
}

}  // namespace onepen::home
