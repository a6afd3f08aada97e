#include "sqlite/copy_state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checksum.h"
#include "sqlite/copy_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::TempFolder;

CopyRecord sample(std::uint64_t n) {
  CopyRecord record;
  record.previous = {Offset{"0001-00000000000000aa"}, Incarnation{0x0102030405060708, 0x1112131415161718}, n, 0xa1a2a3a4a5a6a7a8, 5, 4096};
  record.next = {Offset{"0001-00000000000000ab"}, Incarnation{0x0102030405060708, 0x1112131415161718}, n + 1, 0xb1b2b3b4b5b6b7b8, 6, 4096};
  record.boot = {0x2122232425262728, 0x3132333435363738};
  record.inode = 77;
  return record;
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
            "0100"              // version 1
            "0100"              // poisoned
            "0900000000000000"  // generation
            "2827262524232221"  // boot id
            "3837363534333231"
            "4d00000000000000"  // inode
            "15000000"          // the previous offset's length
            "30303031");
  ByteReader trailer(ByteView(*slot).last(8));
  EXPECT_EQ(trailer.u<std::uint64_t>(), 16325990321153729545u);
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
  bytes[4] = std::byte{2};
  ByteWriter(bytes).u<std::uint64_t>(xxh3(bytes));
  auto back = decode_state_slot(bytes);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().outcome, Outcome::invalid);
  EXPECT_NE(back.error().message.find("newer Onepen"), std::string::npos);
  const TempFolder folder;
  testing::spill(folder / "state", as_text(bytes));
  auto file = StateFile::open(folder / "state");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find(folder / "state"), std::string::npos);
}

TEST(CopyState, ATornWriteLeavesTheSlotBefore) {
  for (std::uint64_t writes = 1; writes <= 5; ++writes) {
    const TempFolder folder;
    {
      auto file = StateFile::open(folder / "state");
      ASSERT_TRUE(file);
      EXPECT_FALSE(file->record());
      for (std::uint64_t n = 1; n <= writes; ++n) ASSERT_TRUE(file->write(sample(n), false));
      EXPECT_EQ(file->record(), sample(writes));
    }
    {
      auto file = StateFile::open(folder / "state");
      ASSERT_TRUE(file);
      EXPECT_EQ(file->record(), sample(writes));
    }
    std::string bytes = testing::slurp(folder / "state");
    bytes[(writes % 2) * kStateSlotStride + 200] ^= 1;
    testing::spill(folder / "state", bytes);
    auto file = StateFile::open(folder / "state");
    ASSERT_TRUE(file);
    if (writes == 1) {
      EXPECT_FALSE(file->record());
    } else {
      EXPECT_EQ(file->record(), sample(writes - 1));
    }
    ASSERT_TRUE(file->write(sample(99), true));
    auto again = StateFile::open(folder / "state");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->record(), sample(99));
  }
}

TEST(CopyState, TheBootIdIsKnownHere) { EXPECT_FALSE(current_boot_id() == BootId{}); }

}  // namespace
}  // namespace onepen::sqlite
