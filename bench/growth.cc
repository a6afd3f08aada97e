// How large a stream gets at its home over a long life: many tiny commits (one small UPDATE each, durability=local) over a large database. The policy of
// docs/formats/snapshot.md bounds it: with T = max(database, 8 MiB) (or snapshot_after), D the largest snapshot, R what is committed while a snapshot is being
// made and S what is not trimmed to the byte, it is at most
//
//   2 * max(T, R) + R of log  +  3 * D of snapshots  +  S
//
// A second thread looks at the folders of the home all the time, from the first row on: what they hold, and, of each snapshot, how much log came while it was
// made (R). More than the policy ends the program with a failure; so does a database opened from nothing at the end that is not the one written.
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "opened.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

void run_sql(sqlite3* db, const std::string& sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message) != SQLITE_OK) give_up(sql + ": " + (message != nullptr ? message : "?"));
}
std::string text_of(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
    give_up(sql + ": " + sqlite3_errmsg(db));
  const auto* text = sqlite3_column_text(statement, 0);
  std::string out = text == nullptr ? "" : reinterpret_cast<const char*>(text);
  sqlite3_finalize(statement);
  return out;
}

struct Sizes {
  FolderSize log, packs, snapshots, all;
};
FolderSize size_if_there(const std::string& folder) { return std::filesystem::exists(folder) ? size_of(folder) : FolderSize{}; }
Sizes sizes_of(const std::string& home) {
  return {size_if_there(home + "/app/@log"), size_if_there(home + "/app/@pack"), size_if_there(home + "/app/@snap"), size_if_there(home)};
}
Json json_of(const Sizes& sizes) {
  return {{"all_bytes", sizes.all.bytes},    {"log_bytes", sizes.log.bytes}, {"log_objects", sizes.log.files},
          {"pack_bytes", sizes.packs.bytes}, {"packs", sizes.packs.files},   {"snapshot_bytes", sizes.snapshots.bytes}};
}

// What the folders of the home held at most, and what came while snapshots were made.
class Watch {
 public:
  explicit Watch(std::string home) : home_(std::move(home)), thread_([this] { run(); }) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // After stop().
  std::uint64_t most = 0, most_log = 0;  // bytes: of everything; of log and packs
  std::uint64_t newest_objects = 0, largest_snapshot = 0;  // the newest objects of the log, which are never packed; a snapshot's folder
  std::uint64_t committed_meanwhile = 0;  // R: the most log that came while one snapshot was made, read back, and the log trimmed after it
  std::uint64_t snapshots = 0, trims = 0;
  double longest_snapshot_seconds = 0;

 private:
  static constexpr auto kEvery = std::chrono::milliseconds(100);
  static constexpr std::size_t kKept = 2, kNewest = 64;  // whole snapshots, and objects, that stay
  void run() {
    while (!stopping_) {
      look();
      std::this_thread::sleep_for(kEvery);
    }
    look();
  }
  void look() {
    const Sizes sizes = sizes_of(home_);
    const std::uint64_t log = sizes.log.bytes + sizes.packs.bytes;
    most = std::max(most, sizes.all.bytes);
    most_log = std::max(most_log, log);
    std::error_code error;
    std::map<std::string, std::uint64_t> objects;
    for (auto at = std::filesystem::recursive_directory_iterator(home_ + "/app/@log", error); !error && at != std::filesystem::recursive_directory_iterator();
         at.increment(error)) {
      std::error_code gone;
      if (at->is_directory(gone)) continue;
      if (const auto bytes = at->file_size(gone); !gone) objects[at->path().filename().string()] = bytes;
    }
    std::uint64_t newest = 0;
    std::size_t left = kNewest;
    for (auto object = objects.rbegin(); object != objects.rend() && left > 0; ++object, --left) newest += object->second;
    newest_objects = std::max(newest_objects, newest);
    std::set<std::string> whole, being_made;
    for (auto at = std::filesystem::directory_iterator(home_ + "/app/@snap", error); !error && at != std::filesystem::directory_iterator();
         at.increment(error)) {
      const std::string path = at->path().string();
      (std::filesystem::exists(path + "/head") ? whole : being_made).insert(path);
      largest_snapshot = std::max(largest_snapshot, size_of(path).bytes);
    }
    follow(whole, being_made, log);
    before_ = log;
    known_.insert(whole.begin(), whole.end());
  }
  // One snapshot from before its folder appeared until the log has been trimmed after it, which deletes the oldest one; the first two delete none.
  void follow(const std::set<std::string>& whole, const std::set<std::string>& being_made, std::uint64_t log) {
    const bool fresh = std::any_of(whole.begin(), whole.end(), [&](const std::string& path) { return known_.count(path) == 0; });
    if (fresh) ++snapshots;
    if (!making_ && (fresh || !being_made.empty())) making_ = true, began_ = Clock::now(), log_at_begin_ = before_, highest_ = log;
    if (!making_) return;
    highest_ = std::max(highest_, log);
    committed_meanwhile = std::max(committed_meanwhile, highest_ - std::min(highest_, log_at_begin_));
    finished_ = finished_ || fresh;
    if (!finished_ || whole.size() > kKept || !being_made.empty()) return;
    if (snapshots > kKept) ++trims;
    longest_snapshot_seconds = std::max(longest_snapshot_seconds, microseconds(Clock::now() - began_) / 1e6);
    making_ = finished_ = false;
  }

  const std::string home_;
  std::set<std::string> known_;
  std::uint64_t before_ = 0, log_at_begin_ = 0, highest_ = 0;
  bool making_ = false, finished_ = false;
  Clock::time_point began_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it begins when everything else is there
};

// The policy, and what was measured beside it. More is a failure.
Json judged(const Watch& watch, const Json& out, std::uint64_t snapshot_after) {
  constexpr std::uint64_t kLeast = 8u << 20;      // kLeastSnapshotAfter
  constexpr std::uint64_t kRun = 8u << 20;  // one run of compaction: while its pack and its objects are both there; and the pack the trim point lies in
  const auto database = out["database_bytes"].get<std::uint64_t>();
  const std::uint64_t t = snapshot_after != 0 ? snapshot_after : std::max(database, kLeast);
  const std::uint64_t r = watch.committed_meanwhile, d = watch.largest_snapshot, s = 2 * kRun + watch.newest_objects;
  const std::uint64_t policy = 2 * std::max(t, r) + r + 3 * std::max(d, database) + s;
  Json json{{"limit_bytes", t},
            {"committed_meanwhile_bytes", r},
            {"largest_snapshot_bytes", d},
            {"newest_objects_bytes", watch.newest_objects},
            {"not_trimmed_to_the_byte", s},
            {"snapshots_made", watch.snapshots},
            {"trims", watch.trims},
            {"longest_snapshot_seconds", watch.longest_snapshot_seconds},
            {"most_log_bytes", watch.most_log},
            {"most_bytes", watch.most},
            {"policy_bytes", policy},
            {"most_over_policy", static_cast<double>(watch.most) / static_cast<double>(policy)}};
  std::string why;
  if (watch.most > policy) why = "the home took " + std::to_string(watch.most) + " bytes: more than the policy's " + std::to_string(policy);
  if (watch.most_log > 2 * std::max(t, r) + r + s) why = "the log took " + std::to_string(watch.most_log) + " bytes: more than the policy lets it";
  if (d > database + database / 50 + (1u << 20)) why = "a snapshot is larger than the database";
  if (!why.empty()) give_up(why + "\n" + json.dump(1));
  return json;
}

constexpr std::int64_t kPacedCommits = 50;
constexpr int kFillRows = 200;  // a transaction: objects that compaction still packs

void fill(sqlite3* db, std::int64_t bytes) {
  run_sql(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v BLOB)");
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO t(k, v) VALUES (0, ?1)", -1, &insert, nullptr);
  for (std::int64_t row = 0; row < bytes / 1000;) {
    run_sql(db, "BEGIN");
    for (int i = 0; i < kFillRows && row < bytes / 1000; ++i, ++row) {
      const std::string blob = noise(960, static_cast<std::uint64_t>(row));
      sqlite3_bind_blob(insert, 1, blob.data(), static_cast<int>(blob.size()), SQLITE_STATIC);
      if (sqlite3_step(insert) != SQLITE_DONE) give_up(sqlite3_errmsg(db));
      sqlite3_reset(insert);
    }
    run_sql(db, "COMMIT");
  }
  sqlite3_finalize(insert);
}

struct Work {
  std::int64_t bytes = 0, commits = 0;
  std::uint64_t snapshot_after = 0;
  std::int64_t rate = 0;  // commits a second; 0: as fast as they go, and then a snapshot may take longer than everything that is committed
};

OpenOptions options_for(const std::string& cache_root, const Work& work) {
  OpenOptions options;
  options.cache_root = cache_root;
  options.durability = Durability::local;
  options.snapshot_after = work.snapshot_after;
  return options;
}

Json measure(const Scratch& scratch, const Work& work) {
  const std::string home = scratch / "home", url = "file://" + home;
  Json out;
  std::string sum;
  Watch watch(home);
  {
    Opened opened(url, options_for(scratch / "cache", work));
    sqlite3* db = opened.connection();
    run_sql(db, "PRAGMA synchronous=NORMAL");
    auto from = Clock::now();
    fill(db, work.bytes);
    opened.follow();
    out["fill_seconds"] = microseconds(Clock::now() - from) / 1e6;
    out["database_bytes"] = std::stoll(text_of(db, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"));
    const std::int64_t rows = std::stoll(text_of(db, "SELECT max(id) FROM t"));
    out["filled"] = json_of(sizes_of(home));
    sqlite3_stmt* update = nullptr;
    sqlite3_prepare_v2(db, "UPDATE t SET k = k + 1 WHERE id = ?1", -1, &update, nullptr);
    from = Clock::now();
    double looking = 0;
    std::uint64_t x = 88172645463325252u;
    const std::int64_t every = std::max<std::int64_t>(1, work.commits / 100);
    for (std::int64_t i = 1; i <= work.commits; ++i) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      sqlite3_bind_int64(update, 1, static_cast<sqlite3_int64>(x % static_cast<std::uint64_t>(rows)) + 1);
      if (sqlite3_step(update) != SQLITE_DONE) give_up(std::string("UPDATE: ") + sqlite3_errmsg(db));
      sqlite3_reset(update);
      if (work.rate != 0 && i % kPacedCommits == 0) std::this_thread::sleep_until(from + std::chrono::microseconds(i * 1'000'000 / work.rate));
      if (i % every != 0) continue;
      const auto looked = Clock::now();
      const Sizes sizes = sizes_of(home);
      Json row = json_of(sizes);
      row["commits"] = i;
      out["over_time"].push_back(std::move(row));
      looking += microseconds(Clock::now() - looked) / 1e6;
    }
    sqlite3_finalize(update);
    out["local_seconds"] = microseconds(Clock::now() - from) / 1e6 - looking;
    opened.follow();
    out["synced_seconds"] = microseconds(Clock::now() - from) / 1e6 - looking;
    sum = text_of(db, "SELECT sum(k) || ' ' || count(*) FROM t");
    out["log_status"] = Json::parse(text_of(db, "SELECT onepen_status()"));
  }
  watch.stop();
  out["final"] = json_of(sizes_of(home));
  out.update(judged(watch, out, work.snapshot_after));
  const auto from = Clock::now();
  Opened cold(url, options_for(scratch / "cold", work));
  out["cold_open_seconds"] = microseconds(Clock::now() - from) / 1e6;
  if (text_of(cold.connection(), "SELECT sum(k) || ' ' || count(*) FROM t") != sum) give_up("what was opened from nothing is not what was written");
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Work work;
  work.bytes = arguments.number("bytes", 1'000'000'000);
  work.commits = arguments.number("commits", 1'000'000);
  work.rate = arguments.number("rate", 0);
  work.snapshot_after = static_cast<std::uint64_t>(arguments.number("snapshot_after", 0));
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  const Scratch scratch(folder);
  std::filesystem::create_directory(scratch / "home");
  Json json{{"benchmark", "growth"}, {"machine", machine()}, {"load_before", load_average()}, {"commits", work.commits}, {"commits_a_second_asked", work.rate}};
  json.update(measure(scratch, work));
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
