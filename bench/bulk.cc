// Loading 100,000 rows in transactions of 1,000: rows a second and bytes in the log for each commit, replicated and in local mode, against plain WAL SQLite
// at synchronous FULL (engineering.md, "Benchmarks": local mode at least 0.9 of its throughput). Rows look like those of people: a running number, a few
// words of text, a number with an index on it. All load in turn, transaction by transaction. The sender of local mode follows on another thread and
// is waited for after each transaction, outside of what is measured; how long it took for all of it stands beside ("followed_seconds").
#include <sqlite3.h>

#include <array>
#include <cmath>
#include <iostream>
#include <memory>

#include "opened.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

constexpr std::array<const char*, 16> kWords = {"amber", "birch",   "cedar", "delta",  "ember",  "fjord", "grove",  "harbor",
                                                "inlet", "juniper", "kelp",  "lagoon", "meadow", "north", "orchid", "pine"};

void run_sql(sqlite3* db, const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql, nullptr, nullptr, &message) != SQLITE_OK) give_up(std::string(sql) + ": " + (message != nullptr ? message : "?"));
}

class Load {
 public:
  explicit Load(sqlite3* db) : db_(db) {
    run_sql(db_, "PRAGMA synchronous=FULL; CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, note TEXT, k INTEGER); CREATE INDEX people_k ON people(k);");
    if (sqlite3_prepare_v2(db_, "INSERT INTO people(name, note, k) VALUES (?1, ?2, ?3)", -1, &insert_, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db_));
  }
  ~Load() { sqlite3_finalize(insert_); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  // One transaction.
  void rows(std::int64_t count) {
    run_sql(db_, "BEGIN");
    for (std::int64_t i = 0; i < count; ++i) row();
    run_sql(db_, "COMMIT");
  }

 private:
  std::uint64_t next() {  // the same rows for each load
    x_ ^= x_ << 13, x_ ^= x_ >> 7, x_ ^= x_ << 17;
    return x_;
  }
  void row() {
    const std::string name = std::string(kWords[next() % kWords.size()]) + " " + std::to_string(next() % 10'000);
    std::string note;
    for (int w = 0; w < 12; ++w) note.append(kWords[next() % kWords.size()]).push_back(' ');
    sqlite3_bind_text(insert_, 1, name.data(), static_cast<int>(name.size()), SQLITE_STATIC);
    sqlite3_bind_text(insert_, 2, note.data(), static_cast<int>(note.size()), SQLITE_STATIC);
    sqlite3_bind_int64(insert_, 3, static_cast<sqlite3_int64>(next() % 1'000'000));
    if (sqlite3_step(insert_) != SQLITE_DONE) give_up(std::string("INSERT: ") + sqlite3_errmsg(db_));
    sqlite3_reset(insert_);
  }
  sqlite3* db_;
  sqlite3_stmt* insert_ = nullptr;
  std::uint64_t x_ = 88172645463325252u;
};

double seconds_of(Load& load, std::int64_t rows, Samples& samples) {
  const auto from = Clock::now();
  load.rows(rows);
  const double us = microseconds(Clock::now() - from);
  samples.add(us);
  return us / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const auto rows = arguments.number("rows", 100'000), each = arguments.number("each", 1'000);
  const std::string folder = arguments.text("folder", ".");
  arguments.finish();
  Scratch scratch(std::filesystem::absolute(folder).lexically_normal().string());
  for (const char* name : {"home", "local_home"}) std::filesystem::create_directory(scratch / name);

  OpenOptions options;
  options.cache_root = scratch / "cache";
  Opened replicated("file://" + (scratch / "home"), options);
  options.durability = Durability::local;
  Opened local("file://" + (scratch / "local_home"), options);
  sqlite3* plain = nullptr;
  if (sqlite3_open((scratch / "plain.db").c_str(), &plain) != SQLITE_OK) give_up("cannot open a plain database");
  run_sql(plain, "PRAGMA journal_mode=WAL");

  Json json{{"benchmark", "bulk"}, {"machine", machine()}, {"load_before", load_average()}, {"rows", rows}, {"rows_each", each}};
  Samples ours, theirs, locals;
  double our_seconds = 0, their_seconds = 0, local_seconds = 0, followed_seconds = 0;
  FolderSize before, after;
  {
    Load here(replicated.connection()), there(plain), locally(local.connection());
    before = size_of(scratch / "home");
    for (std::int64_t done = 0, round = 0; done < rows; done += each, ++round) {
      for (Samples* samples : {&ours, &theirs, &locals}) samples->begin_round();
      for (std::int64_t turn = 0; turn < 3; ++turn) {  // who is first changes: the first one finds the disk idle
        switch ((round + turn) % 3) {
          case 0: our_seconds += seconds_of(here, each, ours); break;
          case 1: their_seconds += seconds_of(there, each, theirs); break;
          default: local_seconds += seconds_of(locally, each, locals); followed_seconds += local.follow();
        }
      }
    }
    after = size_of(scratch / "home");
  }
  run_sql(plain, "PRAGMA wal_checkpoint(TRUNCATE)");
  const auto commits = static_cast<double>(after.files - before.files);
  const auto database_bytes = static_cast<double>(size_of(scratch.path()).bytes - size_of(scratch / "home").bytes - size_of(scratch / "local_home").bytes -
                                                  size_of(scratch / "cache").bytes);
  json["onepen"] = {{"transaction", ours.json()}, {"rows_per_second", std::round(static_cast<double>(rows) / our_seconds)}};
  json["local"] = {{"transaction", locals.json()},
                   {"rows_per_second", std::round(static_cast<double>(rows) / local_seconds)},
                   {"followed_seconds", std::round(followed_seconds * 100) / 100}};
  json["sqlite_full"] = {{"transaction", theirs.json()}, {"rows_per_second", std::round(static_cast<double>(rows) / their_seconds)}};
  json["throughput_ratio"] = std::round(their_seconds / our_seconds * 100) / 100;
  json["local_throughput_ratio"] = std::round(their_seconds / local_seconds * 100) / 100;
  json["local_to_reach"] = 0.9;
  json["log"] = {{"objects", commits},
                 {"bytes_per_object", std::round(static_cast<double>(after.bytes - before.bytes) / commits)},
                 {"bytes", after.bytes - before.bytes},
                 {"database_bytes", database_bytes},
                 {"log_over_database", std::round(static_cast<double>(after.bytes - before.bytes) / database_bytes * 100) / 100}};
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  sqlite3_close(plain);
  return 0;
}
