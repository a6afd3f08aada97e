// The readers of SQLite's WAL: any bytes as the file, and a WAL whose checksums fit up to where the input spoils it. Both readers find the same commits, and
// nothing behind the first frame that is not whole.
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_disk.h"
#include "sqlite/wal_file.h"
#include "sqlite/wal_tail.h"

using namespace onepen;
using namespace onepen::sqlite;
using fuzz::require;

namespace {

void read_both(const Bytes& file) {
  fuzz::MemoryDisk disk;
  disk.put("/db-wal", file);
  const auto content = read_wal(disk, "/db-wal", true);
  const auto scan = scan_wal(disk, "/db-wal");
  require(content.has_value() && scan.has_value(), "a damaged WAL is no error");
  require(content->page_size == scan->page_size && content->page_count == scan->page_count, "the readers disagree on the header or the last commit");
  require(content->frames.size() == scan->frames.size() && scan->end.frame == scan->frames.size(), "the readers disagree on what is committed");
  for (std::size_t i = 0; i < content->frames.size(); ++i) {
    const auto& a = content->frames[i];
    require(a.page_number == scan->frames[i].page_number && a.page_count_after == scan->frames[i].page_count_after, "the readers disagree on a frame");
    require(a.image_at + content->page_size <= file.size(), "a frame behind the end of the file");
  }
  if (content->valid()) {
    require(content->frames.empty() || content->frames.back().page_count_after != 0, "what is read ends with a commit");
    const auto view = view_of(*content);
    require(view.page_count == content->page_count, "a view of another size");
    for (const auto& [page, frame] : view.frame_of) require(page != 0 && page <= view.page_count && frame <= content->frames.size(), "a page that is none");
    const auto raw = raw_commits(disk, "/db-wal", content->page_size, content->salt1, content->salt2, 0, 16);
    require(raw.has_value(), "raw frames are read");
    std::size_t commits = 0;
    for (const auto& frame : content->frames) commits += frame.page_count_after != 0;
    require(raw->size() >= commits, "a commit that lies there was not seen");
    WalTail tail(disk, "/db-wal");
    require(tail.open().value_or(false), "it opens");
    Bytes image(content->page_size);
    if (!content->frames.empty()) require(tail.read_image(1, image).has_value(), "an image that is there");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = fuzz::view(data, size);
  read_both(to_bytes(bytes));
  fuzz::Source in(bytes);
  const std::uint32_t page_size = 512u << in.below(2);
  fuzz::MemoryDisk disk;
  auto wal = WalWriter::create(disk, "/w", page_size, in.word());
  require(wal.has_value(), "a WAL begins");
  const auto shape = in.byte();
  for (int frames = 0; frames < shape % 12; ++frames) {
    Bytes image(page_size, std::byte{in.byte()});
    require(wal->add(1 + in.below(9), in.flag() ? 1 + in.below(9) : 0, image).has_value(), "a frame is added");
  }
  require(wal->seal().has_value(), "it is sealed");
  Bytes file = disk.read("/w", 0, 1u << 20).value();
  read_both(file);
  while (!in.empty()) {  // spoilt at some places, cut at the end; or another header whose checksum fits
    const auto at = in.word();
    if (file.size() < kWalHeaderBytes) break;
    const auto how = in.byte();
    if (how % 4 == 0) {
      file[at % 24] ^= std::byte{in.byte()};
      WalChecksum sum;
      sum.add(ByteView(file).first(24), (file[3] & std::byte{1}) != std::byte{0});
      for (int i = 0; i < 4; ++i) {
        file[24u + static_cast<unsigned>(i)] = static_cast<std::byte>(sum.one >> (24 - 8 * i) & 0xff);
        file[28u + static_cast<unsigned>(i)] = static_cast<std::byte>(sum.two >> (24 - 8 * i) & 0xff);
      }
    } else if (how % 4 != 1) file[at % file.size()] ^= std::byte{in.byte()};
    else file.resize(at % file.size());
  }
  read_both(file);
  return 0;
}
