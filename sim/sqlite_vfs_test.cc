// Plain SQLite on the simulated disk: what it promises on a real one it promises here, when processes are killed and the power goes.
#include "sim/sqlite_vfs.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <set>

namespace onepen::sim {
namespace {

constexpr const char* kPath = "/data/db";

struct Plain {
  sqlite3* db = nullptr;
  explicit Plain(int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
    opened = sqlite3_open_v2(kPath, &db, flags, kSimVfsName);
    sqlite3_busy_timeout(db, 20'000);
  }
  ~Plain() { sqlite3_close(db); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  int run(const std::string& sql) { return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr); }
  std::int64_t number(const char* sql, int* code = nullptr) {
    sqlite3_stmt* statement = nullptr;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, nullptr);
    std::int64_t value = -1;
    if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (code != nullptr) *code = rc;
    return value;
  }
  bool whole() {
    sqlite3_stmt* statement = nullptr;
    bool ok = sqlite3_prepare_v2(db, "pragma integrity_check", -1, &statement, nullptr) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW;
    ok = ok && std::string_view(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0))) == "ok";
    sqlite3_finalize(statement);
    return ok;
  }
  int opened = SQLITE_ERROR;
};

struct Machines {
  StackPool stacks;
  World world;
  SimFs fs, home;
  SimSqlite sqlite;
  explicit Machines(std::uint64_t seed) : world(seed, stacks, false), fs(world, "m1"), home(world, "home"), sqlite(world) {
    fs.make_folder("/data", 1);
    fs.sync_folder("/");
  }
  Process& start(std::string name, std::function<void(Process&)> body) {
    return world.start(1, std::move(name), [this, body = std::move(body)](Process& p) {
      SimDisk disk(world, p, fs, home, "/home");
      sqlite.add(p, disk);
      body(p);
      sqlite.remove(p);
    });
  }
  void finish() {
    world.run([&] { return std::all_of(world.processes().begin(), world.processes().end(), [](const auto& p) { return p->ended(); }); });
    EXPECT_EQ(world.failure(), "");
  }
};

constexpr const char* kSchema = "pragma page_size=512; pragma journal_mode=wal; create table t(id integer primary key, who, filler)";

// Two processes write, a third reads and checkpoints; each committed row is there once.
TEST(SqliteOnSimDisk, ConnectionsOfSeveralProcessesShareOneDatabase) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed : {1u, 2u, 1u}) {
    Machines m(seed);
    int committed = 0, busy = 0, checks = 0;
    m.start("maker", [&](Process&) {
      Plain db;
      ASSERT_EQ(db.opened, SQLITE_OK);
      ASSERT_EQ(db.run(kSchema), SQLITE_OK);
    });
    m.finish();
    for (int who = 0; who < 2; ++who) {
      m.start("writer", [&](Process&) {
        Plain db;
        for (int i = 0; i < 30; ++i) {
          const int rc = db.run("insert into t(who, filler) values(1, randomblob(300))");
          committed += rc == SQLITE_OK ? 1 : 0;
          busy += rc == SQLITE_BUSY ? 1 : 0;
        }
      });
    }
    m.start("reader", [&](Process&) {
      Plain db;
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(db.whole());
        db.run(i % 2 == 0 ? "pragma wal_checkpoint(truncate)" : "pragma wal_checkpoint");
        ++checks;
      }
    });
    m.finish();
    EXPECT_EQ(committed + busy, 60);
    EXPECT_GT(committed, 40);
    EXPECT_EQ(checks, 10);
    m.start("last", [&](Process&) {
      Plain db;
      EXPECT_EQ(db.number("select count(*) from t"), committed);
    });
    m.finish();
    hashes.insert(m.world.trace_hash());
  }
  EXPECT_EQ(hashes.size(), 2u) << "the same seed is the same run";
}

// A process is killed at its n-th call of the disk: what it committed is there, what the zombie does afterwards is not, and the other process goes on.
TEST(SqliteOnSimDisk, AKilledProcessLosesNothingThatItCommittedAndSpoilsNothing) {
  for (std::uint32_t seed = 1; seed <= 120; ++seed) {
    Machines m(seed);
    m.world.strike = [&](Process& p) { m.world.kill(p, "test"); };
    std::int64_t committed = 0, others = 0;
    m.start("maker", [&](Process&) { EXPECT_EQ(Plain().run(kSchema), SQLITE_OK); });
    m.finish();
    Process& victim = m.start("victim", [&](Process& p) {
      Plain db, second;
      for (int i = 0; i < 40 && !p.dead; ++i) {
        const bool done = db.run("insert into t(who, filler) values('victim', randomblob(700))") == SQLITE_OK;
        if (p.dead) break;
        committed += done ? 1 : 0;
        if (i % 7 == 3) second.run("pragma wal_checkpoint(restart)");
      }
    });
    victim.strike_in = 20 + seed * 3;
    m.start("other", [&](Process&) {
      Plain db;
      for (int i = 0; i < 20; ++i) others += db.run("insert into t(who, filler) values('other', randomblob(90))") == SQLITE_OK ? 1 : 0;
      EXPECT_TRUE(db.whole()) << "seed " << seed;
    });
    m.finish();
    m.start("last", [&](Process&) {
      Plain db;
      const auto found = db.number("select count(*) from t where who='victim'");
      EXPECT_TRUE(found == committed || found == committed + 1) << "seed " << seed << ": " << found << " of " << committed;
      EXPECT_EQ(db.number("select count(*) from t where who='other'"), others) << "seed " << seed;
      EXPECT_TRUE(db.whole()) << "seed " << seed;
    });
    m.finish();
  }
}

// synchronous=FULL loses nothing with the power; NORMAL may lose the newest ones, and keeps a beginning, whole.
TEST(SqliteOnSimDisk, ThePowerTakesWhatSqliteSaysItMayTake) {
  int lost_tails = 0;
  for (std::uint32_t seed = 1; seed <= 160; ++seed) {
    Machines m(seed);
    const bool full = seed % 2 == 0;
    bool gone = false;
    m.world.strike = [&](Process& p) { m.world.kill(p, "power"), m.fs.power_loss(kEverybody), gone = true; };
    std::int64_t committed = 0;
    m.start("maker", [&](Process&) { EXPECT_EQ(Plain().run(kSchema), SQLITE_OK); });
    m.finish();
    m.fs.sync_folder("/data");
    Process& victim = m.start("victim", [&](Process& p) {
      Plain db;
      db.run(full ? "pragma synchronous=full" : "pragma synchronous=normal");
      db.run("pragma wal_autocheckpoint=30");
      for (int i = 0; i < 60 && !p.dead; ++i) {
        const std::string id = std::to_string(committed + 1);
        const bool done = db.run("insert into t(id, filler) values(" + id + ", randomblob(400))") == SQLITE_OK;
        if (p.dead) break;
        committed += done ? 1 : 0;
      }
    });
    victim.strike_in = 30 + seed * 2;
    m.finish();
    m.start("last", [&](Process&) {
      Plain db;
      EXPECT_TRUE(db.whole()) << "seed " << seed;
      const auto found = db.number("select count(*) from t");
      EXPECT_EQ(db.number("select coalesce(max(id), 0) from t"), found) << "seed " << seed;
      EXPECT_GE(found, full || !gone ? committed : 0) << "seed " << seed;
      EXPECT_LE(found, committed + 1) << "seed " << seed;
      lost_tails += found < committed ? 1 : 0;
    });
    m.finish();
  }
  EXPECT_GT(lost_tails, 5);
}

}  // namespace
}  // namespace onepen::sim
