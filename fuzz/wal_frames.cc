// What capture keeps of the frames that the pager writes, against a naive model of the WAL: transactions, spills, ROLLBACK TO, commits, restarts, in any order.
#include <map>

#include "fuzz/fuzz_input.h"
#include "sqlite/wal_frames.h"

using namespace onepen;
using namespace onepen::sqlite;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source in(fuzz::view(data, size));
  WalFrames frames;
  std::map<std::uint32_t, WalSlot> committed;  // page -> newest slot
  std::map<WalSlot, std::uint32_t> running;
  WalSlot end = 0;
  while (!in.empty()) {
    switch (in.below(8)) {
      case 0:
        frames.begin(end);
        running.clear();
        break;
      case 1:
        frames.restart({in.word(), 1});
        committed.clear();
        running.clear();
        end = 0;
        break;
      case 2: {  // COMMIT at the slot that was written last, or one that was not
        const WalSlot slot = end + 1 + in.below(6);
        const std::uint32_t count = 1 + in.below(12);
        std::map<std::uint32_t, WalSlot> pages;
        bool whole = true;
        for (WalSlot at = end + 1; at <= slot; ++at) {
          if (!running.contains(at)) whole = false;
          else pages[running[at]] = at;
        }
        const auto changes = frames.changes(slot, count);
        require(changes.has_value() == whole, "a commit is known when each of its frames was seen");
        require(frames.running_pages(slot, count).has_value() == whole, "and counted then");
        if (!whole) break;
        std::size_t expected = 0;
        for (const auto& [page, at] : pages) expected += page <= count;
        require(changes->size() == expected, "each page once, those behind the end not");
        std::uint32_t above = 0;
        for (const auto& change : *changes) {
          require(change.number > above && pages.at(change.number) == change.slot, "the last slot of a page wins, in order");
          above = change.number;
        }
        frames.land(slot, count);
        for (const auto& [page, at] : pages) committed[page] = at;
        std::erase_if(committed, [&](const auto& one) { return one.first > count; });
        end = slot;
        running.clear();
        break;
      }
      case 3: {
        const auto page_size = 512u << in.below(8);
        const auto slot = 1 + in.word() % 100'000;
        const auto at = wal_slot_offset(page_size, slot);
        require(classify_wal_write(page_size, at, 24).slot == slot && classify_wal_write(page_size, at, 24).kind == WalWriteKind::frame_header,
                "a header's place");
        require(classify_wal_write(page_size, at + 24, static_cast<int>(page_size)).kind == WalWriteKind::frame_page, "a page's place");
        (void)classify_wal_write(page_size, in.word(), static_cast<int>(in.word()));
        (void)wal_index_region(slot);
        break;
      }
      default: {
        const WalSlot slot = end + 1 + in.below(6);
        const std::uint32_t page = 1 + in.below(16);
        frames.frame(slot, page);
        running[slot] = page;
        break;
      }
    }
    require(frames.committed() == end, "what counts");
    for (std::uint32_t page = 1; page <= 16; ++page) {
      const auto found = committed.find(page);
      require(frames.committed_slot(page) == (found == committed.end() ? std::nullopt : std::optional(found->second)), "the newest image of a page");
    }
  }
  return 0;
}
