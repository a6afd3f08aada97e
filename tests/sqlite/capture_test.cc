// What SQLite does to a database is what the stream says: every kind of transaction, page size, checkpoint and vacuum, rebuilt elsewhere.
#include "tests/sqlite/capture_support.h"

namespace onepen::testing {
namespace {

constexpr const char* kSeries = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ";

std::string insert_many(int count, int bytes) {
  return std::string(kSeries) + std::to_string(count) + ") INSERT INTO t(x) SELECT randomblob(" + std::to_string(bytes) + ") FROM n";
}

TEST_F(CaptureTest, ANewDatabaseIsInTheStreamAndSeenElsewhere) {
  {
    const Sql db(uri());
    EXPECT_EQ(db.ok("PRAGMA journal_mode"), "wal");
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('from one')");
    EXPECT_FALSE(db.ok("SELECT onepen_synced()").empty());
    expect_rebuilds(db);
  }
  const Sql elsewhere(uri("b"));
  EXPECT_EQ(elsewhere.ok("SELECT x FROM t"), "from one");
}

TEST_F(CaptureTest, SavepointsRollbacksAndSpills) {
  const Sql db(uri());
  db.ok("PRAGMA cache_size = 5; CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)");
  db.ok("BEGIN; " + insert_many(300, 900) + "; SAVEPOINT a; " + insert_many(300, 900) + "; ROLLBACK TO a; " + insert_many(20, 900) + "; COMMIT");
  expect_rebuilds(db);
  db.ok("BEGIN; " + insert_many(500, 500) + "; DELETE FROM t WHERE id % 3 = 0; ROLLBACK");
  db.ok("BEGIN; SAVEPOINT a; DELETE FROM t WHERE id % 2 = 0; RELEASE a; UPDATE t SET x = 1 WHERE id % 7 = 0; COMMIT");
  expect_rebuilds(db);
  EXPECT_EQ(db.ok("PRAGMA integrity_check"), "ok");
}

TEST_F(CaptureTest, SeveralConnectionsShareOneOwner) {
  const Sql one(uri()), two(uri()), three(uri());
  one.ok("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
  three.ok("BEGIN; SELECT count(*) FROM t");
  for (int i = 0; i < 20; ++i) (i % 2 == 0 ? one : two).ok("INSERT INTO t(x) VALUES (" + std::to_string(i) + ")");
  EXPECT_EQ(three.ok("SELECT count(*) FROM t"), "0");
  three.ok("COMMIT");
  EXPECT_EQ(three.ok("SELECT count(*) FROM t"), "20");
  expect_rebuilds(two);
  const auto records = world().handle()->records(*StreamName::parse("app"));
  EXPECT_EQ(std::count_if(records.begin(), records.end(), [](const core::Record& r) { return r.kind == core::RecordKind::claim; }), 1);
}

class EveryPageSize : public CaptureTest, public ::testing::WithParamInterface<int> {};

TEST_P(EveryPageSize, EveryCheckpointAndVacuum) {
  const Sql db(uri("a", "&page_size=" + std::to_string(GetParam()))), reader(uri());
  EXPECT_EQ(db.ok("PRAGMA page_size"), std::to_string(GetParam()));
  db.ok("PRAGMA wal_autocheckpoint = 20; CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)");
  for (const char* mode : {"PASSIVE", "FULL", "RESTART", "TRUNCATE"}) {
    db.ok(insert_many(60, 700));
    reader.ok("BEGIN; SELECT count(*) FROM t");
    db.ok("DELETE FROM t WHERE id % 3 = 0");
    reader.ok("COMMIT");
    db.ok(std::string("PRAGMA wal_checkpoint(") + mode + ")");
    db.ok(insert_many(5, 300));
  }
  expect_rebuilds(db);
  for (const char* mode : {"full", "incremental", "none"}) {
    db.ok(std::string("PRAGMA auto_vacuum = ") + mode + "; VACUUM");
    db.ok(insert_many(50, 2000));
    db.ok("DELETE FROM t WHERE id % 2 = 0");
    db.ok("PRAGMA incremental_vacuum(3)");
    db.ok(insert_many(10, 2000));
    expect_rebuilds(db);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, EveryPageSize, ::testing::Values(512, 1024, 2048, 4096, 8192, 16384, 32768, 65536));

TEST_F(CaptureTest, AttachedPlainFilesAndASecondDatabaseOfOurs) {
  const Sql db(uri());
  const std::string plain = world().folder() + "/plain.db";
  db.ok("CREATE TABLE t(x); ATTACH '" + plain + "' AS p; CREATE TABLE p.t(x); INSERT INTO p.t VALUES ('plain')");
  db.ok("ATTACH '" + world().uri("other", "a") + "' AS o; CREATE TABLE o.t(x)");
  db.ok("BEGIN; INSERT INTO t VALUES (1); INSERT INTO o.t VALUES (2); INSERT INTO p.t VALUES (3); COMMIT");
  EXPECT_FALSE(db.ok("SELECT onepen_synced('o')").empty());
  EXPECT_EQ(db.run("SELECT onepen_synced('p')").code, SQLITE_ERROR);
  expect_rebuilds(db);
  world().rebuild("other", world().folder() + "/other-rebuilt");
  const Sql other(world().folder() + "/other-rebuilt");
  EXPECT_EQ(other.ok("SELECT x FROM t"), "2");
  EXPECT_EQ(Sql(plain).ok("SELECT count(*) FROM t"), "2");
}

TEST_F(CaptureTest, ABlobOf64MegabytesIsOneCommitInManyParts) {
  const Sql db(uri());
  db.ok("CREATE TABLE t(x)");
  db.ok("INSERT INTO t VALUES (randomblob(64 << 20))");
  db.ok("INSERT INTO t VALUES ('after')");
  expect_rebuilds(db);
}

TEST_F(CaptureTest, ShrinkingAndGrowingAgainLeavesNoPageUnsaid) {
  const Sql db(uri());
  db.ok("PRAGMA auto_vacuum = full; VACUUM; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(x)");
  for (int round = 0; round < 6; ++round) {
    db.ok(insert_many(400, 3000));
    db.ok("DELETE FROM t");
    db.ok("INSERT INTO t VALUES (zeroblob(900000)); UPDATE t SET x = zeroblob(10)");
    expect_rebuilds(db);
  }
}

TEST_F(CaptureTest, AHotWalIsTakenUp) {
  {
    Sql db(uri());
    db.ok("CREATE TABLE t(x); INSERT INTO t VALUES (1)");
    int keep = 1;
    sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  }
  const Sql again(uri());
  EXPECT_EQ(again.ok("SELECT x FROM t"), "1");
  again.ok("INSERT INTO t VALUES (2)");
  expect_rebuilds(again);
}

TEST_F(CaptureTest, WhatCannotBeCapturedIsRefusedClearly) {
  const Sql db(uri());
  db.ok("CREATE TABLE t(x)");
  for (const char* pragma : {"PRAGMA journal_mode = delete", "PRAGMA main.journal_mode = memory", "PRAGMA locking_mode = exclusive"}) {
    const SqlResult result = db.run(pragma);
    EXPECT_EQ(result.code, SQLITE_ERROR) << pragma;
    EXPECT_NE(result.message.find("refused"), std::string::npos) << result.message;
  }
  db.ok("PRAGMA mmap_size = 1000000; INSERT INTO t VALUES (1)");
  expect_rebuilds(db);
}

TEST_F(CaptureTest, AWrongParameterIsRefusedWithTheKnownOnes) {
  Sql db;
  for (const char* more :
       {"&take_over=never", "&takeover=maybe", "&durability=sometimes", "&max_pending_bytes=1X", "&max_pending_bytes=1", "&offline=2", "&page_size=1000",
        "&commit_timeout=soon", "&offline=1", "&reads=fast", "&nolock=1", "&max_linger=2m", "&max_linger=-1", "&max_objects_per_second=0",
        "&max_objects_per_second=fast", "&max_objects_per_second=1e3", "&max_objects_per_second=20000", "&max_objects_per_second=0.5&commit_timeout=1s"}) {
    EXPECT_NE(db.open(uri("a", more)), SQLITE_OK) << more;
    const std::string sentence = sqlite::last_refusal();
    EXPECT_GT(sentence.size(), 30u) << more;
  }
  EXPECT_NE(db.open(uri("a", "&take_over=never")), SQLITE_OK);
  EXPECT_NE(sqlite::last_refusal().find("takeover"), std::string::npos);
  EXPECT_NE(db.open(world().uri("../x", "a")), SQLITE_OK);
  EXPECT_NE(sqlite::last_refusal().find("x"), std::string::npos);
}

// The two steps in which SQLite opens a database, with time in between for another thread's last connection to close.
struct TwoSteps {
  sqlite3_vfs* vfs = sqlite3_vfs_find("onepen");
  std::vector<char> path;
  sqlite3_filename full = nullptr;
  sqlite3_file* file = nullptr;
  bool opened = false;

  int look_up(const std::string& name, const std::string& cache_root) {
    path.resize(static_cast<std::size_t>(vfs->mxPathname) + 1);
    const char* parameters[] = {"vfs", "onepen", "home", "memory:", "cache_root", cache_root.c_str()};
    sqlite3_filename given = sqlite3_create_filename(name.c_str(), "", "", 3, parameters);
    const int rc = vfs->xFullPathname(vfs, given, static_cast<int>(path.size()), path.data());
    sqlite3_free_filename(given);
    return rc;
  }
  int open() {
    full = sqlite3_create_filename(path.data(), "", "", 0, nullptr);
    file = static_cast<sqlite3_file*>(sqlite3_malloc(vfs->szOsFile));
    int flags = 0;
    const int rc = vfs->xOpen(vfs, full, file, SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &flags);
    opened = rc == SQLITE_OK;
    return rc;
  }
  ~TwoSteps() {
    if (opened) file->pMethods->xClose(file);
    sqlite3_free(file);
    if (full != nullptr) sqlite3_free_filename(full);
  }
};

// Opened as a plain file, the copy would take writes that no stream ever sees, and tell the application that they are committed.
TEST_F(CaptureTest, AnOpenThatRacesWithTheLastCloseIsNeverAPlainFile) {
  auto last = std::make_unique<Sql>(uri());
  last->ok("CREATE TABLE t(x)");
  TwoSteps racing;
  ASSERT_EQ(racing.look_up("app", world().folder() + "/a"), SQLITE_OK);
  last.reset();
  ASSERT_EQ(racing.open(), SQLITE_OK) << sqlite::last_refusal();
  sqlite::OpenDatabase* database = nullptr;
  EXPECT_EQ(racing.file->pMethods->xFileControl(racing.file, sqlite::kDatabaseOp, &database), SQLITE_OK);
  ASSERT_NE(database, nullptr);
  EXPECT_EQ(database->status().owner.token.epoch, Epoch{2});
}

TEST_F(CaptureTest, AnOpenByTheCopysPathThatRacesWithTheLastCloseIsRefused) {
  auto last = std::make_unique<Sql>(uri());
  last->ok("CREATE TABLE t(x)");
  TwoSteps by_name, by_path;
  ASSERT_EQ(by_name.look_up("app", world().folder() + "/a"), SQLITE_OK);
  ASSERT_EQ(by_path.look_up(by_name.path.data(), world().folder() + "/a"), SQLITE_OK);
  EXPECT_STREQ(by_path.path.data(), by_name.path.data());
  last.reset();
  EXPECT_EQ(by_path.open(), SQLITE_CANTOPEN);
  EXPECT_NE(sqlite::last_refusal().find("closed by another thread"), std::string::npos) << sqlite::last_refusal();
}

TEST_F(CaptureTest, SentencesAreUtf8WhateverIsNamed) {
  Sql bad;
  EXPECT_NE(bad.open("file:%c3%28%ff?vfs=onepen&home=memory:&cache_root=" + world().folder() + "/a"), SQLITE_OK);
  EXPECT_EQ(sqlite::last_refusal().rfind("'\xEF\xBF\xBD(\xEF\xBF\xBD' is not a database name", 0), 0u) << sqlite::last_refusal();
  EXPECT_EQ(sqlite::as_utf8("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x96\x8A"), "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x96\x8A");
  EXPECT_EQ(sqlite::as_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(sqlite::as_utf8("\xE6\x97"), "\xEF\xBF\xBD\xEF\xBF\xBD");                       // cut short
}

// PRAGMAs that name no database reach attached ones without the VFS being asked. Nothing may be told to be committed that no stream has.
class Attached : public CaptureTest, public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(Attached, ModesOfTheConnectionDoNotGetPastTheCapture) {
  const auto [before, after] = GetParam();
  Sql host("");
  host.ok(before);
  if (host.run("ATTACH '" + uri() + "' AS a; CREATE TABLE a.t(x); INSERT INTO a.t VALUES('first')").code != SQLITE_OK) {
    EXPECT_NE(sqlite::last_refusal().find("refused"), std::string::npos) << sqlite::last_refusal();
  }
  std::vector<std::string> told{"first"};
  static_cast<void>(host.run(after));
  const std::string rows = host.run("SELECT count(*) FROM a.t").one();
  for (const char* value : {"second", "third"}) {
    if (host.run(std::string("INSERT INTO a.t VALUES('") + value + "')").code == SQLITE_OK) told.emplace_back(value);
    else EXPECT_NE(sqlite::last_refusal().find("refused"), std::string::npos) << sqlite::last_refusal();
  }
  if (rows.empty()) told.clear();
  host.close();
  Sql other(uri("b"));  // from the stream alone
  const bool table = other.ok("SELECT count(*) FROM sqlite_schema") == "1";
  std::vector<std::string> there;
  if (table)
    for (const auto& row : other.run("SELECT x FROM t ORDER BY rowid").rows) there.push_back(row[0]);
  EXPECT_EQ(there, told);
  Sql again(uri());
  EXPECT_EQ(again.run("SELECT count(*) FROM sqlite_schema").code, SQLITE_OK);
}
INSTANTIATE_TEST_SUITE_P(Pragmas, Attached,
                         ::testing::Values(std::pair{"PRAGMA locking_mode=exclusive", "SELECT 1"}, std::pair{"SELECT 1", "PRAGMA locking_mode=exclusive"},
                                           std::pair{"SELECT 1", "PRAGMA journal_mode=off"}, std::pair{"SELECT 1", "PRAGMA journal_mode=memory"},
                                           std::pair{"SELECT 1", "PRAGMA journal_mode=delete"}, std::pair{"PRAGMA journal_mode=off", "SELECT 1"}));

TEST_F(CaptureTest, AFencedHandleOfAnAttachingConnectionIsStoppedWhateverItsLockingMode) {
  Sql host("");
  host.ok("ATTACH '" + uri() + "' AS a");
  host.ok("CREATE TABLE a.t(x)");
  static_cast<void>(host.run("PRAGMA locking_mode=exclusive"));
  static_cast<void>(host.run("INSERT INTO a.t VALUES(1)"));
  Sql other(uri("b"));
  other.ok("INSERT INTO t VALUES('other')");
  EXPECT_EQ(host.run("INSERT INTO a.t VALUES(2)").code, SQLITE_AUTH);
  EXPECT_EQ(host.run("SELECT onepen_synced('a')").code, SQLITE_AUTH);
  EXPECT_EQ(host.run("SELECT * FROM a.t").code, SQLITE_AUTH);
  static_cast<void>(host.run("PRAGMA locking_mode=normal"));
  EXPECT_EQ(host.run("SELECT * FROM a.t").code, SQLITE_AUTH);
}

// SQLite commits several WAL databases one after the other. The sentence must not say that the transaction is nowhere when a part of it landed.
TEST_F(CaptureTest, ARefusedPartOfACommitOfTwoDatabasesNamesThePartThatLanded) {
  Sql host(world().uri("one", "a"));
  host.ok("ATTACH '" + world().uri("two", "a") + "' AS b");
  host.ok("CREATE TABLE t(x); CREATE TABLE b.t(x)");
  Sql other(world().uri("two", "other"));
  other.ok("INSERT INTO t VALUES('other')");
  EXPECT_EQ(host.run("BEGIN; INSERT INTO t VALUES('both'); INSERT INTO b.t VALUES('both'); COMMIT").code, SQLITE_AUTH);
  EXPECT_NE(sqlite::last_refusal().find("its part in 'one' was committed before"), std::string::npos) << sqlite::last_refusal();
  static_cast<void>(host.run("ROLLBACK"));
  EXPECT_EQ(host.ok("SELECT x FROM t"), "both");
  EXPECT_EQ(other.ok("SELECT group_concat(x) FROM t"), "other");
  expect_rebuilds(host, "one");
  expect_rebuilds(other, "two");
}

}  // namespace
}  // namespace onepen::testing
