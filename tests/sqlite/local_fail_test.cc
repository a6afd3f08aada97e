// Commits whose frame was written and which SQLite then failed (shared models, failsync.c): told as failed, not in the stream, and, when WAL recovery brings
// them back, in the stream like any other. A binary of its own: failpoints are armed once, before anything runs.
#include <cstdlib>

#include "base/guard.h"
#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

using FailTest = LocalTest;

TEST_F(FailTest, AFailedSyncAfterTheCommitFrame) {
  {
    const Sql db(local("a", "&close_flush=0"));
    db.ok("PRAGMA synchronous = OFF; CREATE TABLE t(x); INSERT INTO t VALUES ('before'); SELECT onepen_synced()");
    const std::size_t commits = data().size();
    db.ok("PRAGMA synchronous = FULL");
    EXPECT_EQ(db.run("INSERT INTO t VALUES ('failed')").code, SQLITE_IOERR);
    EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"broken\""));
    EXPECT_EQ(db.run("INSERT INTO t VALUES ('later')").code, SQLITE_AUTH);
    EXPECT_EQ(data().size(), commits);
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);  // as if it were killed: else SQLite deletes the WAL, and the commit with it
  }
  const Sql again(local());  // recovery brings it back: then it is a commit, here and in the stream
  again.ok("SELECT onepen_synced()");
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "before,failed");
  expect_rebuilds(again);
}

// The wal-index cannot grow: the frame that commits is in the WAL, but SQLite never published it.
TEST_F(FailTest, AnUnpublishedCommitIsNotSentUntilRecoveryPublishesIt) {
  const auto keeps_open = std::make_unique<Sql>(local("a", "&close_flush=0"));
  sqlite::OpenDatabase& database = opened(*keeps_open);
  auto held = sqlite::process_registry()->attach(database.path(), false, true);  // the database outlives its connections
  ASSERT_TRUE(held.database);
  auto db = std::make_unique<Sql>(local("a", "&close_flush=0"));
  // Nothing is spilled before the commit, so that it is its own frame that the index has no room for.
  db->ok("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_spill = OFF; CREATE TABLE t(x); SELECT onepen_synced()");
  const std::size_t commits = data().size();
  hold_home();
  db->ok("INSERT INTO t VALUES ('pending')");  // holds the WAL
  EXPECT_NE(db->run("INSERT INTO t VALUES (zeroblob(20000000))").code, SQLITE_OK);
  EXPECT_EQ(role(*db), "owner");
  EXPECT_EQ(pending(*db), 1u);
  db.reset();
  const_cast<std::unique_ptr<Sql>&>(keeps_open)->close();
  free_home();
  until([&] { return !database.pending(); });
  EXPECT_EQ(data().size() > commits, true);
  const std::size_t sent = data().size();
  Sql again(local());
  const std::string count = again.ok("SELECT count(*) FROM t");
  again.ok("SELECT onepen_synced()");
  expect_rebuilds(again);
  EXPECT_EQ(count, "2") << "SQLite's recovery brought it back";
  EXPECT_GT(data().size(), sent) << "and then it was sent";
  again.close();
  static_cast<void>(sqlite::process_registry()->detach(held.database));
}

}  // namespace
}  // namespace onepen::testing

int main(int argc, char** argv) {
  ::setenv("ONEPEN_FAILPOINT", "capture.wal_sync=error,capture.index_region=error", 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
