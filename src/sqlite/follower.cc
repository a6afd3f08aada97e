#include <onepen/follower.h>

#include <utility>

#include "sqlite/api_process.h"
#include "sqlite/vfs.h"

namespace onepen {

struct FollowerState {
  std::shared_ptr<sqlite::OpenDatabase> database;  // null: handed on to a Database
  ~FollowerState() {
    if (database) static_cast<void>(sqlite::process_registry()->detach(database));
  }
};

namespace {

// What a follower is the owner with: on its own copy.
Result<sqlite::OpenSettings> settings_as_owner(const sqlite::OpenSettings& following, const OpenOptions& options) {
  OpenOptions own = options;
  own.cache_root = following.cache_root;
  auto settings = sqlite::api_settings(following.home_url, following.name->text(), own);
  if (settings && !settings->term && following.standby) settings->term = following.term;
  return settings;
}

}  // namespace

Result<Follower> Follower::open(const Home& home, std::string_view name, FollowOptions options) {
  const std::string url(home.url());
  const auto parameter = [&](std::string_view key) -> std::optional<std::string> {
    if (key == "home") return url;
    if (key == "mode") return "ro";
    if (key == "cache_root" && !options.cache_root.empty()) return options.cache_root;
    if (key == "max_staleness" && options.max_staleness) return std::to_string(options.max_staleness->count());
    if (key == "owner") return options.as_owner.owner_name;
    if (key == "standby" && options.takeover_when_owner_dead) return "1";
    if (key == "term" && options.takeover_when_owner_dead) return std::to_string(options.term.count());
    return std::nullopt;
  };
  auto settings = sqlite::read_settings(name, parameter, {}, "");
  if (!settings) return tl::unexpected(settings.error());
  if (options.progress)
    settings->progress = [tell = options.progress](const owner::Progress& progress) { tell({progress.step, progress.done_bytes, progress.total_bytes}); };
  if (settings->standby) {
    auto as = settings_as_owner(*settings, options.as_owner);
    if (!as) return tl::unexpected(as.error());
    settings->as_owner = std::make_shared<const sqlite::OpenSettings>(std::move(*as));
  }
  auto database = sqlite::api_attach(home, *settings, true);
  if (!database) return tl::unexpected(database.error());
  if (options.on_take_over) (*database)->on_take_over(options.on_take_over);
  auto state = std::make_shared<FollowerState>();
  state->database = std::move(*database);
  return Follower(std::move(state));
}

Result<Connection> Follower::connect() { return sqlite::api_connect(*state_->database, true); }

Result<> Follower::wait_for(const Offset& offset, Duration limit) { return state_->database->wait_for(offset, limit); }

FollowerStatus Follower::status() const {
  const sqlite::DatabaseStatus now = state_->database->status();
  return {now.copy.offset, now.copy.ordinal, now.contact_age, now.trouble, !now.follower && !now.reset, now.reset};
}

Result<Database> Follower::take_over(OpenOptions options) && {
  auto as = settings_as_owner(state_->database->settings(), options);
  if (!as) return tl::unexpected(as.error());
  if (const auto done = state_->database->take_over(*as, sqlite::TakeOver::gently); !done) return tl::unexpected(done.error());
  return Database(sqlite::api_state(std::exchange(state_->database, nullptr)));
}

Listening Follower::on_reset(std::function<void(const Reset&)> listener) { return sqlite::listen(*state_->database, std::move(listener)); }

}  // namespace onepen
