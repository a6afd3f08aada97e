#include "sqlite/snapshot_part.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "sqlite/page_sum.h"
#include "sqlite/snapshot_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::page_of_noise;
using testing::page_of_text;

std::string hex_of(ByteView bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    out += digits[std::to_integer<unsigned>(b) >> 4];
    out += digits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}
Bytes bytes_of(std::string_view text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) out.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return out;
}
// With a checksum that fits, so that what is behind it is reached.
Bytes sealed(Bytes bytes) {
  bytes.resize(bytes.size() - 8);
  ByteWriter(bytes).u<std::uint64_t>(xxh3(bytes));
  return bytes;
}
void put32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  Bytes four;
  ByteWriter(four).u<std::uint32_t>(value);
  std::copy(four.begin(), four.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

std::vector<Bytes> parts_of(std::uint32_t page_size, std::uint32_t page_count, const std::map<std::uint32_t, Bytes>& pages) {
  std::vector<Bytes> parts;
  SnapshotPacker packer(page_size, page_count, [&](ByteView part) -> Result<> {
    parts.push_back(to_bytes(part));
    return {};
  });
  for (const auto& [number, image] : pages) EXPECT_TRUE(packer.add(number, image));
  EXPECT_TRUE(packer.finish());
  EXPECT_EQ(packer.parts(), parts.size());
  return parts;
}

// docs/formats/snapshot.md shows the same bytes.
TEST(SnapshotAbout, Golden) {
  const SnapshotAbout about{.ordinal = 7, .page_sum = 0x1122334455667788, .page_count = 9, .page_size = 512};
  const Bytes bytes = encode_snapshot_about(about);
  EXPECT_EQ(hex_of(bytes),
            "4f505341"          // OPSA
            "0100"              // version 1
            "0000"              // flags
            "0700000000000000"  // ordinal
            "8877665544332211"  // page sum
            "09000000"          // page count
            "00020000"          // page size
            "a51bc920ada04d96");
  auto back = decode_snapshot_about(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, about);
}

TEST(SnapshotAbout, OfNoCommit) {
  const Bytes bytes = encode_snapshot_about({});
  EXPECT_EQ(bytes.size(), kSnapshotAboutBytes);
  auto back = decode_snapshot_about(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, SnapshotAbout{});
}

TEST(SnapshotAbout, RefusesWhatIsNone) {
  const Bytes good = encode_snapshot_about({7, 1, 9, 512});
  for (std::size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(decode_snapshot_about(ByteView(good).first(cut))) << cut;
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_snapshot_about(bad)) << at;
  }
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint32_t>{28, 513}, {28, 256}, {28, 131072}, {24, 0}, {24, 0xffffffff}, {8, 0}}) {
    Bytes bad = good;
    put32(bad, at, value);
    auto refused = decode_snapshot_about(sealed(bad));
    ASSERT_FALSE(refused) << at << " " << value;
    EXPECT_EQ(refused.error().outcome, Outcome::state_mismatch);
  }
  Bytes newer = good;
  newer[4] = std::byte{2};
  auto refused = decode_snapshot_about(newer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::invalid);
  EXPECT_NE(refused.error().message.find("use a newer Onepen"), std::string::npos);
}

// Bytes as version 1 wrote them once: pages 2, 3 and 7 of 9. They stay readable, whatever zstd is installed.
TEST(SnapshotPart, Golden) {
  const Bytes two(512, std::byte{0x22}), three(512, std::byte{0x33}), seven(512, std::byte{0x77});
  const Bytes golden = bytes_of(
      "4f505350"          // OPSP
      "0100"              // version 1
      "0000"              // flags
      "00000000"          // part 0
      "00020000"          // page size
      "09000000"          // pages of the database
      "03000000"          // pages here
      "02000000"          // runs
      "18000000"          // bytes of the frame
      "0200000002000000"  // pages 2, 3
      "0700000001000000"  // page 7
      "28b52ffd60000575000020222233770314002cfcc27ff7b1"
      "78c373c7192c65dd");
  auto part = decode_snapshot_part(golden);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->number, 0u);
  EXPECT_EQ(part->page_size, 512u);
  EXPECT_EQ(part->page_count, 9u);
  EXPECT_EQ(part->runs, (std::vector<PageRun>{{2, 2}, {7, 1}}));
  SnapshotUnpacker unpacker;
  auto images = unpacker.unpack(*part);
  ASSERT_TRUE(images) << images.error().message;
  Bytes want = two;
  want.insert(want.end(), three.begin(), three.end());
  want.insert(want.end(), seven.begin(), seven.end());
  EXPECT_EQ(to_bytes(*images), want);
  // What is written now has the same header.
  const auto parts = parts_of(512, 9, {{2, two}, {3, three}, {4, Bytes(512)}, {7, seven}});
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(hex_of(ByteView(parts[0]).first(28)), hex_of(ByteView(golden).first(28)));
  EXPECT_EQ(hex_of(ByteView(parts[0]).subspan(32, 16)), hex_of(ByteView(golden).subspan(32, 16)));
}

TEST(SnapshotPart, RoundTripsEveryPageSize) {
  SnapshotUnpacker unpacker;
  for (std::uint32_t page_size = 512; page_size <= 65536; page_size *= 2) {
    std::map<std::uint32_t, Bytes> pages;
    for (std::uint32_t n = 1; n <= 40; ++n) {
      if (n % 5 != 0) pages[n] = n % 2 == 0 ? page_of_noise(page_size, n) : page_of_text(page_size, n);
    }
    const auto parts = parts_of(page_size, 41, pages);
    ASSERT_EQ(parts.size(), 1u);
    auto part = decode_snapshot_part(parts[0]);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->pages, pages.size());
    EXPECT_EQ(part->runs.size(), 8u);
    auto images = unpacker.unpack(*part);
    ASSERT_TRUE(images) << images.error().message;
    std::size_t at = 0;
    for (const PageRun& run : part->runs) {
      for (std::uint32_t n = run.first; n <= run.last(); ++n, ++at) EXPECT_EQ(to_bytes(images->subspan(at * page_size, page_size)), pages[n]) << n;
    }
    EXPECT_EQ(at, pages.size());
  }
}

TEST(SnapshotPart, IsBoundedHoweverItsPagesLie) {
  for (const std::uint32_t page_size : {512u, 65536u}) {
    const std::uint32_t most = static_cast<std::uint32_t>(kMaxPartImages / page_size);
    std::map<std::uint32_t, Bytes> pages;  // one page in a run, and none of them compresses
    for (std::uint32_t i = 0; i < most + 3; ++i) pages[2 * i + 1] = page_of_noise(page_size, i);
    const auto parts = parts_of(page_size, 2 * most + 10, pages);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_LE(parts[0].size(), kMaxSnapshotPartBytes);
    auto first = decode_snapshot_part(parts[0]), second = decode_snapshot_part(parts[1]);
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(first->pages, most);
    EXPECT_EQ(second->pages, 3u);
    EXPECT_EQ(second->number, 1u);
    EXPECT_GT(second->runs.front().first, first->runs.back().last());
  }
}

TEST(SnapshotPart, LeavesOutZerosAndTheLockBytePage) {
  const std::uint32_t lock_page = lock_byte_page(65536);
  const Bytes image = page_of_noise(65536, 1);
  EXPECT_TRUE(parts_of(65536, 9, {{3, Bytes(65536)}}).empty());
  const auto parts = parts_of(65536, lock_page + 2, {{lock_page - 1, image}, {lock_page, image}, {lock_page + 1, image}});
  ASSERT_EQ(parts.size(), 1u);
  auto part = decode_snapshot_part(parts[0]);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->runs, (std::vector<PageRun>{{lock_page - 1, 1}, {lock_page + 1, 1}}));
  // One that names it is refused.
  Bytes bad = parts[0];
  put32(bad, 32 + 4, 2);  // two pages from the one before
  auto refused = decode_snapshot_part(sealed(bad));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no content"), std::string::npos) << refused.error().message;
}

TEST(SnapshotPart, RefusesDamage) {
  const auto parts = parts_of(512, 20, {{2, page_of_text(512, 1)}, {3, page_of_text(512, 2)}, {9, page_of_text(512, 3)}});
  ASSERT_EQ(parts.size(), 1u);
  const Bytes& good = parts[0];
  ASSERT_TRUE(decode_snapshot_part(good));
  for (std::size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(decode_snapshot_part(ByteView(good).first(cut))) << cut;
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_FALSE(decode_snapshot_part(bad)) << at;
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_snapshot_part(sealed(longer)));
}

// Each field on its own, behind a checksum that fits.
TEST(SnapshotPart, RefusesFieldsThatDoNotFit) {
  const auto parts = parts_of(512, 20, {{2, page_of_text(512, 1)}, {3, page_of_text(512, 2)}, {9, page_of_text(512, 3)}});
  ASSERT_EQ(parts.size(), 1u);
  struct Case {
    const char* what;
    std::size_t at;
    std::uint32_t value;
  };
  for (const Case& c :
       {Case{"flags", 4, 0x00010001}, Case{"page size", 12, 1000}, Case{"page count 0", 16, 0}, Case{"page count below its pages", 16, 8},
        Case{"page count too large", 16, 0xffffffff}, Case{"no pages", 20, 0}, Case{"more pages", 20, 4}, Case{"too many pages", 20, 16385},
        Case{"no runs", 24, 0}, Case{"more runs", 24, 3}, Case{"more runs than pages", 24, 4}, Case{"shorter frame", 28, 1}, Case{"page 0", 32, 0},
        Case{"an empty run", 36, 0}, Case{"a run beyond the end", 36, 0xffffffff}, Case{"runs that touch", 40, 4}, Case{"runs that fall", 40, 1}}) {
    Bytes bad = parts[0];
    put32(bad, c.at, c.value);
    auto refused = decode_snapshot_part(sealed(bad));
    ASSERT_FALSE(refused) << c.what;
    EXPECT_EQ(refused.error().outcome, Outcome::state_mismatch) << c.what;
  }
  Bytes newer = parts[0];
  newer[4] = std::byte{2};
  auto refused = decode_snapshot_part(newer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::invalid);
}

TEST(SnapshotPart, RefusesAFrameOfAnotherLength) {
  const auto one = parts_of(512, 20, {{2, page_of_text(512, 1)}}), two = parts_of(512, 20, {{2, page_of_text(512, 1)}, {3, page_of_text(512, 2)}});
  auto small = decode_snapshot_part(one[0]), large = decode_snapshot_part(two[0]);
  ASSERT_TRUE(small && large);
  SnapshotUnpacker unpacker;
  std::swap(small->packed, large->packed);
  for (auto* part : {&*small, &*large}) {
    auto refused = unpacker.unpack(*part);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().outcome, Outcome::state_mismatch);
  }
}

TEST(SnapshotPart, TheSinksErrorIsHandedOn) {
  SnapshotPacker packer(65536, 1000, [](ByteView) -> Result<> { return tl::unexpected(Error{Outcome::unavailable, "full", std::nullopt}); });
  Result<> last;
  for (std::uint32_t n = 1; n <= 200 && last; ++n) last = packer.add(n, page_of_noise(65536, n));
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().message, "full");
}

}  // namespace
}  // namespace onepen::sqlite
