// A follower that becomes the owner, told to or by itself, in place and under its readers (include/onepen/follower.h), and an owner that hands over.
#include <gtest/gtest.h>
#include <onepen/follower.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "tests/sqlite/database_support.h"
#include "tests/support/temp_folder.h"

namespace onepen {
namespace {

using testing::one;
using testing::run;
using namespace std::chrono_literals;

class StandbyTest : public ::testing::Test {
 protected:
  Home home() {
    auto opened = Home::open("file://" + folder.path() + "/home");
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  OpenOptions writer(const std::string& machine, std::optional<Duration> term = {}) {
    OpenOptions options;
    options.cache_root = folder.path() + "/" + machine;
    options.owner_name = machine;
    options.term = term;
    return options;
  }
  FollowOptions standby(const std::string& machine, Duration term) {
    FollowOptions options;
    options.cache_root = folder.path() + "/" + machine;
    options.takeover_when_owner_dead = true;
    options.term = term;
    options.as_owner.owner_name = machine;
    return options;
  }
  FollowOptions reader(const std::string& machine) {
    FollowOptions options;
    options.cache_root = folder.path() + "/" + machine;
    return options;
  }
  static bool becomes_owner(const Follower& follower, Duration within = 60s) {
    const auto until = std::chrono::steady_clock::now() + within;
    while (!follower.status().owner && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
    return follower.status().owner;
  }
  testing::TempFolder folder;
};

// A reader has its transaction open all the while; others begin before and after. What the owner before had acknowledged is there, and what comes is seen.
TEST_F(StandbyTest, TakesOverInPlaceUnderItsReaders) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("a"));
  ASSERT_TRUE(app);
  for (int i = 1; i <= 20; ++i) ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (" + std::to_string(i) + ")"), SQLITE_OK);
  auto follower = Follower::open(place, "app", reader("b"));
  ASSERT_TRUE(follower) << follower.error().message;
  auto long_reader = follower->connect(), reading = follower->connect();
  ASSERT_TRUE(long_reader && reading);
  ASSERT_EQ(run(*long_reader, "BEGIN"), SQLITE_OK);
  EXPECT_EQ(one(*long_reader, "SELECT count(*) FROM t"), "20");
  for (int i = 21; i <= 30; ++i) ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (" + std::to_string(i) + ")"), SQLITE_OK);

  auto database = std::move(*follower).take_over(writer("b"));
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_EQ(database->status().role, Status::Role::owner);
  EXPECT_EQ(database->status().token.epoch.value, 2u);
  EXPECT_EQ(one(*reading, "SELECT count(*) FROM t"), "30");
  EXPECT_EQ(run(app->connection, "INSERT INTO t VALUES ('too late')"), SQLITE_AUTH);
  auto writing = database->connect();
  ASSERT_TRUE(writing) << writing.error().message;
  for (int i = 31; i <= 60; ++i) ASSERT_EQ(run(*writing, "INSERT INTO t VALUES (" + std::to_string(i) + ")"), SQLITE_OK) << sqlite3_errmsg(writing->get());
  EXPECT_EQ(one(*reading, "SELECT count(*) FROM t"), "60");
  EXPECT_EQ(one(*long_reader, "SELECT count(*) FROM t"), "20") << "one boundary, as long as its transaction lasts";
  EXPECT_EQ(run(*reading, "INSERT INTO t VALUES (0)"), SQLITE_READONLY) << "it was opened to read";
  ASSERT_EQ(run(*long_reader, "COMMIT"), SQLITE_OK);
  EXPECT_EQ(one(*long_reader, "SELECT count(*) FROM t"), "60");
  ASSERT_EQ(run(*writing, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
  ASSERT_EQ(run(*writing, "VACUUM"), SQLITE_OK) << sqlite3_errmsg(writing->get());
  EXPECT_EQ(one(*writing, "PRAGMA integrity_check"), "ok");
  const auto synced = database->synced();
  ASSERT_TRUE(synced) << synced.error().message;

  auto cold = Follower::open(place, "app", reader("c"));
  ASSERT_TRUE(cold) << cold.error().message;
  ASSERT_TRUE(cold->wait_for(*synced, 20s));
  auto there = cold->connect();
  ASSERT_TRUE(there);
  EXPECT_EQ(one(*there, "SELECT count(*) FROM t"), "60");
  EXPECT_EQ(one(*there, "PRAGMA integrity_check"), "ok");
}

TEST_F(StandbyTest, AnOpenForWritingInTheFollowersProcessTakesItOverToo) {
  const Home place = home();
  {
    auto app = testing::open_with_table(place, writer("a"));
    ASSERT_TRUE(app);
    ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
  }
  auto follower = Follower::open(place, "app", reader("b"));
  ASSERT_TRUE(follower) << follower.error().message;
  auto reading = follower->connect();
  ASSERT_TRUE(reading);
  OpenOptions options = writer("b");
  options.durability = Durability::local;
  auto database = Database::open(place, "app", options);
  ASSERT_TRUE(database) << database.error().message;
  auto writing = database->connect();
  ASSERT_TRUE(writing);
  ASSERT_EQ(run(*writing, "INSERT INTO t VALUES (2)"), SQLITE_OK) << sqlite3_errmsg(writing->get());
  EXPECT_EQ(one(*reading, "SELECT count(*) FROM t"), "2") << "one copy";
  const auto synced = database->synced();
  ASSERT_TRUE(synced) << synced.error().message;
  EXPECT_TRUE(follower->wait_for(*synced, 20s)) << "the owner sees what it wrote";
  EXPECT_TRUE(follower->status().owner);
}

TEST_F(StandbyTest, ClaimsWhenTheOwnerEndedInPeace) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("a", 60s));
  ASSERT_TRUE(app);
  std::atomic<int> told{0};
  std::promise<void> was_told;
  FollowOptions options = standby("b", 60s);
  options.on_take_over = [&] {
    if (++told == 1) was_told.set_value();
  };
  auto follower = Follower::open(place, "app", options);
  ASSERT_TRUE(follower) << follower.error().message;
  app->connection.reset();
  ASSERT_TRUE(app->database.close());
  ASSERT_TRUE(becomes_owner(*follower));
  ASSERT_EQ(was_told.get_future().wait_for(60s), std::future_status::ready);  // on the following thread, right after
  auto database = std::move(*follower).take_over();
  ASSERT_TRUE(database) << database.error().message;
  auto writing = database->connect();
  ASSERT_TRUE(writing);
  EXPECT_EQ(run(*writing, "INSERT INTO t VALUES (1)"), SQLITE_OK);
  EXPECT_EQ(told.load(), 1) << "once";
}

// An idle owner that gives signs of life is left alone; one without is gone after a term. (Killed and paused ones: tests/process/standby.py.)
TEST_F(StandbyTest, LeavesAnOwnerAloneThatGivesSignsOfLife) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("a", 400ms));
  ASSERT_TRUE(app);
  auto follower = Follower::open(place, "app", standby("b", 2s));
  ASSERT_TRUE(follower) << follower.error().message;
  EXPECT_FALSE(becomes_owner(*follower, 5s));
  EXPECT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
}

TEST_F(StandbyTest, OfSeveralStandbysOneTakesOver) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("a"));
  ASSERT_TRUE(app);
  std::vector<Follower> followers;
  for (const char* machine : {"b", "c", "d"}) {
    auto follower = Follower::open(place, "app", standby(machine, 300ms));
    ASSERT_TRUE(follower) << follower.error().message;
    followers.push_back(std::move(*follower));
  }
  const auto owners = [&] {
    int count = 0;
    for (const Follower& follower : followers) count += follower.status().owner ? 1 : 0;
    return count;
  };
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (owners() == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
  ASSERT_EQ(owners(), 1);
  std::this_thread::sleep_for(1500ms);  // it keeps it: the others see its signs of life
  EXPECT_EQ(owners(), 1);
  EXPECT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_AUTH);
}

// The owner commits without a pause; the standby asks for the database; each commit that was refused is made once more, by the new owner.
TEST_F(StandbyTest, HandsOverUnderLoadWithoutLosingACommit) {
  for (const Durability durability : {Durability::replicated, Durability::local}) {
    testing::TempFolder fresh;
    const auto place = Home::open("file://" + fresh.path() + "/home");
    ASSERT_TRUE(place);
    OpenOptions options = writer("a", 30s);
    options.cache_root = fresh.path() + "/a";
    options.durability = durability;
    options.notice_within = 50ms;
    auto app = testing::open_with_table(*place, options);
    ASSERT_TRUE(app);
    FollowOptions follow = reader("b");
    follow.cache_root = fresh.path() + "/b";
    auto follower = Follower::open(*place, "app", follow);
    ASSERT_TRUE(follower) << follower.error().message;
    std::atomic<bool> refused{false};
    std::atomic<int> committed{0};
    std::optional<Reset> reset;
    const auto listening = app->database.on_reset([&](const Reset& told) { reset = told; });
    std::thread writing([&] {
      for (int i = 0; !refused.load(); ++i) {
        if (run(app->connection, "INSERT INTO t VALUES (" + std::to_string(i) + ")") == SQLITE_OK) committed.store(i + 1);
        else refused.store(true);
      }
    });
    while (committed.load() < 20) std::this_thread::sleep_for(1ms);
    auto database = std::move(*follower).take_over();
    ASSERT_TRUE(database) << database.error().message;
    writing.join();
    auto there = database->connect();
    ASSERT_TRUE(there);
    EXPECT_EQ(one(*there, "SELECT count(*) FROM t"), std::to_string(committed.load())) << "all that was committed, and nothing that was refused";
    EXPECT_EQ(run(*there, "INSERT INTO t VALUES ('retried')"), SQLITE_OK);
    for (int i = 0; i < 4000 && app->database.status().role != Status::Role::reset; ++i) std::this_thread::sleep_for(5ms);
    ASSERT_EQ(app->database.status().role, Status::Role::reset);
    EXPECT_NE(app->database.status().reset->message.find("handed over: "), std::string::npos) << app->database.status().reset->message;
    ASSERT_TRUE(app->database.status().reset->current);
    EXPECT_EQ(app->database.status().pending_commits, 0u);
  }
}

TEST_F(StandbyTest, WhatCannotBeIsSaid) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("a"));
  ASSERT_TRUE(app);
  EXPECT_EQ(Follower::open(place, "app", standby("b", 1ms)).error().outcome, Outcome::invalid);
  FollowOptions wrong = standby("b", 1s);
  wrong.as_owner.owner_name = std::string(300, 'x');
  EXPECT_EQ(Follower::open(place, "app", wrong).error().outcome, Outcome::invalid);
  auto follower = Follower::open(place, "app", reader("b"));
  ASSERT_TRUE(follower);
  OpenOptions bad = writer("b");
  bad.page_size = 1000;
  EXPECT_EQ(std::move(*follower).take_over(bad).error().outcome, Outcome::invalid);
  EXPECT_FALSE(follower->status().owner) << "it follows on";
  EXPECT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
}

}  // namespace
}  // namespace onepen
