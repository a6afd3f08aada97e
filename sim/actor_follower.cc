// The followers: processes that open the database with mode=ro and read it while commits come in; what each look of theirs must show (I3, I8, I9), and that they
// ask the home for no change. Each runs, dies and is started again with the copy it left.
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "sim/sqlite_application.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen::sim {
namespace {

constexpr int kFollowFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
constexpr std::int64_t kFinalWaitMs = 20'000;

class FollowerActor {
 public:
  FollowerActor(SqliteRun& all, Process& process, FollowerSeat& seat)
      : all_(all), process_(process), seat_(seat), runtime_(*process.runtime), random_(all.run.world.random()) {}
  bool open();
  void work();
  void close();

 private:
  struct Reader {
    sqlite3* db = nullptr;
    Offset shown;  // the newest that a status before a look said
  };
  bool connect(Reader& reader);
  bool look(Reader& reader, Nanos held, const Offset& at_least = {});
  void judge(const std::set<std::uint64_t>& ids, const std::set<std::uint64_t>& floor, const Offset& shown, Nanos began);
  void look_beside();
  void plain_process();
  void wait();
  void arrive();
  void note_what_happened();
  sqlite::OpenDatabase* database(sqlite3* db);
  bool over() const { return process_.dead || ended_; }
  void sleep(std::int64_t least_ms, std::int64_t most_ms) { runtime_.sleep_until(later(runtime_, random_.between(least_ms, most_ms) * kMilli)); }
  void reached(Sometime place) { all_.run.history.sometimes.reached(place); }

  SqliteRun& all_;
  Process& process_;
  FollowerSeat& seat_;
  Runtime& runtime_;
  Random& random_;
  std::string uri_;
  std::int64_t max_staleness_ms_ = 0;  // 0: none
  Reader main_;
  std::uint64_t began_ = 0;  // how often it has begun from nothing
  bool ended_ = false;  // it was told that it is not followed any more
};

sqlite::OpenDatabase* FollowerActor::database(sqlite3* db) {
  sqlite::OpenDatabase* database = nullptr;
  if (sqlite3_file_control(db, "main", sqlite::kDatabaseOp, &database) != SQLITE_OK) return nullptr;
  return database;
}

bool FollowerActor::connect(Reader& reader) {
  int code = sqlite3_open_v2(uri_.c_str(), &reader.db, kFollowFlags, sqlite::kVfsName);
  if (code == SQLITE_OK) code = run_sql(reader.db, "pragma temp_store=memory; pragma cache_size=20");
  if (code == SQLITE_OK) code = sqlite::register_functions(reader.db);
  if (code == SQLITE_OK && !process_.dead && database(reader.db) != nullptr) return true;
  if (!process_.dead) all_.run.world.note("follow.refused", sqlite::last_refusal(), static_cast<std::uint64_t>(code));
  sqlite3_close(std::exchange(reader.db, nullptr));
  return false;
}

bool FollowerActor::open() {
  uri_ = fmt::format("file:{}?vfs=onepen&home=sim://home&mode=ro&cache_root={}&commit_timeout={}ms", kStream, seat_.cache_root, random_.between(500, 8'000));
  max_staleness_ms_ = !all_.run.healing && random_.chance(250) ? random_.between(300, 4'000) : 0;
  if (max_staleness_ms_ != 0) uri_ += fmt::format("&max_staleness={}ms", max_staleness_ms_);
  ended_ = false;
  all_.run.world.note("follow", uri_);
  const std::uint64_t before = all_.run.history.from_nothing[process_.name];
  if (!connect(main_)) return false;
  reached(Sometime::follower_opened);
  began_ = all_.run.history.from_nothing[process_.name];
  if (std::exchange(seat_.died_in_batch, false) && began_ == before) reached(Sometime::follower_resumed);
  database(main_.db)->on_reset([this](const Reset& reset) {
    if (process_.dead) return;
    if (std::exchange(ended_, true)) all_.violated("I7", process_.name + " was told twice that it is not followed any more");
    all_.run.world.note("follow.ended", word(reset.kind));
    if (all_.run.world.tracing()) all_.run.world.note("follow.ended.why", reset.message);
    reached(Sometime::follower_ended);
    if (reset.kind == ResetKind::rewound) all_.violated("I11", process_.name + " follows no further where it could have read anew: " + reset.message);
    if (reset.kind == ResetKind::diverged) all_.violated("I9", process_.name + " was told that its copy diverged: " + reset.message);
  });
  return true;
}

void FollowerActor::note_what_happened() {
  const std::uint64_t now = all_.run.history.from_nothing[process_.name];
  if (now > began_) reached(Sometime::follower_read_anew);
  began_ = now;
}

// What must be there: everything acknowledged that the stream holds up to `shown`, and, with max_staleness, everything acknowledged longer ago than that; and what
// a look that ended before this one began has shown. Less only where a restore or a removal took it.
void FollowerActor::judge(const std::set<std::uint64_t>& ids, const std::set<std::uint64_t>& floor, const Offset& shown, Nanos began) {
  const Nanos fresh_at = max_staleness_ms_ == 0 ? -1 : began - (max_staleness_ms_ + 1) * kMilli * 1'000 / process_.rate_per_mille;
  for (const auto& [id, told] : all_.commits) {
    if (!told.acknowledged || ids.count(id) != 0 || cut_away(all_, told)) continue;
    if (!told.covered.text.empty() && !shown.text.empty() && !(shown < told.covered)) {
      all_.violated("I9", fmt::format("{} shows '{}', and commit {} of {}, acknowledged at '{}', is not there", process_.name, shown.text, id, told.who,
                                      told.covered.text));
    } else if (told.acknowledged_at < fresh_at) {
      all_.violated("I8", fmt::format("{} read within max_staleness {} ms, and commit {} of {}, acknowledged {} ms before, is not there", process_.name,
                                      max_staleness_ms_, id, told.who, (began - told.acknowledged_at) / kMilli));
    }
  }
  const bool cuts = !all_.cuts.empty() || all_.history_lost;
  for (const std::uint64_t id : floor) {
    if (ids.count(id) != 0) continue;
    const auto told = all_.commits.find(id);
    if (cuts && (told == all_.commits.end() || !told->second.acknowledged || cut_away(all_, told->second))) continue;
    all_.violated("I9", fmt::format("{} showed commit {} before and does not any more", process_.name, id));
  }
}

// One transaction, held for a while: it shows the same in the end (and nobody waits in it, whatever the follower does meanwhile).
bool FollowerActor::look(Reader& reader, Nanos held, const Offset& at_least) {
  const Nanos began = all_.run.world.now();
  const std::set<std::uint64_t> floor = seat_.seen;
  const sqlite::DatabaseStatus status = database(reader.db)->status();
  if (status.copy.offset < reader.shown)
    all_.violated("I9", fmt::format("{} said it shows '{}', and then '{}'", process_.name, reader.shown.text, status.copy.offset.text));
  reader.shown = status.copy.offset;
  const Offset shown = std::max(status.copy.offset, at_least);
  std::set<std::uint64_t> ids;
  bool good = run_sql(reader.db, "begin") == SQLITE_OK && read_rows(all_, reader.db, process_.name, ids);
  const int code = sqlite3_errcode(reader.db);
  if (!good && !process_.dead) {
    all_.run.world.note("look.refused", sqlite3_errmsg(reader.db), static_cast<std::uint64_t>(code));
    if (code == SQLITE_BUSY) all_.violated("wait", process_.name + " had to wait for a lock to read");
    if (code == SQLITE_AUTH && max_staleness_ms_ != 0 && !ended_) reached(Sometime::follower_too_stale);
  }
  if (good && !process_.dead) judge(ids, floor, shown, began);
  if (good && random_.chance(100)) good = run_sql(reader.db, "pragma quick_check") == SQLITE_OK;
  if (good && held > 0) {
    runtime_.sleep_until(later(runtime_, held));
    sqlite3_db_release_memory(reader.db);  // what it reads again comes from the files
    std::set<std::uint64_t> again;
    if (read_rows(all_, reader.db, process_.name, again) && !process_.dead && again != ids)
      all_.violated("I9", process_.name + " was shown two states in one transaction");
  }
  run_sql(reader.db, "rollback");
  if (process_.dead) return false;
  note_what_happened();
  if (!good) return !ended_;
  all_.run.world.note("looked", shown.text, ids.size());
  if (std::any_of(ids.begin(), ids.end(), [&](std::uint64_t id) { return all_.large_commits.count(id) != 0; })) reached(Sometime::follower_saw_parts);
  const bool cuts = !all_.cuts.empty() || all_.history_lost;
  if (cuts) seat_.seen = std::move(ids);
  else seat_.seen.insert(ids.begin(), ids.end());
  return true;
}

// Another connection holds long transactions while this one looks.
void FollowerActor::look_beside() {
  Reader beside;
  if (!connect(beside)) return;
  const auto checkpoint = runtime_.make_signal();
  seat_.at_checkpoint = checkpoint.get();
  {
    auto thread = runtime_.spawn("beside", [&] {
      const bool lurks = random_.chance(600);  // begins when a checkpoint does: what it reads then is about to be copied, and its WAL to begin anew
      for (int i = 0; i < 4 && !over(); ++i) {
        if (lurks) static_cast<void>(checkpoint->wait_until(later(runtime_, 3 * kSecond)));
        if (!over()) look(beside, random_.between(1, 3'000) * kMilli);
      }
    });
    for (int i = 0; i < 6 && !over() && look(main_, 0); ++i) sleep(1, 700);
  }
  seat_.at_checkpoint = nullptr;
  sqlite3_close(beside.db);
}

// A program that knows nothing of Onepen reads the copy of the follower, in a process of its own.
void FollowerActor::plain_process() {
  const std::string path = database(main_.db)->status().copy_path;
  SqliteRun& all = all_;
  Machine& machine = *seat_.machine;
  all.run.world.start(machine.number, process_.name + ".plain", [&all, &machine, path](Process& self) {
    Client client(all.run, self, machine);
    all.sqlite.add(self, client.disk);
    Random& random = all.run.world.random();
    sqlite3* db = nullptr;
    if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, kSimVfsName) == SQLITE_OK) {
      sqlite3_busy_timeout(db, kBusyMs);
      for (std::uint64_t i = 2 + random.below(6); i > 0 && !self.dead && !all.run.healing; --i) {
        std::set<std::uint64_t> ids, again;
        if (run_sql(db, "begin") == SQLITE_OK && read_rows(all, db, self.name, ids)) {
          self.runtime->sleep_until(later(*self.runtime, random.between(1, 2'000) * kMilli));
          sqlite3_db_release_memory(db);
          if (read_rows(all, db, self.name, again) && !self.dead && again != ids) all.violated("I9", self.name + " was shown two states in one transaction");
          if (!self.dead) all.run.history.sometimes.reached(Sometime::follower_copy_read_beside);
        }
        run_sql(db, "rollback");
        self.runtime->sleep_until(later(*self.runtime, random.between(1, 1'000) * kMilli));
      }
    }
    sqlite3_close(db);
    all.sqlite.remove(self);
  });
}

// Reads what was written elsewhere: waits for an offset that some writer was given.
void FollowerActor::wait() {
  const Offset target = all_.run.history.newest_acknowledged;
  if (target.text.empty()) return;
  const bool behind = database(main_.db)->status().copy.offset < target;
  const int code = run_sql(main_.db, fmt::format("select onepen_wait_for('{}', {})", target.text, random_.between(1, 5'000)));
  if (process_.dead) return;
  all_.run.world.note(code == SQLITE_OK ? "waited" : "wait.over", target.text, behind ? 1 : 0);
  if (code != SQLITE_OK) return;
  if (behind) reached(Sometime::follower_waited);
  look(main_, 0, target);
}

// The faults are over and a last owner has committed: that is what it shows in the end.
void FollowerActor::arrive() {
  const int code = run_sql(main_.db, fmt::format("select onepen_wait_for('{}', {})", all_.final_offset.text, kFinalWaitMs));
  std::set<std::uint64_t> ids;
  if (code != SQLITE_OK || process_.dead || !read_rows(all_, main_.db, process_.name, ids) || process_.dead) return;
  if (ids != all_.final_ids)
    all_.violated("I9", fmt::format("{} shows {} rows in the end, and the database has {}", process_.name, ids.size(), all_.final_ids.size()));
  seat_.arrived = true;
}

void FollowerActor::work() {
  const auto steps = 5 + random_.below(60);
  for (std::uint64_t i = 0; (i < steps || all_.run.healing) && !over(); ++i) {
    if (all_.run.healing) {
      if (!all_.final_offset.text.empty()) return arrive();
      sleep(500, 2'000);
      continue;
    }
    switch (random_.below(12)) {
      case 0:
      case 1: look_beside(); break;
      case 2:
      case 3:
      case 4: wait(); break;
      case 5:
        if (random_.chance(300)) plain_process();
        break;
      case 6: look(main_, random_.between(1, 5'000) * kMilli); break;
      default: look(main_, 0);
    }
    if (random_.chance(600)) sleep(1, 1'000);
  }
}

void FollowerActor::close() {
  if (main_.db == nullptr) return;
  if (!process_.dead) note_what_happened();
  all_.run.world.note("follow.close");
  sqlite3_close(std::exchange(main_.db, nullptr));
}

}  // namespace

void sqlite_follower(SqliteRun& all, Process& process, FollowerSeat& seat) {
  Random& random = all.run.world.random();
  Client client(all.run, process, *seat.machine);
  sqlite::Environment environment = environment_for(all, process, client);
  environment.live.checkpoint_bytes = (1 + random.below(40)) * 1024;  // the product's megabytes are more than a run writes
  if (random.chance(500)) environment.live.batch_bytes = (1 + random.below(16)) * 1024;
  all.sqlite.add(process, client.disk, environment);
  FollowerActor actor(all, process, seat);
  // A process whose sync of a folder of the home failed once says that it is to be started again: in the end it is, when nothing else helps.
  for (std::uint64_t opens = 2 + random.below(2); opens > 0 && !process.dead && !seat.arrived;) {
    const bool opened = actor.open();
    if (opened) actor.work();
    actor.close();
    if (opened || all.run.healing) --opens;
    if (!seat.arrived) process.runtime->sleep_until(later(*process.runtime, random.between(100, 1'500) * kMilli));
  }
  all.sqlite.remove(process);
  if (process.home_writes != 0) all.violated("I8", fmt::format("{} only follows, and asked for {} changes of the home", process.name, process.home_writes));
}

}  // namespace onepen::sim
