// Copies whose WAL is in doubt: a sync failed, another WAL lies beside the database, or frames of it are damaged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/guard.h"
#include "sqlite/copy_pending_support.h"

namespace onepen::sqlite::testing {
namespace {

class CopyDoubtSizes : public SizesAndBoots {};
INSTANTIATE_TEST_SUITE_P(PageSizes, CopyDoubtSizes, SizesAndBoots::all(), SizesAndBoots::name);

// ---- a copy in doubt

// A checkpoint wrote pages of pending commits into the database file, and its sync failed: what of it is on the disk is not known, but the WAL has all of it.
TEST_P(CopyDoubtSizes, PendingCommitsStayWhenASyncOfTheDatabaseFailed) {
  const TempFolder folder;
  PlainSource source(folder.path(), GetParam().page_size);
  Machine m(folder.path());
  m.begin(source);
  const auto sql = life();
  for (std::size_t i = 0; i < sql.size(); ++i) {
    source.exec(sql[i]);
    m.commit(sql[i]);
    if (i < 3) m.acknowledge(source.commits()[i + 1]);
    if (i == 8) {
      m.hold();
      run_sql(m.db.get(), "PRAGMA wal_checkpoint(PASSIVE)");
      ASSERT_TRUE(m.copy->doubt("a sync failed"));
    }
  }
  m.acknowledge(source.commits()[4]);  // the sender may have been about to write this down: the doubt stays
  m.kill();
  // Some of what the checkpoint wrote never came to the disk.
  std::string db = slurp(m.folder() + "/db");
  if (db.size() >= std::size_t{2} * GetParam().page_size) db.replace(GetParam().page_size, GetParam().page_size, GetParam().page_size, '\x2a');
  spill(m.folder() + "/db", db);
  if (GetParam().rebooted) m.reboot();
  m.disk.database_bytes = m.disk.wal_synced = 0;
  m.acquire();
  EXPECT_NE(m.disk.database_bytes, 0u) << "it is read whole";
  EXPECT_EQ(m.disk.wal_synced, std::filesystem::file_size(m.folder() + "/db-wal")) << "all of it was written again: nothing else brings it to the disk";
  EXPECT_TRUE(m.salvaged().empty()) << (m.lines.empty() ? "" : m.lines.back());
  EXPECT_EQ(m.copy->state(), source.commits()[4].state);
  EXPECT_EQ(m.copy->pending().size(), sql.size() - 4);
  m.kill();
  m.disk.database_bytes = 0;
  m.acquire();
  EXPECT_EQ(m.disk.database_bytes, 0u) << "once is enough";
  read_on(*m.copy, source);
  expect_is_source(*m.copy, source);
}

TEST(CopyDoubt, ADatabaseThatLostMoreThanItsWalHasGoesToSalvageWithWhatIsUnsent) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine m(folder.path());
  live(m, source, 12, 12);
  m.restart_wal("RESTART");
  m.commit("UPDATE t SET x = 'pending' WHERE id = 1");
  ASSERT_TRUE(m.copy->doubt("a sync failed"));
  m.kill();
  std::string db = slurp(m.folder() + "/db");
  db.replace(db.size() - 1024, 1024, 1024, '\x2a');
  spill(m.folder() + "/db", db);
  m.acquire();
  EXPECT_EQ(m.copy->state(), CommitState{});
  ASSERT_EQ(m.salvaged().size(), 1u);
  EXPECT_EQ(m.salvaged()[0].unsent.size(), 1u);
  EXPECT_NE(m.salvaged()[0].why.find("a sync of it had failed"), std::string::npos) << m.salvaged()[0].why;
}

// Also when nothing is pending: later commits would stand behind frames that a loss of power takes.
TEST(CopyDoubt, ItsWalIsWrittenAgainThoughAllOfItIsInTheStream) {
  for (const bool guarded : {true, false}) {
    const TempFolder folder;
    PlainSource source(folder.path(), 1024);
    Machine m(folder.path());
    m.begin(source);
    source.exec("CREATE TABLE t(x)");
    m.commit("CREATE TABLE t(x)");
    m.acknowledge(source.commits().back());
    ASSERT_TRUE(m.copy->doubt("a sync failed"));
    m.kill();
    m.disk.wal_synced = 0;
    set_guard(Guard::doubt_written_again, guarded);
    m.acquire();
    set_guard(Guard::doubt_written_again, true);
    EXPECT_EQ(m.disk.wal_synced, guarded ? std::filesystem::file_size(m.folder() + "/db-wal") : 0u);
  }
}

// Killed between the sync that failed and writing down that it did.
TEST(CopyDoubt, AWalWithPendingCommitsIsWrittenAgainInAnyCase) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine m(folder.path());
  m.begin(source);
  m.commit("CREATE TABLE t(x)");
  m.kill();
  m.disk.wal_synced = 0;
  m.acquire();
  EXPECT_EQ(m.copy->pending().size(), 1u);
  EXPECT_EQ(m.disk.wal_synced, std::filesystem::file_size(m.folder() + "/db-wal"));
}

// ---- a WAL that was gone meanwhile

// B is made and its process killed; its WAL is away while C is made, and back after C was closed.
struct OldWal {
  TempFolder folder;
  PlainSource source{folder.path(), 1024};
  Machine m{folder.path()};
  std::string wal;

  void commit(const std::string& sql, bool acknowledge) {
    source.exec(sql);
    m.commit(sql);
    if (acknowledge) m.acknowledge(source.commits().back());
  }
  void close() {
    m.restart_wal("TRUNCATE");
    m.db.reset();
    m.copy.reset();
    m.begun.reset();
    ASSERT_FALSE(file_exists(m.folder() + "/db-wal"));
  }
  void again() {
    m.acquire();
    read_on(*m.copy, source);
    m.open();
  }
  // acknowledged: B is in the stream.
  void make(bool acknowledged) {
    m.begin(source);
    commit("CREATE TABLE t(x)", true);
    commit("INSERT INTO t VALUES ('A')", true);
    close();
    again();
    if (acknowledged) commit("INSERT INTO t VALUES ('B')", true);
    else m.commit("INSERT INTO t VALUES ('B')");
    m.kill();
    wal = slurp(m.folder() + "/db-wal");
    std::filesystem::remove(m.folder() + "/db-wal");
    again();
    commit("INSERT INTO t VALUES ('C')", true);
    close();
  }
};

TEST(CopyOldWal, ItsCommitsAreNotSentOverWhatWasCommittedSince) {
  for (const bool acknowledged : {true, false}) {
    for (const bool rebooted : {true, false}) {
      OldWal o;
      o.make(acknowledged);
      spill(o.m.folder() + "/db-wal", o.wal);
      if (rebooted) o.m.reboot();
      o.m.acquire();
      EXPECT_TRUE(o.m.copy->pending().empty()) << acknowledged << rebooted;
      ASSERT_EQ(o.m.salvaged().size(), 1u) << acknowledged << rebooted;
      EXPECT_EQ(o.m.salvaged()[0].kind, "diverged");
      EXPECT_NE(o.m.salvaged()[0].why.find("does not belong to this database file"), std::string::npos) << o.m.salvaged()[0].why;
      EXPECT_EQ(o.m.salvaged()[0].unsent.size(), 1u);
      EXPECT_FALSE(o.m.salvaged()[0].unsent_known);
      read_on(*o.m.copy, o.source);
      expect_is_source(*o.m.copy, o.source);
    }
  }
}

TEST(CopyOldWal, OneThatOnlyRepeatsWhatTheDatabaseHasIsTaken) {
  OldWal o;
  o.m.begin(o.source);
  o.commit("CREATE TABLE t(x)", true);
  o.commit("INSERT INTO t VALUES ('A')", true);
  o.wal = slurp(o.m.folder() + "/db-wal");
  o.close();
  o.again();
  o.m.db.reset();
  o.m.copy.reset();
  // A loss of power undid the deletion.
  spill(o.m.folder() + "/db-wal", o.wal);
  o.m.reboot();
  o.m.acquire();
  EXPECT_TRUE(o.m.salvaged().empty()) << o.m.lines.back();
  EXPECT_EQ(o.m.copy->state(), o.source.state());
  EXPECT_TRUE(o.m.copy->pending().empty());
  o.m.open();
  o.m.commit("INSERT INTO t VALUES ('B')");
  o.source.exec("INSERT INTO t VALUES ('B')");
  o.m.kill();
  o.m.reboot();
  o.m.acquire();
  EXPECT_TRUE(o.m.salvaged().empty()) << o.m.lines.back();
  EXPECT_EQ(o.m.copy->pending().size(), 1u) << "it is this database's now";
  read_on(*o.m.copy, o.source);
  expect_is_source(*o.m.copy, o.source);
}

// `cp -al` of a closed copy: db, pages and state are one file under two names, each folder has a WAL of its own.
TEST(CopyOldWal, ClonesByHardLinksThatAreUsedInTurn) {
  OldWal o;
  o.m.begin(o.source);
  o.commit("CREATE TABLE t(x)", true);
  o.close();
  Machine other(o.folder.path());
  other.place.cache_root += "-clone";
  std::filesystem::create_directories(other.folder());
  for (const char* file : {"/db", "/pages", "/state"}) std::filesystem::create_hard_link(o.m.folder() + file, other.folder() + file);
  const auto turn = [&](Machine& m, int n, bool kill) {
    m.acquire();
    EXPECT_TRUE(m.copy->pending().empty());
    read_on(*m.copy, o.source);
    EXPECT_EQ(m.copy->state(), o.source.state());
    m.open();
    const std::string sql = fmt::format("INSERT INTO t VALUES ({})", n);
    o.source.exec(sql);
    m.commit(sql);
    m.acknowledge(o.source.commits().back());
    if (kill) return m.kill();
    m.restart_wal("TRUNCATE");
    m.db.reset();
    m.copy.reset();
    m.begun.reset();
  };
  turn(o.m, 1, true);
  turn(other, 2, false);
  turn(o.m, 3, true);
  turn(other, 4, true);
  turn(o.m, 5, false);
  o.m.acquire();
  read_on(*o.m.copy, o.source);
  expect_is_source(*o.m.copy, o.source);
}

// ---- damage in front of what is unsent

TEST(CopyDamage, UnsentCommitsBehindADamagedFrameGoToSalvage) {
  for (const bool header : {false, true}) {
    for (const bool rebooted : {false, true}) {
      const TempFolder folder;
      PlainSource source(folder.path(), 1024);
      Machine m(folder.path());
      live(m, source, 8, 5);
      m.kill();
      const std::string path = m.folder() + "/db-wal";
      std::string wal = slurp(path);
      wal[header ? 17 : kWalHeaderBytes + 2 * (kWalFrameHeaderBytes + 1024) + 100] ^= 0x41;
      spill(path, wal);
      if (rebooted) m.reboot();
      m.acquire();
      EXPECT_EQ(m.copy->state(), CommitState{});
      ASSERT_EQ(m.salvaged().size(), 1u) << header;
      const SalvageEntry entry = m.salvaged()[0];
      EXPECT_EQ(entry.kind, "diverged");
      EXPECT_NE(entry.why.find(header ? "damaged in its header" : "damaged at frame 3"), std::string::npos) << entry.why;
      EXPECT_NE(entry.why.find("at least 3 commits"), std::string::npos) << entry.why;
      EXPECT_FALSE(entry.unsent_known);
      ASSERT_EQ(entry.unsent.size(), 3u);
      EXPECT_EQ(entry.unsent[0].ordinal, source.commits()[6].state.ordinal);
      EXPECT_EQ(entry.unsent[2].page_count, source.commits()[8].state.page_count);
      EXPECT_EQ(slurp(entry.folder + "/db-wal"), wal) << "all of it is kept";
      read_on(*m.copy, source);
      expect_is_source(*m.copy, source);
    }
  }
}

TEST(CopyDamage, WithoutAnythingUnsentBehindItTheStreamHasAll) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine m(folder.path());
  live(m, source, 8, 8);
  m.kill();
  std::string wal = slurp(m.folder() + "/db-wal");
  wal[wal.size() - 100] ^= 0x41;
  spill(m.folder() + "/db-wal", wal);
  m.acquire();
  EXPECT_TRUE(m.salvaged().empty()) << m.lines.back();
  EXPECT_TRUE(m.copy->behind());
  read_on(*m.copy, source);
  expect_is_source(*m.copy, source);
}

// As after a power loss at synchronous=NORMAL: what was written last may be there without what was written before.
TEST(CopyDamage, AmongTheUnsentCommitsWhatCanBeReadIsPendingAndTheRestIsTold) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine m(folder.path());
  live(m, source, 8, 5);
  m.kill();
  const std::string path = m.folder() + "/db-wal";
  const auto disk = io::make_posix_disk();
  const auto content = read_wal(*disk, path);
  ASSERT_TRUE(content);
  int commits = 0;
  std::size_t end_of_sixth = 0;
  while (commits < 6) commits += content->frames[end_of_sixth++].page_count_after != 0 ? 1 : 0;
  std::string wal = slurp(path);
  wal[content->frames[end_of_sixth].image_at + 100] ^= 0x41;
  spill(path, wal + std::string(70 * (kWalFrameHeaderBytes + 1024), '\7'));  // as if an older WAL had been longer
  m.acquire();
  EXPECT_EQ(m.copy->pending().size(), 1u);
  EXPECT_TRUE(m.salvaged().empty());
  const std::string told = "behind its last whole commit, frame " + std::to_string(end_of_sixth) + ", where at least 2 more commits";
  EXPECT_TRUE(std::any_of(m.lines.begin(), m.lines.end(), [&](const std::string& line) { return line.find(told) != std::string::npos; }));
}

// Another image of the database written over the very file, while its owner ran or after it: the inode is the same, and so is the boot.
TEST(CopyDamage, AnotherImageOverTheSameFileIsNotBelieved) {
  for (const bool garbage : {true, false}) {
    const TempFolder folder;
    PlainSource source(folder.path(), 1024);
    Machine m(folder.path());
    m.begin(source);
    auto sql = life();
    sql.resize(8);
    sql.emplace_back("CREATE TABLE another(y)");  // in the WAL, and nothing else is
    std::string older;
    for (std::size_t i = 0; i < sql.size(); ++i) {
      source.exec(sql[i]);
      m.commit(sql[i]);
      m.acknowledge(source.commits().back());
      if (i != 3 && i != 7) continue;
      m.restart_wal("TRUNCATE");
      if (i == 3) older = slurp(m.copy->db_path());
    }
    m.kill();
    const std::string path = m.folder() + "/db", now = slurp(path);
    ASSERT_NE(older, now);
    spill(path, garbage ? std::string(now.size(), 'x') : older + now.substr(older.size()));
    m.acquire();
    ASSERT_EQ(m.salvaged().size(), 1u) << garbage;
    EXPECT_EQ(m.salvaged()[0].kind, "diverged");
    read_on(*m.copy, source);
    expect_is_source(*m.copy, source);
  }
}

}  // namespace
}  // namespace onepen::sqlite::testing
