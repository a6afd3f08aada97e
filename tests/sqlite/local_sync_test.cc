// A checkpoint of durability=local whose sync of the database file fails: the commits that the application was told succeeded are in the WAL, and are sent at
// the next open. A binary of its own: failpoints are armed once, before anything runs.
#include <cstdlib>

#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

using SyncTest = LocalTest;

TEST_F(SyncTest, CommitsBeforeAFailedSyncOfTheDatabaseAreSentAtTheNextOpen) {
  {
    const Sql db(local("a", "&close_flush=0"));
    db.ok("PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(x); INSERT INTO t VALUES ('sent'); SELECT onepen_synced()");
    hold_home();
    db.ok("INSERT INTO t VALUES ('pending'); INSERT INTO t VALUES ('pending too')");
    EXPECT_NE(db.run("PRAGMA wal_checkpoint(PASSIVE)").code, SQLITE_OK);
    EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"broken\""));
    EXPECT_TRUE(has(told(), "sends what is not in the stream yet")) << told();
    EXPECT_EQ(db.run("INSERT INTO t VALUES ('later')").code, SQLITE_AUTH);
    EXPECT_NE(db.run("PRAGMA wal_checkpoint(TRUNCATE)").code, SQLITE_OK) << "the WAL is all that has them";
  }
  free_home();
  const Sql again(local());
  EXPECT_TRUE(salvaged("a").empty());
  again.ok("SELECT onepen_synced()");
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "sent,pending,pending too");
  expect_rebuilds(again);
}

}  // namespace
}  // namespace onepen::testing

int main(int argc, char** argv) {
  ::setenv("ONEPEN_FAILPOINT", "capture.database_sync=error", 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
