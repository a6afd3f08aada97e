// A follower (mode=ro) sees what comes into the stream while it is open.
#include <thread>

#include "tests/sqlite/capture_support.h"

namespace onepen::testing {
namespace {

using namespace std::chrono_literals;

class FollowTest : public CaptureTest {
 protected:
  static std::string told() { return sqlite::last_refusal(); }
  static bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  std::string ro(const std::string& process, const std::string& more = "") { return uri(process, "&mode=ro" + more); }
  // What the writer committed is what the follower shows from here on.
  static void meet(const Sql& writer, const Sql& follower) {
    const std::string offset = writer.ok("SELECT onepen_synced()");
    const SqlResult there = follower.run("SELECT onepen_wait_for('" + offset + "', 20000)");
    EXPECT_EQ(there.code, SQLITE_OK) << there.message;
    EXPECT_GE(there.one(), offset);
  }
  // A call of the home that a follower makes once its stream ended is answered in its own time.
  static bool becomes_reset(const Sql& follower) {
    for (int i = 0; i < 2000; ++i) {
      if (has(follower.ok("SELECT onepen_status()"), "\"role\":\"reset\"")) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
};

TEST_F(FollowTest, SeesEachCommitWhileItIsOpen) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (0)");
  const Sql follower(ro("f")), second(ro("f"));
  EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), "1");
  for (int i = 1; i <= 200; ++i) {
    db.ok("INSERT INTO t VALUES (" + std::to_string(i) + ")");
    if (i % 10 == 0) {
      meet(db, follower);
      EXPECT_EQ(follower.ok("SELECT count(*) || ' ' || max(n) FROM t"), std::to_string(i + 1) + " " + std::to_string(i));
      EXPECT_EQ(second.ok("SELECT count(*) FROM t"), std::to_string(i + 1)) << "another connection to the same copy";
    }
  }
  db.ok("VACUUM; CREATE TABLE u(x); INSERT INTO u VALUES (randomblob(3000000)); DELETE FROM t WHERE n > 20");
  meet(db, follower);
  EXPECT_EQ(follower.ok("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(contents(follower), contents(db));
  expect_rebuilds(follower);
}

TEST_F(FollowTest, ATransactionThatIsOpenSeesWhatWasThere) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql follower(ro("f")), fresh(ro("f"));
  follower.ok("BEGIN");
  EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), "1");
  db.ok("INSERT INTO t VALUES (2)");
  meet(db, fresh);
  EXPECT_EQ(fresh.ok("SELECT count(*) FROM t"), "2");
  EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), "1");
  follower.ok("COMMIT");
  EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), "2");
}

TEST_F(FollowTest, GoesOnWithItsCopyWhenItIsOpenedAgain) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n, x); INSERT INTO t VALUES (1, randomblob(100000))");
  std::string file;
  std::uint64_t inode = 0;
  for (int round = 1; round <= 4; ++round) {
    const Sql follower(ro("f"));
    EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), std::to_string(2 * round - 1));
    const std::string path = follower.ok("SELECT file FROM pragma_database_list WHERE name = 'main'");
    struct stat now{};
    ASSERT_EQ(::stat(path.c_str(), &now), 0);
    if (round > 1) {
      EXPECT_EQ(path, file);
      EXPECT_EQ(now.st_ino, inode) << "it was made anew";
    }
    file = path, inode = now.st_ino;
    db.ok("INSERT INTO t VALUES (2, randomblob(100000))");
    meet(db, follower);
    EXPECT_EQ(follower.ok("SELECT count(*) FROM t"), std::to_string(2 * round));
    EXPECT_TRUE(has(follower.ok("SELECT onepen_status()"), "\"salvaged\":null"));
    if (round == 3) db.ok("VACUUM");
    db.ok("INSERT INTO t VALUES (3, '')");  // while nobody follows, perhaps
  }
}

TEST_F(FollowTest, BesideTheOwnerInOneProcessAndAcrossATakeover) {
  const Sql one(uri("a"));
  one.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql follower(ro("f"));
  const Sql two(uri("b"));
  two.ok("INSERT INTO t VALUES (2)");
  meet(two, follower);
  EXPECT_EQ(follower.ok("SELECT group_concat(n) FROM t"), "1,2");
  EXPECT_EQ(one.run("INSERT INTO t VALUES (3)").code, SQLITE_AUTH);
  two.ok("INSERT INTO t VALUES (4)");
  meet(two, follower);
  EXPECT_EQ(follower.ok("SELECT group_concat(n) FROM t"), "1,2,4");
}

TEST_F(FollowTest, WaitingForWhatDoesNotComeEndsInTime) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n)");
  const Sql follower(ro("f"));
  const auto later = follower.run("SELECT onepen_wait_for('~', 30)");
  EXPECT_EQ(later.code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "not yet up to")) << told();
  EXPECT_EQ(follower.run("SELECT onepen_wait_for(NULL)").code, SQLITE_ERROR);
  EXPECT_EQ(db.run("SELECT onepen_wait_for('x')").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "is written by this process")) << told();
}

TEST_F(FollowTest, ReadsAreRefusedWhenTheHomeWasNotHeardForTooLong) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql strict(ro("s", "&max_staleness=2s")), easy(ro("e"));
  EXPECT_EQ(strict.ok("SELECT n FROM t"), "1");
  world().set_reachable(false);
  const auto began = std::chrono::steady_clock::now();
  SqlResult got;
  do {
    got = strict.run("SELECT n FROM t");
  } while (got.code == SQLITE_OK && std::chrono::steady_clock::now() - began < 60s);
  EXPECT_EQ(got.code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "max_staleness is 2000 ms")) << told();
  EXPECT_EQ(easy.ok("SELECT n FROM t"), "1") << "without a limit it goes on with what it has";
  EXPECT_FALSE(has(easy.ok("SELECT onepen_status()"), "\"trouble\":null"));
  world().set_reachable(true);
  do {
    got = strict.run("SELECT n FROM t");
  } while (got.code != SQLITE_OK && std::chrono::steady_clock::now() - began < 120s);
  EXPECT_EQ(got.code, SQLITE_OK) << told();
  db.ok("INSERT INTO t VALUES (2)");
  meet(db, strict);
  EXPECT_EQ(strict.ok("SELECT count(*) FROM t"), "2");
  Sql wrong;
  EXPECT_NE(wrong.open(uri("w", "&max_staleness=1s")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "mode=ro")) << told();
}

TEST_F(FollowTest, ParametersOfAStandbyAreChecked) {
  Sql wrong;
  EXPECT_NE(wrong.open(uri("w", "&standby=1")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "standby=1 needs mode=ro")) << told();
  EXPECT_NE(wrong.open(ro("w", "&standby=yes")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "write standby=0")) << told();
  EXPECT_NE(wrong.open(ro("w", "&standby=1&term=99ms")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "term='99ms' is no time")) << told();
}

TEST_F(FollowTest, ARestoredStreamIsShownInPlace) {
  Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const auto home = world().handle();
  const StreamName name = *StreamName::parse("app");
  const std::size_t kept = home->records(name).size();
  const Sql follower(ro("f"));
  db.ok("INSERT INTO t VALUES (2); CREATE TABLE gone(x); INSERT INTO gone VALUES (randomblob(300000))");
  meet(db, follower);
  const std::string path = follower.ok("SELECT file FROM pragma_database_list WHERE name = 'main'");
  follower.ok("BEGIN");
  EXPECT_EQ(follower.ok("SELECT count(*) FROM gone"), "1");
  db.close();
  home->new_history(name, kept);  // as `onepen restore` does
  const Sql again(uri("b"));
  again.ok("INSERT INTO t VALUES (3)");
  const Sql other(ro("f"));
  meet(again, other);
  EXPECT_EQ(other.ok("SELECT group_concat(n) FROM t"), "1,3");
  EXPECT_EQ(other.ok("SELECT file FROM pragma_database_list WHERE name = 'main'"), path) << "the same copy, under the same connections";
  EXPECT_EQ(follower.ok("SELECT count(*) FROM gone"), "1") << "its transaction is open";
  follower.ok("COMMIT");
  EXPECT_EQ(follower.ok("SELECT group_concat(n) FROM t"), "1,3");
  EXPECT_EQ(follower.run("SELECT * FROM gone").code, SQLITE_ERROR);
  expect_rebuilds(other);
}

TEST_F(FollowTest, AStreamThatWasRemovedEndsIt) {
  Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql follower(ro("f"));
  follower.ok("BEGIN");
  EXPECT_EQ(follower.ok("SELECT n FROM t"), "1");
  db.close();
  world().handle()->erase(*StreamName::parse("app"));
  for (int i = 0; i < 2000 && !has(follower.ok("SELECT onepen_status()"), "removed"); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(has(follower.ok("SELECT onepen_status()"), "removed"));
  EXPECT_EQ(follower.ok("SELECT n FROM t"), "1") << "its transaction goes on (I7)";
  follower.ok("COMMIT");
  EXPECT_EQ(follower.run("SELECT n FROM t").code, SQLITE_AUTH);
}

TEST_F(FollowTest, AShortStalenessIsKeptWhileNothingComes) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql strict(ro("s", "&max_staleness=2s"));
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(strict.ok("SELECT n FROM t"), "1") << told();
    std::this_thread::sleep_for(5ms);
  }
}

TEST_F(FollowTest, SomebodyWhoWritesToTheCopyEndsIt) {
  const Sql db(uri("a"));
  db.ok("CREATE TABLE t(n); INSERT INTO t VALUES (1)");
  const Sql follower(ro("f"));
  {
    const Sql foreign(follower.ok("SELECT file FROM pragma_database_list WHERE name = 'main'"));
    foreign.ok("INSERT INTO t VALUES (99)");
  }
  db.ok("INSERT INTO t VALUES (2)");
  ASSERT_TRUE(becomes_reset(follower));
  EXPECT_EQ(follower.run("SELECT * FROM t").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "only to be read")) << told();
  EXPECT_TRUE(has(follower.ok("SELECT onepen_status()"), "diverged"));
  const Sql again(ro("f"));
  EXPECT_EQ(again.ok("SELECT group_concat(n) FROM t"), "1,2");
  expect_rebuilds(again);
}

}  // namespace
}  // namespace onepen::testing
