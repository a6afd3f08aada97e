// The standby: follows the database with standby=1, and becomes the owner in place when the one before it is gone, or when it is asked to. What its claims may be
// is judged where they are made (recording_stream.cc); what it does as the owner is judged as of any application.
#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "sim/sqlite_application.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen::sim {
namespace {

constexpr Nanos kOwnWithin = 120 * kSecond;  // of its own clock, with nobody else there and no faults; owners that came and went without a commit make it wait

class StandbyActor {
 public:
  StandbyActor(SqliteRun& all, Process& process, StandbySeat& seat)
      : all_(all), process_(process), seat_(seat), runtime_(*process.runtime), random_(all.run.world.random()) {}
  bool open();
  void watch();
  void close() { sqlite3_close(std::exchange(db_, nullptr)); }

 private:
  sqlite::OpenDatabase* database() {
    sqlite::OpenDatabase* database = nullptr;
    return sqlite3_file_control(db_, "main", sqlite::kDatabaseOp, &database) == SQLITE_OK ? database : nullptr;
  }
  StandbyWatch& told() { return all_.run.history.standbys.at(process_.name); }
  void ask();
  void own();

  SqliteRun& all_;
  Process& process_;
  StandbySeat& seat_;
  Runtime& runtime_;
  Random& random_;
  sqlite3* db_ = nullptr;
  Instant opened_{};
};

bool StandbyActor::open() {
  const std::int64_t term_ms = random_.between(400, 4'000);
  told() = StandbyWatch{};
  told().term = term_ms * kMilli;
  const std::string uri = fmt::format("file:{}?vfs=onepen&home=sim://home&mode=ro&standby=1&term={}ms&owner={}&cache_root={}&commit_timeout=8s", kStream,
                                      term_ms, process_.name, seat_.cache_root);
  all_.run.world.note("stand.by", uri);
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  int code = sqlite3_open_v2(uri.c_str(), &db_, kFlags, sqlite::kVfsName);
  if (code == SQLITE_OK) code = run_sql(db_, "pragma temp_store=memory; pragma cache_size=20");
  if (code == SQLITE_OK && !process_.dead && database() != nullptr) {
    opened_ = runtime_.now();
    return true;
  }
  if (!process_.dead) all_.run.world.note("stand.by.refused", sqlite::last_refusal(), static_cast<std::uint64_t>(code));
  close();
  return false;
}

// The user wants it: an owner that can be asked hands over first.
void StandbyActor::ask() {
  sqlite::OpenSettings as = database()->settings();
  as.follower = as.standby = false;
  as.commit_timeout = std::chrono::seconds(5);
  told().asks = true;
  const auto done = database()->take_over(as, random_.chance(700) ? sqlite::TakeOver::gently : sqlite::TakeOver::at_once);
  if (process_.dead) return;
  told().asks = false;
  all_.run.world.note(done ? "took.over" : "take.over.refused", done ? std::string_view() : std::string_view(done.error().message));
  if (done) all_.run.history.sometimes.reached(Sometime::standby_asked);
}

// It is the owner: another connection writes.
void StandbyActor::own() {
  all_.run.world.note("stands.in");
  Slot slot{"standby", seat_.machine, Copy{}};
  Opening how;
  how.uri = fmt::format("file:{}?vfs=onepen&home=sim://home&cache_root={}&owner={}", kStream, seat_.cache_root, process_.name);
  told().asks = true;  // if it was fenced meanwhile, this claims again: somebody opens it to write
  Application application(all_, process_, slot);
  int code = 0;
  if (application.open(how, code)) {
    if (all_.run.healing) static_cast<void>(application.commit(true) && application.synced());
    else application.work(static_cast<int>(3 + random_.below(20)));
  }
  application.close();
  if (!process_.dead) told().asks = false;
}

void StandbyActor::watch() {
  Instant faultless = opened_;
  while (!process_.dead && database()->follower() && !database()->reset_flag()) {
    std::set<std::uint64_t> ids;
    static_cast<void>(read_rows(all_, db_, process_.name, ids));
    if (!all_.run.healing) faultless = runtime_.now();
    if (all_.run.healing && !all_.others_ended(process_)) faultless = runtime_.now();
    if (process_.dead) return;
    // A process whose sync of a folder of the home, or of its claim log, failed says that it is to be started again.
    const bool troubled = all_.run.healing && (all_.may.disk_faults || all_.may.home_sync_faults || !database()->status().trouble.empty());
    if (runtime_.now() - faultless > std::chrono::nanoseconds(kOwnWithin) || troubled) {
      if (database()->follower() && !troubled) all_.violated("I11", process_.name + " stands by, nobody else is there, and it does not become the owner");
      return;
    }
    if (!all_.run.healing && random_.chance(30)) ask();
    runtime_.sleep_until(later(runtime_, random_.between(20, 700) * kMilli));
  }
  if (process_.dead || database()->reset_flag()) return;
  all_.run.history.sometimes.reached(Sometime::standby_owns);
  own();
}

}  // namespace

void sqlite_standby(SqliteRun& all, Process& process, StandbySeat& seat) {
  Random& random = all.run.world.random();
  Client client(all.run, process, *seat.machine);
  sqlite::Environment environment = environment_for(all, process, client);
  environment.live.checkpoint_bytes = (1 + random.below(40)) * 1024;
  all.sqlite.add(process, client.disk, environment);
  all.run.history.standbys[process.name] = StandbyWatch{};
  StandbyActor actor(all, process, seat);
  for (int round = 0; round < 6 && !process.dead; ++round) {
    const bool last = all.run.healing;
    if (actor.open()) {
      actor.watch();
      actor.close();
    }
    if (last) break;
    process.runtime->sleep_until(later(*process.runtime, random.between(100, 2'500) * kMilli));
  }
  all.sqlite.remove(process);
}

}  // namespace onepen::sim
