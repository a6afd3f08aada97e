// A stream that many commits pass through stays small, and what is left of it is enough: the real object home in a directory, the public API, the caretaker
// that every owner has. Two machines are two cache roots.
#include <gtest/gtest.h>
#include <onepen/database.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/import.h"
#include "sqlite/rebuild.h"
#include "tests/sqlite/database_support.h"
#include "tests/support/temp_folder.h"

namespace onepen {
namespace {

using testing::one;
using testing::Opened;

constexpr std::uint64_t kSnapshotAfter = 64u << 10;
constexpr auto kHangs = std::chrono::minutes(5);  // a guard, nothing is measured

class Growth : public ::testing::TestWithParam<Durability> {
 protected:
  std::string url() const { return "file://" + folder.path() + "/home"; }
  std::unique_ptr<Opened> open(const std::string& machine) {
    auto home = Home::open(url());
    EXPECT_TRUE(home) << home.error().message;
    OpenOptions options;
    options.cache_root = folder.path() + "/" + machine;
    options.durability = GetParam();
    options.snapshot_after = kSnapshotAfter;
    auto database = Database::open(*home, "app", options);
    if (!database) {
      ADD_FAILURE() << database.error().message;
      return nullptr;
    }
    auto connection = database->connect();
    EXPECT_TRUE(connection) << connection.error().message;
    return std::make_unique<Opened>(Opened{std::move(*database), std::move(*connection)});
  }
  static void close(std::unique_ptr<Opened> opened) {
    opened->connection.reset();
    const auto closed = opened->database.close(kHangs);
    EXPECT_TRUE(closed) << closed.error().message;
  }
  static void run(Opened& on, const std::string& sql) {
    ASSERT_EQ(sqlite3_exec(on.connection.get(), sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql << ": " << sqlite3_errmsg(on.connection.get());
  }
  static std::string content(sqlite3* db) { return one(db, "SELECT group_concat(id || ':' || v || ':' || n, ' ') FROM (SELECT * FROM t ORDER BY id)"); }
  // Until everything is in the stream and the caretaker has done what is due.
  static void wait_for_caretaker(Opened& on) {
    ASSERT_TRUE(on.database.synced(kHangs));
    const auto until = std::chrono::steady_clock::now() + kHangs;
    while (true) {
      const auto growth = nlohmann::json::parse(one(on.connection.get(), "SELECT onepen_status()")).at("growth");
      if (growth.at("log_bytes").get<std::uint64_t>() <= growth.at("next_snapshot_at").get<std::uint64_t>() && !growth.at("busy").get<bool>() &&
          growth.at("trouble").is_null())
        return;
      ASSERT_LT(std::chrono::steady_clock::now(), until) << growth.dump();
      std::this_thread::yield();
    }
  }
  // Small commits, with the caretaker close behind. Answers the most bytes that the stream took.
  void commit_many(Opened& on, int count, std::uint64_t& most) {
    for (int i = 1; i <= count; ++i) {
      run(on, "UPDATE t SET n = n + 1, v = hex(randomblob(20)) WHERE id = " + std::to_string(i % 50 + 1));
      if (i % 10 == 0) {
        ASSERT_TRUE(on.database.synced(kHangs));  // the newest 64 objects of a log always stay: none of them is large
      }
      if (i % 100 != 0) continue;
      wait_for_caretaker(on);
      auto usage = session()->usage();
      ASSERT_TRUE(usage) << usage.error().message;
      most = std::max(most, usage->log_bytes + usage->snapshot_bytes);
    }
  }
  std::unique_ptr<core::Stream> session() {
    if (!home_) {
      auto opened = home::open_home(*runtime, *disk, url());
      EXPECT_TRUE(opened) << opened.error().message;
      home_ = std::move(*opened);
    }
    return home_->stream(*StreamName::parse("app"));
  }

  testing::TempFolder folder;
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();

 private:
  std::unique_ptr<core::Home> home_;
};

TEST_P(Growth, StaysWithinThePolicyAndWhatIsLeftIsEnough) {
  auto a = open("a");
  ASSERT_TRUE(a);
  run(*a, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER NOT NULL)");
  run(*a, "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 50) INSERT INTO t SELECT i, hex(randomblob(20)), 0 FROM c");
  std::uint64_t most = 0;
  ASSERT_NO_FATAL_FAILURE(commit_many(*a, 3600, most));
  const auto database = std::stoull(one(a->connection.get(), "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"));
  const std::string at_a = content(a->connection.get());
  close(std::move(a));

  // Another machine that has nothing: the beginning of the log is gone, so it began with the snapshot.
  auto b = open("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(content(b->connection.get()), at_a);
  ASSERT_NO_FATAL_FAILURE(commit_many(*b, 3600, most));
  const std::string at_b = content(b->connection.get());
  close(std::move(b));

  const auto stat = session()->stat();
  ASSERT_TRUE(stat) << stat.error().message;
  const auto usage = session()->usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_FALSE(usage->oldest.text.empty()) << "nothing was trimmed";
  EXPECT_EQ(usage->snapshots, 2u);
  // docs/formats/snapshot.md, "When one is made": the hundred commits between two looks, each in an object of its own on a busy machine, are what is committed meanwhile.
  constexpr std::uint64_t kObject = 1024, kMeanwhile = 100 * kObject, kNotToTheByte = 192 * kObject;
  const std::uint64_t policy = 2 * std::max(kSnapshotAfter, kMeanwhile) + kMeanwhile + 3 * database + kNotToTheByte;
  EXPECT_GT(stat->log_bytes, policy + policy / 2) << "else nothing is proven";
  EXPECT_LE(most, policy) << "of " << stat->log_bytes << " written, " << database << " of database";
  const auto read = session()->read(Offset{}, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::gone) << read.error().message;

  // The first machine's copy stands before everything that is left: it begins anew.
  a = open("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(content(a->connection.get()), at_b);
  EXPECT_EQ(one(a->connection.get(), "PRAGMA integrity_check"), "ok");
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a/salvage")) << "all that it had is in the stream";
  run(*a, "UPDATE t SET n = n + 1");
  const std::string last = content(a->connection.get());
  close(std::move(a));

  // Export and verify.
  const std::string exported = folder.path() + "/exported.db";
  const auto state = sqlite::export_database(*session(), exported);
  ASSERT_TRUE(state) << state.error().message;
  sqlite3* plain = nullptr;
  ASSERT_EQ(sqlite3_open(exported.c_str(), &plain), SQLITE_OK);
  EXPECT_EQ(content(plain), last);
  EXPECT_EQ(one(plain, "PRAGMA integrity_check"), "ok");
  sqlite3_close(plain);
  auto copy = sqlite::Copy::acquire(*runtime, *disk, {folder.path() + "/a", url(), *StreamName::parse("app")}, Log());
  ASSERT_TRUE(copy) << copy.error().message;
  const auto compared = sqlite::compare(**copy, *session());
  ASSERT_TRUE(compared) << compared.error().message;
  EXPECT_TRUE(compared->same()) << compared->differing;
  EXPECT_GT(compared->pages, 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, Growth, ::testing::Values(Durability::replicated, Durability::local),
                         [](const auto& tested) { return tested.param == Durability::local ? "Local" : "Replicated"; });

}  // namespace
}  // namespace onepen
