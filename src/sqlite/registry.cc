#include "sqlite/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace onepen::sqlite {
namespace {

// Between xFullPathname and xOpen, which SQLite calls on one thread, one after the other: what the name was found to be.
struct Promise {
  const Registry* registry = nullptr;
  std::string path;
  std::optional<OpenSettings> settings;  // none: by the copy's own path
};
// May an open for writing make an owner of the follower that is there? It claims at once, and cannot do without the home.
bool takes_over(const OpenSettings& settings) { return settings.takeover == owner::TakeoverMode::always && !settings.offline; }

Promise& thread_promise() {
  thread_local Promise promise;
  return promise;
}

}  // namespace

Registry::Registry(Environment environment) : environment_(std::move(environment)) {}

std::shared_ptr<std::mutex> Registry::gate(const std::string& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(gates_, [&](const auto& item) { return item.first != key && item.second.use_count() == 1; });
  auto& gate = gates_[key];
  if (!gate) gate = std::make_shared<std::mutex>();
  return gate;
}

std::shared_ptr<OpenDatabase> Registry::find(const OpenSettings& settings) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    const OpenDatabase& database = *entry.database;
    if (*database.settings().name != *settings.name || database.settings().home_url != settings.home_url ||
        database.settings().cache_root != settings.cache_root)
      continue;
    if (database.reset_flag()) continue;
    if (database.started() && database.follower() && !settings.follower && !takes_over(settings)) continue;  // that writer needs a copy of its own
    return entry.database;
  }
  return nullptr;
}

Result<std::string> Registry::path_for(const OpenSettings& settings) {
  const auto gate_ = gate(settings.home_url + '\n' + settings.name->text());
  const std::lock_guard opening(*gate_);
  if (const auto found = find(settings)) {
    if (found->settings().durability != settings.durability && !settings.follower && !found->follower())
      return tl::unexpected(Error{Outcome::invalid,
                                  fmt::format("'{}' is open in this process with durability={}; open it with the same durability, or close it first.",
                                              settings.name->text(), word(found->settings().durability)),
                                  {}});
    thread_promise() = {this, found->path(), settings};
    return found->path();
  }
  auto acquired = OpenDatabase::acquire(environment_, settings);
  if (!acquired) return tl::unexpected(acquired.error());
  std::shared_ptr<OpenDatabase> database = std::move(*acquired);
  const std::lock_guard lock(mutex_);
  entries_.push_back({database, 0});
  thread_promise() = {this, database->path(), settings};
  return database->path();
}

void Registry::promise(const std::string& path) { thread_promise() = {this, path, std::nullopt}; }

bool Registry::promised(const std::string& path) const { return thread_promise().registry == this && thread_promise().path == path; }

bool Registry::ours(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.database->path() == path; });
}

// One more connection to the open database at `path`.
std::shared_ptr<OpenDatabase> Registry::take(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.database->path() != path) continue;
    ++entry.connections;
    return entry.database;
  }
  return nullptr;
}

// The last connection closed between the name's look-up and this open: the name is looked up again. SQLite has the path already, so it must be the same copy.
Registry::Attached Registry::attach_again(const std::string& path, bool read_only, bool create) {
  const std::optional<OpenSettings> settings = std::exchange(thread_promise().settings, std::nullopt);
  thread_promise() = {};
  const auto closed = [&](std::string_view what) {
    return Attached{nullptr, Error{Outcome::unavailable,
                                   fmt::format("The database of {} was closed by another thread while it was being opened{}. Open it again.", path, what),
                                   {}}};
  };
  if (!settings) return closed("");
  const auto found = path_for(*settings);
  if (!found) return {nullptr, found.error()};
  thread_promise() = {};
  if (*found == path) return attach(path, read_only, create);
  if (auto other = take(*found)) static_cast<void>(detach(other));  // another process took the copy meanwhile: what path_for acquired instead is let go
  return closed(", and its local copy was taken by another process");
}

Registry::Attached Registry::attach(const std::string& path, bool read_only, bool create) {
  std::shared_ptr<OpenDatabase> database = take(path);
  if (!database) return promised(path) ? attach_again(path, read_only, create) : Attached{};
  std::optional<Error> error;
  {
    const auto gate_ = gate(database->settings().home_url + '\n' + database->settings().name->text());
    const std::lock_guard opening(*gate_);
    if (!database->started()) {
      if (const auto done = database->start(read_only, create); !done) error = done.error();
    } else if (const auto& as = thread_promise().settings; database->follower() && !read_only && as && !as->follower && takes_over(*as)) {
      if (const auto done = database->take_over(*as, TakeOver::at_once); !done) error = done.error();
    } else if (database->follower() && !read_only) {
      error = Error{
          Outcome::not_owner, "'" + database->settings().name->text() + "' is open read-only in this process; open it for writing by its name again.", {}};
    }
  }
  if (error) {
    static_cast<void>(detach(database));
    return {nullptr, std::move(error)};
  }
  return {std::move(database), {}};
}

Result<> Registry::detach(const std::shared_ptr<OpenDatabase>& database, std::optional<std::chrono::nanoseconds> flush) {
  const auto gate_ = gate(database->settings().home_url + '\n' + database->settings().name->text());
  const std::lock_guard opening(*gate_);
  {
    const std::lock_guard lock(mutex_);
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.database == database; });
    if (entry == entries_.end() || --entry->connections > 0) return {};
    entries_.erase(entry);
  }
  return database->stop(flush);
}

}  // namespace onepen::sqlite
