#include "sim/sqlite_application.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sqlite/functions.h"
#include "sqlite/vfs.h"

namespace onepen::sim {
namespace {

constexpr std::int64_t kSumMask = 0x3fffffffffffffff;

// Large commits: of several parts (wire::kMaxPartImageBytes), and, most of them, of more frames than the first region of a wal-index holds (4,062). In some
// runs only, chosen by the seed and the commit and not drawn, so that all other runs, the kept ones too, stay what they are.
constexpr std::uint64_t kLargeRunEach = 23, kLargeRun = 6, kLargeEach = 11;
constexpr std::uint64_t kLeastLarge = 1'200'000, kMoreLarge = 1'600'000;
bool large(const SqliteRun& all, std::uint64_t id) { return all.run.settings.seed % kLargeRunEach == kLargeRun && id % kLargeEach == kLargeEach / 2; }
// It ends with the commit's id, at the far end of its overflow pages.
std::string write_large(std::uint64_t id) {
  return fmt::format(
      "create table if not exists large(one integer primary key check(one = 1), id integer, v blob);"
      "insert or replace into large values(1, {0}, cast(randomblob({1}) || printf('%016d', {0}) as blob))",
      id, kLeastLarge + chain(0, id) % kMoreLarge);
}

std::int64_t chained(std::int64_t before, std::uint64_t id) { return static_cast<std::int64_t>(chain(static_cast<std::uint64_t>(before), id)) & kSumMask; }

struct Statement {
  sqlite3_stmt* raw = nullptr;
  Statement(sqlite3* db, const char* sql) { code = sqlite3_prepare_v2(db, sql, -1, &raw, nullptr); }
  ~Statement() { sqlite3_finalize(raw); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  bool row() { return code == SQLITE_OK && (code = sqlite3_step(raw)) == SQLITE_ROW && (code = SQLITE_OK, true); }
  bool done() { return code == SQLITE_OK && (code = sqlite3_step(raw)) == SQLITE_DONE; }
  std::int64_t number(int column) { return sqlite3_column_int64(raw, column); }
  int code = SQLITE_ERROR;
};

}  // namespace

sqlite::OpenDatabase* Application::database() {
  sqlite::OpenDatabase* database = nullptr;
  if (sqlite3_file_control(db_, "main", sqlite::kDatabaseOp, &database) != SQLITE_OK) return nullptr;
  return database;
}

Token Application::token() {
  sqlite::OpenDatabase* database = this->database();
  return database == nullptr ? Token{} : database->status().owner.token;
}

void Application::told(const Reset& reset) {
  ++resets_;
  if (process_.dead) return;
  all_.run.world.note("reset", word(reset.kind), reset.ours.value, reset.current ? reset.current->token.epoch.value : 0);
  if (all_.run.world.tracing()) all_.run.world.note("reset.why", reset.message);
  if (resets_ > 1) all_.violated("I7", process_.name + " was told of its reset twice");
  all_.run.history.sometimes.reached(Sometime::sqlite_reset);
  if (reset.kind == ResetKind::diverged) all_.diverged.push_back(process_.name + ": " + reset.message);
}

bool Application::open(const Opening& how, int& code) {
  how_ = how;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  all_.run.world.note("open", how.uri);
  code = sqlite3_open_v2(how.uri.c_str(), &db_, kFlags, sqlite::kVfsName);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(db_, kBusyMs);
    code = run_sql(db_, "pragma temp_store=memory; pragma cache_size=20");
  }
  if (code == SQLITE_OK) code = run_sql(db_, how.full_sync ? "pragma synchronous=full" : "pragma synchronous=normal");
  if (code == SQLITE_OK) code = run_sql(db_, "pragma wal_autocheckpoint=" + std::to_string(random_.between(4, 60)));
  if (code == SQLITE_OK) code = sqlite::register_functions(db_);
  if (code != SQLITE_OK || process_.dead) {
    if (!process_.dead) note("open.refused", code);
    sqlite3_close(db_);
    db_ = nullptr;
    return false;
  }
  all_.run.history.sometimes.reached(Sometime::sqlite_opened);
  if (sqlite::OpenDatabase* database = this->database()) {
    database->on_reset([this, here = std::weak_ptr(listening_)](const Reset& reset) {
      if (here.lock()) told(reset);
    });
    found_pending_ = database->status().pending_commits > 0;
    if (found_pending_) all_.run.history.sometimes.reached(Sometime::took_over_pending);
  }
  return true;
}

void Application::acknowledge(std::uint64_t id, const Token& before, const Token& after, const Offset& covered) {
  CommitTold& told = all_.commits.at(id);
  if (!told.acknowledged) told.covered = covered, told.acknowledged_at = all_.run.world.now();
  told.acknowledged = true;
  if (before != after || before.incarnation.empty()) return;
  const auto [at, fresh] = all_.acknowledged_by.emplace(std::pair(before.incarnation, before.epoch.value), process_.name);
  if (!fresh && at->second != process_.name)
    all_.violated("I5", fmt::format("epoch {} of one incarnation: {} and {} were acknowledged under it", before.epoch.value, at->second, process_.name));
}

// One transaction: a row chained to the one before, and a few pages of churn. False: this handle is of no more use.
bool Application::commit(bool whole) {
  const bool was_reset = resets_ > 0;
  const Token before = token();
  const std::uint64_t id = ++all_.next_id;
  int code = run_sql(db_, "begin immediate");
  std::int64_t last = 0;
  if (code == SQLITE_OK) {
    code = run_sql(db_,
                   "create table if not exists entries(n integer primary key, id integer, who text, sum integer);"
                   "create table if not exists pad(k integer primary key, v blob)");
  }
  if (code == SQLITE_OK) {
    Statement newest(db_, "select sum from entries order by n desc limit 1");
    if (newest.row()) last = newest.number(0);
    code = newest.code == SQLITE_DONE ? SQLITE_OK : newest.code;
  }
  if (code == SQLITE_OK) {
    Statement insert(db_, "insert into entries(id, who, sum) values(?1, ?2, ?3)");
    if (insert.code == SQLITE_OK) {
      sqlite3_bind_int64(insert.raw, 1, static_cast<std::int64_t>(id));
      sqlite3_bind_text(insert.raw, 2, process_.name.c_str(), -1, SQLITE_TRANSIENT);
      sqlite3_bind_int64(insert.raw, 3, chained(last, id));
    }
    code = insert.done() ? SQLITE_OK : insert.code;
  }
  for (std::uint64_t i = random_.below(4); i > 0 && code == SQLITE_OK; --i) {
    code =
        run_sql(db_, random_.chance(200) ? fmt::format("delete from pad where k % 3 = {}", random_.below(3))
                                         : fmt::format("insert or replace into pad values({}, randomblob({}))", random_.below(30), random_.between(10, 900)));
  }
  if (code == SQLITE_OK && !whole && large(all_, id)) code = run_sql(db_, write_large(id));
  if (code == SQLITE_OK && !whole && random_.chance(30)) return run_sql(db_, "rollback"), true;
  if (code == SQLITE_OK) code = run_sql(db_, "commit");
  const Token after = token();
  if (process_.dead) return false;
  if (code == SQLITE_OK) {
    if (was_reset) all_.violated("I7", process_.name + " was reset and its handle committed again");
    const SimFs& fs = slot_.machine->local;
    CommitTold& told = all_.commits[id];
    told = CommitTold{process_.name, process_.machine, fs.boots(), how_.full_sync, false, {}, 0, all_.run.world.steps()};
    mine_.push_back(id);
    all_.run.world.note("committed", {}, id);
    if (!whole && large(all_, id)) {
      all_.large_commits.insert(id);
      all_.run.history.sometimes.reached(Sometime::commit_of_parts);
    }
    if (!how_.local) {
      sqlite::OpenDatabase* database = this->database();
      acknowledge(id, before, after, database == nullptr ? Offset{} : database->status().owner.acknowledged);
    } else {
      all_.run.history.sometimes.reached(Sometime::committed_locally);
    }
    return true;
  }
  note("commit.refused", code);
  if (sqlite3_get_autocommit(db_) == 0) run_sql(db_, "rollback");
  return code == SQLITE_BUSY || (code != SQLITE_AUTH && resets_ == 0 && random_.chance(700)) || (resets_ == 0 && random_.chance(500));
}

bool Application::synced() {
  const Epoch claimed_before = all_.run.history.newest_answered_claim;
  const std::vector<std::uint64_t> before = mine_;
  const Token token_before = token();
  Statement ask(db_, "select onepen_synced()");
  std::string offset;
  if (ask.row()) offset = reinterpret_cast<const char*>(sqlite3_column_text(ask.raw, 0));
  const Token token_after = token();
  if (process_.dead) return false;
  if (offset.empty()) {
    note("synced.refused", ask.code);
    return resets_ == 0;
  }
  covered_ = Offset{offset};
  all_.run.world.note("synced", offset, before.size());
  all_.run.history.sometimes.reached(Sometime::sqlite_synced);
  if (std::exchange(found_pending_, false)) all_.run.history.sometimes.reached(Sometime::pending_resent);
  if (!all_.run.history.rolled_back && token_after.epoch < claimed_before)
    all_.violated("I8", fmt::format("{} was synced as owner of epoch {}, but epoch {} was claimed before it asked", process_.name, token_after.epoch.value,
                                    claimed_before.value));
  for (const std::uint64_t id : before) acknowledge(id, token_before, token_after, Offset{offset});
  return true;
}

bool Application::check(sqlite3* db) {
  const Epoch claimed_before = all_.run.history.newest_answered_claim;
  const bool begins = sqlite3_get_autocommit(db) != 0;
  std::set<std::uint64_t> ids;
  const bool good = read_rows(all_, db, process_.name, ids);
  if (good && begins && !process_.dead && how_.confirmed && token().epoch < claimed_before)
    all_.violated("I8", fmt::format("{} read with reads=confirmed as owner of epoch {}, but epoch {} was claimed before", process_.name, token().epoch.value,
                                    claimed_before.value));
  return good;
}

void Application::checkpoint() {
  static constexpr std::array kModes = {"passive", "full", "restart", "truncate"};
  checkpoint(kModes.at(random_.below(kModes.size())));
}

void Application::checkpoint(const char* mode) {
  const int code = run_sql(db_, fmt::format("pragma wal_checkpoint({})", mode));
  all_.run.world.note("checkpoint", mode, static_cast<std::uint64_t>(code));
}

void Application::churn() {
  const int code = random_.chance(500) ? run_sql(db_, "vacuum") : run_sql(db_, "delete from pad where k > 10");
  all_.run.world.note("churn", {}, static_cast<std::uint64_t>(code));
}

// Another connection reads while this one commits; its read transaction stays open for a while, so checkpoints stop at it.
void Application::read_beside() {
  sqlite3* other = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(how_.uri.c_str(), &other, kFlags, sqlite::kVfsName) == SQLITE_OK) {
    sqlite3_busy_timeout(other, kBusyMs);
    auto beside = runtime_.spawn("reader", [&] {
      if (run_sql(other, "begin") != SQLITE_OK) return;
      if (check(other)) {
        runtime_.sleep_until(later(runtime_, random_.between(1, 900) * kMilli));
        check(other);
      }
      run_sql(other, "rollback");
    });
    for (int i = 0; i < 3 && commit(); ++i) {
    }
    checkpoint();
  }
  sqlite3_close(other);
}

void Application::work(int steps) {
  bool useful = true;
  for (int i = 0; i < steps && useful && !process_.dead && !all_.run.healing; ++i) {
    switch (random_.below(20)) {
      case 0: checkpoint(); break;
      case 1: churn(); break;
      case 2:
      case 3: useful = synced(); break;
      case 4: check(db_); break;
      case 5: read_beside(); break;
      case 6: runtime_.sleep_until(later(runtime_, random_.between(100, 3'000) * kMilli)); break;
      default: useful = commit();
    }
    if (random_.chance(500)) runtime_.sleep_until(later(runtime_, random_.between(1, 300) * kMilli));
  }
  if (process_.dead) return;
  if (resets_ > 0) commit();  // must be refused
  if (resets_ == 0 && random_.chance(500)) synced();
}

void Application::close() {
  if (db_ == nullptr) return;
  if (!process_.dead && random_.chance(200)) checkpoint();
  sqlite::OpenDatabase* database = this->database();
  const bool reset = database != nullptr && !process_.dead && database->current_reset().has_value();
  // Told on a thread of the handle, which may have a request to the home to end first.
  for (int i = 0; i < 20 && reset && !process_.dead && resets_ == 0; ++i) runtime_.sleep_until(later(runtime_, kSecond));
  if (reset && !process_.dead && resets_ != 1) all_.violated("I7", fmt::format("{} is reset and its listener was told {} times", process_.name, resets_));
  all_.run.world.note("closing");
  sqlite3_close(db_);
  db_ = nullptr;
}

namespace {

// The large row is whole, and of a commit that is there.
bool read_large(SqliteRun& all, sqlite3* db, const std::string& whose, const std::set<std::uint64_t>& ids) {
  Statement there(db, "select count(*) from sqlite_master where name='large'");
  if (!there.row()) return false;
  if (there.number(0) == 0) return true;
  Statement newest(db, "select id, cast(substr(v, -16) as text) = printf('%016d', id) from large");
  if (newest.row()) {
    const auto id = static_cast<std::uint64_t>(newest.number(0));
    if (newest.number(1) != 1 || ids.count(id) == 0) all.violated("I9", fmt::format("the large row of commit {} in the database of {} is torn", id, whose));
  }
  if (newest.code == SQLITE_CORRUPT) all.violated("I9", fmt::format("the large row in the database of {} is malformed", whose));
  return newest.code == SQLITE_OK || newest.code == SQLITE_DONE;
}

}  // namespace

bool read_rows(SqliteRun& all, sqlite3* db, const std::string& whose, std::set<std::uint64_t>& ids) {
  Statement there(db, "select count(*) from sqlite_master where name='entries'");
  if (!there.row()) return false;
  if (there.number(0) == 0) return true;
  Statement rows(db, "select n, id, sum from entries order by n");
  std::int64_t sum = 0, n = 0;
  while (rows.row()) {
    const auto id = static_cast<std::uint64_t>(rows.number(1));
    sum = chained(sum, id);
    if (rows.number(0) != ++n || rows.number(2) != sum) {
      all.violated("I9", fmt::format("the database of {} does not pass its own chain at row {} (n {}, id {})", whose, n, rows.number(0), id));
      return false;
    }
    if (!ids.insert(id).second) all.violated("I3", fmt::format("commit {} is in the database of {} twice", id, whose));
  }
  if (rows.code == SQLITE_DONE && !read_large(all, db, whose, ids)) return false;
  if (rows.code == SQLITE_CORRUPT || rows.code == SQLITE_NOTADB) all.violated("I9", fmt::format("the database of {} is malformed", whose));
  return rows.code == SQLITE_DONE;
}

}  // namespace onepen::sim
