// How much may be pending, what is never let in, and what the WAL may grow to.
#include <atomic>
#include <filesystem>
#include <thread>

#include "sqlite/page_sum.h"
#include "sqlite/pinned_copy.h"
#include "sqlite/wal_tail.h"
#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

using RoomTest = LocalTest;

TEST_F(RoomTest, AboveMaxPendingBytesCommitWaitsAndIsThenRefused) {
  const Sql db(local("a", "&max_pending_bytes=256K&commit_timeout=100ms"));
  db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  hold_home();
  SqlResult last;
  int taken = 0;
  for (; taken < 1000 && last.code == SQLITE_OK; ++taken) last = db.run("INSERT INTO t VALUES (zeroblob(5000))");
  EXPECT_EQ(last.code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "max_pending_bytes=262144")) << told();
  EXPECT_GT(taken, 5);
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), std::to_string(taken - 1));
  free_home();
  until([&] { return db.run("SELECT onepen_synced()").code == SQLITE_OK; });  // commit_timeout is short, the owner's next try may be later
  db.ok("INSERT INTO t VALUES ('usable')");
  until([&] { return db.run("SELECT onepen_synced()").code == SQLITE_OK; });
  expect_rebuilds(db);
}

TEST_F(RoomTest, ATransactionLargerThanAllRoomIsRefusedAtOnce) {
  const Sql db(local("a", "&max_pending_bytes=256K"));
  db.ok("CREATE TABLE t(x)");
  EXPECT_EQ(db.run("INSERT INTO t VALUES (zeroblob(1000000))").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "larger max_pending_bytes")) << told();
  db.ok("INSERT INTO t VALUES (1); SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(RoomTest, WhileTheHomeTakesThemTheWaitingCommitGetsThrough) {
  const Sql db(local("a", "&max_pending_bytes=64K"));
  db.ok("CREATE TABLE t(x)");
  for (int i = 0; i < 200; ++i) db.ok("INSERT INTO t VALUES (randomblob(9000))");
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(RoomTest, OfflineThereIsNoWaiting) {
  {
    const Sql db(local());
    db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  }
  world().set_reachable(false);
  const Sql db(local("a", "&offline=1&max_pending_bytes=128K&close_flush=0&commit_timeout=60m"));
  SqlResult last;
  for (int i = 0; i < 1000 && last.code == SQLITE_OK; ++i) last = db.run("INSERT INTO t VALUES (zeroblob(5000))");
  EXPECT_EQ(last.code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "out of reach")) << told();
  world().set_reachable(true);
}

TEST_F(RoomTest, TheWalDoesNotGrowForEverWhileCommitsStream) {
  const Sql db(local());
  db.ok("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
  const std::string wal = opened(db).path() + "-wal";
  std::uintmax_t largest = 0;
  for (int i = 0; i < 1200; ++i) {
    db.ok("INSERT OR REPLACE INTO t VALUES (" + std::to_string(i % 10) + ", randomblob(100000))");  // some 120 MB of WAL in all
    largest = std::max(largest, std::filesystem::file_size(wal));
  }
  EXPECT_LT(largest, std::uintmax_t{80} << 20);
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(RoomTest, AnInterruptEndsTheWaitForRoom) {
  const Sql db(local("a", "&max_pending_bytes=64K&commit_timeout=60m&close_flush=0"));
  db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  hold_home();
  std::atomic<bool> done{false};
  std::thread interrupter([&] {
    while (!done) {
      sqlite3_interrupt(db.get());
      std::this_thread::yield();
    }
  });
  until([&] {  // most interrupts come before the COMMIT waits
    db.run("INSERT INTO t VALUES (zeroblob(5000))");
    return has(told(), "interrupted while it waited");
  });
  done = true;
  interrupter.join();
  EXPECT_TRUE(has(told(), "interrupted while it waited")) << told();
}

TEST_F(RoomTest, PagesGrownOverAreZerosEverywhere) {
  for (const bool is_local : {true, false}) {
    const Sql db(is_local ? local() : uri());
    db.ok("PRAGMA secure_delete = OFF; PRAGMA auto_vacuum = full; VACUUM; PRAGMA wal_autocheckpoint = 0; CREATE TABLE IF NOT EXISTS t(x)");
    for (int round = 0; round < 4; ++round) {
      db.ok("INSERT INTO t SELECT randomblob(3000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n)");
      db.ok("DELETE FROM t");
      db.ok("BEGIN; INSERT INTO t VALUES (zeroblob(900000)); UPDATE t SET x = zeroblob(10); COMMIT");
      db.ok(round % 2 == 0 ? "SELECT onepen_synced(); PRAGMA wal_checkpoint(TRUNCATE)" : "SELECT onepen_synced()");
      expect_rebuilds(db);
    }
  }
  const Sql db(local());  // and the copy is still what its page sum says
  EXPECT_TRUE(salvaged("a").empty());
  db.ok("INSERT INTO t VALUES (1); SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(RoomTest, APinnedCommitStaysAsItWasWhileOthersFollow) {
  const auto disk = io::make_posix_disk();
  for (const bool is_local : {true, false}) {
    const Sql db(is_local ? local() : uri());
    sqlite3_busy_timeout(db.get(), 0);
    db.ok("PRAGMA secure_delete = OFF; CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (randomblob(200000)); PRAGMA wal_checkpoint; DELETE FROM t");
    db.ok("BEGIN; INSERT INTO t VALUES (zeroblob(900000)); UPDATE t SET x = zeroblob(10); COMMIT; SELECT onepen_synced()");
    {
      auto pinned = sqlite::pin_copy(*disk, opened(db).hold(), opened(db).path(), world().runtime().now() + std::chrono::seconds(60));
      ASSERT_TRUE(pinned) << pinned.error().message;
      db.ok("INSERT INTO t VALUES (randomblob(300000)); SELECT onepen_synced()");
      EXPECT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)").one(), "1");
      db.ok("DELETE FROM t; VACUUM; INSERT INTO t VALUES ('after')");
      const sqlite::CommitState state = (*pinned)->state();
      Bytes image(state.page_size);
      std::uint64_t sum = 0;
      for (std::uint32_t page = 1; page <= state.page_count; ++page) {
        ASSERT_TRUE((*pinned)->read(page, image));
        sum += sqlite::page_hash_of(page, image);
      }
      EXPECT_EQ(sum, state.page_sum);
      EXPECT_FALSE((*pinned)->overdue());
    }
    db.ok("SELECT onepen_synced()");
    EXPECT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)").one(), "0");
    db.ok("INSERT INTO t VALUES ('goes on'); SELECT onepen_synced()");
    expect_rebuilds(db);
    const auto snapshot = opened(db).snapshot_now();
    EXPECT_TRUE(snapshot) << snapshot.error().message;
  }
}

TEST_F(RoomTest, TheTailOfAWalIsReadAsSqlitesRecoveryReadsIt) {
  const Sql db(local("a", "&close_flush=0"));
  db.ok("PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(50000)); SELECT onepen_synced()");
  const std::string wal = opened(db).path() + "-wal";
  const auto disk = io::make_posix_disk();
  const auto whole = sqlite::scan_wal(*disk, wal);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->end, opened(db).hold().view().published);
  EXPECT_EQ(whole->frames.size(), whole->end.frame);
  const std::string cut = world().folder() + "/cut-wal";
  std::filesystem::copy_file(wal, cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 1);
  const auto torn = sqlite::scan_wal(*disk, cut);
  ASSERT_TRUE(torn);
  EXPECT_LT(torn->end.frame, whole->end.frame);
  EXPECT_NE(torn->frames.back().page_count_after, 0u);
  EXPECT_EQ(sqlite::scan_wal(*disk, world().folder() + "/none")->page_size, 0u);
}

}  // namespace
}  // namespace onepen::testing
