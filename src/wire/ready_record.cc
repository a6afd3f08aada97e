#include "wire/ready_record.h"

#include <string_view>

namespace onepen::wire {
namespace {
constexpr std::string_view kMagic = "OnepenR\n";
constexpr std::uint16_t kVersion = 1;
}  // namespace

Bytes encode_ready(const std::string& endpoint) {
  Bytes out;
  ByteWriter writer(out);
  writer.raw(as_bytes(kMagic));
  writer.u<std::uint16_t>(kVersion);
  writer.text(std::string_view(endpoint).substr(0, kMaxEndpointBytes));
  return out;
}

std::optional<std::string> decode_ready(ByteView payload) {
  ByteReader in(payload);
  if (as_text(in.raw(kMagic.size())) != kMagic || in.u<std::uint16_t>() != kVersion) return std::nullopt;
  auto endpoint = in.text(kMaxEndpointBytes);
  if (in.failed() || in.left() != 0) return std::nullopt;
  return endpoint;
}

}  // namespace onepen::wire
