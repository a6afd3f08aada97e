// Hashes, signatures, encodings and times that bucket protocols want, over OpenSSL (which stays in the .cc). Pure.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace onepen::home {

using Sha256 = std::array<std::byte, 32>;
Sha256 sha256(ByteView bytes);
Sha256 hmac_sha256(ByteView key, std::string_view text);
std::string hex(ByteView bytes);  // lower case
std::string base64(ByteView bytes);
std::optional<Bytes> from_base64(std::string_view text);  // none: that is no base64

std::string http_date(std::int64_t wall_ms);                           // "Fri, 24 May 2013 00:00:00 GMT"
std::optional<std::int64_t> http_date_ms(std::string_view text);       // of the same form
std::optional<std::int64_t> iso_date_ms(std::string_view text);        // "2013-05-24T00:00:00Z", fractions ignored

std::optional<std::string> percent_decoded(std::string_view text);     // none: a '%' without two hexadecimal digits, or a zero byte
std::string_view without_space(std::string_view text);                 // at both ends

}  // namespace onepen::home
