// How long a takeover is out (engineering.md, "Benchmarks": claim to first commit <= 5 ms + home latency; <= 4 object requests to ownership; independent of
// log length and database size). Every takeover is a fresh process with a warm copy that opens while the owner before it lives: two processes take the
// database from each other in turn, each with a cache root of its own, so that each copy is behind by what the other wrote.
//
//   open() ── copy ──────────────┬─ stat ─┬─ warm ─┬─ claim log ─┬─ claim ─┬─ read the rest ─┬─ settle ─┬── first COMMIT ──┐
//            lock, fold the WAL,   look at   records   written and   LIST,     up to our own                the ready record
//            hash every page       the log   missing   synced        PUT, mark claim                        goes before it
//
// A warm copy is read on before the look. "requests": what the home asked the place for in that part. "prove": the proof that the place can fence, made
// once a process before the first claim; its requests are not counted. From its end, or the claim's beginning, to the first COMMIT's end: claim_to_commit,
// in which nobody can write.
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include "child.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/vfs.h"
#include "watched_home.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

struct Work {
  std::string role, home, cache;
  std::int64_t commits = 0, row_bytes = 0, lag = 0;
};

void run_sql(sqlite3* db, const std::string& sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message) != SQLITE_OK) give_up(sql + ": " + (message != nullptr ? message : "?"));
}

void insert(sqlite3* db, std::int64_t bytes, std::uint64_t seed) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO t(v) VALUES (?1)", -1, &statement, nullptr);
  const std::string row = noise(static_cast<std::size_t>(bytes), seed);
  sqlite3_bind_blob(statement, 1, row.data(), static_cast<int>(row.size()), SQLITE_STATIC);
  if (sqlite3_step(statement) != SQLITE_DONE) give_up(std::string("INSERT: ") + sqlite3_errmsg(db));
  sqlite3_finalize(statement);
}

// --- the child: opens, commits once, tells, and lives on until it is told to end -------------------------------------------------------------------------

double between(Clock::time_point from, Clock::time_point to) { return microseconds(to - from) / 1000; }  // milliseconds

Json parts_of(Clock::time_point from, Clock::time_point home_asked, Clock::time_point opened, Clock::time_point committed, const std::vector<Call>& calls) {
  Json parts;
  Clock::time_point last = home_asked, claim_from = home_asked;
  double stat = 0, warm = 0, prove = 0, claim = 0, rest = 0, log = 0;
  std::uint64_t stat_requests = 0, warm_requests = 0, claim_requests = 0, rest_requests = 0;
  bool claimed = false;
  for (const Call& call : calls) {
    if (call.what == "append") break;  // the owner's thread: `ready`, then the commit
    const double took = between(call.from, call.to);
    if (call.what == "prove") {
      prove = took, claim_from = call.to;
      continue;  // inside the claim, which is noted at its end
    }
    if (call.what == "claim") {
      log = between(last, call.from), claim += took - prove, claim_requests += call.requests, claimed = true;
      if (prove == 0) claim_from = call.from;
    } else if (call.what == "stat") {
      stat += took, stat_requests += call.requests;
    } else if (claimed) {
      rest += took, rest_requests += call.requests;
    } else {
      warm += took, warm_requests += call.requests;
    }
    last = call.to;
  }
  parts["copy_ms"] = between(from, home_asked);
  parts["stat_ms"] = stat;
  parts["warm_ms"] = warm;
  parts["claim_log_ms"] = log;
  parts["prove_ms"] = prove;
  parts["claim_ms"] = claim;
  parts["rest_ms"] = rest;
  parts["settle_ms"] = between(last, opened);
  parts["commit_ms"] = between(opened, committed);
  parts["claim_to_commit_ms"] = between(claim_from, committed);
  parts["total_ms"] = between(from, committed);
  parts["requests"] = {{"stat", stat_requests}, {"warm", warm_requests}, {"claim", claim_requests}, {"rest", rest_requests}};
  return parts;
}

int child(const Work& work) {
  const auto runtime = io::make_system_runtime();
  const auto real_disk = io::make_posix_disk();
  const auto quick_disk = disk_without_syncs(*real_disk);
  io::Disk& disk = work.role == "build" ? *quick_disk : *real_disk;
  Notes notes;
  Clock::time_point home_asked;
  sqlite::Environment environment;
  environment.runtime = runtime.get();
  environment.disk = &disk;
  environment.open_home = [&](const std::string& url) -> Result<std::unique_ptr<core::Home>> {
    home_asked = Clock::now();
    return watched_home(*runtime, disk, url, notes);
  };
  if (sqlite::register_vfs(environment) != SQLITE_OK) give_up("SQLite refused the VFS");
  const std::string uri = "file:app?vfs=onepen&home=file://" + work.home + "&cache_root=" + work.cache;
  sqlite3* db = nullptr;
  const auto from = Clock::now();
  if (sqlite3_open_v2(uri.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db));
  const auto opened = Clock::now();
  if (work.role == "build") {
    run_sql(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)");
    for (std::int64_t i = 1; i < work.commits; ++i) insert(db, work.row_bytes, static_cast<std::uint64_t>(i));
    sqlite3_close(db);
    ::sync();
    return 0;
  }
  insert(db, 100, static_cast<std::uint64_t>(::getpid()));
  const auto committed = Clock::now();
  std::cout << parts_of(from, home_asked, opened, committed, notes.calls()).dump() << std::endl;
  for (std::int64_t i = 0; i < work.lag; ++i) insert(db, 100, static_cast<std::uint64_t>(i));
  std::cout << "{}" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  sqlite3_close(db);  // fenced long ago, or the last one
  return 0;
}

// --- the parent ------------------------------------------------------------------------------------------------------------------------------------------

std::vector<std::string> arguments_of(const Work& work) {
  return {"--role",      work.role,
          "--home",      work.home,
          "--cache",     work.cache,
          "--commits",   std::to_string(work.commits),
          "--row_bytes", std::to_string(work.row_bytes),
          "--lag",       std::to_string(work.lag)};
}

constexpr const char* kTimes[] = {"copy_ms", "stat_ms",   "warm_ms",   "claim_log_ms",       "prove_ms", "claim_ms",
                                  "rest_ms", "settle_ms", "commit_ms", "claim_to_commit_ms", "total_ms"};

Json measure(const std::string& scratch, std::int64_t log_length, std::int64_t database_bytes, std::int64_t takeovers, std::int64_t lag) {
  const Scratch here(scratch);
  std::filesystem::create_directory(here / "home");
  Work work{"build", here / "home", here / "a", log_length, std::max<std::int64_t>(1, database_bytes / log_length), lag};
  if (Child build(arguments_of(work)); !build.end()) give_up("the log could not be made");
  Json row{{"log_objects", size_of(here / "home").files}, {"log_bytes", size_of(here / "home").bytes}, {"database_bytes", size_of(here / "a").bytes}};
  work.role = "owner";
  work.cache = here / "b";
  auto owner = std::make_unique<Child>(arguments_of(work));
  row["cold_open_ms"] = owner->line()["total_ms"];
  owner->line();
  std::map<std::string, Samples> times;
  for (const char* name : kTimes) times[name].begin_round();
  Json requests;
  for (std::int64_t i = 0; i < takeovers; ++i) {
    work.cache = here / (i % 2 == 0 ? "a" : "b");
    auto next = std::make_unique<Child>(arguments_of(work));
    const Json parts = next->line();
    next->line();
    for (const char* name : kTimes) times[name].add(parts[name].get<double>());
    requests = parts["requests"];
    if (!owner->end()) give_up("an owner that was taken over from did not end well");
    owner = std::move(next);
  }
  for (const char* name : kTimes) row[name] = {{"p50", times[name].quantile(0.5)}, {"max", times[name].quantile(1)}};
  row["requests"] = requests;
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Work work;
  work.role = arguments.text("role", "");
  work.home = arguments.text("home", "");
  work.cache = arguments.text("cache", "");
  work.commits = arguments.number("commits", 0);
  work.row_bytes = arguments.number("row_bytes", 0);
  work.lag = arguments.number("lag", 10);
  const auto takeovers = arguments.number("takeovers", 9), most = arguments.number("most", 10'000), largest = arguments.number("largest", 1'000'000'000);
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  if (!work.role.empty()) return child(work);

  Json json{
      {"benchmark", "takeover"}, {"machine", machine()}, {"load_before", load_average()}, {"takeovers_each", takeovers}, {"commits_behind", work.lag + 1}};
  // By the length of the log at one size, then by the size of the database at one length: neither may matter.
  struct Case {
    std::int64_t log_length, database_bytes;
  };
  for (const Case& one :
       {Case{100, 1'000'000}, Case{1'000, 1'000'000}, Case{10'000, 1'000'000}, Case{1'000, 10'000'000}, Case{1'000, 100'000'000}, Case{1'000, 1'000'000'000}}) {
    if (one.log_length <= most && one.database_bytes <= largest)
      json["rows"].push_back(measure(folder, one.log_length, one.database_bytes, takeovers, work.lag));
  }
  for (const char* time : {"copy_ms", "claim_to_commit_ms", "total_ms"}) {
    const auto p50 = [&](std::size_t row) { return json["rows"][row][time]["p50"].get<double>(); };
    const std::size_t last = json["rows"].size() - 1, small = std::min<std::size_t>(most >= 10'000 ? 3 : 2, last);
    if (last > small) json["largest_over_10_mb"][time] = std::round(p50(last) / p50(small) * 100) / 100;
  }
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
