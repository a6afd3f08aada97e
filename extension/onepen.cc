// onepen.so: the loadable extension. Wiring only: it gives the rooms below a runtime, a disk and homes, registers the VFS "onepen", and gives every
// connection the SQL functions.
//
// It stays loaded (a VFS cannot be unloaded), calls SQLite only through the host's table of functions, and shows one symbol: hosts bring SQLite versions of
// their own. A second SQLite library in the same process is refused: POSIX locks of one are invisible to the other (sqlite.org/howtocorrupt, 2.2.1).
#include <sqlite3ext.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

SQLITE_EXTENSION_INIT1

namespace {

constexpr int kOldestSqlite = 3'035'000;  // sqlite3_filename_database, sqlite3_uri_key and WAL as captured

// One home per URL for as long as the process lives: what a home sees to once (the proof that the place can fence, folders kept open) is done once.
class SharedHome final : public onepen::core::Home {
 public:
  explicit SharedHome(std::shared_ptr<onepen::core::Home> home) : home_(std::move(home)) {}
  std::unique_ptr<onepen::core::Stream> stream(const onepen::StreamName& name) override { return home_->stream(name); }
  onepen::Result<std::vector<std::string>> list(const std::string& prefix) override { return home_->list(prefix); }
  const std::string& url() const override { return home_->url(); }
  onepen::core::Pace pace() const override { return home_->pace(); }
  onepen::core::RequestCounts requests() const override { return home_->requests(); }

 private:
  std::shared_ptr<onepen::core::Home> home_;
};

class Homes {
 public:
  onepen::Result<std::unique_ptr<onepen::core::Home>> open(const onepen::sqlite::Environment& environment, const std::string& url) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = homes_.find(url); found != homes_.end()) return std::make_unique<SharedHome>(found->second);
    }
    auto opened = onepen::home::open_home(*environment.runtime, *environment.disk, url, environment.log);
    if (!opened) return tl::unexpected(opened.error());
    const std::lock_guard lock(mutex_);
    const auto [home, added] = homes_.try_emplace(url, std::move(*opened));  // two at once: the first one stays
    return std::make_unique<SharedHome>(home->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<onepen::core::Home>> homes_;
};

// Made for as long as the process lives (registry.h says why): once, and once more in each child after fork() that opens a database.
const onepen::sqlite::Environment& make_environment() {
  auto* made = new onepen::sqlite::Environment;
  made->runtime = onepen::io::make_system_runtime().release();
  made->disk = onepen::io::make_posix_disk().release();
  made->log = onepen::sqlite::host_log();
  made->open_home = [made, homes = std::make_shared<Homes>()](const std::string& url) { return homes->open(*made, url); };
  made->after_fork = [] { return make_environment(); };
  return *made;
}

const onepen::sqlite::Environment& process_environment() {
  static const auto& environment = make_environment();
  return environment;
}

int each_connection(sqlite3* connection, char**, const sqlite3_api_routines*) { return onepen::sqlite::register_functions(connection); }

int refuse_load(const sqlite3_api_routines* api, char** error, const char* sentence) {
  if (error != nullptr) *error = api->mprintf("%s", sentence);
  return SQLITE_ERROR;
}

int load(sqlite3* connection, char** error, const sqlite3_api_routines* api) {
  if (sqlite3_api != nullptr && sqlite3_api != api)
    return refuse_load(
        api, error,
        "onepen is already loaded in this process by another SQLite library; two SQLite libraries on the same files corrupt databases, so this one is refused.");
  if (api->libversion_number() < kOldestSqlite) return refuse_load(api, error, "onepen needs SQLite 3.35 or newer.");
  SQLITE_EXTENSION_INIT2(api)
  if (onepen::sqlite::register_vfs(process_environment()) != SQLITE_OK) return refuse_load(api, error, "onepen could not register its VFS.");
  // SQLite keeps the function for every connection made later; the cast is how its interface asks for it.
  const int rc = sqlite3_auto_extension(reinterpret_cast<void (*)()>(&each_connection));
  if (rc != SQLITE_OK) return rc;
  const int functions = each_connection(connection, error, api);
  return functions == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : functions;
}

int load_safely(sqlite3* connection, char** error, const sqlite3_api_routines* api) noexcept {
  try {
    return load(connection, error, api);
  } catch (const std::exception& e) {
    return refuse_load(api, error, e.what());
  }
}

}  // namespace

#define ONEPEN_ENTRY extern "C" __attribute__((visibility("default"))) int

ONEPEN_ENTRY sqlite3_onepen_init(sqlite3* connection, char** error, const sqlite3_api_routines* api) { return load_safely(connection, error, api); }
#ifdef ONEPEN_TEST_HOOKS
// SQLite derives the entry's name from the file's letters: onepen_test.so.
ONEPEN_ENTRY sqlite3_onepentest_init(sqlite3* connection, char** error, const sqlite3_api_routines* api) { return load_safely(connection, error, api); }
#endif
