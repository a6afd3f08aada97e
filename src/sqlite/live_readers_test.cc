// Threads that read a copy while commits come: no waiting, no half commits.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sqlite/copy_test_support.h"
#include "sqlite/live_target.h"
#include "sqlite/live_test_support.h"
#include "sqlite/vfs.h"

namespace onepen::sqlite {
namespace {

using testing::Ledger;
using testing::PlainSource;
using testing::TempFolder;
using testing::told;

// Every reader sees whole commits only, in order, and never waits: SQLITE_BUSY would be an error here (no busy handler).
TEST(LiveReadersTest, EightReadersWhileCommitsCome) {
  const TempFolder folder;
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  Environment environment;
  environment.runtime = runtime.get();
  environment.disk = disk.get();
  static_cast<void>(register_vfs(environment));
  PlainSource source(folder.path(), 4096);
  source.exec("CREATE TABLE a(n, x); CREATE TABLE b(n, x); INSERT INTO a VALUES (0, ''); INSERT INTO b VALUES (0, '')");
  for (int i = 1; i <= 200; ++i)
    source.exec(
        "BEGIN; UPDATE a SET n = n + 1; INSERT INTO a VALUES (-1, randomblob(9000)); UPDATE b SET n = n + 1; DELETE FROM a WHERE n = -1 AND rowid < (SELECT max(rowid) FROM a) - 5; COMMIT");
  Ledger ledger;
  const std::string path = folder / "copy";
  Applier applier(*disk, DatabaseFiles{path}, PageTable{}, CommitState{}, ledger.hooks());
  std::size_t fed = 0;
  while (applier.state().ordinal < 5) ASSERT_TRUE(applier.apply(source.records()[fed++]));
  ASSERT_TRUE(applier.settle());
  auto live = LiveTarget::open(*runtime, *disk, DatabaseFiles{path}, std::as_const(applier).state(), {}, ledger.hooks());
  ASSERT_TRUE(live) << told(live);
  applier.aim_at(std::move(*live))->close();
  std::atomic<bool> stop = false;
  std::atomic<int> looks = 0, changes = 0, gone = 0;
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < wrong.size(); ++r) {
    threads.emplace_back([&, r] {
      struct Gone {
        std::atomic<int>& count;
        ~Gone() { ++count; }
      } const leaves{gone};
      auto db = open_plain(path, SQLITE_OPEN_READONLY);
      if (!db) return void(wrong[r] = told(db));
      sqlite3_busy_timeout(db->get(), 0);
      std::int64_t last = -1;
      while (!stop.load() && wrong[r].empty()) {
        if (sqlite3_exec(db->get(), "BEGIN", nullptr, nullptr, nullptr) != SQLITE_OK) wrong[r] = "begin";
        std::int64_t a = -1;
        for (std::size_t again = 0; again <= r % 4; ++again) {  // transactions of different lengths
          const auto n = plain_value(db->get(), path, "SELECT (SELECT max(n) FROM a) || ',' || (SELECT n FROM b)");
          if (!n) return void(wrong[r] = told(n));
          const std::int64_t first = std::stoll(*n), second = std::stoll(n->substr(n->find(',') + 1));
          if (first != second) wrong[r] = "half a commit: " + *n;
          if (again != 0 && first != a) wrong[r] = "changed within a transaction: " + *n;
          a = first;
        }
        if (a < last) wrong[r] = "went back";
        if (a != last) ++changes;
        last = a;
        sqlite3_exec(db->get(), "COMMIT", nullptr, nullptr, nullptr);
        ++looks;
      }
    });
  }
  const auto wait_for = [&](int count) {
    while (looks < count && gone < 8) std::this_thread::yield();
  };
  wait_for(8);
  while (fed < source.records().size()) {
    const auto done = applier.apply(source.records()[fed++]);
    if (!done) {
      ADD_FAILURE() << told(done);
      break;
    }
    if (fed % 3 == 0) {
      const auto settled = applier.settle();
      if (!settled) {
        ADD_FAILURE() << told(settled);
        break;
      }
    }
  }
  EXPECT_TRUE(applier.settle());
  wait_for(looks + 16);
  stop = true;
  for (auto& thread : threads) thread.join();
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
  EXPECT_GT(changes.load(), 8);
  EXPECT_GE(ledger.begun, 1);
}

}  // namespace
}  // namespace onepen::sqlite
