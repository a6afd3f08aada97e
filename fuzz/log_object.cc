// Decoding a log object: never crashes, never trusts a length; what decodes encodes to the same bytes. Random bytes never have the right checksums, so the
// input is also tried as the inside of an object whose lengths and checksums are put right.
#include <algorithm>
#include <cstdlib>

#include "base/checksum.h"
#include "wire/log_object.h"
#include "wire/ready_record.h"

namespace {

using namespace onepen;

void decode(ByteView bytes) {
  auto object = wire::decode_log_object(bytes);
  if (!object) {
    if (object.error().what.empty() || object.error().at > bytes.size()) std::abort();
    return;
  }
  auto again = wire::encode(*object);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

// <kind> <header bytes, 2> <header> <body>
Bytes sealed(ByteView input) {
  ByteReader in(input);
  auto kind = in.u<std::uint8_t>();
  std::size_t header = in.u<std::uint16_t>();
  header = std::min(header, in.left());
  auto inside = in.raw(header), body = in.raw(in.left());
  Bytes out;
  ByteWriter writer(out);
  writer.raw(as_bytes("OPLG"));
  writer.u<std::uint16_t>(wire::kLogObjectVersion);
  writer.u<std::uint16_t>(static_cast<std::uint16_t>(kind % 7));
  writer.u<std::uint32_t>(static_cast<std::uint32_t>(20 + inside.size() + 8));
  writer.u<std::uint64_t>(body.size());
  writer.raw(inside);
  writer.u<std::uint64_t>(xxh3(out));
  writer.raw(body);
  writer.u<std::uint64_t>(xxh3(out));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  decode(bytes);
  decode(sealed(bytes));
  (void)wire::decode_ready(bytes);
  return 0;
}
