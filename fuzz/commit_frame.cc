// The decoder of commit parts and of their pages: any bytes, and the same bytes with a checksum that fits so that what is behind it is reached.
#include <cstdlib>

#include "base/checksum.h"
#include "wire/commit_frame.h"

namespace {

using namespace onepen;
using namespace onepen::wire;

void try_part(ByteView payload, PageCodec& codec) {
  const auto part = decode_part(payload);
  if (!part) return;
  if (part->pages.empty() || !valid_page_size(part->head.page_size)) std::abort();
  Bytes image(part->head.page_size);
  const Bytes previous(part->head.page_size, std::byte{0x5a});
  std::uint32_t above = 0;
  for (const PageEntry& entry : part->pages) {
    if (entry.number <= above || entry.number > part->head.page_count_after) std::abort();
    above = entry.number;
    if (!codec.unpack(entry, previous, image)) continue;
    // What was read can be written, and reads the same.
    const auto packed = codec.pack(image, previous);
    const Bytes data(packed.data.begin(), packed.data.end());
    Bytes again(image.size());
    if (!codec.unpack({entry.number, packed.encoding, data}, previous, again) || again != image) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static PageCodec codec;
  Bytes payload(reinterpret_cast<const std::byte*>(data), reinterpret_cast<const std::byte*>(data) + size);
  try_part(payload, codec);
  ByteWriter(payload).u<std::uint64_t>(xxh3(payload));
  try_part(payload, codec);
  return 0;
}
