#include <onepen/database.h>

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "home/port.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen {
namespace {

// A home as the rooms below take it, kept alive by the public Home's port.
class PortHome final : public core::Home {
 public:
  explicit PortHome(std::shared_ptr<HomePort> port) : port_(std::move(port)) {}
  std::unique_ptr<core::Stream> stream(const StreamName& name) override { return port_->home().stream(name); }
  Result<std::vector<std::string>> list(const std::string& prefix) override { return port_->home().list(prefix); }
  const std::string& url() const override { return port_->home().url(); }

 private:
  std::shared_ptr<HomePort> port_;
};

// SQLite knows VFSes per process, so this is per process as well (sqlite/registry.h), and lives as long.
struct Process {
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  sqlite::Environment environment;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<HomePort>> homes;  // by URL: the last Home each was opened with

  Process() {
    environment.runtime = runtime.get();
    environment.disk = disk.get();
    environment.log = sqlite::host_log();
    environment.open_home = [this](const std::string& url) -> Result<std::unique_ptr<core::Home>> {
      const std::lock_guard lock(mutex);
      const auto found = homes.find(url);
      if (found == homes.end()) return tl::unexpected(Error{Outcome::invalid, fmt::format("No Home was opened for '{}'.", url), {}});
      return std::make_unique<PortHome>(found->second);
    };
    environment.after_fork = [this] {  // a child opens its Homes anew as well: theirs is what their port holds
      sqlite::Environment child = environment;
      child.runtime = io::make_system_runtime().release();
      child.disk = io::make_posix_disk().release();
      return child;
    };
  }
};

Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

std::string percent_encoded(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else text.push_back(c);
  }
  return text;
}

Result<sqlite::OpenSettings> settings_of(std::string url, std::string_view name, const OpenOptions& options) {
  const auto parameter = [&](std::string_view key) -> std::optional<std::string> {
    if (key == "home") return url;
    if (key == "cache_root" && !options.cache_root.empty()) return options.cache_root;
    if (key == "owner") return options.owner_name;
    if (key == "page_size") return std::to_string(options.page_size);
    if (key == "notice_within") return std::to_string(options.notice_within.count());
    if (key == "commit_timeout") return std::to_string(options.commit_timeout.count());
    if (key == "reads" && options.confirm_reads) return "confirmed";
    if (key == "durability") return options.durability == Durability::local ? "local" : "replicated";
    if (key == "offline" && options.offline) return "1";
    if (key == "max_pending_bytes") return std::to_string(options.max_pending_bytes);
    if (key == "snapshot_after") return std::to_string(options.snapshot_after);
    return std::nullopt;
  };
  auto settings = sqlite::read_settings(name, parameter, {}, "");
  if (!settings) return settings;
  if (options.progress)
    settings->progress = [tell = options.progress](const owner::Progress& progress) { tell({progress.step, progress.done_bytes, progress.total_bytes}); };
  settings->takeover = options.takeover == Takeover::always    ? owner::TakeoverMode::always
                       : options.takeover == Takeover::if_dead ? owner::TakeoverMode::if_dead
                                                               : owner::TakeoverMode::never;
  return settings;
}

}  // namespace

struct DatabaseState {
  std::shared_ptr<sqlite::OpenDatabase> database;
  std::mutex mutex;
  bool open = true;
  ~DatabaseState() { static_cast<void>(close({})); }
  Result<> close(std::optional<Duration> flush) {
    {
      const std::lock_guard lock(mutex);
      if (!open) return {};
      open = false;
    }
    if (flush && database->pending()) {  // connections of the application may be open still: what is committed so far is sent all the same
      if (auto sent = database->flush(*flush); !sent) {
        static_cast<void>(sqlite::process_registry()->detach(database, Duration(0)));
        return sent;
      }
    }
    return sqlite::process_registry()->detach(database, flush);
  }
};

void CloseSqlite::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Result<Database> Database::open(const Home& home, std::string_view name, OpenOptions options) {
  Process& p = process();
  if (sqlite::register_vfs(p.environment) != SQLITE_OK) return tl::unexpected(Error{Outcome::unavailable, "SQLite refused the VFS of Onepen.", {}});
  const std::string url(home.url());
  {
    const std::lock_guard lock(p.mutex);
    p.homes[url] = home.port();
  }
  auto settings = settings_of(url, name, options);
  if (!settings) return tl::unexpected(settings.error());
  sqlite::Registry& registry = *sqlite::process_registry();
  if (registry.forked()) return tl::unexpected(Error{Outcome::invalid, sqlite::forked_sentence(), {}});
  const auto path = registry.path_for(*settings);
  if (!path) return tl::unexpected(path.error());
  auto attached = registry.attach(*path, false, true);
  if (attached.error) return tl::unexpected(*attached.error);
  if (!attached.database)
    return tl::unexpected(Error{Outcome::unavailable, fmt::format("'{}' was closed by another thread while it was being opened; open it again.", name), {}});
  auto state = std::make_shared<DatabaseState>();
  state->database = std::move(attached.database);
  return Database(std::move(state));
}

Result<Connection> Database::connect() {
  sqlite::OpenDatabase& database = *state_->database;
  if (const auto reset = database.current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  // By the copy's own path: a name would be opened afresh, and claimed again, if the handle reset right now.
  const std::string uri = "file:" + percent_encoded(database.path()) + "?vfs=" + sqlite::kVfsName;
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(uri.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, nullptr);
  Connection connection(raw);
  if (rc != SQLITE_OK)
    return tl::unexpected(
        Error{Outcome::unavailable, fmt::format("SQLite could not open {}: {}", database.path(), raw != nullptr ? sqlite3_errmsg(raw) : "no memory"), {}});
  if (sqlite::register_functions(raw) != SQLITE_OK) return tl::unexpected(Error{Outcome::unavailable, "SQLite refused the functions of Onepen.", {}});
  return connection;
}

Result<Offset> Database::synced(Duration limit) { return state_->database->confirm(limit); }

Listening Database::on_reset(std::function<void(const Reset&)> listener) {
  const auto token = std::make_shared<std::function<void(const Reset&)>>(std::move(listener));
  state_->database->on_reset([weak = std::weak_ptr(token)](const Reset& reset) {
    if (const auto alive = weak.lock()) (*alive)(reset);
  });
  return token;
}

Status Database::status() const {
  const sqlite::DatabaseStatus now = state_->database->status();
  const auto role = now.reset ? Status::Role::reset : now.offline ? Status::Role::offline : Status::Role::owner;
  return {role, now.owner.token, now.owner.acknowledged.text.empty() ? now.copy.offset : now.owner.acknowledged, now.pending_commits, now.reset, now.salvaged};
}

Result<> Database::close(Duration flush) { return state_->close(flush); }

}  // namespace onepen
