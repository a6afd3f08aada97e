#include "owner/claim_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "io/posix_disk.h"

namespace onepen::owner {
namespace {

class ClaimLogTest : public ::testing::Test {
 protected:
  ClaimLogTest() {
    char name[] = "/tmp/onepen-claim-log-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/claims";
  }
  ~ClaimLogTest() override { std::filesystem::remove_all(folder); }
  std::unique_ptr<DiskClaimLog> open() {
    auto log = DiskClaimLog::open(*disk, path);
    EXPECT_TRUE(log) << log.error().message;
    return log ? std::move(*log) : nullptr;
  }
  static core::ClaimRequest request(std::uint64_t epoch) {
    core::ClaimRequest claim;
    claim.epoch = Epoch{epoch};
    claim.claim_id = ClaimId{epoch, 0xabcd};
    claim.attempt = PutId{epoch, 2};
    claim.time_ms = 1'700'000'000'000;
    return claim;
  }
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  std::string folder, path;
};

TEST_F(ClaimLogTest, ReadsBackTheLastClaimAndTheHighestEpoch) {
  const Incarnation incarnation{7, 8};
  {
    auto log = open();
    EXPECT_FALSE(log->last());
    ASSERT_TRUE(log->write_ahead(request(4), incarnation));
    auto conditional = request(9);
    conditional.over = ClaimId{1, 2};
    ASSERT_TRUE(log->write_ahead(conditional, incarnation));
    ASSERT_TRUE(log->write_ahead(request(5), incarnation));
  }
  auto log = open();
  ASSERT_TRUE(log->last());
  EXPECT_EQ(log->last()->epoch, Epoch{5});
  EXPECT_EQ(log->last()->claim_id, (ClaimId{5, 0xabcd}));
  EXPECT_EQ(log->last()->incarnation, incarnation);
  EXPECT_FALSE(log->last()->over);
  EXPECT_EQ(log->highest(), Epoch{9});
}

TEST_F(ClaimLogTest, ATornTailIsIgnoredAndWrittenOver) {
  for (std::size_t torn = 1; torn < kClaimRecordBytes; torn += 10) {
    std::filesystem::remove(path);
    {
      auto log = open();
      ASSERT_TRUE(log->write_ahead(request(1), {}));
      ASSERT_TRUE(log->write_ahead(request(2), {}));
    }
    std::filesystem::resize_file(path, kClaimRecordBytes + torn);
    {
      auto log = open();
      ASSERT_EQ(log->last()->epoch, Epoch{1}) << torn;
      ASSERT_TRUE(log->write_ahead(request(3), {}));
    }
    auto log = open();
    ASSERT_EQ(log->last()->epoch, Epoch{3});
    ASSERT_EQ(std::filesystem::file_size(path), 2 * kClaimRecordBytes);
  }
}

TEST_F(ClaimLogTest, AFlippedBitInTheLastRecordIsATornTailAndBeforeItDamage) {
  {
    auto log = open();
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) ASSERT_TRUE(log->write_ahead(request(epoch), {}));
  }
  auto flip = [&](std::uint64_t at) {
    auto byte = disk->read(path, at, 1);
    (*byte)[0] ^= std::byte{1};
    ASSERT_TRUE(disk->write_at(path, at, *byte, true));
  };
  flip(2 * kClaimRecordBytes + 20);
  EXPECT_EQ(open()->last()->epoch, Epoch{2});
  flip(20);
  auto log = DiskClaimLog::open(*disk, path);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().outcome, Outcome::invalid);
}

// Its process was killed, or ended, after a sync that failed: the page cache shows the record, the disk never gets it.
TEST_F(ClaimLogTest, WhatAFailedSyncOfAnEarlierProcessDroppedIsWrittenAgain) {
  ASSERT_TRUE(open()->write_ahead(request(1), {}));
  {
    auto log = open();
    ASSERT_TRUE(disk->write_at(path, 0, Bytes(kClaimRecordBytes), true));  // what a loss of power leaves of the first one
    ASSERT_TRUE(log->write_ahead(request(2), {}));
    ASSERT_TRUE(log->write_ahead(request(3), {}));
  }
  auto log = open();
  ASSERT_TRUE(log);
  EXPECT_EQ(log->last()->epoch, Epoch{3});
  EXPECT_EQ(std::filesystem::file_size(path), 3 * kClaimRecordBytes);
}

TEST_F(ClaimLogTest, ANewerFormatIsNamed) {
  Bytes record = encode(WrittenClaim{Epoch{1}, {}, {}, {}});
  record[7] = std::byte{'2'};
  ASSERT_TRUE(disk->create(path, record, true));
  auto log = DiskClaimLog::open(*disk, path);
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().message.find("newer version"), std::string::npos);
}

TEST_F(ClaimLogTest, AFullLogBeginsAnewWithItsNewestClaim) {
  const std::size_t most = kMaxClaimLogBytes / kClaimRecordBytes;
  Bytes full;
  for (std::size_t i = 1; i <= most; ++i) {
    const Bytes record = encode(WrittenClaim{Epoch{i}, ClaimId{i, 1}, {}, {}});
    full.insert(full.end(), record.begin(), record.end());
  }
  ASSERT_TRUE(disk->create(path, full, true));
  ASSERT_TRUE(open()->write_ahead(request(most + 1), {}));
  auto log = open();
  EXPECT_EQ(log->highest(), Epoch{most + 1});
  EXPECT_EQ(std::filesystem::file_size(path), 2 * kClaimRecordBytes);
}

TEST_F(ClaimLogTest, ADiskThatFailsRefusesTheClaimAndEveryLaterOne) {
  auto log = open();
  std::filesystem::remove_all(folder);
  EXPECT_EQ(log->write_ahead(request(1), {}).error().outcome, Outcome::unavailable);
  std::filesystem::create_directory(folder);
  EXPECT_FALSE(log->write_ahead(request(2), {})) << "after a failed sync nothing about the file is known";
}

// The format for ever (docs/formats/claim-log.md).
TEST(ClaimRecord, GoldenBytes) {
  const WrittenClaim claim{Epoch{0x0102030405060708},
                           ClaimId{0x1112131415161718, 0x2122232425262728},
                           PutId{0x3132333435363738, 0x4142434445464748},
                           Incarnation{0x5152535455565758, 0x6162636465666768},
                           ClaimId{0x7172737475767778, 0x0102030405060709},
                           1'700'000'000'123};
  std::string hex;
  for (const std::byte byte : encode(claim)) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    hex += two;
  }
  EXPECT_EQ(hex,
            "4f50434c41494d31"
            "0807060504030201"
            "1817161514131211"
            "2827262524232221"
            "3837363534333231"
            "4847464544434241"
            "5857565554535251"
            "6867666564636261"
            "7877767574737271"
            "0907060504030201"
            "0100000000000000"
            "7b68e5cf8b010000"
            "0000000000000000"
            "de9f0ef488b028ee");
  EXPECT_EQ(decode_claim(encode(claim)), claim);
}

// A whole record of an epoch that no claim can have: it is damage, for nothing could be claimed above it (found by fuzz/claim_log).
TEST_F(ClaimLogTest, AnEpochThatNoClaimCanHaveIsDamage) {
  for (const std::uint64_t epoch : {std::uint64_t{0}, kMaxWireNumber + 1, ~std::uint64_t{0}}) {
    WrittenClaim claim;
    claim.epoch = Epoch{epoch};
    static_cast<void>(disk->remove(path));
    ASSERT_TRUE(disk->create(path, encode(claim), false));
    const auto log = DiskClaimLog::open(*disk, path);
    ASSERT_FALSE(log) << epoch;
    EXPECT_EQ(log.error().outcome, Outcome::invalid);
    EXPECT_NE(log.error().message.find("damaged at byte 0"), std::string::npos) << log.error().message;
  }
}

}  // namespace
}  // namespace onepen::owner
