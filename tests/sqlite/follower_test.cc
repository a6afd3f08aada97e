// The public Follower (include/onepen/follower.h) over a real directory.
#include <gtest/gtest.h>
#include <onepen/follower.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/sqlite/database_support.h"
#include "tests/support/temp_folder.h"

namespace onepen {
namespace {

using testing::one;
using testing::run;
using namespace std::chrono_literals;

class FollowerTest : public ::testing::Test {
 protected:
  Home home() {
    auto opened = Home::open("file://" + folder.path() + "/home");
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  OpenOptions writer(const std::string& machine) {
    OpenOptions options;
    options.cache_root = folder.path() + "/" + machine;
    return options;
  }
  FollowOptions reader(const std::string& machine) {
    FollowOptions options;
    options.cache_root = folder.path() + "/" + machine;
    return options;
  }
  // 'app' with a table, and somebody who reads it.
  struct Both {
    testing::Opened app;
    Follower follower;
    Connection connection;
  };
  std::optional<Both> both(const Home& place) {
    auto app = testing::open_with_table(place, writer("w"));
    if (!app) return {};
    auto follower = Follower::open(place, "app", reader("r"));
    EXPECT_TRUE(follower) << follower.error().message;
    if (!follower) return {};
    auto connection = follower->connect();
    EXPECT_TRUE(connection) << connection.error().message;
    if (!connection) return {};
    return Both{std::move(*app), std::move(*follower), std::move(*connection)};
  }
  testing::TempFolder folder;
};

TEST_F(FollowerTest, ReadsWhatTheWriterConfirmed) {
  const Home place = home();
  auto opened = both(place);
  ASSERT_TRUE(opened);
  auto& [app, follower, connection] = *opened;
  for (int i = 1; i <= 50; ++i) {
    ASSERT_EQ(run(app.connection, "INSERT INTO t VALUES (" + std::to_string(i) + ")"), SQLITE_OK);
    const auto offset = app.database.synced();
    ASSERT_TRUE(offset);
    const auto there = follower.wait_for(*offset, 20s);
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(one(connection, "SELECT count(*) FROM t"), std::to_string(i));
    EXPECT_GE(follower.status().offset, *offset);
  }
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES (0)"), SQLITE_READONLY);
  const FollowerStatus status = follower.status();
  EXPECT_TRUE(status.staleness);
  EXPECT_EQ(status.trouble, "");
  EXPECT_FALSE(status.reset);
  EXPECT_EQ(status.commits, 52u);  // the database, its table, and fifty rows
}

TEST_F(FollowerTest, WhatIsNotThereOrComesTooLateIsSaid) {
  const Home place = home();
  const auto nothing = Follower::open(place, "app", reader("r"));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().outcome, Outcome::not_found) << nothing.error().message;
  auto app = testing::open_with_table(place, writer("w"));
  ASSERT_TRUE(app);
  auto follower = Follower::open(place, "app", reader("r"));
  ASSERT_TRUE(follower) << follower.error().message;
  const auto late = follower->wait_for(Offset{"~"}, 20ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::unavailable);
  FollowOptions wrong = reader("r");
  wrong.max_staleness = Duration(0);
  EXPECT_EQ(Follower::open(place, "app", wrong).error().outcome, Outcome::invalid);
}

TEST_F(FollowerTest, AHomeThatIsAwayIsWaitedFor) {
  const Home place = home();
  auto opened = both(place);
  ASSERT_TRUE(opened);
  auto& [app, follower, connection] = *opened;
  ASSERT_EQ(run(app.connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
  const auto offset = app.database.synced();
  ASSERT_TRUE(offset && follower.wait_for(*offset, 20s));
  std::filesystem::rename(folder.path() + "/home", folder.path() + "/away");
  for (int i = 0; i < 4000 && follower.status().trouble.empty(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_NE(follower.status().trouble, "");
  EXPECT_FALSE(follower.status().reset) << "nobody removed it";
  EXPECT_EQ(one(connection, "SELECT count(*) FROM t"), "1");
  std::filesystem::rename(folder.path() + "/away", folder.path() + "/home");
  ASSERT_EQ(run(app.connection, "INSERT INTO t VALUES (2)"), SQLITE_OK);
  const auto later = app.database.synced();
  ASSERT_TRUE(later);
  const auto there = follower.wait_for(*later, 60s);
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_EQ(one(connection, "SELECT count(*) FROM t"), "2");
}

TEST_F(FollowerTest, WhoListensIsToldOnceThatItEnded) {
  const Home place = home();
  auto opened = both(place);
  ASSERT_TRUE(opened);
  auto& [app, follower, connection] = *opened;
  std::atomic<int> told = 0, dropped = 0;
  const auto listening = follower.on_reset([&](const Reset& reset) {
    EXPECT_EQ(reset.kind, ResetKind::diverged) << reset.message;
    ++told;
  });
  {
    const auto gone = follower.on_reset([&](const Reset&) { ++dropped; });
  }
  sqlite3* foreign = nullptr;
  ASSERT_EQ(sqlite3_open_v2(one(connection, "SELECT file FROM pragma_database_list WHERE name = 'main'").c_str(), &foreign, SQLITE_OPEN_READWRITE, "unix"),
            SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(foreign, "INSERT INTO t VALUES (99)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(foreign);
  ASSERT_EQ(run(app.connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
  for (int i = 0; i < 4000 && told == 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(dropped, 0);
  ASSERT_TRUE(follower.status().reset);
  EXPECT_EQ(follower.connect().error().outcome, Outcome::epoch_closed);
  EXPECT_FALSE(follower.wait_for(Offset{"~"}, 20s)) << "it says so at once";
}

TEST_F(FollowerTest, ManyFollowersOfOneDatabaseShareACopyAndOfMachinesDoNot) {
  const Home place = home();
  auto app = testing::open_with_table(place, writer("w"));
  ASSERT_TRUE(app);
  std::vector<Follower> all;
  std::vector<Connection> connections;
  for (int i = 0; i < 40; ++i) {
    auto follower = Follower::open(place, "app", reader(i % 4 == 0 ? "other" + std::to_string(i) : "r"));
    ASSERT_TRUE(follower) << follower.error().message;
    auto connection = follower->connect();
    ASSERT_TRUE(connection);
    all.push_back(std::move(*follower));
    connections.push_back(std::move(*connection));
  }
  for (int i = 1; i <= 5; ++i) {
    ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
    const auto offset = app->database.synced();
    ASSERT_TRUE(offset);
    for (std::size_t f = 0; f < all.size(); ++f) {
      const auto there = all[f].wait_for(*offset, 60s);
      ASSERT_TRUE(there) << there.error().message;
      EXPECT_EQ(one(connections[f], "SELECT count(*) FROM t"), std::to_string(i));
    }
  }
  std::vector<std::string> files;
  for (const Connection& connection : connections) files.push_back(one(connection, "SELECT file FROM pragma_database_list WHERE name = 'main'"));
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  EXPECT_EQ(files.size(), 11u);
}

TEST_F(FollowerTest, AnOwnerOfTheSameMachineTakesTheCopyThatAFollowerLeft) {
  const Home place = home();
  std::string file;
  {
    auto app = testing::open_with_table(place, writer("w"));
    ASSERT_TRUE(app);
    ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
    auto follower = Follower::open(place, "app", reader("r"));
    ASSERT_TRUE(follower);
    auto connection = follower->connect();
    ASSERT_TRUE(connection);
    ASSERT_EQ(run(app->connection, "INSERT INTO t VALUES (2)"), SQLITE_OK);
    ASSERT_TRUE(follower->wait_for(*app->database.synced(), 20s));
    file = one(*connection, "SELECT file FROM pragma_database_list WHERE name = 'main'");
  }
  auto next = testing::open_with_table(place, writer("r"));
  ASSERT_TRUE(next);
  EXPECT_EQ(one(next->connection, "SELECT file FROM pragma_database_list WHERE name = 'main'"), file);
  EXPECT_EQ(one(next->connection, "SELECT group_concat(x) FROM t"), "1,2");
  ASSERT_EQ(run(next->connection, "INSERT INTO t VALUES (3)"), SQLITE_OK);
  EXPECT_EQ(next->database.status().salvaged, "");
}

}  // namespace
}  // namespace onepen
