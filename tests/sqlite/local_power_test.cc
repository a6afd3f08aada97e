// The power goes at synchronous=NORMAL: the stream acknowledged more than the WAL kept. Then the machine is opened without the home, commits, and goes live:
// through the real keeper and its self-claim. What a loss of power leaves is made by hand: the files of the copy as they were at an earlier moment.
#include <fstream>
#include <map>

#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

class PowerTest : public LocalTest {
 protected:
  using Files = std::map<std::string, std::string>;

  std::string offline() { return local("a", "&offline=1&close_flush=0"); }
  static std::string content(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // In place, so that each file stays the one it is.
  static void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << bytes;
  }
  Files files_of(const std::string& folder) {
    Files files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name != "db-shm" && name != "lock") files[name] = content(entry.path());
    }
    return files;
  }
  // Two commits acknowledged, which the disk keeps, and then two more, which it does not. All four are in the stream, and the process is gone.
  void lose_power() {
    const Sql db(local("a", "&close_flush=0"));
    db.ok("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'kept')");
    db.ok("SELECT onepen_synced()");
    folder_ = opened(db).copy().folder();
    synced_ = files_of(folder_);
    db.ok("INSERT INTO t VALUES (2, randomblob(9000)); INSERT INTO t VALUES (3, 'lost here'); SELECT onepen_synced()");
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  std::string folder_;
  Files synced_;
};

TEST_F(PowerTest, ACopyThatLacksWhatTheStreamHasIsNotOpenedOffline) {
  lose_power();
  write(folder_ + "/db-wal", synced_.at("db-wal"));  // the state was written later than the WAL
  world().set_reachable(false);
  Sql db;
  EXPECT_NE(db.open(offline()), SQLITE_OK);
  EXPECT_TRUE(has(told(), "lacks commits that are in the stream")) << told();
  EXPECT_NE(db.open(offline()), SQLITE_OK) << "nor the second time";
  EXPECT_TRUE(has(told(), "lacks commits that are in the stream")) << told();
  world().set_reachable(true);
  ASSERT_EQ(db.open(local()), SQLITE_OK);
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "3") << "the stream has them";
  EXPECT_TRUE(salvaged("a").empty());
  db.ok("INSERT INTO t VALUES (4, 'after'); SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(PowerTest, ACopyThatNeverOwnedTheStreamIsNotOpenedOffline) {
  {
    const Sql db(local());
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES (1); SELECT onepen_synced()");
  }
  {
    const Sql reader(uri("b", "&mode=ro"));
    EXPECT_EQ(reader.ok("SELECT count(*) FROM t"), "1");
  }
  world().set_reachable(false);
  Sql db;
  EXPECT_NE(db.open(local("b", "&offline=1")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "never owned the stream")) << told();
  world().set_reachable(true);
}

// Neither the WAL nor the state kept the newest acknowledged commits: nothing here says that they are missing.
TEST_F(PowerTest, CommitsMadeOnALostBaseGoToSalvageAndNoPageOfThemIntoTheStream) {
  lose_power();
  for (const auto& [name, bytes] : synced_) write(folder_ + "/" + name, bytes);
  const std::size_t commits = data().size();
  world().set_reachable(false);
  {
    const Sql db(offline());
    EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "1") << "as far as the disk kept it";
    db.ok("INSERT INTO t VALUES (2, 'on a lost base'); UPDATE t SET x = 'changed' WHERE id = 1");
    EXPECT_EQ(pending(db), 2u);
    world().set_reachable(true);
    until([&] { return role(db) == "reset"; });
    const std::string status = db.ok("SELECT onepen_status()");
    EXPECT_TRUE(has(status, "\"kind\":\"fenced\"") && has(status, "a commit")) << status;
    EXPECT_EQ(db.run("INSERT INTO t VALUES (9, 9)").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "2 commit")) << told();
  }
  EXPECT_EQ(data().size(), commits);
  const Sql db(local());
  EXPECT_EQ(db.ok("SELECT count(*) || x FROM t WHERE id = 3"), "1lost here");
  EXPECT_EQ(db.ok("SELECT length(x) FROM t WHERE id = 2"), "9000");
  EXPECT_EQ(db.ok("SELECT x FROM t WHERE id = 1"), "kept");
  const auto folders = salvaged("a");
  ASSERT_EQ(folders.size(), 1u);
  const std::string manifest = content(folders[0] / "manifest.json");
  EXPECT_TRUE(has(manifest, "\"unsent\"")) << manifest;
  const Sql kept(folders[0].string() + "/db");  // both of them, as they were made
  EXPECT_EQ(kept.ok("SELECT group_concat(x) FROM t"), "changed,on a lost base");
  db.ok("INSERT INTO t VALUES (4, 'after'); SELECT onepen_synced()");
  expect_rebuilds(db);
}

}  // namespace
}  // namespace onepen::testing
