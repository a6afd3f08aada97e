#include "sqlite/wal_index.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/guard.h"

namespace onepen::sqlite {
namespace {

// wal.c. Everything in the machine's byte order but the salts, which are as in the WAL's header.
constexpr int kRegionBytes = 32768;
constexpr std::uint32_t kEntries = 4096, kSlots = 8192, kHashFactor = 383;  // HASHTABLE_NPAGE, HASHTABLE_NSLOT, HASHTABLE_HASH_1
constexpr std::uint32_t kIndexHeadBytes = 136;                                 // WALINDEX_HDR_SIZE: two headers and the checkpoint info
constexpr std::uint32_t kEntriesOfFirst = kEntries - kIndexHeadBytes / 4;      // HASHTABLE_NPAGE_ONE
constexpr std::uint32_t kVersion = 3'007'000;
constexpr std::size_t kChangeAt = 8, kInitAt = 12, kPageSizeAt = 14, kFramesAt = 16, kPagesAt = 20, kSumAt = 24, kSaltsAt = 32, kOwnSumAt = 40, kHeadBytes = 48;
constexpr std::size_t kCopiedAt = 96, kMarksAt = 100, kAttemptedAt = 128;
constexpr std::uint32_t kUnusedMark = 0xffffffff;
constexpr int kWriteSlot = 0, kMarkSlots = 3, kMarks = 5;

tl::unexpected<Error> failed(std::string_view what, int rc) {
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("cannot {} the index of the WAL (SQLite code {})", what, rc), {}});
}

std::uint32_t region_of(std::uint32_t frame) { return (frame + kEntries - kEntriesOfFirst - 1) / kEntries; }
std::uint32_t frames_before(std::uint32_t region) { return region == 0 ? 0 : kEntriesOfFirst + (region - 1) * kEntries; }

void put_big32(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

// What other processes read meanwhile is read and written whole, one word at a time.
template <class Word>
Word load(const volatile std::uint8_t* at) {
  return __atomic_load_n(reinterpret_cast<const volatile Word*>(at), __ATOMIC_RELAXED);
}
template <class Word>
void store(volatile std::uint8_t* at, Word value) {
  __atomic_store_n(reinterpret_cast<volatile Word*>(at), value, __ATOMIC_RELAXED);
}

void store_bytes(volatile std::uint8_t* at, const std::uint8_t* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + i, 4);
    store<std::uint32_t>(at + i, word);
  }
}

WalIndexHeader load_header(const volatile std::uint8_t* at) {
  WalIndexHeader header;
  for (std::size_t i = 0; i < kHeadBytes; i += 4) {
    const auto word = load<std::uint32_t>(at + i);
    std::memcpy(header.data() + i, &word, 4);
  }
  return header;
}

// The index of one region: entry i (from 0) is the page of its (i+1)th frame; a slot holds such a number i+1, or 0.
struct Table {
  Table(volatile std::uint8_t* region, std::uint32_t number)
      : entries(region + (number == 0 ? kIndexHeadBytes : 0)), slots(region + std::size_t{kEntries} * 4), end(region + kRegionBytes) {}
  volatile std::uint8_t* entries;
  volatile std::uint8_t* slots;
  volatile std::uint8_t* end;
  std::uint32_t entry(std::uint32_t i) const { return load<std::uint32_t>(entries + std::size_t{i} * 4); }
  std::uint16_t slot(std::uint32_t i) const { return load<std::uint16_t>(slots + std::size_t{i} * 2); }
  void clear_from(volatile std::uint8_t* from, volatile std::uint8_t* to) const {
    for (; from < to; from += 4) store<std::uint32_t>(from, 0);
  }
};

}  // namespace

WalIndex::~WalIndex() {
  unlock();
  if (mapped_) file_->pMethods->xShmUnmap(file_, 0);
}

Result<volatile std::uint8_t*> WalIndex::region(std::uint32_t number) const {
  void volatile* at = nullptr;
  const int rc = file_->pMethods->xShmMap(file_, static_cast<int>(number), kRegionBytes, 1, &at);
  mapped_ = true;
  if (rc != SQLITE_OK || at == nullptr) return failed("map", rc);
  return static_cast<volatile std::uint8_t*>(at);
}

Result<bool> WalIndex::try_shm_lock(int slot, int n) {
  const int rc = file_->pMethods->xShmLock(file_, slot, n, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
  if (rc == SQLITE_OK) return true;
  if ((rc & 0xff) == SQLITE_BUSY) return false;
  return failed("lock", rc);
}

void WalIndex::shm_unlock(int slot, int n) { file_->pMethods->xShmLock(file_, slot, n, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE); }

Result<bool> WalIndex::try_lock() {
  ONEPEN_CHECK(!locked_, "the write lock is taken once");
  if (const auto there = region(0); !there) return tl::unexpected(there.error());
  auto got = try_shm_lock(kWriteSlot, 1);
  locked_ = got && *got;
  if (locked_) file_->pMethods->xShmBarrier(file_);
  return got;
}

void WalIndex::unlock() {
  free_readers();
  if (std::exchange(locked_, false)) shm_unlock(kWriteSlot, 1);
}

Result<std::optional<WalIndexHeader>> WalIndex::header() const {
  const auto at = region(0);
  if (!at) return tl::unexpected(at.error());
  const WalIndexHeader one = load_header(*at);
  file_->pMethods->xShmBarrier(file_);
  const WalIndexHeader two = load_header(*at + kHeadBytes);
  if (one != two || !initialised(one)) return std::optional<WalIndexHeader>{};
  return std::optional(one);
}

// walCleanupHash: what a process that was killed before it published has left behind the frames that count.
Result<> WalIndex::forget_behind(std::uint32_t frames) {
  const std::uint32_t number = frames == 0 ? 0 : region_of(frames);
  const auto at = region(number);
  if (!at) return tl::unexpected(at.error());
  const Table table(*at, number);
  const std::uint32_t kept = frames - frames_before(number);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    if (table.slot(i) > kept) store<std::uint16_t>(table.slots + std::size_t{i} * 2, 0);
  }
  table.clear_from(table.entries + std::size_t{kept} * 4, table.slots);
  return {};
}

Result<> WalIndex::add(std::uint32_t frame, std::uint32_t page) {
  ONEPEN_CHECK(locked_ && frame != 0 && page != 0, "frames are added under the write lock");
  const std::uint32_t number = region_of(frame);
  const auto at = region(number);
  if (!at) return tl::unexpected(at.error());
  const Table table(*at, number);
  const std::uint32_t index = frame - frames_before(number);  // from 1
  if (index == 1) {
    table.clear_from(table.entries, table.end);
  } else if (table.entry(index - 1) != 0) {
    if (auto done = forget_behind(frame - 1); !done) return done;
  }
  std::uint32_t slot = (page * kHashFactor) & (kSlots - 1);
  for (std::uint32_t tries = 0; table.slot(slot) != 0; slot = (slot + 1) & (kSlots - 1)) {
    if (++tries > index) return tl::unexpected(Error{Outcome::invalid, "the index of the WAL is damaged: more entries than frames", {}});
  }
  store<std::uint32_t>(table.entries + std::size_t{index - 1} * 4, page);
  store<std::uint16_t>(table.slots + std::size_t{slot} * 2, static_cast<std::uint16_t>(index));
  return {};
}

Result<> WalIndex::publish(const WalHead& head) {
  ONEPEN_CHECK(locked_, "the header changes under the write lock");
  const auto at = region(0);
  if (!at) return tl::unexpected(at.error());
  std::array<std::uint8_t, kHeadBytes> bytes{};
  const auto put = [&](std::size_t where, std::uint32_t value) { std::memcpy(bytes.data() + where, &value, 4); };
  put(0, kVersion);
  put(kChangeAt, load<std::uint32_t>(*at + kChangeAt) + 1);
  bytes[kInitAt] = 1;
  bytes[kInitAt + 1] = 0;  // bigEndCksum: the WAL's magic is that of little-endian sums (WalWriter)
  const auto page_size = static_cast<std::uint16_t>((head.page_size & 0xff00) | (head.page_size >> 16));
  std::memcpy(bytes.data() + kPageSizeAt, &page_size, 2);
  put(kFramesAt, head.frames);
  put(kPagesAt, head.page_count);
  put(kSumAt, head.sum.one);
  put(kSumAt + 4, head.sum.two);
  put_big32(bytes.data() + kSaltsAt, head.salt1);
  put_big32(bytes.data() + kSaltsAt + 4, head.salt2);
  WalChecksum own;
  own.add(ByteView(reinterpret_cast<const std::byte*>(bytes.data()), kOwnSumAt), std::endian::native == std::endian::big);
  put(kOwnSumAt, own.one);
  put(kOwnSumAt + 4, own.two);
  // The second copy first: a reader reads them the other way round, and believes two that are alike.
  file_->pMethods->xShmBarrier(file_);
  store_bytes(*at + kHeadBytes, bytes.data(), bytes.size());
  file_->pMethods->xShmBarrier(file_);
  store_bytes(*at, bytes.data(), bytes.size());
  return {};
}

Result<std::uint32_t> WalIndex::copied() const {
  const auto at = region(0);
  if (!at) return tl::unexpected(at.error());
  return load<std::uint32_t>(*at + kCopiedAt);
}

Result<bool> WalIndex::try_hold_readers() {
  ONEPEN_CHECK(locked_ && !readers_held_, "a WAL ends under the write lock");
  const auto at = region(0);
  if (!at) return tl::unexpected(at.error());
  if (load<std::uint32_t>(*at + kCopiedAt) != load<std::uint32_t>(*at + kFramesAt) && guard_on(Guard::live_all_copied)) return false;
  // Readers whose mark is 0 read nothing from the WAL, and with everything copied that is the mark of all that begin.
  const auto got = try_shm_lock(kMarkSlots + 1, kMarks - 1);
  if (got && !*got && !guard_on(Guard::live_readers_free)) return readers_held_ = true;
  readers_held_ = got && *got;
  return got;
}

void WalIndex::free_readers() {
  if (std::exchange(readers_held_, false)) shm_unlock(kMarkSlots + 1, kMarks - 1);
}

Result<> WalIndex::restart(WalHead& head, std::uint32_t salt1, std::uint32_t salt2) {
  ONEPEN_CHECK(readers_held_, "a WAL begins anew while nobody reads from it");
  const auto at = region(0);
  if (!at) return tl::unexpected(at.error());
  head.frames = 0;
  head.salt1 = salt1;
  head.salt2 = salt2;
  if (auto done = publish(head); !done) return done;
  store<std::uint32_t>(*at + kCopiedAt, 0);
  store<std::uint32_t>(*at + kAttemptedAt, 0);
  store<std::uint32_t>(*at + kMarksAt + 4, 0);
  for (std::size_t mark = 2; mark < kMarks; ++mark) store<std::uint32_t>(*at + kMarksAt + 4 * mark, kUnusedMark);
  return {};
}

}  // namespace onepen::sqlite
