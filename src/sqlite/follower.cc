#include <onepen/follower.h>

#include "sqlite/api_process.h"
#include "sqlite/vfs.h"

namespace onepen {

struct FollowerState {
  std::shared_ptr<sqlite::OpenDatabase> database;
  ~FollowerState() { static_cast<void>(sqlite::process_registry()->detach(database)); }
};

Result<Follower> Follower::open(const Home& home, std::string_view name, FollowOptions options) {
  const std::string url(home.url());
  const auto parameter = [&](std::string_view key) -> std::optional<std::string> {
    if (key == "home") return url;
    if (key == "mode") return "ro";
    if (key == "cache_root" && !options.cache_root.empty()) return options.cache_root;
    if (key == "max_staleness" && options.max_staleness) return std::to_string(options.max_staleness->count());
    return std::nullopt;
  };
  auto settings = sqlite::read_settings(name, parameter, {}, "");
  if (!settings) return tl::unexpected(settings.error());
  if (options.progress)
    settings->progress = [tell = options.progress](const owner::Progress& progress) { tell({progress.step, progress.done_bytes, progress.total_bytes}); };
  auto database = sqlite::api_attach(home, *settings, true);
  if (!database) return tl::unexpected(database.error());
  auto state = std::make_shared<FollowerState>();
  state->database = std::move(*database);
  return Follower(std::move(state));
}

Result<Connection> Follower::connect() { return sqlite::api_connect(*state_->database, true); }

Result<> Follower::wait_for(const Offset& offset, Duration limit) { return state_->database->wait_for(offset, limit); }

FollowerStatus Follower::status() const {
  const sqlite::DatabaseStatus now = state_->database->status();
  return {now.copy.offset, now.copy.ordinal, now.contact_age, now.trouble, now.reset};
}

Listening Follower::on_reset(std::function<void(const Reset&)> listener) { return sqlite::listen(*state_->database, std::move(listener)); }

}  // namespace onepen
