#include "sqlite/wal_file.h"

#include <gtest/gtest.h>

#include "sqlite/copy_test_support.h"
#include "sqlite/wal_tail.h"

namespace onepen::sqlite {
namespace {

using testing::run_sql;
using testing::slurp;
using testing::spill;
using testing::TempFolder;
using testing::told;

const std::unique_ptr<io::Disk> disk = io::make_posix_disk();

class WalFile : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(PageSizes, WalFile, ::testing::Values(512u, 4096u, 65536u));

// What we fold from SQLite's WAL is what SQLite's own checkpoint makes of it.
TEST_P(WalFile, FoldsSqlitesWalAsSqliteDoes) {
  const TempFolder folder;
  const std::string path = folder / "a";
  spill(path, as_text(initial_page(GetParam())));
  auto db = open_plain(path, SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db) << told(db);
  run_sql(db->get(),
          "PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x); INSERT INTO t SELECT zeroblob(9000)"
          " UNION ALL SELECT zeroblob(5000)");
  for (int i = 0; i < 30; ++i) run_sql(db->get(), "INSERT INTO t SELECT randomblob(700) FROM (VALUES(1),(2),(3))");
  run_sql(db->get(), "BEGIN; DELETE FROM t WHERE rowid % 2; COMMIT; VACUUM");
  std::filesystem::copy_file(path, folder / "b");
  std::filesystem::copy_file(path + "-wal", folder / "b-wal");
  auto wal = read_wal(*disk, folder / "b-wal");
  ASSERT_TRUE(wal) << told(wal);
  EXPECT_EQ(wal->page_size, GetParam());
  EXPECT_GT(wal->frames.size(), 30u);
  auto wal_file = open_on(*disk, folder / "b-wal", io::OpenMode::read);
  auto db_file = open_on(*disk, folder / "b", io::OpenMode::write);
  ASSERT_TRUE(fold_wal(*wal, view_of(*wal), **wal_file, **db_file, folder / "b"));
  run_sql(db->get(), "PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_EQ(slurp(folder / "b"), slurp(path));
}

TEST_P(WalFile, SqliteReadsOurs) {
  const TempFolder folder;
  testing::PlainSource source(folder.path(), GetParam());
  source.exec("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(3000)), ('hello')");
  auto theirs = read_wal(*disk, folder / "source-wal");
  ASSERT_TRUE(theirs);
  auto fd = open_file(folder / "source-wal", OpenMode::read);
  auto ours = WalWriter::create(*disk, folder / "copy-wal", GetParam(), 0x1122334455667788);
  ASSERT_TRUE(ours) << told(ours);
  Bytes image(GetParam());
  for (const WalFrame& frame : theirs->frames) {
    ASSERT_TRUE(read_at(fd->fd(), frame.image_at, image, ""));
    ASSERT_TRUE(ours->add(frame.page_number, frame.page_count_after, image));
  }
  const auto mark = ours->mark();
  ASSERT_TRUE(ours->add(2, 9, image));  // taken back
  ours->rewind(mark);
  ASSERT_TRUE(ours->seal());
  std::filesystem::copy_file(folder / "source", folder / "copy");
  auto db = open_plain(folder / "copy", SQLITE_OPEN_READWRITE);
  auto value = plain_value(db->get(), "", "SELECT group_concat(length(x)) FROM t");
  ASSERT_TRUE(value) << told(value);
  EXPECT_EQ(*value, "3000,5");
  auto check = plain_value(db->get(), "", "PRAGMA integrity_check");
  EXPECT_EQ(*check, "ok");
}

// At every length and with any damaged byte what is found is a prefix of the commits.
TEST(WalFile, DamageLeavesAPrefixOfTheCommits) {
  const TempFolder folder;
  testing::PlainSource source(folder.path(), 512);
  source.exec("CREATE TABLE t(x)");
  for (int i = 0; i < 4; ++i) source.exec("INSERT INTO t VALUES (zeroblob(400))");
  const std::string whole = slurp(folder / "source-wal");
  auto all = read_wal(*disk, folder / "source-wal");
  ASSERT_TRUE(all);
  const auto is_prefix = [&](const WalContent& found) {
    if (found.frames.size() > all->frames.size()) return false;
    for (std::size_t i = 0; i < found.frames.size(); ++i) {
      if (found.frames[i].page_number != all->frames[i].page_number || found.frames[i].image_at != all->frames[i].image_at) return false;
    }
    return found.frames.empty() || found.frames.back().page_count_after != 0;
  };
  std::size_t shorter = 0;
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    spill(folder / "w", whole.substr(0, size));
    auto found = read_wal(*disk, folder / "w");
    ASSERT_TRUE(found);
    ASSERT_TRUE(is_prefix(*found)) << size;
    EXPECT_LT(found->frames.size(), all->frames.size());
  }
  for (std::size_t at = 0; at < whole.size(); at += 11) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    spill(folder / "w", bad);
    auto found = read_wal(*disk, folder / "w");
    ASSERT_TRUE(found);
    ASSERT_TRUE(is_prefix(*found)) << at;
    if (found->frames.size() < all->frames.size()) ++shorter;
  }
  EXPECT_GT(shorter, whole.size() / 11 - 3);  // every byte but the header's checkpoint number counts, and that is in the header's checksum
  EXPECT_TRUE(read_wal(*disk, folder / "absent"));
}

// A WAL of a version that SQLite would not open is none, for both readers alike (found by fuzz/wal).
TEST(WalReaders, AnotherVersionIsNoWal) {
  const TempFolder folder;
  const std::string path = folder / "db-wal";
  {
    auto wal = WalWriter::create(*disk, path, 512, 7);
    ASSERT_TRUE(wal) << told(wal);
    ASSERT_TRUE(wal->add(1, 1, Bytes(512, std::byte{5})));
    ASSERT_TRUE(wal->seal());
  }
  EXPECT_EQ(read_wal(*disk, path)->page_count, 1u);
  EXPECT_EQ(scan_wal(*disk, path)->page_count, 1u);
  std::string bytes = slurp(path);
  bytes[7] = static_cast<char>(bytes[7] + 1);
  WalChecksum sum;
  sum.add(as_bytes(bytes).first(24), (bytes[3] & 1) != 0);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[24 + i] = static_cast<char>(sum.one >> (24 - 8 * i));
    bytes[28 + i] = static_cast<char>(sum.two >> (24 - 8 * i));
  }
  spill(path, bytes);
  EXPECT_FALSE(read_wal(*disk, path)->valid());
  EXPECT_EQ(scan_wal(*disk, path)->page_size, 0u);
}

}  // namespace
}  // namespace onepen::sqlite
