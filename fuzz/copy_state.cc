// The files `state` and `pages` of a local copy: slots of any bytes, and of bytes whose checksum fits; two of them, of any age, with entries behind.
#include "sqlite/copy_state.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_disk.h"
#include "sqlite/copy_pages.h"

using namespace onepen;
using namespace onepen::sqlite;
using fuzz::require;

namespace {

void state_slot(ByteView bytes) {
  const auto slot = decode_state_slot(bytes);
  if (!slot) require(!slot.error().message.empty(), "a refusal says why");
  if (!slot || !*slot || (*slot)->record.why.size() > kMaxPoisonBytes) return;  // the first version had more room for words
  const auto again = encode_state_slot((*slot)->record, (*slot)->generation);
  require(again.has_value(), "what was read can be written");
  const auto back = decode_state_slot(*again);
  require(back && *back && (*back)->record == (*slot)->record && (*back)->generation == (*slot)->generation, "a state is what it was");
}

void pages_slot(ByteView bytes) {
  const auto slot = decode_pages_slot(bytes);
  if (!slot) return;
  const auto again = encode_pages_slot(slot->first, slot->second);
  require(again.has_value(), "what was read can be written");
  const auto back = decode_pages_slot(*again);
  require(back && back->first.state == slot->first.state && back->first.at == slot->first.at && back->first.merging == slot->first.merging &&
              back->second == slot->second,
          "a header is what it was");
}

Bytes with_head(std::string_view magic, std::uint16_t version, std::size_t size, ByteView inside) {
  Bytes out;
  ByteWriter writer(out);
  writer.raw(as_bytes(magic));
  writer.u<std::uint16_t>(version);
  writer.raw(inside.first(std::min(inside.size(), size - 14)));
  return fuzz::sealed_to(size, out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = fuzz::view(data, size);
  state_slot(bytes);
  pages_slot(bytes);
  fuzz::Source in(bytes);
  const auto shape = in.byte();
  const auto first = in.take(kStateSlotBytes - 14), second = in.take(kStateSlotBytes - 14), entries = in.rest();
  const auto state = with_head("OPCS", static_cast<std::uint16_t>(shape % 4), kStateSlotBytes, first);
  const auto pages = with_head("OPPT", 1, kPagesSlotBytes, first), other = with_head("OPPT", 1, kPagesSlotBytes, second);
  state_slot(state);
  pages_slot(pages);

  fuzz::MemoryDisk disk;
  Bytes file(kPagesEntriesAt, std::byte{0});
  std::copy(pages.begin(), pages.end(), file.begin());
  std::copy(other.begin(), other.end(), file.begin() + kPagesSlotStride);
  file.insert(file.end(), entries.begin(), entries.end());
  disk.put("/pages", file);
  auto table = PagesFile::open(disk, "/pages");
  require(table.has_value(), "the file opens");
  const auto found = table->load();
  require(found.has_value(), "a damaged table is none, and no error");
  for (const auto& one : *found) {
    require(one.table.page_count() == one.header.state.page_count, "a table of another length");
    require(one.header.merging || one.table.sum() == one.header.state.page_sum, "a table that is not whole");
  }
  return 0;
}
