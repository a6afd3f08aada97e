// What a handle is told once somebody else owns the database, and when the home does not answer.
#include <atomic>
#include <thread>

#include "tests/sqlite/capture_support.h"

namespace onepen::testing {
namespace {

class FenceTest : public CaptureTest {
 protected:
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  static std::string told() { return sqlite::last_refusal(); }
};

TEST_F(FenceTest, TheOldOwnerIsRefusedAndItsReadTransactionKeepsItsSnapshot) {
  const Sql old(uri("a", "&owner=first")), reader(uri("a"));
  old.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('one')");
  reader.ok("BEGIN");
  EXPECT_EQ(reader.ok("SELECT count(*) FROM t"), "1");
  old.ok("BEGIN; INSERT INTO t VALUES ('too late')");
  const Sql now(uri("b", "&owner=second"));
  now.ok("INSERT INTO t VALUES ('two')");

  EXPECT_EQ(old.run("COMMIT").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "epoch 1") && has(told(), "epoch 2")) << told();
  EXPECT_TRUE(has(told(), "second")) << told();
  old.run("ROLLBACK");
  EXPECT_EQ(sqlite3_get_autocommit(old.get()), 1);
  EXPECT_EQ(old.run("INSERT INTO t VALUES ('later')").code, SQLITE_AUTH);
  EXPECT_EQ(old.run("BEGIN IMMEDIATE").code, SQLITE_AUTH);
  EXPECT_EQ(old.run("SELECT * FROM t").code, SQLITE_AUTH);
  EXPECT_EQ(old.run("SELECT onepen_synced()").code, SQLITE_AUTH);
  EXPECT_TRUE(has(old.ok("SELECT onepen_error()"), "epoch 2"));
  EXPECT_TRUE(has(old.ok("SELECT onepen_status()"), "\"kind\":\"fenced\""));
  const SqlResult check = old.run("PRAGMA onepen_check");
  EXPECT_EQ(check.code, SQLITE_AUTH);
  EXPECT_TRUE(has(check.message, "epoch 2")) << check.message;

  EXPECT_EQ(reader.ok("SELECT count(*) FROM t"), "1");  // I7
  EXPECT_EQ(reader.ok("SELECT x FROM t"), "one");
  reader.ok("COMMIT");
  EXPECT_EQ(reader.run("SELECT x FROM t").code, SQLITE_AUTH);
  EXPECT_EQ(now.run("SELECT x FROM t ORDER BY rowid").rows, (std::vector<std::vector<std::string>>{{"one"}, {"two"}}));
  expect_rebuilds(now);
}

TEST_F(FenceTest, OpeningAgainTakesItBackWhileTheResetConnectionIsStillOpen) {
  const Sql old(uri("a"));
  old.ok("CREATE TABLE t(x)");
  const Sql other(uri("b"));
  other.ok("INSERT INTO t VALUES (1)");
  EXPECT_EQ(old.run("INSERT INTO t VALUES (2)").code, SQLITE_AUTH);
  const Sql again(uri("a"));
  again.ok("INSERT INTO t VALUES (3)");
  EXPECT_EQ(old.run("INSERT INTO t VALUES (4)").code, SQLITE_AUTH);
  EXPECT_EQ(other.run("INSERT INTO t VALUES (5)").code, SQLITE_AUTH);
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "1,3");
}

TEST_F(FenceTest, ASpillingTransactionCanOnlyRollBackOnceFenced) {
  const Sql old(uri("a"));
  old.ok("PRAGMA cache_size = 5; CREATE TABLE t(x); BEGIN; INSERT INTO t VALUES (zeroblob(100000))");
  const Sql now(uri("b"));
  now.ok("INSERT INTO t VALUES (1)");
  SqlResult result;
  for (int i = 0; i < 2000 && result.code == SQLITE_OK; ++i) {
    result = old.run("INSERT INTO t VALUES (randomblob(20000))");
    if (i > 5) World::get().runtime().sleep_until(World::get().runtime().now() + std::chrono::milliseconds(1));
  }
  EXPECT_EQ(result.code, SQLITE_AUTH) << result.message;
  old.run("ROLLBACK");
  EXPECT_EQ(sqlite3_get_autocommit(old.get()), 1);
  expect_rebuilds(now);
}

TEST_F(FenceTest, ARefusalThatIsNoFenceLeavesTheConnectionUsable) {
  const Sql db(uri());
  db.ok("CREATE TABLE t(x)");
  const auto home = world().handle();
  home->refuse_data(*StreamName::parse("app"), Outcome::write_fenced);
  EXPECT_EQ(db.run("INSERT INTO t VALUES (1)").code, SQLITE_AUTH);
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "0");
  home->refuse_data(*StreamName::parse("app"), std::nullopt);
  db.ok("INSERT INTO t VALUES (2)");
  EXPECT_EQ(db.ok("SELECT x FROM t"), "2");
  expect_rebuilds(db);
}

TEST_F(FenceTest, ALostAnswerIsFoundOutAndTheCommitIsThereOnce) {
  std::atomic<int> lost{0};  // outlives the database: its close asks the home once more
  const Sql db(uri());
  db.ok("CREATE TABLE t(x)");
  world().set_hook([&](const CallInfo& call) { return call.call == Call::append && lost++ == 0 ? Trouble::lost_answer : Trouble::none; });
  db.ok("INSERT INTO t VALUES (1)");
  EXPECT_GE(lost.load(), 1);
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "1");
  expect_rebuilds(db);
}

TEST_F(FenceTest, CommitTimeoutLeavesItUnresolvedAndOpeningTells) {
  const Sql db(uri("a", "&commit_timeout=300ms"));
  db.ok("CREATE TABLE t(x)");
  world().set_hook([](const CallInfo& call) {
    return call.call == Call::append ? Trouble::lost_answer : call.call == Call::stat || call.call == Call::read ? Trouble::unavailable : Trouble::none;
  });
  EXPECT_EQ(db.run("INSERT INTO t VALUES ('maybe')").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "may be in the stream")) << told();
  EXPECT_EQ(db.run("SELECT 1 FROM t").code, SQLITE_AUTH);
  EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "unresolved"));
  world().set_hook({});
  const Sql again(uri("b"));
  EXPECT_EQ(again.ok("SELECT count(*) FROM t"), "1");
  expect_rebuilds(again);
}

TEST_F(FenceTest, InterruptWakesACommitThatWaits) {
  const Sql db(uri());
  db.ok("CREATE TABLE t(x)");
  std::atomic<bool> asked{false};
  world().set_hook([&](const CallInfo& call) {
    if (call.call == Call::append) asked = true;
    return call.call == Call::append || call.call == Call::stat || call.call == Call::read ? Trouble::unavailable : Trouble::none;
  });
  std::thread interrupter([&] {
    while (!asked) std::this_thread::yield();
    sqlite3_interrupt(db.get());
  });
  EXPECT_EQ(db.run("INSERT INTO t VALUES ('maybe')").code, SQLITE_AUTH);
  interrupter.join();
  EXPECT_TRUE(has(told(), "interrupted")) << told();
  world().set_hook({});
}

TEST_F(FenceTest, ForeignWritesToTheCopyAreNoticed) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(x); INSERT INTO t VALUES (1)");
  sqlite::OpenDatabase* open = nullptr;
  ASSERT_EQ(sqlite3_file_control(db.get(), "main", sqlite::kDatabaseOp, &open), SQLITE_OK);
  {
    const Sql foreign(open->path());
    foreign.ok("INSERT INTO t VALUES ('foreign')");
  }
  EXPECT_EQ(db.run("INSERT INTO t VALUES (2)").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "something else")) << told();
  EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "diverged"));
  const Sql again(uri("a"));
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "1");
  again.ok("INSERT INTO t VALUES (3)");
  expect_rebuilds(again);
}

TEST_F(FenceTest, AFollowerReadsAndClaimsNothing) {
  Sql follower;
  EXPECT_NE(follower.open(uri("f", "&mode=ro")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "app")) << told();
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(x); INSERT INTO t VALUES (1)");
  ASSERT_EQ(follower.open(uri("f", "&mode=ro")), SQLITE_OK);
  EXPECT_EQ(follower.ok("SELECT x FROM t"), "1");
  EXPECT_EQ(follower.run("INSERT INTO t VALUES (2)").code, SQLITE_READONLY);
  EXPECT_TRUE(has(follower.ok("SELECT onepen_status()"), "follower"));
  EXPECT_EQ(follower.run("SELECT onepen_synced()").code, SQLITE_AUTH);
  db.ok("INSERT INTO t VALUES (3)");
}

TEST_F(FenceTest, ConfirmedReadsFailOnceFenced) {
  const Sql old(uri("a", "&reads=confirmed&notice_within=60m"));
  old.ok("CREATE TABLE t(x)");
  EXPECT_EQ(old.ok("SELECT count(*) FROM t"), "0");
  const Sql now(uri("b"));
  now.ok("INSERT INTO t VALUES (1)");
  EXPECT_EQ(old.run("SELECT count(*) FROM t").code, SQLITE_AUTH);  // I8: the home is asked, however long the owner would sleep
}

TEST_F(FenceTest, PlainNamesAfterOnepenUse) {
  ::setenv("ONEPEN_CACHE", (world().folder() + "/cache").c_str(), 1);
  const Sql memory(":memory:");
  memory.ok("SELECT onepen_use('memory:')");
  {
    const Sql db("app.onepen");
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('plain name')");
    expect_rebuilds(db);
    const Sql other(world().folder() + "/plain.db");
    other.ok("CREATE TABLE t(x)");
    EXPECT_EQ(other.run("SELECT onepen_status()").code, SQLITE_ERROR);
  }
  sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1);
}

}  // namespace
}  // namespace onepen::testing
