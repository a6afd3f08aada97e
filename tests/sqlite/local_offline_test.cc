// Opened without the home, and going live when it is there again.
#include <atomic>

#include "sqlite/copy_state.h"
#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

class OfflineTest : public LocalTest {
 protected:
  std::string offline(const std::string& process = "a", const std::string& more = "") { return local(process, "&offline=1&close_flush=0" + more); }
  // A copy that owned the database, on machine `process`.
  void make_copy(const std::string& process = "a") {
    const Sql db(local(process));
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('online'); SELECT onepen_synced()");
  }
  std::uint64_t newest_epoch() {
    const auto home = world().handle();
    return home->stream(*StreamName::parse("app"))->stat()->epoch.value;
  }
};

TEST_F(OfflineTest, CommitsAreKeptAndGoLiveWithASelfClaim) {
  make_copy();
  const std::uint64_t epoch = newest_epoch();
  world().set_reachable(false);
  const Sql db(offline("a", "&commit_timeout=200ms"));
  EXPECT_EQ(role(db), "offline");
  db.ok("INSERT INTO t VALUES ('offline')");
  EXPECT_EQ(db.run("SELECT onepen_synced()").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "1 commit")) << told();
  db.ok("INSERT INTO t VALUES ('still usable')");
  world().set_reachable(true);
  until([&] { return role(db) == "owner" && pending(db) == 0; });
  db.ok("SELECT onepen_synced()");
  EXPECT_EQ(newest_epoch(), epoch + 1);
  expect_rebuilds(db);
}

// The owner before closed in good order: its `released` record stands behind its last commit. Without a word it would be counted as one of these
// (copy_trimmed_test.cc, CommitsOfAnOfflineOpeningWereSentUnderNoOwnership).
TEST_F(OfflineTest, ItsCommitsAreWrittenDownAsSentUnderNoOwnership) {
  make_copy();
  const auto disk = io::make_posix_disk();
  const auto behind = [&](const std::string& folder) {
    const auto state = sqlite::StateFile::look(*disk, folder + "/state");
    return state && *state && (*state)->sent && (*state)->sent->sequence > world().handle()->records(*StreamName::parse("app")).back().sequence;
  };
  world().set_reachable(false);
  const Sql db(offline());
  const std::string folder = opened(db).copy().folder();
  EXPECT_TRUE(behind(folder));
  db.ok("INSERT INTO t VALUES ('offline')");
  EXPECT_TRUE(behind(folder));
  world().set_reachable(true);
  until([&] { return role(db) == "owner" && pending(db) == 0; });
  EXPECT_FALSE(behind(folder));
}

TEST_F(OfflineTest, AKilledOneGoesOnOfflineAndItsCommitsAreSentOnce) {
  make_copy();
  world().set_reachable(false);
  {
    const Sql db(offline());
    db.ok("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
  }
  {
    const Sql db(offline());
    EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "3");
    db.ok("INSERT INTO t VALUES (3)");
  }
  world().set_reachable(true);
  const Sql db(local());
  db.ok("SELECT onepen_synced()");
  EXPECT_EQ(db.ok("SELECT count(*) FROM t"), "4");
  expect_rebuilds(db);
}

TEST_F(OfflineTest, WhoeverOpenedMeanwhileIsNotThrownOut) {
  make_copy();
  world().set_reachable(false);
  const Sql db(offline());
  std::atomic<int> listeners{0};
  opened(db).on_reset([&](const Reset&) { ++listeners; });
  db.ok("INSERT INTO t VALUES ('offline')");
  // Somebody else reaches the home before this process does, and only claims.
  world().set_hook([](const CallInfo&) { return Trouble::none; });
  {
    const auto home = world().handle();  // outlives its session
    const auto stream = home->stream(*StreamName::parse("app"));
    core::ClaimRequest claim;
    claim.epoch = Epoch{newest_epoch() + 1};
    claim.claim_id = world().runtime().draw<ClaimId>();
    claim.attempt = world().runtime().draw<PutId>();
    claim.owner.name = "other";
    ASSERT_TRUE(stream->claim(claim));
  }
  const std::uint64_t epoch = newest_epoch();
  world().set_reachable(true);
  until([&] { return role(db) == "reset"; });
  EXPECT_EQ(newest_epoch(), epoch);
  EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"fenced\""));
  EXPECT_EQ(db.run("INSERT INTO t VALUES (2)").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "1 commit")) << told();
  until([&] { return listeners.load() != 0; });
  EXPECT_EQ(listeners.load(), 1);
}

TEST_F(OfflineTest, WithoutACopyThatOwnedItIsRefused) {
  make_copy();
  world().set_reachable(false);
  Sql db;
  EXPECT_NE(db.open(offline("elsewhere")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "no local copy")) << told();
  EXPECT_NE(db.open(uri("a", "&offline=1")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "durability=local")) << told();
  EXPECT_NE(db.open(local("a", "&offline=1&reads=confirmed")), SQLITE_OK);
  EXPECT_TRUE(has(told(), "confirmed")) << told();
}

TEST_F(OfflineTest, ANewHistoryWithEverythingAcknowledgedIsGoneOnWith) {
  for (const bool is_local : {true, false}) {
    const Sql db(is_local ? local("a", "&notice_within=10ms") : uri("a", "&notice_within=10ms"));
    db.ok("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES ('before'); SELECT onepen_synced()");
    const std::string before = to_text(opened(db).status().copy.incarnation);
    world().handle()->new_history(*StreamName::parse("app"));
    until([&] { return db.run("INSERT INTO t VALUES ('after')").code == SQLITE_OK; });
    until([&] { return db.run("SELECT onepen_synced()").code == SQLITE_OK; });
    EXPECT_EQ(role(db), "owner");
    EXPECT_NE(opened(db).status().owner.token.incarnation, before);
    expect_rebuilds(db);
  }
}

// S34: the copy has followed another history than the stream now has. The handle says so, and the next open begins from the stream without any help.
TEST_F(OfflineTest, ANewHistoryThatLacksOurCommitsRewinds) {
  {
    const Sql db(local("a", "&notice_within=10ms&close_flush=0"));
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT onepen_synced()");
    hold_home();
    db.ok("INSERT INTO t VALUES (3)");
    const auto all = world().handle()->records(*StreamName::parse("app"));
    world().handle()->new_history(*StreamName::parse("app"), all.size() - 1);
    free_home();
    until([&] { return role(db) == "reset"; });
    EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"rewound\"")) << db.ok("SELECT onepen_status()");
    EXPECT_EQ(db.run("INSERT INTO t VALUES (4)").code, SQLITE_AUTH);
  }
  const Sql again(local());
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "1");
  const auto folders = salvaged("a");
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_TRUE(has(folders[0].filename().string(), "rewound")) << folders[0];
  again.ok("INSERT INTO t VALUES (5); SELECT onepen_synced()");
  expect_rebuilds(again);
}

TEST_F(OfflineTest, ARemovedStreamRemoves) {
  const Sql db(local("a", "&notice_within=10ms"));
  db.ok("CREATE TABLE t(x); SELECT onepen_synced()");
  world().handle()->erase(*StreamName::parse("app"));
  until([&] { return role(db) == "reset"; });
  EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"removed\""));
}

}  // namespace
}  // namespace onepen::testing
