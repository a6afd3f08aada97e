// Decoding packs and snapshot heads: never crashes, never trusts a length; what decodes encodes to the same bytes. Random bytes never have the right
// checksum, so the input is also tried as the inside of a file whose beginning and checksum are put right.
#include <algorithm>
#include <cstdlib>

#include "base/checksum.h"
#include "wire/pack.h"

namespace {

using namespace onepen;

template <class File>
void same(const tl::expected<File, wire::ObjectFault>& file, ByteView bytes) {
  if (!file) {
    if (file.error().what.empty() || file.error().at > bytes.size()) std::abort();
    return;
  }
  const auto again = wire::encode(*file);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

Bytes sealed(std::string_view magic, ByteView inside) {
  Bytes out;
  ByteWriter writer(out);
  writer.raw(as_bytes(magic));
  writer.u<std::uint16_t>(1);
  writer.raw(inside);
  const auto sum = xxh3(out);
  writer.u<std::uint64_t>(sum);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  same(wire::decode_pack(bytes), bytes);
  same(wire::decode_snapshot_head(bytes), bytes);
  const auto pack = sealed("OPPK", bytes), head = sealed("OPSN", bytes);
  same(wire::decode_pack(pack), pack);
  same(wire::decode_snapshot_head(head), head);
  return 0;
}
