// durability=local: COMMIT is SQLite's own, and what was committed follows into the stream. synced() says when it is there.
#include <atomic>

#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

TEST_F(LocalTest, SyncedSaysThatItIsInTheStreamAndElsewhereItIsSeen) {
  {
    const Sql db(local());
    EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"durability\":\"local\""));
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('from one')");
    EXPECT_FALSE(db.ok("SELECT onepen_synced()").empty());
    EXPECT_EQ(pending(db), 0u);
    expect_rebuilds(db);
  }
  const Sql elsewhere(uri("b"));
  EXPECT_EQ(elsewhere.ok("SELECT x FROM t"), "from one");
}

TEST_F(LocalTest, CommitDoesNotWaitForTheHomeAndClosingSends) {
  {
    const Sql db(local());
    db.ok("CREATE TABLE t(x)");
    hold_home();
    for (int i = 0; i < 50; ++i) db.ok("INSERT INTO t VALUES (" + std::to_string(i) + ")");
    EXPECT_GE(pending(db), 50u);
    EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "50");
    free_home();
  }
  const Sql elsewhere(uri("b"));
  EXPECT_EQ(elsewhere.ok("SELECT count(*) FROM t"), "50");
}

// What was committed while the home was busy goes as one object, whatever the sender needs for encoding it: the first of it does not leave alone.
TEST_F(LocalTest, CommitsThatWaitedTogetherAreOneObject) {
  const Sql db(local("a", "&max_linger=0"));
  db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  std::mutex mutex;
  std::map<std::string, std::size_t> objects;  // appends in each, by attempt
  std::atomic<bool> busy{true};
  world().set_hook([&](const CallInfo& call) {
    if (call.call != Call::append) return Trouble::none;
    const std::lock_guard lock(mutex);
    objects[to_text(call.batch->attempt)] = call.batch->appends.size();
    return busy.load() ? Trouble::unavailable : Trouble::none;
  });
  constexpr std::size_t kCommits = 60;
  for (std::size_t i = 0; i < kCommits; ++i) db.ok("INSERT INTO t VALUES (randomblob(3000))");
  busy = false;
  until([&] { return pending(db) == 0; });
  world().set_hook({});
  EXPECT_LE(objects.size(), 2u) << "one that was on its way already, and the rest";
  std::size_t appends = 0;
  for (const auto& [attempt, count] : objects) appends += count;
  EXPECT_EQ(appends, kCommits);
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(LocalTest, SyncedWaitsForNoLinger) {
  const Sql db(local("a", "&max_linger=60s&commit_timeout=40s"));
  db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  hold_home();
  for (int i = 0; i < 20; ++i) db.ok("INSERT INTO t VALUES (1)");  // company: from here on it lingers
  free_home();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 20; ++i) db.ok("INSERT INTO t VALUES (2)");
    EXPECT_EQ(db.run("SELECT onepen_synced()").code, SQLITE_OK) << round;
  }
  EXPECT_EQ(pending(db), 0u);
}

TEST_F(LocalTest, EveryKindOfTransactionIsTheSameElsewhere) {
  const Sql db(local()), other(local());
  db.ok("PRAGMA cache_size = 5; PRAGMA wal_autocheckpoint = 20; CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)");
  for (int round = 0; round < 4; ++round) {
    db.ok(
        "BEGIN; INSERT INTO t(x) SELECT randomblob(900) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n)");
    db.ok("SAVEPOINT a; DELETE FROM t WHERE id % 2 = 0; ROLLBACK TO a; UPDATE t SET x = 1 WHERE id % 7 = 0; COMMIT");
    other.ok("BEGIN; INSERT INTO t(x) VALUES ('gone'); ROLLBACK");
    other.ok("DELETE FROM t WHERE id % 3 = 0");
    db.ok("SELECT onepen_synced()");
    expect_rebuilds(db);
    db.ok(round % 2 == 0 ? "VACUUM" : "PRAGMA auto_vacuum = full; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  }
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(LocalTest, TheWalIsKeptWhileSomethingIsPending) {
  const Sql db(local());
  sqlite3_busy_timeout(db.get(), 0);
  db.ok("PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(x); SELECT onepen_synced()");
  hold_home();
  db.ok("INSERT INTO t VALUES ('pending')");
  for (const char* mode : {"PASSIVE", "FULL", "RESTART", "TRUNCATE"}) {
    db.run(std::string("PRAGMA wal_checkpoint(") + mode + ")");
    db.ok("INSERT INTO t VALUES ('" + std::string(mode) + "')");
  }
  EXPECT_EQ(pending(db), 5u);
  free_home();
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
  EXPECT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)").one(), "0");
  db.ok("INSERT INTO t VALUES ('after'); SELECT onepen_synced()");
  expect_rebuilds(db);
}

// The same code sends what an earlier process left.
TEST_F(LocalTest, WhatWasNotSentIsSentByTheNextOpen) {
  std::uint64_t left = 0;
  {
    const Sql db(local("a", "&close_flush=0"));
    db.ok("PRAGMA cache_size = 5; CREATE TABLE t(id INTEGER PRIMARY KEY, x); SELECT onepen_synced()");
    hold_home();
    for (int i = 0; i < 20; ++i) db.ok("INSERT INTO t(x) VALUES (randomblob(3000)); UPDATE t SET x = 'less' WHERE id % 3 = 0");
    left = pending(db);
  }
  EXPECT_TRUE(has(told(), std::to_string(left) + " commits") && has(told(), "next open")) << told();
  free_home();
  {
    const Sql db(local());
    EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "20");
    db.ok("INSERT INTO t(x) VALUES ('more'); SELECT onepen_synced()");
    expect_rebuilds(db);
    hold_home();
    db.ok("INSERT INTO t(x) VALUES ('unsent')");
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    free_home();
  }
  const Sql db(local());
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "22");
  db.ok("SELECT onepen_synced()");
  expect_rebuilds(db);
}

TEST_F(LocalTest, OpenedReplicatedTheyAreSentBeforeTheOpenReturns) {
  {
    const Sql db(local("a", "&close_flush=0"));
    db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
    hold_home();
    for (int i = 0; i < 5; ++i) db.ok("INSERT INTO t VALUES (" + std::to_string(i) + ")");
  }
  free_home();
  const Sql db(uri());
  expect_rebuilds(db);
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "5");
  db.ok("INSERT INTO t VALUES ('replicated')");
  expect_rebuilds(db);
}

TEST_F(LocalTest, OneDurabilityInOneProcess) {
  const Sql db(local());
  Sql other;
  EXPECT_NE(other.open(uri()), SQLITE_OK);
  EXPECT_TRUE(has(told(), "durability=local")) << told();
  db.ok("CREATE TABLE t(x)");
}

// S15: a fenced handle has a reason, and what was pending fails with it.
TEST_F(LocalTest, FencedOnceAndThePendingAreNamed) {
  const Sql old(local("a", "&owner=first"));
  old.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('one'); SELECT onepen_synced()");
  std::atomic<int> told_times{0};
  opened(old).on_reset([&](const Reset&) { ++told_times; });
  hold_home();
  old.ok("INSERT INTO t VALUES ('two')");
  const Sql now(uri("b", "&owner=second"));
  free_home();
  now.ok("INSERT INTO t VALUES ('other')");
  EXPECT_EQ(old.run("SELECT onepen_synced()").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "second") && has(told(), "1 commit") && has(told(), "salvage")) << told();
  EXPECT_EQ(old.run("INSERT INTO t VALUES (3)").code, SQLITE_AUTH);
  EXPECT_EQ(old.run("SELECT * FROM t").code, SQLITE_AUTH);
  EXPECT_TRUE(has(old.ok("SELECT onepen_status()"), "\"kind\":\"fenced\""));
  EXPECT_EQ(told_times.load(), 1);
  expect_rebuilds(now);
}

}  // namespace
}  // namespace onepen::testing
