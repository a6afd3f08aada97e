// Why Guard::local_published stands there: a commit whose frame is in the WAL, and which SQLite then could not publish, was told to its application as failed.
// A binary of its own: failpoints are armed once, before anything runs.
#include <cstdlib>

#include "base/guard.h"
#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

using PublishTest = LocalTest;

TEST_F(PublishTest, ACommitThatWasToldAsFailedIsNotSent) {
  for (const bool guarded : {true, false}) {
    world().fresh();
    set_guard(Guard::local_published, guarded);
    {
      const Sql db(local("a", "&close_flush=0"));
      // The WAL must grow into the second region of its index, and in the very commit: nothing is spilled before.
      db.ok("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_spill = OFF; CREATE TABLE t(x); INSERT INTO t VALUES ('before')");
      db.ok("SELECT onepen_synced()");
      const std::size_t commits = data().size();
      EXPECT_EQ(db.run("INSERT INTO t VALUES (zeroblob(20000000))").code, SQLITE_IOERR) << "a failpoint refuses the region";
      EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "1");
      if (guarded) db.ok("SELECT onepen_synced()");
      else until([&] { return data().size() > commits && pending(db) == 0; });
      EXPECT_EQ(data().size() > commits, !guarded) << "it is in the stream, and not here";
      EXPECT_EQ(pending(db), 0u);
      sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    }
    set_guard(Guard::local_published, true);
    const Sql other(uri("b"));
    EXPECT_EQ(other.ok("SELECT count(*) FROM t"), guarded ? "1" : "2") << "what every other machine is shown";
  }
}

}  // namespace
}  // namespace onepen::testing

int main(int argc, char** argv) {
  ::setenv("ONEPEN_FAILPOINT", "capture.index_region=error,capture.index_region=error", 1);  // once for each round
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
