// The decoders of snapshots: any bytes, and the same bytes with a checksum that fits so that what is behind it is reached. What is read is packed again.
#include <cstdlib>

#include "base/checksum.h"
#include "sqlite/page_sum.h"
#include "sqlite/snapshot_part.h"

namespace {

using namespace onepen;
using namespace onepen::sqlite;

void try_about(ByteView bytes) {
  const auto about = decode_snapshot_about(bytes);
  if (about && encode_snapshot_about(*about) != to_bytes(bytes)) std::abort();
}

void try_snapshot_part(ByteView bytes, SnapshotUnpacker& unpacker) {
  const auto part = decode_snapshot_part(bytes);
  if (!part) return;
  if (part->pages == 0 || part->runs.empty()) std::abort();
  std::uint64_t pages = 0, above = 0;
  for (const PageRun& run : part->runs) {
    if (run.count == 0 || run.first <= above || std::uint64_t{run.first} + run.count - 1 > part->page_count) std::abort();
    above = run.last() + 1;
    pages += run.count;
  }
  if (pages != part->pages) std::abort();
  const auto images = unpacker.unpack(*part);
  if (!images) return;
  if (images->size() != pages * part->page_size) std::abort();
  Bytes again;
  SnapshotPacker packer(part->page_size, part->page_count, [&](ByteView packed) -> Result<> {
    again = to_bytes(packed);
    return {};
  });
  std::size_t at = 0;
  bool zeros = false;
  for (const PageRun& run : part->runs) {
    for (std::uint32_t n = run.first; n <= run.last(); ++n, ++at) {
      const ByteView image = images->subspan(at * part->page_size, part->page_size);
      zeros = zeros || all_zeros(image);
      if (!packer.add(n, image)) std::abort();
    }
  }
  if (!packer.finish()) std::abort();
  if (zeros) return;  // written by somebody else: we leave those pages out
  const auto second = decode_snapshot_part(again);
  if (!second || second->runs != part->runs) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static SnapshotUnpacker unpacker;
  Bytes bytes(reinterpret_cast<const std::byte*>(data), reinterpret_cast<const std::byte*>(data) + size);
  try_about(bytes);
  try_snapshot_part(bytes, unpacker);
  ByteWriter(bytes).u<std::uint64_t>(xxh3(bytes));
  try_about(bytes);
  try_snapshot_part(bytes, unpacker);
  return 0;
}
