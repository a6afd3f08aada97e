#include <fmt/format.h>

#include <onepen/database.h>

#include <mutex>

#include "sqlite/api_process.h"
#include "sqlite/vfs.h"

namespace onepen {
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

namespace sqlite {

Result<OpenSettings> api_settings(std::string_view url, std::string_view name, const OpenOptions& options) {
  const auto parameter = [&](std::string_view key) -> std::optional<std::string> {
    if (key == "home") return std::string(url);
    if (key == "cache_root" && !options.cache_root.empty()) return options.cache_root;
    if (key == "owner") return options.owner_name;
    if (key == "page_size") return std::to_string(options.page_size);
    if (key == "notice_within" && options.notice_within) return std::to_string(options.notice_within->count());
    if (key == "max_linger" && options.max_linger) return std::to_string(options.max_linger->count());
    if (key == "max_objects_per_second" && options.max_objects_per_second) return fmt::format("{}", *options.max_objects_per_second);
    if (key == "commit_timeout") return std::to_string(options.commit_timeout.count());
    if (key == "reads" && options.confirm_reads) return "confirmed";
    if (key == "term" && options.term) return std::to_string(options.term->count());
    if (key == "durability") return options.durability == Durability::local ? "local" : "replicated";
    if (key == "offline" && options.offline) return "1";
    if (key == "max_pending_bytes") return std::to_string(options.max_pending_bytes);
    if (key == "snapshot_after") return std::to_string(options.snapshot_after);
    return std::nullopt;
  };
  auto settings = read_settings(name, parameter, {}, "");
  if (!settings) return settings;
  if (options.progress)
    settings->progress = [tell = options.progress](const owner::Progress& progress) { tell({progress.step, progress.done_bytes, progress.total_bytes}); };
  settings->takeover = options.takeover == Takeover::always    ? owner::TakeoverMode::always
                       : options.takeover == Takeover::if_dead ? owner::TakeoverMode::if_dead
                                                               : owner::TakeoverMode::never;
  return settings;
}

std::shared_ptr<DatabaseState> api_state(std::shared_ptr<OpenDatabase> database) {
  auto state = std::make_shared<DatabaseState>();
  state->database = std::move(database);
  return state;
}

}  // namespace sqlite

void CloseSqlite::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Result<Database> Database::open(const Home& home, std::string_view name, OpenOptions options) {
  auto settings = sqlite::api_settings(home.url(), name, options);
  if (!settings) return tl::unexpected(settings.error());
  auto database = sqlite::api_attach(home, *settings, false);
  if (!database) return tl::unexpected(database.error());
  return Database(sqlite::api_state(std::move(*database)));
}

Result<Connection> Database::connect() { return sqlite::api_connect(*state_->database, false); }

Result<Offset> Database::synced(Duration limit) { return state_->database->confirm(limit); }

Listening Database::on_reset(std::function<void(const Reset&)> listener) { return sqlite::listen(*state_->database, std::move(listener)); }

Status Database::status() const {
  const sqlite::DatabaseStatus now = state_->database->status();
  const auto role = now.reset ? Status::Role::reset : now.offline ? Status::Role::offline : Status::Role::owner;
  return {role,         now.owner.token, now.owner.acknowledged.text.empty() ? now.copy.offset : now.owner.acknowledged, now.pending_commits, now.reset,
          now.salvaged, now.requests};
}

Result<> Database::close(Duration flush) { return state_->close(flush); }

}  // namespace onepen
