#include "sqlite/page_sum.h"

#include <gtest/gtest.h>

#include <random>

#include "base/checksum.h"
#include "sqlite/copy_test_support.h"

namespace onepen::sqlite {
namespace {

TEST(PageSum, HashIsXxh3SeededWithThePageNumber) {
  const Bytes image(512, std::byte{7});
  EXPECT_EQ(page_hash_of(3, image), xxh3(image, 3));
  EXPECT_NE(page_hash_of(3, image), page_hash_of(4, image));
}

TEST(PageSum, TheLockBytePageHoldsByteTwoToTheThirty) {
  for (std::uint32_t size = wire::kMinPageSize; size <= wire::kMaxPageSize; size *= 2) {
    const std::uint64_t begins = (std::uint64_t{lock_byte_page(size)} - 1) * size;
    EXPECT_LE(begins, std::uint64_t{1} << 30);
    EXPECT_GT(begins + size, std::uint64_t{1} << 30);
  }
  EXPECT_EQ(lock_byte_page(4096), 262145u);
}

TEST(PageSum, GrowthIsZerosAndTheLockBytePageCountsNothing) {
  constexpr std::uint32_t kSize = 65536;
  const std::uint32_t lock_page = lock_byte_page(kSize);
  PageTable table(kSize);
  table.resize(lock_page - 1);
  const std::uint64_t before = table.sum();
  table.resize(lock_page);
  EXPECT_EQ(table.sum(), before);
  table.set(lock_page, 12345);
  EXPECT_EQ(table.sum(), before);
  EXPECT_EQ(table.page_count(), lock_page);
  table.resize(lock_page + 1);
  EXPECT_EQ(table.sum(), before + page_hash_of(lock_page + 1, Bytes(kSize)));
  EXPECT_EQ(table.hash(lock_page + 1), page_hash_of(lock_page + 1, Bytes(kSize)));
  EXPECT_EQ(table.hash(lock_page + 2), 0u);
  EXPECT_EQ(table.hash(0), 0u);
}

TEST(PageSum, CutPagesComeBackAsZeros) {
  PageTable table(512);
  table.resize(3);
  table.set(3, 99);
  table.resize(2);
  table.resize(3);
  EXPECT_EQ(table.hash(3), page_hash_of(3, Bytes(512)));
}

// Against the definition, computed afresh each time.
TEST(PageSum, SumAfterIsWhatCommitMakes) {
  std::mt19937 random(3);
  PageTable table(512);
  std::vector<std::uint64_t> naive;
  for (int round = 0; round < 500; ++round) {
    const auto count = static_cast<std::uint32_t>(1 + random() % 40);
    std::vector<PageHash> changed;
    for (std::uint32_t n = 1; n <= 45; ++n) {
      if (random() % 3 == 0) changed.emplace_back(n, random());
    }
    const std::uint64_t promised = table.sum_after(count, changed, 512);
    table.commit(count, changed, 512);
    const std::size_t had = std::min<std::size_t>(naive.size(), count);
    naive.resize(count);
    for (std::size_t i = had; i < count; ++i) naive[i] = page_hash_of(static_cast<std::uint32_t>(i + 1), Bytes(512));
    for (const auto& [n, hash] : changed) {
      if (n <= count) naive[n - 1] = hash;
    }
    std::uint64_t sum = 0;
    for (const std::uint64_t hash : naive) sum += hash;
    ASSERT_EQ(table.sum(), sum);
    ASSERT_EQ(promised, sum);
  }
}

TEST(PageSum, ScanFindsWhatWasWrittenAndTakesAShortFileForZeros) {
  const testing::TempFolder folder;
  std::string bytes;
  PageTable expected(512);
  expected.resize(3000);  // more than one read
  for (std::uint32_t n = 1; n <= 2990; ++n) {
    const std::string page(512, static_cast<char>(n % 251));
    bytes += page;
    expected.set(n, page_hash_of(n, as_bytes(page)));
  }
  testing::spill(folder / "db", bytes);
  const auto disk = io::make_posix_disk();
  auto file = open_on(*disk, folder / "db", io::OpenMode::read);
  ASSERT_TRUE(file);
  auto table = scan_pages(**file, 512, 3000);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->sum(), expected.sum());
  EXPECT_EQ(table->page_count(), 3000u);
  EXPECT_EQ(table->hash(2990), expected.hash(2990));
}

}  // namespace
}  // namespace onepen::sqlite
