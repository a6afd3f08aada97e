#include "sqlite/api_process.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "home/port.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen::sqlite {
namespace {

// A home as the rooms below take it, kept alive by the public Home's port.
class PortHome final : public core::Home {
 public:
  explicit PortHome(std::shared_ptr<HomePort> port) : port_(std::move(port)) {}
  std::unique_ptr<core::Stream> stream(const StreamName& name) override { return port_->home().stream(name); }
  Result<std::vector<std::string>> list(const std::string& prefix) override { return port_->home().list(prefix); }
  const std::string& url() const override { return port_->home().url(); }
  core::Pace pace() const override { return port_->home().pace(); }
  core::RequestCounts requests() const override { return port_->home().requests(); }

 private:
  std::shared_ptr<HomePort> port_;
};

// SQLite knows VFSes per process, so this is per process as well (sqlite/registry.h), and lives as long.
struct ApiProcess {
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  Environment environment;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<HomePort>> homes;  // by URL: the last Home each was opened with

  ApiProcess() {
    environment.runtime = runtime.get();
    environment.disk = disk.get();
    environment.log = host_log();
    environment.open_home = [this](const std::string& url) -> Result<std::unique_ptr<core::Home>> {
      const std::lock_guard lock(mutex);
      const auto found = homes.find(url);
      if (found == homes.end()) return tl::unexpected(Error{Outcome::invalid, fmt::format("No Home was opened for '{}'.", url), {}});
      return std::make_unique<PortHome>(found->second);
    };
    environment.after_fork = [this] {  // a child opens its Homes anew as well: theirs is what their port holds
      Environment child = environment;
      child.runtime = io::make_system_runtime().release();
      child.disk = io::make_posix_disk().release();
      return child;
    };
  }
};

ApiProcess& api_process() {
  static auto* const instance = new ApiProcess;
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

}  // namespace

Result<Registry*> api_registry(const Home& home) {
  ApiProcess& p = api_process();
  if (register_vfs(p.environment) != SQLITE_OK) return tl::unexpected(Error{Outcome::unavailable, "SQLite refused the VFS of Onepen.", {}});
  {
    const std::lock_guard lock(p.mutex);
    p.homes[std::string(home.url())] = home.port();
  }
  Registry* const registry = process_registry();
  if (registry->forked()) return tl::unexpected(Error{Outcome::invalid, forked_sentence(), {}});
  return registry;
}

Result<std::shared_ptr<OpenDatabase>> api_attach(const Home& home, const OpenSettings& settings, bool read_only) {
  const auto registry = api_registry(home);
  if (!registry) return tl::unexpected(registry.error());
  const auto path = (*registry)->path_for(settings);
  if (!path) return tl::unexpected(path.error());
  auto attached = (*registry)->attach(*path, read_only, !read_only);
  if (attached.error) return tl::unexpected(*attached.error);
  if (!attached.database)
    return tl::unexpected(
        Error{Outcome::unavailable, fmt::format("'{}' was closed by another thread while it was being opened; open it again.", settings.name->text()), {}});
  return std::move(attached.database);
}

Result<Connection> api_connect(const OpenDatabase& database, bool read_only) {
  if (const auto reset = database.current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  const std::string uri = "file:" + percent_encoded(database.path()) + "?vfs=" + kVfsName;
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(uri.c_str(), &raw, (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_URI, nullptr);
  Connection connection(raw);
  if (rc != SQLITE_OK)
    return tl::unexpected(
        Error{Outcome::unavailable, fmt::format("SQLite could not open {}: {}", database.path(), raw != nullptr ? sqlite3_errmsg(raw) : "no memory"), {}});
  if (register_functions(raw) != SQLITE_OK) return tl::unexpected(Error{Outcome::unavailable, "SQLite refused the functions of Onepen.", {}});
  return connection;
}

Listening listen(OpenDatabase& database, std::function<void(const Reset&)> listener) {
  const auto token = std::make_shared<std::function<void(const Reset&)>>(std::move(listener));
  database.on_reset([weak = std::weak_ptr(token)](const Reset& reset) {
    if (const auto alive = weak.lock()) (*alive)(reset);
  });
  return token;
}

}  // namespace onepen::sqlite
