// An application on one handle: commits rows that are chained by a sum, checkpoints, vacuums, reads, asks whether it is synced, and checks what it is told (I7).
#pragma once
#include <sqlite3.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/sqlite_run.h"
#include "sqlite/open_database.h"

namespace onepen::sim {

// How long its handles wait for each other.
inline constexpr int kBusyMs = 15'000;

inline int run_sql(sqlite3* db, const std::string& sql) { return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr); }

// What a simulated process gives the product: its clocks, its disks and its way to the home.
sqlite::Environment environment_for(SqliteRun& all, Process& process, Client& client);

struct Opening {
  bool local = false, full_sync = false, confirmed = false;
  std::string uri;
};

class Application {
 public:
  Application(SqliteRun& all, Process& process, Slot& slot)
      : all_(all), process_(process), slot_(slot), runtime_(*process.runtime), random_(all.run.world.random()) {}
  bool open(const Opening& how, int& code);
  void work(int steps);
  void close();
  bool commit(bool whole = false);  // whole: no rollback on a whim
  bool synced();
  bool check(sqlite3* db);
  void checkpoint(const char* mode);
  sqlite3* db() { return db_; }
  const Offset& covered() const { return covered_; }  // what synced() answered last

 private:
  sqlite::OpenDatabase* database();
  Token token();
  void acknowledge(std::uint64_t id, const Token& before, const Token& after, const Offset& covered);
  void churn();
  void checkpoint();
  void read_beside();
  void told(const Reset& reset);
  void note(std::string_view what, int code) {
    all_.run.world.note(what, process_.dead ? std::string_view() : std::string_view(sqlite3_errmsg(db_)), static_cast<std::uint64_t>(code));
  }

  SqliteRun& all_;
  Process& process_;
  Slot& slot_;
  Runtime& runtime_;
  Random& random_;
  Opening how_;
  sqlite3* db_ = nullptr;
  // The database may be open longer than this is there (a standby's follower), and tell its reset then.
  std::shared_ptr<bool> listening_ = std::make_shared<bool>(true);
  Offset covered_;
  int resets_ = 0;
  bool found_pending_ = false;
  std::vector<std::uint64_t> mine_;  // ids whose COMMIT answered OK on this handle
};

}  // namespace onepen::sim
