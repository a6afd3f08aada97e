#include "home/object/aws_sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

// Lower-case name, and the value with space trimmed at its ends and runs of space made one.
std::pair<std::string, std::string> canonical_header(const io::HttpHeader& header) {
  std::string name(header.name), value;
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char c : without_space(header.value))
    if (c != ' ' || !value.ends_with(' ')) value += c;
  return {std::move(name), std::move(value)};
}

}  // namespace

std::string uri_encoded(std::string_view text, Slashes slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (plain || (c == '/' && slashes == Slashes::kept)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string canonical_query(const Query& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) encoded.emplace_back(uri_encoded(name, Slashes::encoded), uri_encoded(value, Slashes::encoded));
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded) out += (out.empty() ? "" : "&") + name + "=" + value;
  return out;
}

std::string amz_time(std::int64_t wall_ms) {
  const std::chrono::sys_seconds at{std::chrono::seconds(wall_ms / 1000)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(at - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()), static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string aws_authorization(const AwsKeys& keys, const AwsScope& scope, std::string_view method, std::string_view path, std::string_view query,
                              const std::vector<io::HttpHeader>& headers, std::string_view payload_hash) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& header : headers) lines.push_back(canonical_header(header));
  std::sort(lines.begin(), lines.end());
  std::string canonical, names;
  for (const auto& [name, value] : lines) {
    canonical += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string request = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", method, path, query, canonical, names, payload_hash);
  const std::string time = amz_time(scope.now_ms), date = time.substr(0, 8);
  const std::string credential = fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, credential, hex(sha256(as_bytes(request))));
  auto key = hmac_sha256(as_bytes("AWS4" + keys.secret), date);
  for (const std::string_view part : {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")})
    key = hmac_sha256(key, part);
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, keys.key_id, credential, names, hex(hmac_sha256(key, to_sign)));
}

void sign_s3(const AwsKeys& keys, const AwsScope& scope, std::string_view method, std::string_view path, std::string_view query, ByteView body,
             std::vector<io::HttpHeader>& headers) {
  const std::string hash = hex(sha256(body));
  headers.push_back({"X-Amz-Content-Sha256", hash});
  headers.push_back({"X-Amz-Date", amz_time(scope.now_ms)});
  if (!keys.session_token.empty()) headers.push_back({"X-Amz-Security-Token", keys.session_token});
  headers.push_back({"Authorization", aws_authorization(keys, scope, method, path, query, headers, hash)});
}

}  // namespace onepen::home
