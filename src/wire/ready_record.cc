#include "wire/ready_record.h"

#include <nlohmann/json.hpp>

namespace onepen::wire {
namespace {
constexpr std::size_t kMaxRecordBytes = 8 * kMaxEndpointBytes;  // with its escapes

nlohmann::json parse_record(ByteView payload) {  // null: none
  if (payload.empty() || payload.size() > kMaxRecordBytes || as_text(payload).front() != '{') return {};
  return nlohmann::json::parse(as_text(payload), nullptr, false);
}
}  // namespace

Bytes encode_ready(const std::string& endpoint) {
  nlohmann::ordered_json record{{"record", "ready"}, {"endpoint", endpoint.substr(0, kMaxEndpointBytes)}};
  return to_bytes(as_bytes(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

std::optional<std::string> decode_ready(ByteView payload) {
  const auto record = parse_record(payload);
  if (!record.is_object()) return std::nullopt;
  const auto kind = record.find("record"), endpoint = record.find("endpoint");
  if (kind == record.end() || *kind != "ready" || endpoint == record.end() || !endpoint->is_string()) return std::nullopt;
  auto text = endpoint->get<std::string>();
  if (text.size() > kMaxEndpointBytes) return std::nullopt;
  return text;
}

Bytes encode_released() { return to_bytes(as_bytes(R"({"record":"released"})")); }

bool decode_released(ByteView payload) {
  const auto record = parse_record(payload);
  if (!record.is_object()) return false;
  const auto kind = record.find("record");
  return kind != record.end() && *kind == "released";
}

}  // namespace onepen::wire
