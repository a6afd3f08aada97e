// Random transactions over several connections, then the stream rebuilt elsewhere: same page sums, same contents.
//   sqlite_random_test [SEED] [TRANSACTIONS]
#include <cstdlib>
#include <random>

#include "tests/sqlite/capture_support.h"

namespace onepen::testing {
namespace {

std::uint64_t seed = 1;
int transactions = 2'000;

constexpr int kConnections = 3;
constexpr int kPageSizes[] = {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

class Chance {
 public:
  explicit Chance(std::uint64_t from) : engine_(from) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

class RandomRun {
 public:
  RandomRun(std::uint64_t from, std::string uri) : chance_(from), uri_(std::move(uri)) {
    for (auto& connection : connections_) reopen(connection);
    connections_[0]->ok("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x); CREATE TABLE u(a, b)");
  }
  const Sql& connection() const { return *connections_[0]; }

  void transaction() {
    auto& connection = connections_[static_cast<std::size_t>(chance_.below(kConnections))];
    const Sql& db = *connection;
    if (reading_ != nullptr && (&db == reading_ || chance_.one_in(8))) {
      reading_->ok("COMMIT");
      reading_ = nullptr;
    }
    switch (chance_.below(40)) {
      case 0: return maintain(db);
      case 1: return reopen(connection);
      case 2:
        finish();  // one reader at a time: a forgotten one would hold its transaction for ever
        db.ok("BEGIN; SELECT count(*) FROM t");
        reading_ = &db;
        return;
      case 3: db.ok("PRAGMA cache_size = " + std::to_string(3 + chance_.below(60))); return;
      default: write(db);
    }
  }
  void finish() {
    if (reading_ != nullptr) reading_->ok("COMMIT");
    reading_ = nullptr;
  }

 private:
  void reopen(std::unique_ptr<Sql>& connection) {
    auto fresh = std::make_unique<Sql>(uri_);
    fresh->ok("PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = " + std::to_string(5 + chance_.below(200)));
    connection = std::move(fresh);
  }

  void maintain(const Sql& db) {
    static constexpr const char* kModes[] = {"PASSIVE", "FULL", "RESTART", "TRUNCATE"};
    static constexpr const char* kVacuums[] = {"none", "full", "incremental"};
    sqlite3_busy_timeout(db.get(), 0);
    switch (chance_.below(4)) {
      case 0: db.run("VACUUM"); break;  // busy while another connection reads
      case 1: db.run(std::string("PRAGMA auto_vacuum = ") + kVacuums[chance_.below(3)] + "; VACUUM"); break;
      case 2: db.run("PRAGMA incremental_vacuum(" + std::to_string(1 + chance_.below(20)) + ")"); break;
      default: db.run(std::string("PRAGMA wal_checkpoint(") + kModes[chance_.below(4)] + ")"); break;
    }
    sqlite3_busy_timeout(db.get(), 10'000);
  }

  void write(const Sql& db) {
    if (chance_.one_in(3)) return statement(db);
    db.ok("BEGIN IMMEDIATE");
    const int statements = 1 + chance_.below(6);
    for (int i = 0; i < statements; ++i) {
      if (!chance_.one_in(4)) {
        statement(db);
        continue;
      }
      db.ok("SAVEPOINT s");
      for (int j = chance_.below(4); j >= 0; --j) statement(db);
      db.ok(chance_.one_in(2) ? "ROLLBACK TO s; RELEASE s" : "RELEASE s");
    }
    db.ok(chance_.one_in(6) ? "ROLLBACK" : "COMMIT");
  }

  void statement(const Sql& db) {
    static constexpr int kSizes[] = {10, 10, 100, 100, 1000, 5000, 70'000};
    const std::string size = std::to_string(kSizes[chance_.below(7)] + chance_.below(50));
    const std::string some = std::to_string(2 + chance_.below(9)), rest = std::to_string(chance_.below(9));
    switch (chance_.below(9)) {
      case 0: db.ok("DELETE FROM t WHERE id % " + some + " = " + rest); break;
      case 1: db.ok("UPDATE t SET x = randomblob(" + size + ") WHERE id % 17 = " + rest); break;
      case 2: db.ok("INSERT INTO u VALUES (random(), randomblob(20)); DELETE FROM u WHERE rowid < (SELECT max(rowid) FROM u) - 50"); break;
      case 3: db.ok("DELETE FROM t WHERE id < (SELECT max(id) FROM t) - 150"); break;
      case 4: db.ok("DROP TABLE IF EXISTS v; CREATE TABLE v AS SELECT * FROM u LIMIT 20"); break;
      default: db.ok("INSERT INTO t(x) VALUES (randomblob(" + size + "))"); break;
    }
  }

  Chance chance_;
  std::string uri_;
  std::unique_ptr<Sql> connections_[kConnections];
  const Sql* reading_ = nullptr;
};

using RandomTest = CaptureTest;

class RandomModes : public RandomTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RandomModes, RebuiltElsewhereItIsTheSame) {
  const int rounds = static_cast<int>(std::size(kPageSizes));
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", page size " + std::to_string(kPageSizes[round]));
    const std::string name = "random-" + std::to_string(round);
    RandomRun run(seed * 1000 + static_cast<std::uint64_t>(round),
                  world().uri(name, "a", "&durability=" + std::string(GetParam()) + "&page_size=" + std::to_string(kPageSizes[round])));
    for (int i = 0; i < transactions / rounds && !HasFailure(); ++i) run.transaction();
    run.finish();
    EXPECT_EQ(run.connection().ok("PRAGMA integrity_check"), "ok");
    run.connection().ok("SELECT onepen_synced()");
    expect_rebuilds(run.connection(), name);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Durabilities, RandomModes, ::testing::Values("replicated", "local"), [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace onepen::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) onepen::testing::seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) onepen::testing::transactions = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}
