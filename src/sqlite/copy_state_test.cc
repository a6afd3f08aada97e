#include "sqlite/copy_state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "sqlite/copy_pages.h"
#include "sqlite/copy_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::TempFolder;

const std::unique_ptr<io::Disk> posix_disk = io::make_posix_disk();

CopyRecord sample(std::uint64_t n) {
  CopyRecord record;
  record.previous = {Offset{"0001-00000000000000aa"}, Incarnation{0x0102030405060708, 0x1112131415161718}, n, 0xa1a2a3a4a5a6a7a8, 5, 4096};
  record.next = {Offset{"0001-00000000000000ab"}, Incarnation{0x0102030405060708, 0x1112131415161718}, n + 1, 0xb1b2b3b4b5b6b7b8, 6, 4096};
  record.boot = {0x2122232425262728, 0x3132333435363738};
  record.inode = 77;
  record.previous_place = WalPlace{0x51525354, 0x61626364, static_cast<std::uint32_t>(n)};
  record.next_place = WalPlace{0x51525354, 0x61626364, static_cast<std::uint32_t>(n + 3)};
  record.owned = core::OwnerToken{{0x0102030405060708, 0x1112131415161718}, {7}, {0x7172737475767778, 0x8182838485868788}};
  record.sent = SentMark{{n + 1}, 2};
  return record;
}

// A slot as an older version wrote it: `more` writes what follows the two states.
template <class More>
Bytes old_slot(const CopyRecord& record, std::uint16_t version, std::uint16_t flags, More more) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.raw(as_bytes("OPCS"));
  out.u<std::uint16_t>(version);
  out.u<std::uint16_t>(flags);
  out.u<std::uint64_t>(3);
  out.u<std::uint64_t>(record.boot.hi);
  out.u<std::uint64_t>(record.boot.lo);
  out.u<std::uint64_t>(record.inode);
  put_state(out, record.previous);
  put_state(out, record.next);
  more(out);
  bytes.resize(kStateSlotBytes - 8);
  out.u<std::uint64_t>(xxh3(bytes));
  return bytes;
}

TEST(CopyState, Golden) {
  CopyRecord record = sample(1);
  record.poisoned = true;
  record.why = "why";
  auto slot = encode_state_slot(record, 9);
  ASSERT_TRUE(slot);
  std::string hex;
  for (std::size_t i = 0; i < 48; ++i) hex += fmt::format("{:02x}", std::to_integer<unsigned>((*slot)[i]));
  EXPECT_EQ(hex,
            "4f504353"          // OPCS
            "0300"              // version 3
            "1f00"              // poisoned, both places, owned, sent
            "0900000000000000"  // generation
            "2827262524232221"  // boot id
            "3837363534333231"
            "4d00000000000000"  // inode
            "15000000"          // the previous offset's length
            "30303031");
  ByteReader trailer(ByteView(*slot).last(8));
  EXPECT_EQ(trailer.u<std::uint64_t>(), 7230710360868970389u);
}

TEST(CopyState, RoundTrip) {
  CopyRecord record = sample(41);
  record.previous.offset.text = std::string(kMaxOffsetBytes, 'x');
  record.next.offset.text = std::string(kMaxOffsetBytes, 'y');
  record.poisoned = true;
  record.why = std::string(kMaxPoisonBytes, 'z');
  auto slot = encode_state_slot(record, 7);
  ASSERT_TRUE(slot);
  auto back = decode_state_slot(*slot);
  ASSERT_TRUE(back && *back);
  EXPECT_EQ((*back)->record, record);
  EXPECT_EQ((*back)->generation, 7u);
  record.next.offset.text += 'y';
  EXPECT_FALSE(encode_state_slot(record, 7)) << "an offset that does not fit is refused, never cut";
}

// Version 1 knew no places: such a copy is judged by the sum at the end of its WAL.
TEST(CopyState, TheFirstVersionIsStillRead) {
  const CopyRecord record = sample(5);
  auto back = decode_state_slot(old_slot(record, 1, 1, [](ByteWriter& out) { out.text(std::string(120, 'w')); }));
  ASSERT_TRUE(back && *back);
  EXPECT_EQ((*back)->record.next, record.next);
  EXPECT_EQ((*back)->record.previous, record.previous);
  EXPECT_FALSE((*back)->record.next_place || (*back)->record.previous_place || (*back)->record.owned);
  EXPECT_TRUE((*back)->record.poisoned);
  EXPECT_EQ((*back)->record.why.size(), 120u);
}

// Version 2 did not count appends: what landed of pending commits can then only be told by meeting the stream.
TEST(CopyState, TheSecondVersionIsStillRead) {
  const CopyRecord record = sample(5);
  auto back = decode_state_slot(old_slot(record, 2, 0x0f, [&](ByteWriter& out) {
    for (const auto& place : {record.previous_place, record.next_place}) {
      out.u<std::uint32_t>(place->salt1);
      out.u<std::uint32_t>(place->salt2);
      out.u<std::uint32_t>(place->frame);
    }
    for (const std::uint64_t word :
         {record.owned->incarnation.hi, record.owned->incarnation.lo, record.owned->epoch.value, record.owned->claim_id.hi, record.owned->claim_id.lo})
      out.u<std::uint64_t>(word);
    out.text("why");
  }));
  ASSERT_TRUE(back && *back);
  CopyRecord expected = record;
  expected.sent.reset();
  expected.poisoned = true;
  expected.why = "why";
  EXPECT_EQ((*back)->record, expected);
}

TEST(CopyState, EveryFlippedBitIsNoSlot) {
  auto slot = encode_state_slot(sample(1), 1);
  ASSERT_TRUE(slot);
  for (std::size_t bit = 0; bit < kStateSlotBytes * 8; ++bit) {
    auto bad = *slot;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    auto back = decode_state_slot(bad);
    ASSERT_TRUE(back && !*back) << bit;
  }
  auto cut = decode_state_slot(ByteView(*slot).first(100));
  EXPECT_TRUE(cut && !*cut);
}

TEST(CopyState, ANewerFormatIsTold) {
  auto slot = encode_state_slot(sample(1), 1);
  ASSERT_TRUE(slot);
  Bytes bytes(slot->begin(), slot->end() - 8);
  bytes[4] = std::byte{kCopyStateVersion + 1};
  ByteWriter(bytes).u<std::uint64_t>(xxh3(bytes));
  auto back = decode_state_slot(bytes);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().outcome, Outcome::invalid);
  EXPECT_NE(back.error().message.find("newer Onepen"), std::string::npos);
  const TempFolder folder;
  testing::spill(folder / "state", as_text(bytes));
  auto file = StateFile::open(*posix_disk, folder / "state");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find(folder / "state"), std::string::npos);
}

TEST(CopyState, ATornWriteLeavesTheSlotBefore) {
  for (std::uint64_t writes = 1; writes <= 5; ++writes) {
    const TempFolder folder;
    {
      auto file = StateFile::open(*posix_disk, folder / "state");
      ASSERT_TRUE(file);
      EXPECT_FALSE(file->record());
      for (std::uint64_t n = 1; n <= writes; ++n) ASSERT_TRUE(file->write(sample(n), false));
      EXPECT_EQ(file->record(), sample(writes));
    }
    {
      auto file = StateFile::open(*posix_disk, folder / "state");
      ASSERT_TRUE(file);
      EXPECT_EQ(file->record(), sample(writes));
    }
    std::string bytes = testing::slurp(folder / "state");
    bytes[(writes % 2) * kStateSlotStride + 200] ^= 1;
    testing::spill(folder / "state", bytes);
    auto file = StateFile::open(*posix_disk, folder / "state");
    ASSERT_TRUE(file);
    if (writes == 1) {
      EXPECT_FALSE(file->record());
    } else {
      EXPECT_EQ(file->record(), sample(writes - 1));
    }
    ASSERT_TRUE(file->write(sample(99), true));
    auto again = StateFile::open(*posix_disk, folder / "state");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->record(), sample(99));
  }
}

TEST(CopyPages, RoundTripAndEveryFlippedBitIsNoSlot) {
  PagesHeader header;
  header.state = sample(3).previous;
  header.at = {1, 2, 3};
  header.merging = true;
  header.target = sample(3).next;
  header.target_at = {1, 2, 9};
  header.begun = std::pair(7u, 8u);
  header.database = {11, 12, 13};
  const auto slot = encode_pages_slot(header, 5);
  ASSERT_TRUE(slot);
  const auto back = decode_pages_slot(*slot);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->second, 5u);
  EXPECT_EQ(back->first.state, header.state);
  EXPECT_EQ(back->first.at, header.at);
  EXPECT_TRUE(back->first.merging);
  EXPECT_EQ(back->first.target, header.target);
  EXPECT_EQ(back->first.target_at, header.target_at);
  EXPECT_EQ(back->first.begun, header.begun);
  EXPECT_EQ(back->first.database, header.database);
  for (std::size_t bit = 0; bit < kPagesSlotBytes * 8; ++bit) {
    auto bad = *slot;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ASSERT_FALSE(decode_pages_slot(bad)) << bit;
  }
}

TEST(CopyPages, ATornHeaderLeavesTheOneBeforeAndOtherEntriesAreNoTable) {
  const TempFolder folder;
  PageTable table(512);
  table.track_changes();
  table.commit(200, {{3, 33}, {150, 44}}, 512);
  const CommitState state{Offset{"1"}, Incarnation{1, 1}, 1, table.sum(), 200, 512};
  {
    auto file = PagesFile::open(*posix_disk, folder / "pages");
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write_all(table, state, {1, 1, 4}, {}, false));
    ASSERT_TRUE(file->note_begun(5, 6));
  }
  const std::string whole = testing::slurp(folder / "pages");
  const auto loaded = [&](std::size_t flip) {
    std::string bytes = whole;
    if (flip != 0) bytes[flip] ^= 1;
    testing::spill(folder / "pages", bytes);
    auto file = PagesFile::open(*posix_disk, folder / "pages");
    auto found = file->load();
    EXPECT_TRUE(found);
    return std::move(*found);
  };
  auto found = loaded(0);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].header.begun, std::pair(5u, 6u));
  EXPECT_EQ(found[0].table.hash(150), 44u);
  EXPECT_EQ(found[0].table.sum(), table.sum());
  found = loaded(100);  // the newest slot: generation 2, at 0
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].header.begun);
  EXPECT_TRUE(loaded(kPagesEntriesAt + 77).empty());
}

// A header that is whole and names more pages than the file has entries: no table, and no room made for them (found by fuzz/copy_state).
TEST(CopyPages, AHeaderOfMorePagesThanThereAreIsNoTable) {
  const TempFolder folder;
  PagesHeader header;
  header.state = {Offset{"1"}, Incarnation{1, 1}, 1, 0, 0xffffffff, 512};
  const auto slot = encode_pages_slot(header, 2);
  ASSERT_TRUE(slot);
  testing::spill(folder / "pages", std::string(as_text(*slot)));
  auto file = PagesFile::open(*posix_disk, folder / "pages");
  ASSERT_TRUE(file);
  const auto found = file->load();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
}

TEST(CopyState, TheBootIdIsKnownHere) { EXPECT_FALSE(current_boot_id(*posix_disk) == BootId{}); }

}  // namespace
}  // namespace onepen::sqlite
