// How far a follower is behind, and what followers cost the writer (engineering.md, "Benchmarks": at 1,000 commits a second p99 <= 50 ms; 1,000 readers without slowing the
// writer by more than 10 %).
//
//   lag       one process commits at a rate, each row with the time at which its INSERT began; another follows, and one of its threads looks without a pause: the lag of a row is
//             from that time to the end of the first look that shows it, the COMMIT included. Eight more threads hold read transactions for half a second each: they are never
//             made to wait (busy: looks that were), and never see half a transaction (torn). Beside it plain SQLite: the same two processes on one file.
//   crowd     the writer commits at a tenth of its pace, alone and with a thousand followers of the directory, each with a copy of its own: its p50 with them over without.
#include <onepen/follower.h>
#include <sqlite3.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "child.h"
#include "opened.h"

namespace {
using namespace onepen;
using namespace onepen::bench;
using namespace std::chrono_literals;

constexpr auto kHeld = 500ms;
constexpr int kHolders = 8;

struct Work {
  std::string role, folder, durability;
  std::int64_t rate = 0, seconds = 0, followers = 0;
  std::string home() const { return folder + "/home"; }
  bool plain() const { return durability == "plain"; }
};

void run_sql(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) give_up(sql + ": " + sqlite3_errmsg(db));
}

sqlite3* open_plain(const std::string& file, int flags) {
  sqlite3* db = nullptr;
  if (sqlite3_open_v2(file.c_str(), &db, flags, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db));
  return db;
}

// ---- the writer: a transaction of two rows in two tables, at a rate

int run_writer(const Work& work) {
  std::unique_ptr<Opened> opened;
  sqlite3* db = nullptr;
  if (work.plain()) {
    db = open_plain(work.folder + "/plain.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    run_sql(db, "PRAGMA journal_mode=wal; PRAGMA synchronous=NORMAL");
  } else {
    OpenOptions options;
    options.cache_root = work.folder + "/writer";
    options.durability = work.durability == "local" ? Durability::local : Durability::replicated;
    opened = std::make_unique<Opened>("file://" + work.home(), options);
    db = opened->connection();
    run_sql(db, "PRAGMA synchronous=NORMAL");
  }
  run_sql(db, "CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, at INTEGER, v); CREATE TABLE IF NOT EXISTS last(n)");
  if (sqlite3_exec(db, "INSERT INTO last SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM last)", nullptr, nullptr, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db));
  if (opened) (void)opened->follow();  // the tables are there for whoever begins to follow now
  std::cout << "{}" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  sqlite3_stmt *row = nullptr, *last = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO t(at, v) VALUES(?1, zeroblob(100))", -1, &row, nullptr);
  sqlite3_prepare_v2(db, "UPDATE last SET n = last_insert_rowid()", -1, &last, nullptr);
  Samples took;
  took.begin_round();
  const auto begun = Clock::now();
  const auto each = std::chrono::nanoseconds(1'000'000'000 / work.rate);
  std::int64_t done = 0;
  for (auto next = begun; next < begun + std::chrono::seconds(work.seconds); next += each, ++done) {
    std::this_thread::sleep_until(next);
    const auto from = Clock::now();
    run_sql(db, "BEGIN IMMEDIATE");
    sqlite3_bind_int64(row, 1, now_ns());
    if (sqlite3_step(row) != SQLITE_DONE || sqlite3_reset(row) != SQLITE_OK || sqlite3_step(last) != SQLITE_DONE || sqlite3_reset(last) != SQLITE_OK)
      give_up(sqlite3_errmsg(db));
    run_sql(db, "COMMIT");
    took.add(microseconds(Clock::now() - from));
  }
  const double seconds = microseconds(Clock::now() - begun) / 1e6;
  if (opened) (void)opened->follow();
  std::cout << Json{{"commits", done}, {"per_second", static_cast<double>(done) / seconds}, {"commit", took.json()}}.dump() << std::endl;
  std::getline(std::cin, line);
  sqlite3_finalize(row);
  sqlite3_finalize(last);
  if (!opened) sqlite3_close(db);
  return 0;
}

// ---- a follower with readers

struct Looks {
  std::atomic<std::int64_t> looks{0}, busy{0}, torn{0};
  std::atomic<bool> stop{false};
};

// count, the newest row, the other table's word for it: in one statement.
bool look(sqlite3_stmt* statement, Looks& looks, std::int64_t& newest) {
  ++looks.looks;
  const int rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    newest = sqlite3_column_int64(statement, 0);
    if (newest != sqlite3_column_int64(statement, 1)) ++looks.torn;
  } else if (++looks.busy == 1) {
    std::cerr << "a look failed: " << rc << " " << sqlite3_errmsg(sqlite3_db_handle(statement)) << "\n";
  }
  sqlite3_reset(statement);
  return rc == SQLITE_ROW;
}

constexpr const char* kLook = "SELECT ifnull((SELECT max(n) FROM t), 0), (SELECT n FROM last)";

void hold(sqlite3* db, Looks& looks) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, kLook, -1, &statement, nullptr);
  while (!looks.stop.load()) {
    std::int64_t first = 0, again = 0;
    run_sql(db, "BEGIN");
    if (look(statement, looks, first)) {
      std::this_thread::sleep_for(kHeld);
      if (look(statement, looks, again) && first != again) ++looks.torn;
    }
    run_sql(db, "COMMIT");
  }
  sqlite3_finalize(statement);
}

void watch(sqlite3* db, Looks& looks, Samples& lag) {
  sqlite3_stmt *statement = nullptr, *rows = nullptr;
  sqlite3_prepare_v2(db, kLook, -1, &statement, nullptr);
  sqlite3_prepare_v2(db, "SELECT at FROM t WHERE n > ?1 AND n <= ?2", -1, &rows, nullptr);
  std::int64_t seen = 0, newest = 0;
  look(statement, looks, seen);
  while (!looks.stop.load()) {
    if (!look(statement, looks, newest) || newest == seen) {
      std::this_thread::sleep_for(200us);
      continue;
    }
    const std::int64_t now = now_ns();
    sqlite3_bind_int64(rows, 1, seen);
    sqlite3_bind_int64(rows, 2, newest);
    while (sqlite3_step(rows) == SQLITE_ROW) lag.add(static_cast<double>(now - sqlite3_column_int64(rows, 0)) / 1e3);
    sqlite3_reset(rows);
    seen = newest;
  }
  sqlite3_finalize(statement);
  sqlite3_finalize(rows);
}

int run_reader(const Work& work) {
  std::optional<Follower> follower;
  std::vector<sqlite3*> plain;
  std::vector<Connection> connections;
  for (int i = 0; i <= kHolders; ++i) {
    if (work.plain()) {
      plain.push_back(open_plain(work.folder + "/plain.db", SQLITE_OPEN_READONLY));
      continue;
    }
    if (!follower) {
      auto home = Home::open("file://" + work.home());
      if (!home) give_up(home.error().message);
      FollowOptions options;
      options.cache_root = work.folder + "/reader";
      auto opened = Follower::open(*home, "app", options);
      if (!opened) give_up(opened.error().message);
      follower.emplace(std::move(*opened));
    }
    auto connection = follower->connect();
    if (!connection) give_up(connection.error().message);
    plain.push_back(connection->get());
    connections.push_back(std::move(*connection));
  }
  Looks looks;
  Samples lag;
  lag.begin_round();
  std::vector<std::thread> threads;
  for (int i = 0; i < kHolders; ++i) threads.emplace_back([&, db = plain[static_cast<std::size_t>(i)]] { hold(db, looks); });
  threads.emplace_back([&] { watch(plain.back(), looks, lag); });
  std::cout << "{}" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  looks.stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const std::string wal = (work.plain() ? work.folder + "/plain.db" : std::string(sqlite3_db_filename(plain.back(), "main"))) + "-wal";
  std::cout << Json{{"rows", lag.count()},
                    {"p50_ms", lag.quantile(0.5) / 1e3},
                    {"p99_ms", lag.quantile(0.99) / 1e3},
                    {"max_ms", lag.quantile(1) / 1e3},
                    {"looks", looks.looks.load()},
                    {"busy", looks.busy.load()},
                    {"torn", looks.torn.load()},
                    {"wal_mb", std::filesystem::exists(wal) ? static_cast<double>(std::filesystem::file_size(wal)) / 1e6 : 0.0}}
                   .dump()
            << std::endl;
  if (work.plain()) {
    for (sqlite3* db : plain) sqlite3_close(db);
  }
  return 0;
}

// Many followers in one process, which does nothing else.
int run_crowd(const Work& work) {
  auto home = Home::open("file://" + work.home());
  if (!home) give_up(home.error().message);
  std::vector<Follower> followers;
  for (std::int64_t i = 0; i < work.followers; ++i) {
    FollowOptions options;
    options.cache_root = work.folder + "/crowd/" + std::to_string(i);
    auto opened = Follower::open(*home, "app", options);
    if (!opened) give_up(opened.error().message);
    followers.push_back(std::move(*opened));
  }
  std::cout << "{}" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  // All of them come up to the newest commit: the one with the largest offset.
  Offset newest;
  for (const Follower& follower : followers) newest = std::max(newest, follower.status().offset);
  const auto from = Clock::now();
  std::int64_t there = 0;
  for (Follower& follower : followers) there += follower.wait_for(newest, 60s) ? 1 : 0;
  std::cout << Json{{"followers", followers.size()}, {"there", there}, {"behind_seconds", microseconds(Clock::now() - from) / 1e6}}.dump() << std::endl;
  std::getline(std::cin, line);
  std::_Exit(0);
}

// ---- the parent

std::vector<std::string> arguments_of(const Work& work, const std::string& role) {
  return {"--role",       role,
          "--work",       work.folder,
          "--durability", work.durability,
          "--rate",       std::to_string(work.rate),
          "--seconds",    std::to_string(work.seconds),
          "--followers",  std::to_string(work.followers)};
}

Json measure_lag(const std::string& folder, const std::string& durability, std::int64_t rate, std::int64_t seconds) {
  const Scratch here(folder);
  std::filesystem::create_directory(here / "home");
  const Work work{"", here.path(), durability, rate, seconds, 0};
  Child writer(arguments_of(work, "writer"));
  (void)writer.line();
  Child reader(arguments_of(work, "reader"));
  (void)reader.line();
  writer.say("go");
  Json row{{"durability", durability}, {"rate", rate}};
  row["writer"] = writer.line();
  reader.say("end");
  row["reader"] = reader.line();
  return row;
}

Json measure_crowd(const std::string& folder, std::int64_t rate, std::int64_t seconds, std::int64_t followers) {
  const Scratch here(folder);
  std::filesystem::create_directory(here / "home");
  Work work{"", here.path(), "replicated", rate, seconds, followers};
  Json row{{"rate", rate}, {"followers", followers}};
  std::unique_ptr<Child> crowd;
  for (const char* const when : {"alone", "with"}) {
    if (std::string_view(when) == "with") {
      crowd = std::make_unique<Child>(arguments_of(work, "crowd"));
      (void)crowd->line();
    }
    Child writer(arguments_of(work, "writer"));
    (void)writer.line();
    writer.say("go");
    row[when] = writer.line();
    if (crowd) {
      crowd->say("end");
      row["crowd"] = crowd->line();
    }
    writer.end();
  }
  row["slower"] = row["with"]["commit"]["p50_us"].get<double>() / row["alone"]["commit"]["p50_us"].get<double>();
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Work work;
  work.role = arguments.text("role", "");
  work.folder = arguments.text("work", "");
  work.durability = arguments.text("durability", "");
  work.rate = arguments.number("rate", 100);
  work.seconds = arguments.number("seconds", 20);
  work.followers = arguments.number("followers", 1'000);
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  if (work.role == "writer") return run_writer(work);
  if (work.role == "reader") return run_reader(work);
  if (work.role == "crowd") return run_crowd(work);

  Json json{{"benchmark", "followers"}, {"machine", machine()}, {"load_before", load_average()}, {"seconds", work.seconds}};
  for (const std::int64_t rate : {std::int64_t{1'000}, std::int64_t{2'000}}) {
    for (const char* const durability : {"plain", "replicated", "local"}) json["lag"].push_back(measure_lag(folder, durability, rate, work.seconds));
  }
  json["crowd"] = measure_crowd(folder, work.rate, work.seconds, work.followers);
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
