#include "wire/ready_record.h"

#include <nlohmann/json.hpp>

namespace onepen::wire {
namespace {
constexpr std::size_t kMaxRecordBytes = 8 * kMaxEndpointBytes;  // with its escapes
}

Bytes encode_ready(const std::string& endpoint) {
  nlohmann::ordered_json record{{"record", "ready"}, {"endpoint", endpoint.substr(0, kMaxEndpointBytes)}};
  return to_bytes(as_bytes(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

std::optional<std::string> decode_ready(ByteView payload) {
  if (payload.empty() || payload.size() > kMaxRecordBytes || as_text(payload).front() != '{') return std::nullopt;
  const auto record = nlohmann::json::parse(as_text(payload), nullptr, false);
  if (!record.is_object()) return std::nullopt;
  const auto kind = record.find("record"), endpoint = record.find("endpoint");
  if (kind == record.end() || *kind != "ready" || endpoint == record.end() || !endpoint->is_string()) return std::nullopt;
  auto text = endpoint->get<std::string>();
  if (text.size() > kMaxEndpointBytes) return std::nullopt;
  return text;
}

}  // namespace onepen::wire
