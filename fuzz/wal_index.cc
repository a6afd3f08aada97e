// SQLite's wal-index as a follower reads and writes it: any bytes as its shared memory. No crash, no endless search, no write outside of the regions; and what
// was published is read back.
#include <array>
#include <memory>

#include "fuzz/fuzz_input.h"
#include "sqlite/api.h"
#include "sqlite/wal_index.h"

using namespace onepen;
using namespace onepen::sqlite;
using fuzz::require;

namespace {

constexpr std::size_t kRegion = 32768, kRegions = 3;

struct Memory : sqlite3_file {
  alignas(8) std::array<std::uint8_t, kRegion * kRegions> bytes{};
};

int map_region(sqlite3_file* file, int number, int size, int, void volatile** out) {
  if (number < 0 || static_cast<std::size_t>(number) >= kRegions || size != static_cast<int>(kRegion)) return SQLITE_IOERR_SHMMAP;
  *out = static_cast<Memory*>(file)->bytes.data() + static_cast<std::size_t>(number) * kRegion;
  return SQLITE_OK;
}
int lock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
void barrier(sqlite3_file*) {}
int unmap(sqlite3_file*, int) { return SQLITE_OK; }

const sqlite3_io_methods* methods() {
  static const sqlite3_io_methods kMethods = [] {
    sqlite3_io_methods m{};
    m.iVersion = 2;
    m.xShmMap = map_region;
    m.xShmLock = lock;
    m.xShmBarrier = barrier;
    m.xShmUnmap = unmap;
    return m;
  }();
  return &kMethods;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source in(fuzz::view(data, size));
  static auto memory = std::make_unique<Memory>();
  memory->pMethods = methods();
  memory->bytes.fill(in.flag() ? 0xff : 0);
  // A beginning that is drawn, one that repeats over everything, or an index that is right.
  const auto shape = in.byte();
  const auto head = in.take(136);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(head.data()), head.size(), memory->bytes.begin());
  if ((shape & 1) != 0) std::copy_n(memory->bytes.begin(), 48, memory->bytes.begin() + 48);
  if ((shape & 2) != 0)
    for (std::size_t i = 136; i < memory->bytes.size(); ++i) memory->bytes[i] = memory->bytes[i % 136];
  WalIndex index(memory.get());
  require(index.header().has_value(), "any header can be looked at");
  require(index.copied().has_value(), "and what was copied");
  require(index.try_lock().value_or(false), "the lock is free");
  WalHead written;
  std::uint32_t frame = (shape & 4) != 0 ? 4060 : 1;  // near the border of two regions
  while (!in.empty() && frame < 4060 + 200) {
    const auto what = in.byte();
    if (what % 8 == 0) {
      written = {frame - 1, 1u + what, 512u << (what % 8), in.word(), in.word(), {in.word(), in.word()}};
      require(index.publish(written).has_value(), "a header is published");
      const auto there = index.header();
      require(there && *there, "and read back");
    } else if (what % 8 == 1) {
      if (index.try_hold_readers().value_or(false)) {
        require(index.restart(written, in.word(), in.word()).has_value(), "a WAL begins anew");
        index.free_readers();
        require(index.copied().value_or(1) == 0, "nothing of it is copied");
        frame = 1;
      }
    } else if (!index.add(frame++, 1 + what).has_value()) {
      break;  // the index is damaged, and says so
    }
  }
  return 0;
}
