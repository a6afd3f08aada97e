// The public C++ API (include/onepen) over a real directory: what a program that links Onepen may rely on. Two Databases with a cache root each stand for
// two machines.
#include <gtest/gtest.h>
#include <onepen/database.h>
#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/sqlite/database_support.h"
#include "tests/support/temp_folder.h"

namespace onepen {
namespace {

using testing::one;
using testing::run;

class DatabaseTest : public ::testing::Test {
 protected:
  Home home() {
    auto opened = Home::open("file://" + folder.path() + "/home");
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  OpenOptions on(const std::string& machine, Takeover takeover = Takeover::always) {
    OpenOptions options;
    options.cache_root = folder.path() + "/" + machine;
    options.owner_name = machine;
    options.takeover = takeover;
    return options;
  }
  testing::TempFolder folder;
};

TEST_F(DatabaseTest, CommitsAreInTheStreamAndTheNextOwnerHasThem) {
  const Home place = home();
  auto a = Database::open(place, "team/app", on("a"));
  ASSERT_TRUE(a) << a.error().message;
  auto connection = a->connect();
  ASSERT_TRUE(connection) << connection.error().message;
  ASSERT_EQ(run(*connection, "CREATE TABLE t(x); INSERT INTO t VALUES ('from a')"), SQLITE_OK);
  const auto synced = a->synced();
  ASSERT_TRUE(synced) << synced.error().message;
  EXPECT_EQ(*synced, a->status().acknowledged);
  EXPECT_EQ(a->status().role, Status::Role::owner);
  EXPECT_EQ(a->status().token.epoch, Epoch{1});
  EXPECT_EQ(*place.list(), std::vector<std::string>{"team/app"});

  auto b = Database::open(place, "team/app", on("b"));
  ASSERT_TRUE(b) << b.error().message;
  auto there = b->connect();
  ASSERT_TRUE(there);
  EXPECT_EQ(one(*there, "SELECT x FROM t"), "from a");
  const auto owner = place.owner("team/app");
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->name, "b");
  EXPECT_EQ(owner->token, b->status().token);
}

TEST_F(DatabaseTest, TheOlderHandleResetsOnceAndSaysWhy) {
  const Home place = home();
  auto a = Database::open(place, "app", on("a"));
  ASSERT_TRUE(a);
  auto connection = a->connect();
  ASSERT_TRUE(connection);
  ASSERT_EQ(run(*connection, "CREATE TABLE t(x)"), SQLITE_OK);
  std::atomic<int> told = 0, told_dropped = 0;
  std::string sentence;
  const auto listening = a->on_reset([&](const Reset& reset) {
    sentence = reset.message;
    told.fetch_add(1);
    told.notify_all();
  });
  a->on_reset([&](const Reset&) { told_dropped.fetch_add(1); }).reset();  // dropped at once: never called

  auto b = Database::open(place, "app", on("b"));
  ASSERT_TRUE(b);
  EXPECT_EQ(run(*connection, "INSERT INTO t VALUES (1)"), SQLITE_AUTH);
  told.wait(0);
  EXPECT_EQ(run(*connection, "INSERT INTO t VALUES (2)"), SQLITE_AUTH);
  EXPECT_FALSE(a->synced());
  const Status status = a->status();
  EXPECT_EQ(status.role, Status::Role::reset);
  ASSERT_TRUE(status.reset);
  EXPECT_EQ(status.reset->kind, ResetKind::fenced);
  EXPECT_EQ(status.reset->ours, Epoch{1});
  ASSERT_TRUE(status.reset->current);
  EXPECT_EQ(status.reset->current->token.epoch, Epoch{2});
  EXPECT_EQ(status.reset->current->name, "b");
  EXPECT_EQ(sentence, status.reset->message);
  auto refused = a->connect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::epoch_closed);
  EXPECT_TRUE(a->close());
  EXPECT_TRUE(a->close()) << "idempotent";
  EXPECT_EQ(told.load(), 1);
  EXPECT_EQ(told_dropped.load(), 0);
  auto there = b->connect();
  EXPECT_EQ(one(*there, "SELECT count(*) FROM t"), "0");
}

TEST_F(DatabaseTest, TakeoverNeverRefusesAnOwnedNameAndMakesAnotherOneFree) {
  const Home place = home();
  auto a = Database::open(place, "app", on("a"));
  ASSERT_TRUE(a);
  auto b = Database::open(place, "app", on("b", Takeover::never));
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().outcome, Outcome::held);
  ASSERT_TRUE(b.error().current);
  EXPECT_EQ(b.error().current->name, "a");
  EXPECT_EQ(a->status().role, Status::Role::owner);
  EXPECT_TRUE(Database::open(place, "another", on("b", Takeover::never)));
}

TEST_F(DatabaseTest, AReadTransactionThatWasOpenKeepsItsSnapshot) {
  const Home place = home();
  auto a = Database::open(place, "app", on("a"));
  ASSERT_TRUE(a);
  auto writer = a->connect(), reader = a->connect();
  ASSERT_TRUE(writer && reader);
  ASSERT_EQ(run(*writer, "CREATE TABLE t(x); INSERT INTO t VALUES (1)"), SQLITE_OK);
  ASSERT_EQ(run(*reader, "BEGIN"), SQLITE_OK);
  EXPECT_EQ(one(*reader, "SELECT count(*) FROM t"), "1");
  auto b = Database::open(place, "app", on("b"));
  ASSERT_TRUE(b);
  EXPECT_EQ(run(*writer, "INSERT INTO t VALUES (2)"), SQLITE_AUTH);
  EXPECT_EQ(one(*reader, "SELECT count(*) FROM t"), "1") << "an open read transaction goes on";
  EXPECT_EQ(run(*reader, "ROLLBACK"), SQLITE_OK);
  EXPECT_EQ(run(*reader, "BEGIN; SELECT count(*) FROM t"), SQLITE_AUTH) << "no new one begins (I7)";
}

TEST_F(DatabaseTest, ConnectionsOutliveTheDatabase) {
  const Home place = home();
  Connection kept;
  {
    auto a = Database::open(place, "app", on("a"));
    ASSERT_TRUE(a);
    kept = std::move(*a->connect());
  }
  EXPECT_EQ(run(kept, "CREATE TABLE t(x); INSERT INTO t VALUES (1)"), SQLITE_OK) << "the ownership ends with the last of them";
  EXPECT_EQ(one(kept, "SELECT count(*) FROM t"), "1");
}

TEST_F(DatabaseTest, ThreadsWithAConnectionEachCommitEverythingOnce) {
  constexpr int kThreads = 4, kRows = 25;
  const Home place = home();
  {
    auto a = Database::open(place, "app", on("a"));
    ASSERT_TRUE(a);
    ASSERT_EQ(run(*a->connect(), "CREATE TABLE t(thread, i, PRIMARY KEY(thread, i))"), SQLITE_OK);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        auto connection = a->connect();
        ASSERT_TRUE(connection);
        sqlite3_busy_timeout(connection->get(), 60'000);
        for (int i = 0; i < kRows; ++i) EXPECT_EQ(run(*connection, "INSERT INTO t VALUES (" + std::to_string(t) + "," + std::to_string(i) + ")"), SQLITE_OK);
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(a->synced());
  }
  auto b = Database::open(place, "app", on("b"));
  ASSERT_TRUE(b);
  EXPECT_EQ(one(*b->connect(), "SELECT count(*) || ' ' || count(DISTINCT thread || '/' || i) FROM t"), "100 100");
}

TEST_F(DatabaseTest, BadInputIsRefusedWithASentence) {
  const auto bad_home = Home::open("gopher://x");
  ASSERT_FALSE(bad_home);
  EXPECT_EQ(bad_home.error().outcome, Outcome::invalid);
  const Home place = home();
  for (const char* name : {"", "../x", "a//b", "a b"}) {
    const auto opened = Database::open(place, name, on("a"));
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().outcome, Outcome::invalid) << opened.error().message;
  }
  OpenOptions odd = on("a");
  odd.page_size = 1000;
  const auto opened = Database::open(place, "app", odd);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::invalid) << opened.error().message;
  EXPECT_TRUE(place.list()->empty()) << "nothing was made";
}

}  // namespace
}  // namespace onepen
