// A demo process: opens the database by name with the C++ API and works with plain SQLite from then on. Commands, one a line, answered one or more lines:
//   open                  -> opened EPOCH MICROSECONDS | failed SENTENCE
//   load FILE             -> loaded ROWS COMMITS MICROSECONDS
//   work FIRST COUNT SIZE -> begin ID, ack ID, ... done | refused CODE SENTENCE      (one transaction each)
//   sum                   -> sum ROWS CHECKSUM
//   ids                   -> ids ID,ID,...
//   snapshot / reread     -> rows COUNT      (one read transaction kept open between the two)
#include <onepen/database.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "apps/onepen/demo.h"
#include "base/checksum.h"

namespace onepen::app {
namespace {
using Clock = std::chrono::steady_clock;

long long micros_since(Clock::time_point start) { return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count(); }

class Worker {
 public:
  explicit Worker(const DemoWorkerOptions& options) : options_(options) {}

  void obey(const std::string& line) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    if (command == "open") return open();
    if (!db_) return say("failed not open");
    if (command == "load") {
      std::string file;
      std::getline(in >> std::ws, file);
      return load(file);
    }
    if (command == "work") {
      long long first = 0, count = 0, size = 0;
      in >> first >> count >> size;
      return work(first, count, size);
    }
    if (command == "sum") return sum();
    if (command == "ids") return ids();
    if (command == "snapshot") return snapshot();
    if (command == "reread") return reread();
    say("failed unknown command " + command);
  }

 private:
  static void say(const std::string& line) { std::cout << line << "\n" << std::flush; }

  std::string sentence() const {
    if (db_) {
      if (auto status = db_->status(); status.reset) return status.reset->message;
    }
    return connection_ ? sqlite3_errmsg(connection_.get()) : "";
  }

  void open() {
    const auto start = Clock::now();
    auto home = Home::open(options_.home);
    if (!home) return say("failed " + home.error().message);
    OpenOptions open_options;
    open_options.owner_name = options_.who;
    open_options.cache_root = options_.cache_root;
    auto db = Database::open(*home, options_.name, std::move(open_options));
    if (!db) return say("failed " + db.error().message);
    db_.emplace(std::move(*db));
    auto connection = db_->connect();
    if (!connection) return say("failed " + connection.error().message);
    connection_ = std::move(*connection);
    say("opened " + std::to_string(db_->status().token.epoch.value) + " " + std::to_string(micros_since(start)));
  }

  int run(const char* sql) { return sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr); }

  void load(const std::string& file) {
    constexpr long long kRowsPerCommit = 1000;
    std::ifstream in(file);
    const auto start = Clock::now();
    run("CREATE TABLE IF NOT EXISTS codepoint(code TEXT PRIMARY KEY, name TEXT, category TEXT, rest TEXT) WITHOUT ROWID");
    run("CREATE INDEX codepoint_name ON codepoint(name)");
    run("CREATE TABLE event(id INTEGER PRIMARY KEY, who TEXT, body BLOB)");
    sqlite3_stmt* insert = nullptr;
    sqlite3_prepare_v2(connection_.get(), "INSERT INTO codepoint VALUES(?,?,?,?)", -1, &insert, nullptr);
    long long rows = 0, commits = 3;
    bool good = true;
    for (std::string line; good && std::getline(in, line);) {
      if (rows % kRowsPerCommit == 0) good = run("BEGIN IMMEDIATE") == SQLITE_OK;
      std::size_t at = 0;
      for (int column = 1; column <= 4; ++column) {
        const auto end = column < 4 ? line.find(';', at) : line.size();
        sqlite3_bind_text(insert, column, line.data() + at, static_cast<int>(end - at), SQLITE_STATIC);
        at = end + 1;
      }
      good = good && sqlite3_step(insert) == SQLITE_DONE;
      sqlite3_reset(insert);
      if (++rows % kRowsPerCommit == 0) {
        good = good && run("COMMIT") == SQLITE_OK;
        ++commits;
      }
    }
    if (good && sqlite3_get_autocommit(connection_.get()) == 0) {
      good = run("COMMIT") == SQLITE_OK;
      ++commits;
    }
    sqlite3_finalize(insert);
    if (!good) return say("failed " + sentence());
    say("loaded " + std::to_string(rows) + " " + std::to_string(commits) + " " + std::to_string(micros_since(start)));
  }

  void work(long long first, long long count, long long size) {
    for (long long id = first; id < first + count; ++id) {
      int code = run("BEGIN IMMEDIATE");
      if (code == SQLITE_OK) {
        sqlite3_stmt* insert = nullptr;
        sqlite3_prepare_v2(connection_.get(), "INSERT INTO event VALUES(?, ?, randomblob(?))", -1, &insert, nullptr);
        sqlite3_bind_int64(insert, 1, id);
        sqlite3_bind_text(insert, 2, options_.who.c_str(), -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(insert, 3, size);
        sqlite3_step(insert);
        sqlite3_finalize(insert);
        say("begin " + std::to_string(id));
        code = run("COMMIT");
      }
      if (code != SQLITE_OK) {
        const std::string why = sentence();
        run("ROLLBACK");
        return say("refused " + std::to_string(code) + " " + why);
      }
      say("ack " + std::to_string(id));
    }
    say("done");
  }

  template <class Row>
  void each(const char* sql, Row&& take) {
    sqlite3_stmt* select = nullptr;
    sqlite3_prepare_v2(connection_.get(), sql, -1, &select, nullptr);
    while (sqlite3_step(select) == SQLITE_ROW) take(select);
    sqlite3_finalize(select);
  }
  static std::string text(sqlite3_stmt* row, int column) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(row, column));
    return std::string(bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
  }

  void sum() {
    long long rows = 0;
    unsigned long long total = 0;
    each("SELECT code, name, category, rest FROM codepoint", [&](sqlite3_stmt* row) {
      ++rows;
      total += demo_line_sum(text(row, 0) + ";" + text(row, 1) + ";" + text(row, 2) + ";" + text(row, 3));
    });
    say("sum " + std::to_string(rows) + " " + std::to_string(total));
  }

  void ids() {
    std::string all;
    each("SELECT id FROM event ORDER BY id", [&](sqlite3_stmt* row) { all += (all.empty() ? "" : ",") + std::to_string(sqlite3_column_int64(row, 0)); });
    say("ids " + all);
  }

  void snapshot() {
    run("BEGIN");
    reread();
  }
  void reread() {
    long long rows = -1;
    each("SELECT count(*) FROM event", [&](sqlite3_stmt* row) { rows = sqlite3_column_int64(row, 0); });
    say("rows " + std::to_string(rows));
  }

  DemoWorkerOptions options_;
  std::optional<Database> db_{};
  Connection connection_{};  // after db_: closed first
};
}  // namespace

unsigned long long demo_line_sum(const std::string& line) { return xxh3(as_bytes(line)); }

int run_demo_worker(const DemoWorkerOptions& options) {
  Worker worker(options);
  for (std::string line; std::getline(std::cin, line);) worker.obey(line);
  return 0;
}

}  // namespace onepen::app
