#include "sqlite/registry.h"

#include <unistd.h>

#include <algorithm>

namespace onepen::sqlite {

Registry::Registry(Environment environment) : environment_(std::move(environment)), pid_(::getpid()) {}

bool Registry::forked() const { return ::getpid() != pid_; }

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
    if (database.started() && database.follower() && !settings.follower) continue;  // a writer needs a copy of its own
    return entry.database;
  }
  return nullptr;
}

Result<std::string> Registry::path_for(const OpenSettings& settings) {
  const auto gate_ = gate(settings.home_url + '\n' + settings.name->text());
  const std::lock_guard opening(*gate_);
  if (const auto found = find(settings)) return found->path();
  auto acquired = OpenDatabase::acquire(environment_, settings);
  if (!acquired) return tl::unexpected(acquired.error());
  std::shared_ptr<OpenDatabase> database = std::move(*acquired);
  const std::lock_guard lock(mutex_);
  entries_.push_back({database, 0});
  return database->path();
}

bool Registry::ours(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.database->path() == path; });
}

Registry::Attached Registry::attach(const std::string& path, bool read_only, bool create) {
  std::shared_ptr<OpenDatabase> database;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.database->path() != path) continue;
      database = entry.database;
      ++entry.connections;
      break;
    }
  }
  if (!database) return {};
  std::optional<Error> error;
  {
    const auto gate_ = gate(database->settings().home_url + '\n' + database->settings().name->text());
    const std::lock_guard opening(*gate_);
    if (!database->started()) {
      if (const auto done = database->start(read_only, create); !done) error = done.error();
    } else if (database->follower() && !read_only) {
      error = Error{
          Outcome::not_owner, "'" + database->settings().name->text() + "' is open read-only in this process; open it for writing by its name again.", {}};
    }
  }
  if (error) {
    detach(database);
    return {nullptr, std::move(error)};
  }
  return {std::move(database), {}};
}

void Registry::detach(const std::shared_ptr<OpenDatabase>& database) {
  const auto gate_ = gate(database->settings().home_url + '\n' + database->settings().name->text());
  const std::lock_guard opening(*gate_);
  {
    const std::lock_guard lock(mutex_);
    const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.database == database; });
    if (entry == entries_.end() || --entry->connections > 0) return;
    entries_.erase(entry);
  }
  database->stop();
}

void Registry::set_default_home(std::string url) {
  const std::lock_guard lock(mutex_);
  default_home_ = std::move(url);
}

std::string Registry::default_home() {
  const std::lock_guard lock(mutex_);
  return default_home_;
}

}  // namespace onepen::sqlite
