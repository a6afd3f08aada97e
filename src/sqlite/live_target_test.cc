#include "sqlite/live_target.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sqlite/copy_test_support.h"
#include "sqlite/live_test_support.h"
#include "sqlite/vfs.h"

namespace onepen::sqlite {
namespace {

using testing::Ledger;
using testing::PlainSource;
using testing::run_sql;
using testing::slurp;
using testing::TempFolder;
using testing::told;

class LiveTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  LiveTest() {
    Environment environment;
    environment.runtime = runtime_.get();
    environment.disk = disk_.get();
    static_cast<void>(register_vfs(environment));  // finds the platform's
  }

  // The first records are folded; what comes then goes under readers.
  void begin(PlainSource& source, std::size_t folded) {
    path_ = folder_ / "copy";
    applier_.emplace(*disk_, DatabaseFiles{path_}, PageTable{}, CommitState{}, ledger_.hooks());
    for (fed_ = 0; fed_ < folded; ++fed_) ASSERT_TRUE(applier_->apply(source.records()[fed_]));
    ASSERT_TRUE(applier_->settle());
    ledger_ = Ledger{};
    go_live();
  }
  void go_live() {
    auto live = LiveTarget::open(*runtime_, *disk_, DatabaseFiles{path_}, std::as_const(*applier_).state(), ledger_.place.value_or(WalPlace{}), ledger_.hooks(),
                                 limits_);
    ASSERT_TRUE(live) << told(live);
    target_ = live->get();
    applier_->aim_at(std::move(*live))->close();
  }
  void feed(PlainSource& source, std::size_t upto) {
    for (; fed_ < upto; ++fed_) {
      auto done = applier_->apply(source.records()[fed_]);
      ASSERT_TRUE(done) << told(done);
    }
  }
  void settle() {
    auto done = applier_->settle();
    ASSERT_TRUE(done) << told(done);
  }
  // The process is killed: nothing is said, and another one begins with what is on the disk.
  void begin_again() {
    const CommitState state = std::as_const(*applier_).state();
    PageTable table = applier_->table();
    applier_.emplace(*disk_, DatabaseFiles{path_}, std::move(table), state, ledger_.hooks());
    go_live();
  }
  PlainConnection reader() {
    auto db = open_plain(path_, SQLITE_OPEN_READONLY);
    EXPECT_TRUE(db) << told(db);
    return std::move(*db);
  }
  static std::string value(const PlainConnection& db, const char* sql) {
    auto got = plain_value(db.get(), "", sql);
    EXPECT_TRUE(got) << told(got);
    return got.value_or("");
  }
  // What SQLite makes of the files when nobody has them open.
  std::string bytes() {
    applier_->close_files();
    auto db = open_plain(path_, SQLITE_OPEN_READWRITE);
    EXPECT_TRUE(db) << told(db);
    EXPECT_EQ(value(*db, "PRAGMA integrity_check"), "ok");
    run_sql(db->get(), "PRAGMA wal_checkpoint(TRUNCATE)");
    db->reset();
    return slurp(path_);
  }

  const TempFolder folder_;
  std::unique_ptr<Runtime> runtime_ = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
  std::string path_;
  LiveLimits limits_;
  Ledger ledger_;
  std::optional<Applier> applier_;
  LiveTarget* target_ = nullptr;
  std::size_t fed_ = 0;
};

void workload(PlainSource& source) {
  source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)");
  for (int i = 0; i < 40; ++i) source.exec("INSERT INTO t(x) VALUES (printf('%0*d', 300, " + std::to_string(i * 7919 % 101) + "))");
  source.exec("BEGIN; INSERT INTO t(x) SELECT zeroblob(2000) FROM t; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT");
  source.exec("DELETE FROM t WHERE id > 10");
  source.exec("VACUUM");  // shrinks
  source.exec("INSERT INTO t(x) SELECT zeroblob(3000) FROM t, t AS u");  // grows again
  source.exec("PRAGMA auto_vacuum=FULL; VACUUM");
  source.exec("DELETE FROM t WHERE id > 5");
  source.exec("INSERT INTO t(x) VALUES (randomblob(2500000))");  // several parts
  source.exec("PRAGMA cache_size=10; INSERT INTO t(x) SELECT zeroblob(1000) FROM t, t AS u, t AS v");  // spills
  source.exec("DELETE FROM t WHERE id > 3");
}

INSTANTIATE_TEST_SUITE_P(PageSizes, LiveTest, ::testing::Values(512u, 4096u, 65536u));

TEST_P(LiveTest, EndsInTheSameFileAsPlainSqlite) {
  for (const std::size_t settle_every : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
    const TempFolder other;
    PlainSource source(other.path(), GetParam());
    workload(source);
    std::filesystem::remove(folder_ / "copy");
    std::filesystem::remove(folder_ / "copy-wal");
    begin(source, 1);
    const PlainConnection db = reader();
    while (fed_ < source.records().size()) {
      feed(source, std::min(source.records().size(), fed_ + settle_every));
      settle();
      if (settle_every < 100) {
        ASSERT_EQ(value(db, "PRAGMA integrity_check"), "ok") << "after record " << fed_;
      }
    }
    EXPECT_EQ(applier_->state(), source.state());
    EXPECT_EQ(ledger_.next, source.state());
    const bool same = bytes() == source.bytes();
    EXPECT_TRUE(same) << "the bytes of the files differ, settled every " << settle_every;
    applier_.reset();
  }
}

TEST_P(LiveTest, AReaderSeesWhatWasThereWhenItBeganAndTheNextOneEverything) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(n)");
  for (int i = 1; i <= 60; ++i) source.exec("INSERT INTO t VALUES (" + std::to_string(i) + ")");
  begin(source, 2);
  const PlainConnection old = reader(), fresh = reader();
  std::vector<PlainConnection> held;
  for (int i = 1; i <= 60; ++i) {
    if (i % 20 == 1) {
      held.push_back(reader());
      run_sql(held.back().get(), "BEGIN");
      EXPECT_EQ(value(held.back(), "SELECT count(*) FROM t"), std::to_string(i - 1));
    }
    feed(source, fed_ + 1);
    EXPECT_EQ(value(fresh, "SELECT count(*) FROM t"), std::to_string(i - 1)) << "it counts when it is settled";
    settle();
    EXPECT_EQ(value(fresh, "SELECT count(*) || ' ' || max(n) FROM t"), std::to_string(i) + " " + std::to_string(i));
    for (std::size_t h = 0; h < held.size(); ++h) EXPECT_EQ(value(held[h], "SELECT count(*) FROM t"), std::to_string(20 * h));
  }
}

// Frames beyond the first region of the index, WALs that begin anew, deltas of pages that are only in the database file by then.
TEST_P(LiveTest, TheWalBeginsAnewWhenNobodyReadsFromItAndNotBefore) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
  for (int i = 0; i < 30; ++i) source.exec("INSERT INTO t(x) VALUES (randomblob(1000000))");
  for (int i = 0; i < 30; ++i) source.exec("UPDATE t SET x = randomblob(1000) WHERE id = " + std::to_string(i));
  begin(source, 2);
  const PlainConnection db = reader(), holder = reader();
  std::uint64_t most = 0;
  bool held = false;
  for (std::size_t n = 0; fed_ < source.records().size(); ++n) {
    if (n == 20) {
      run_sql(holder.get(), "BEGIN");
      EXPECT_NE(value(holder, "SELECT count(*) FROM t"), "");
      held = true;
    }
    if (n == 40) {
      run_sql(holder.get(), "COMMIT");
      held = false;
    }
    feed(source, fed_ + 1);
    settle();
    ASSERT_NE(value(db, "SELECT sum(length(x)) FROM t"), "?");
    if (!held && n < 20) most = std::max(most, target_->wal_bytes());
  }
  EXPECT_GE(ledger_.begun, 3) << "once when it went live, and when 4 MiB were in it";
  EXPECT_EQ(ledger_.merged, ledger_.begun - 1);
  EXPECT_LT(most, 2 * LiveLimits{}.checkpoint_bytes + LiveLimits{}.batch_bytes);
  EXPECT_EQ(value(db, "PRAGMA integrity_check"), "ok");
  const bool same = bytes() == source.bytes();
  EXPECT_TRUE(same);
}

// One of two readers always reads. Nothing but a moment without commits lets the WAL begin anew: those that begin in it need nothing that is in the WAL.
TEST_P(LiveTest, ReadersThatAlwaysOverlapAreWaitedForWhenTheWalIsLarge) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
  for (int i = 0; i < 24; ++i) source.exec("INSERT INTO t(x) VALUES (randomblob(1000000))");
  limits_.checkpoint_bytes = 1u << 20;
  limits_.hold_bytes = 16u << 20;
  limits_.hold = std::chrono::minutes(2);  // it ends when the readers have changed places
  begin(source, 2);
  std::atomic<bool> stop = false;
  std::atomic<int> turns = 0;
  std::thread readers([&] {
    const PlainConnection even = reader(), odd = reader();
    bool first = true;
    for (; !stop.load(); ++turns) {
      const auto& next = turns % 2 == 0 ? even : odd;
      const auto& before = turns % 2 == 0 ? odd : even;
      run_sql(next.get(), "BEGIN");
      EXPECT_NE(value(next, "SELECT count(*) FROM t"), "");
      if (!first) run_sql(before.get(), "COMMIT");
      first = false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  while (turns.load() == 0) std::this_thread::yield();
  while (fed_ < source.records().size() && ledger_.begun < 2) {
    feed(source, fed_ + 1);
    settle();
  }
  stop.store(true);
  readers.join();
  EXPECT_EQ(ledger_.begun, 2) << "the WAL has " << target_->wal_bytes() << " bytes";
  EXPECT_EQ(value(reader(), "PRAGMA integrity_check"), "ok");
}

// Whoever begins to follow while its owner is sending a commit of several parts (found by the simulator).
TEST_P(LiveTest, BeginsInTheMiddleOfACommit) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(n)");
  const std::size_t whole = source.records().size();
  source.exec("INSERT INTO t VALUES (randomblob(3000000))");
  ASSERT_GE(source.records().size(), whole + 3) << "of several parts";
  begin(source, whole + 2);
  EXPECT_FALSE(applier_->unfinished());
  EXPECT_EQ(applier_->position(), source.records()[whole - 1].next) << "it is read again from its first part on";
  fed_ = whole;
  feed(source, source.records().size());
  settle();
  EXPECT_EQ(value(reader(), "SELECT length(n) FROM t"), "3000000");
  const bool same = bytes() == source.bytes();
  EXPECT_TRUE(same);
}

TEST_P(LiveTest, GoesOnFromTheWalThatIsThere) {
  PlainSource source(folder_.path(), GetParam());
  workload(source);
  begin(source, 1);
  const PlainConnection db = reader();  // another process that does not end
  std::size_t n = 0;
  while (fed_ < source.records().size()) {
    feed(source, std::min(source.records().size(), fed_ + 3));
    if (applier_->unfinished()) continue;
    settle();
    if (++n % 4 == 0) begin_again();
    ASSERT_EQ(value(db, "PRAGMA integrity_check"), "ok");
  }
  if (applier_->unfinished()) return;
  settle();
  const bool same = bytes() == source.bytes();
  EXPECT_TRUE(same);
}

TEST_P(LiveTest, SomebodyElsesWriteIsNoticed) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(n)");
  source.exec("INSERT INTO t VALUES (1)");
  source.exec("INSERT INTO t VALUES (2)");
  begin(source, 2);
  feed(source, 3);
  settle();
  auto other = open_plain(path_, SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(other);
  run_sql(other->get(), "INSERT INTO t VALUES (99)");
  feed(source, 4);
  const auto done = applier_->settle();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().outcome, Outcome::state_mismatch);
  EXPECT_NE(done.error().message.find("only to be read"), std::string::npos) << done.error().message;
  EXPECT_EQ(value(*other, "SELECT group_concat(n) FROM t"), "1,99") << "what it wrote is left alone";
}

TEST_P(LiveTest, ADatabaseWithPagesOfAnotherSizeDoesNotTakeItsPlace) {
  PlainSource source(folder_.path(), GetParam());
  source.exec("CREATE TABLE t(n)");
  begin(source, source.records().size());
  CommitState other = source.state();
  other.page_size = GetParam() == 4096 ? 8192 : 4096;
  const auto done = applier_->replace(other, PageTable(other.page_size), [](std::uint32_t, std::span<std::byte>) { return Result<>{}; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().outcome, Outcome::state_mismatch);
  EXPECT_NE(done.error().message.find(std::to_string(other.page_size)), std::string::npos) << done.error().message;
  EXPECT_EQ(std::as_const(*applier_).state(), source.state());
}

}  // namespace
}  // namespace onepen::sqlite
