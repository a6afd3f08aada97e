#include "home/object/bucket_codec.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <charconv>
#include <chrono>

namespace onepen::home {
namespace {

constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

const unsigned char* octets(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* octets(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

std::optional<int> digits_at(std::string_view text, std::size_t at, std::size_t n) {
  if (text.size() < at + n) return std::nullopt;
  int value = 0;
  const auto* last = text.data() + at + n;
  const auto [end, bad] = std::from_chars(text.data() + at, last, value);
  if (bad != std::errc{} || end != last || value < 0) return std::nullopt;
  return value;
}

std::optional<std::int64_t> wall_ms_of(std::optional<int> year, unsigned month, std::optional<int> day, std::string_view clock) {
  const auto hour = digits_at(clock, 0, 2), minute = digits_at(clock, 3, 2), second = digits_at(clock, 6, 2);
  if (!year || !day || !hour || !minute || !second || clock[2] != ':' || clock[5] != ':') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(month), std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  const auto at = std::chrono::seconds(days) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
  return std::chrono::milliseconds(at).count();
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Sha256 sha256(ByteView bytes) {
  Sha256 out;
  SHA256(octets(bytes), bytes.size(), octets(out.data()));
  return out;
}

Sha256 hmac_sha256(ByteView key, std::string_view text) {
  Sha256 out;
  unsigned int size = 0;
  const auto message = as_bytes(text);
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), octets(message), message.size(), octets(out.data()), &size);
  return out;
}

std::string hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<std::size_t>(b >> 4)];
    out += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return out;
}

std::string base64(ByteView bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), octets(bytes), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::optional<Bytes> from_base64(std::string_view text) {
  text = without_space(text);
  if (text.size() % 4 != 0 || text.starts_with('=')) return std::nullopt;
  Bytes out(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(octets(out.data()), octets(as_bytes(text)), static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;  // it counts their zeros as bytes
  out.resize(static_cast<std::size_t>(size) - padding);
  return out;
}

std::string http_date(std::int64_t wall_ms) {
  const std::chrono::sys_seconds at{std::chrono::seconds(wall_ms / 1000)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(at - day);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[std::chrono::weekday(day).c_encoding()], static_cast<unsigned>(date.day()),
                     kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
                     clock.seconds().count());
}

std::optional<std::int64_t> http_date_ms(std::string_view text) {
  const auto comma = text.find(", ");
  if (comma == std::string_view::npos) return std::nullopt;
  text.remove_prefix(comma + 2);
  if (text.size() < 20) return std::nullopt;
  for (unsigned month = 0; month < kMonths.size(); ++month)
    if (text.substr(3, 3) == kMonths[month]) return wall_ms_of(digits_at(text, 7, 4), month + 1, digits_at(text, 0, 2), text.substr(12));
  return std::nullopt;
}

std::optional<std::int64_t> iso_date_ms(std::string_view text) {
  const auto month = digits_at(text, 5, 2);
  if (text.size() < 19 || !month || *month < 1 || *month > 12) return std::nullopt;
  return wall_ms_of(digits_at(text, 0, 4), static_cast<unsigned>(*month), digits_at(text, 8, 2), text.substr(11));
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
    i += 2;
  }
  if (out.find('\0') != std::string::npos) return std::nullopt;  // spelled or raw
  return out;
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view{} : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace onepen::home
