#include "base/ids.h"

#include <algorithm>

namespace onepen {
namespace detail {
std::string hex128(std::uint64_t hi, std::uint64_t lo) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(hi >> (4 * i)) & 15];
    text[31 - i] = kDigits[(lo >> (4 * i)) & 15];
  }
  return text;
}

bool parse_hex128(std::string_view text, std::uint64_t& hi, std::uint64_t& lo) {
  if (text.size() != 32) return false;
  std::uint64_t half[2] = {0, 0};
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint64_t>(c - '0');
    else if (c >= 'a' && c <= 'f') digit = static_cast<std::uint64_t>(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F') digit = static_cast<std::uint64_t>(c - 'A') + 10;
    else return false;
    half[i / 16] = (half[i / 16] << 4) | digit;
  }
  hi = half[0];
  lo = half[1];
  return true;
}
}  // namespace detail

namespace {
constexpr std::size_t kMaxStreamName = 200;  // leaves room for a home's prefix and suffix in 255-byte file names

bool allowed(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'; }

Error bad_name(std::string_view text, std::string_view why) {
  std::string shown(text.substr(0, 80));
  std::replace_if(shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return Error{Outcome::invalid,
               "'" + shown + "' is not a database name: " + std::string(why) +
                   ". A name is 1 to 200 bytes of letters, digits, '.', '_', '-', in segments separated by '/', none of them starting with '.'.",
               {}};
}
}  // namespace

Result<StreamName> StreamName::parse(std::string_view text) {
  if (text.empty()) return tl::unexpected(bad_name(text, "it is empty"));
  if (text.size() > kMaxStreamName) return tl::unexpected(bad_name(text, "it is longer than 200 bytes"));
  std::size_t segment = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == '/') {
      if (segment == i) return tl::unexpected(bad_name(text, "a segment is empty"));
      if (text[segment] == '.') return tl::unexpected(bad_name(text, "a segment starts with '.'"));
      segment = i + 1;
    } else if (!allowed(text[i])) {
      return tl::unexpected(bad_name(text, "it has a byte that is not allowed"));
    }
  }
  return StreamName(std::string(text));
}
}  // namespace onepen
