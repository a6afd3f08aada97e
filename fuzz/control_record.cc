// The JSON that owners leave in a stream about themselves: `ready` and `released`. What is none is passed over; what is one keeps its limits.
#include "fuzz/fuzz_input.h"
#include "wire/ready_record.h"

using namespace onepen;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = fuzz::view(data, size);
  const auto ready = wire::decode_ready(bytes);
  const bool released = wire::decode_released(bytes);
  require(!(ready && released), "a record is one of both");
  if (ready) {
    require(ready->size() <= wire::kMaxEndpointBytes, "an endpoint above its limit");
    require(wire::decode_ready(wire::encode_ready(*ready)) == ready, "an endpoint is told on as it was read");
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto again = wire::decode_ready(wire::encode_ready(text));  // whatever its bytes are
  require(again.has_value() && again->size() <= wire::kMaxEndpointBytes, "any endpoint can be told");
  return 0;
}
