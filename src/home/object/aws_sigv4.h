// AWS Signature Version 4, of our own: curl's signs query strings and escaped paths wrongly. Pure functions; tested against AWS's published vectors.
//
// A path is signed as S3 wants it: percent-encoded once, slashes kept, nothing normalised. What is signed is what goes out: the request's URL is made of the
// same encoded path and the same canonical query.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/http.h"

namespace onepen::home {

struct AwsKeys {
  std::string key_id, secret;
  std::string session_token{};   // of keys that expire
  std::int64_t expires_ms = 0;   // wall clock; 0: they do not, or it is not known
  bool operator==(const AwsKeys&) const = default;
};

using Query = std::vector<std::pair<std::string, std::string>>;  // decoded

struct AwsScope {
  std::string region, service;
  std::int64_t now_ms = 0;  // wall clock
};

// Everything but A-Z a-z 0-9 - . _ ~ (and, in a path, /) becomes %XX.
enum class Slashes : std::uint8_t { kept, encoded };
std::string uri_encoded(std::string_view text, Slashes slashes);
std::string canonical_query(const Query& query);  // encoded and sorted, without '?'
std::string amz_time(std::int64_t wall_ms);       // "20130524T000000Z"

// The value of the Authorization header. `headers` are all that are signed, Host and X-Amz-Date among them; `path` is percent-encoded.
std::string aws_authorization(const AwsKeys& keys, const AwsScope& scope, std::string_view method, std::string_view path, std::string_view query,
                              const std::vector<io::HttpHeader>& headers, std::string_view payload_hash);

// Adds what S3 wants to `headers` (which holds Host): X-Amz-Date, X-Amz-Content-Sha256, a session token, Authorization.
void sign_s3(const AwsKeys& keys, const AwsScope& scope, std::string_view method, std::string_view path, std::string_view query, ByteView body,
             std::vector<io::HttpHeader>& headers);

}  // namespace onepen::home
