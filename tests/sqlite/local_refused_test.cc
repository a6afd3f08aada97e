// durability=local, and the home or the stream does not take a commit that was made here: for a while, for good, or never. What the handle says, what stays in
// the copy, what goes to salvage.
#include <atomic>
#include <fstream>

#include "sqlite/apply.h"
#include "sqlite/capture.h"
#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

class RefusedTest : public LocalTest {
 protected:
  void home_refuses(std::optional<Outcome> outcome) { world().handle()->refuse_data(*StreamName::parse("app"), outcome); }
  std::string status(const Sql& db) { return db.ok("SELECT onepen_status()"); }
  // One row that everybody has, and then the home refuses the next.
  void one_kept_here(const Sql& db, Outcome outcome) {
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('before'); SELECT onepen_synced()");
    home_refuses(outcome);
    db.ok("INSERT INTO t VALUES ('kept')");
  }
  std::string reopened() {
    const Sql again(local());
    again.ok("SELECT onepen_synced()");
    expect_rebuilds(again);
    return again.ok("SELECT group_concat(x) FROM t");
  }
};

TEST_F(RefusedTest, ForAWhileTheHandleGoesOnAndSendsItLater) {
  for (const Outcome outcome : {Outcome::write_fenced, Outcome::quarantined, Outcome::fence_unavailable}) {
    world().fresh();
    const Sql db(local("a", "&commit_timeout=100ms"));
    one_kept_here(db, outcome);
    until([&] { return has(status(db), "takes no data now"); });
    EXPECT_EQ(role(db), "owner");
    EXPECT_EQ(pending(db), 1u);
    EXPECT_EQ(db.run("SELECT onepen_synced()").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "Not synced: 1 commit") && has(told(), std::string(word(outcome)))) << told();
    db.ok("INSERT INTO t VALUES ('one more')");
    EXPECT_EQ(pending(db), 2u);
    home_refuses(std::nullopt);
    until([&] { return pending(db) == 0; });
    until([&] { return db.run("SELECT onepen_synced()").code == SQLITE_OK; });
    EXPECT_EQ(db.ok("SELECT group_concat(x) FROM t"), "before,kept,one more");
    expect_rebuilds(db);
    EXPECT_TRUE(salvaged("a").empty());
  }
}

TEST_F(RefusedTest, ForGoodTheHandleResetsAndTheCommitStaysInTheCopy) {
  for (const Outcome outcome : {Outcome::too_large, Outcome::quota, Outcome::unauthorised}) {
    world().fresh();
    {
      const Sql db(local("a", "&close_flush=0"));
      std::atomic<int> listeners{0};
      const std::string copy = opened(db).copy().folder();
      opened(db).on_reset([&](const Reset& reset) {
        EXPECT_EQ(reset.kind, ResetKind::refused);
        ++listeners;
      });
      one_kept_here(db, outcome);
      until([&] { return role(db) == "reset"; });
      EXPECT_TRUE(has(status(db), "\"kind\":\"refused\"") && has(status(db), "\"salvage_path\":\"" + copy + "\"")) << status(db);
      EXPECT_EQ(pending(db), 1u);
      EXPECT_EQ(db.run("INSERT INTO t VALUES ('no more')").code, SQLITE_AUTH);
      EXPECT_TRUE(has(told(), "1 commit") && has(told(), "are sent when the database is opened again")) << told();
      EXPECT_EQ(db.run("SELECT onepen_synced()").code, SQLITE_AUTH);
      EXPECT_EQ(db.run("SELECT * FROM t").code, SQLITE_AUTH);
      until([&] { return listeners.load() != 0; });
      EXPECT_EQ(listeners.load(), 1);
    }
    {
      const Sql still(local("a", "&close_flush=0"));  // opened in vain: the commit is there for it to be read, and stays
      until([&] { return role(still) == "reset"; });
      EXPECT_EQ(pending(still), 1u);
    }
    EXPECT_TRUE(salvaged("a").empty()) << "the stream can take it still";
    home_refuses(std::nullopt);
    EXPECT_EQ(reopened(), "before,kept") << word(outcome);
    EXPECT_TRUE(salvaged("a").empty());
  }
}

// The WAL is damaged under a commit that waits: what was sent before it stays, nothing of it is.
TEST_F(RefusedTest, AWalThatIsNotWhatWasPublishedEndsTheHandle) {
  {
    const Sql db(local());
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('before'); SELECT onepen_synced()");
  }
  world().set_reachable(false);
  {
    const Sql db(local("a", "&offline=1&close_flush=0"));
    db.ok("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES ('sent')");
    const auto whole = std::filesystem::file_size(opened(db).path() + "-wal");
    db.ok("INSERT INTO t VALUES ('damaged')");
    {
      std::fstream wal(opened(db).path() + "-wal", std::ios::in | std::ios::out | std::ios::binary);
      wal.seekp(static_cast<std::streamoff>(whole) + 100);
      wal.write("damage", 6);
    }
    world().set_reachable(true);
    until([&] { return role(db) == "reset"; });
    EXPECT_TRUE(has(status(db), "\"kind\":\"diverged\"") && has(status(db), "is not what SQLite published")) << status(db);
    EXPECT_EQ(pending(db), 1u);
    EXPECT_EQ(db.run("INSERT INTO t VALUES ('no more')").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "1 commit") && has(told(), "salvage")) << told();
  }
  EXPECT_EQ(reopened(), "before,sent");
}

// ---- the veto of what could never be sent

class VetoTest : public RefusedTest {
 protected:
  void TearDown() override {
    sqlite::set_most_pages(wire::kMaxPageCount);
    RefusedTest::TearDown();
  }
};

TEST_F(VetoTest, ACommitThatNoStreamCouldHoldIsRefusedAndTheHandleGoesOn) {
  for (const bool is_local : {true, false}) {
    world().fresh();
    const Sql db(is_local ? local() : uri());
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('before'); SELECT onepen_synced()");
    const std::size_t commits = data().size();
    sqlite::set_most_pages(100);
    EXPECT_EQ(db.run("INSERT INTO t VALUES (zeroblob(900000))").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "more than a stream can hold") && has(told(), "rolled back")) << told();
    EXPECT_EQ(role(db), "owner") << "it stands in nobody's way";
    EXPECT_EQ(pending(db), 0u);
    EXPECT_EQ(data().size(), commits);
    EXPECT_EQ(db.ok("SELECT group_concat(x) FROM t"), "before");
    db.ok("INSERT INTO t VALUES ('after'); SELECT onepen_synced()");
    sqlite::set_most_pages(wire::kMaxPageCount);
    db.ok("INSERT INTO t VALUES (zeroblob(900000)); SELECT onepen_synced()");
    expect_rebuilds(db);
  }
}

// SQLite 3.40 writes every page it grows over; only other versions might not.
TEST_F(VetoTest, PagesLeftUnwrittenAreCountedAsReadersCountThem) {
  constexpr std::uint32_t kGap = sqlite::kMaxGapPages, kWritten = 5;
  EXPECT_EQ(sqlite::never_sendable(10, 10 + kGap + kWritten, kWritten), "");
  EXPECT_TRUE(has(sqlite::never_sendable(10, 11 + kGap + kWritten, kWritten), "could never be sent"));
  EXPECT_EQ(sqlite::never_sendable(10 + 2 * kGap, 10, 1), "") << "it shrinks";
  EXPECT_EQ(sqlite::never_sendable(wire::kMaxPageCount - 1, wire::kMaxPageCount, 1), "");
  EXPECT_TRUE(has(sqlite::never_sendable(wire::kMaxPageCount, wire::kMaxPageCount + 1, 1), "more than a stream can hold"));
}

}  // namespace
}  // namespace onepen::testing
