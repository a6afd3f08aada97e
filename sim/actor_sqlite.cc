// The applications of the simulator: who opens a database by name through Onepen's VFS, when and how; who goes to every machine at the end and looks.
#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "sim/sqlite_application.h"
#include "sqlite/functions.h"
#include "sqlite/vfs.h"

namespace onepen::sim {
namespace {

class RecordedHome final : public core::Home {
 public:
  explicit RecordedHome(Client& client) : client_(client) {}
  std::unique_ptr<core::Stream> stream(const StreamName&) override { return client_.stream(); }  // one database a run
  Result<std::vector<std::string>> list(const std::string& prefix) override { return client_.home().list(prefix); }
  const std::string& url() const override { return client_.home().url(); }
  core::Pace pace() const override { return client_.home().pace(); }

 private:
  Client& client_;
};

std::string uri_for(SqliteRun& all, const Process& process, std::string_view cache_root, bool local, bool heal) {
  Random& random = all.run.world.random();
  std::string uri = fmt::format("file:{}?vfs=onepen&home=sim://home&cache_root={}&owner={}&page_size=512", kStream, cache_root, process.name);
  uri += local ? "&durability=local" : "&durability=replicated";
  if (local && !heal && all.may.offline && random.chance(500)) uri += "&offline=1";
  if (!heal && random.chance(400)) uri += fmt::format("&term={}ms", random.between(400, 4'000));  // gives signs of life
  if (!heal && random.chance(150)) uri += "&takeover=if-dead";
  if (!heal && random.chance(300)) uri += "&reads=confirmed";
  if (uri.find("offline") != std::string::npos) {
    if (const auto at = uri.find("&reads=confirmed"); at != std::string::npos) uri.erase(at, 16);
  }
  uri += fmt::format("&notice_within={}ms&commit_timeout={}ms&close_flush={}ms", random.between(200, 3'000), heal ? 60'000 : random.between(1'000, 10'000),
                     random.between(0, 4'000));
  if (random.chance(700)) uri += fmt::format("&snapshot_after={}", random.between(2'000, 12'000));
  if (local && random.chance(200)) uri += "&max_pending_bytes=64K";
  return uri;
}

}  // namespace

sqlite::Environment environment_for(SqliteRun& all, Process& process, Client& client) {
  sqlite::Environment environment;
  environment.runtime = process.runtime.get();
  environment.disk = &client.disk;
  environment.open_home = [&client](const std::string&) -> Result<std::unique_ptr<core::Home>> { return std::make_unique<RecordedHome>(client); };
  Run& run = all.run;
  environment.log = Log([&run](LogLevel, std::string_view line) {
    if (run.world.tracing()) run.world.note("log", line);
  });
  return environment;
}

void sqlite_application(SqliteRun& all, Process& process, Slot& slot) {
  Runtime& runtime = *process.runtime;
  Random& random = all.run.world.random();
  Client client(all.run, process, *slot.machine);
  all.sqlite.add(process, client.disk, environment_for(all, process, client));
  const auto opens = 1 + random.below(3);
  for (std::uint64_t i = 0; i < opens && !process.dead && !all.run.healing; ++i) {
    runtime.sleep_until(later(runtime, random.between(0, 2'000) * kMilli));
    Opening how;
    how.local = random.chance(700);
    how.full_sync = random.chance(300);
    how.uri = uri_for(all, process, "/cache", how.local, false);
    how.confirmed = how.uri.find("&reads=confirmed") != std::string::npos;
    Application application(all, process, slot);
    int code = 0;
    if (!application.open(how, code)) continue;
    application.work(static_cast<int>(5 + random.below(slot.busy ? 60 : 25)));
    application.close();
  }
  all.sqlite.remove(process);
}

void sqlite_healer(SqliteRun& all, Process& process, Machine& machine, bool& healed) {
  Runtime& runtime = *process.runtime;
  Client client(all.run, process, machine);
  all.sqlite.add(process, client.disk, environment_for(all, process, client));
  Slot slot{"healer", &machine, Copy{}};
  for (int round = 0; !healed && !process.dead; ++round) {
    Opening how;
    how.full_sync = true;
    how.uri = uri_for(all, process, fmt::format("/heal{}", round), false, true);
    Application application(all, process, slot);
    int code = 0;
    if (!application.open(how, code)) {
      all.run.world.note("heal.refused", sqlite3_errstr(code));
      runtime.sleep_until(later(runtime, kSecond));
      continue;
    }
    std::set<std::uint64_t> ids;
    healed = application.commit(true) && application.synced() && read_rows(all, application.db(), "the healer", ids) && !process.dead;
    if (healed) {
      all.final_ids = std::move(ids);
      all.final_offset = application.covered();
      all.run.history.sometimes.reached(Sometime::healed);
    }
    application.close();
  }
  all.sqlite.remove(process);
}

namespace {

class Living {
 public:
  Living(SqliteRun& all, Process& process, Machine& machine) : all_(all), process_(process), slot_{"script", &machine, Copy{}} {}
  // Opens, commits and does everything SQLite does to its files; closes. send: seconds that closing waits for what is not sent yet.
  void open(const Opening& how, std::string_view cache, const char* last_checkpoint, int send = 2) {
    Opening one = how;
    one.uri = fmt::format("file:{}?vfs=onepen&home=sim://home&cache_root={}&page_size=512&durability={}&snapshot_after=3000&close_flush={}s", kStream, cache,
                          how.local ? "local" : "replicated", send);
    Application application(all_, process_, slot_);
    int code = 0;
    if (process_.dead || !application.open(one, code)) return;
    commits(application, 4);
    application.synced();
    application.checkpoint("passive");
    commits(application, 3);
    application.checkpoint(last_checkpoint);
    commits(application, 3);
    application.synced();
    static_cast<void>(run_sql(application.db(), "vacuum"));
    application.checkpoint("full");
    commits(application, 2);
    application.close();
  }

 private:
  static void commits(Application& application, int count) {
    for (int i = 0; i < count; ++i) application.commit(true);
  }
  SqliteRun& all_;
  Process& process_;
  Slot slot_;
};

}  // namespace

void sqlite_life(SqliteRun& all, Process& process, Machine& machine, Life life) {
  Client client(all.run, process, machine);
  all.sqlite.add(process, client.disk, environment_for(all, process, client));
  Living living(all, process, machine);
  Opening how;
  how.local = life != Life::replicated;
  how.full_sync = life == Life::local_full;
  switch (life) {
    case Life::local:
    case Life::local_full:
    case Life::replicated:
      living.open(how, "/cache", "restart");
      living.open(how, "/cache", "truncate");
      break;
    case Life::rivals:
      living.open(how, "/cache", "restart", 0);
      living.open(how, "/rival", "truncate", 0);
      living.open(how, "/cache", "truncate", 0);
      break;
    case Life::histories:
      living.open(how, "/cache", "restart");
      sqlite_restore(all, process, machine);
      living.open(how, "/cache", "truncate", 0);
      sqlite_adopt(all, process, machine);
      living.open(how, "/rival", "restart");
      sqlite_remove(all, process, machine);
      living.open(how, "/cache", "restart");
      break;
  }
  all.sqlite.remove(process);
}

bool sqlite_reopen(SqliteRun& all, Process& process, Machine& machine, const std::string& cache_root, std::set<std::uint64_t>& ids, std::string& why) {
  Client client(all.run, process, machine);
  all.sqlite.add(process, client.disk, environment_for(all, process, client));
  Slot slot{"reopen", &machine, Copy{}};
  Opening how;
  how.uri = fmt::format("file:{}?vfs=onepen&home=sim://home&cache_root={}&page_size=512", kStream, cache_root);
  Application application(all, process, slot);
  int code = 0;
  bool good = false;
  if (!application.open(how, code)) {
    why = fmt::format("cannot open: {}", sqlite3_errstr(code));
  } else if (!application.commit(true) || !application.synced()) {
    why = fmt::format("cannot commit: {}", sqlite3_errmsg(application.db()));
  } else {
    good = read_rows(all, application.db(), "the reopened copy", ids);
    if (!good) why = "cannot read all rows";
  }
  application.close();
  all.sqlite.remove(process);
  return good;
}

void collect_rows(SqliteRun& all, Machine& machine, std::set<std::uint64_t>& in_copies, std::set<std::uint64_t>& in_salvage) {
  SimFs& fs = machine.local;
  std::uint32_t scratch = 0;
  const std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    std::vector<std::string> names;
    static_cast<void>(fs.list(folder, "", SIZE_MAX, names));
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      if (fs.is_folder(path)) visit(path);
      if ((name != "db" && name != "aside") || fs.is_folder(path)) continue;
      const std::string copy = fmt::format("/collect/{}", ++scratch);
      Bytes aside;  // a move to salvage that was cut short: the next opening would finish it. What the power left of it may be anything
      if (name == "aside" && fs.read(path, 0, 4096, aside) == 0 && as_text(aside).find("/salvage/") != std::string_view::npos)
        fs.copy_tree(fs, std::string(as_text(aside)), copy);
      fs.copy_tree(fs, folder, copy);
      sqlite3* db = nullptr;
      const int code = sqlite3_open_v2((copy + "/db").c_str(), &db, SQLITE_OPEN_READWRITE, kSimVfsName);
      std::set<std::uint64_t> ids;
      if (code == SQLITE_OK) static_cast<void>(run_sql(db, "pragma temp_store=memory"));
      const bool salvage = folder.find("/salvage/") != std::string::npos;
      std::vector<std::string> before = all.run.history.violations;
      const bool whole = code == SQLITE_OK && read_rows(all, db, path, ids);
      all.run.world.note(whole ? "collected" : "collected.in_part", machine.local.name() + path, ids.size(), ids.empty() ? 0 : *ids.rbegin());
      if (!whole && all.run.history.violations.size() > before.size()) all.run.world.note("collected.why", all.run.history.violations.back());
      all.run.history.violations = std::move(before);  // a copy is shown to nobody before it was checked at an open; one in salvage may be anything
      sqlite3_close(db);
      (salvage ? in_salvage : in_copies).insert(ids.begin(), ids.end());
      if (salvage && fs.find_id(folder + "/manifest.json") == SimFs::kNone) all.violated("salvage", path + " has no manifest beside it");
    }
  };
  visit("/cache");
}

}  // namespace onepen::sim
