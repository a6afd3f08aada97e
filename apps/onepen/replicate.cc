// `onepen replicate`: keeps a plain SQLite file up to date with a database, for any program to read. The home is only read. With --takeover it is a standby as well:
// it claims when the owner is gone, and ends, so that a service that is started after it (`onepen replicate app --takeover && exec service`) is the writer.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "owner/standby.h"
#include "sqlite/follow.h"
#include "sqlite/messages.h"
#include "sqlite/open_database_settings.h"

namespace onepen::app {
namespace {

constexpr std::chrono::minutes kOnceWithin{60};
constexpr std::chrono::seconds kLetGoWithin{5};

// The signals that end a command, and one of our own for "it ended by itself", held back in every thread from here on.
class Ending {
 public:
  Ending() {
    sigemptyset(&awaited_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGURG}) {
      struct sigaction now{};  // what a parent chose to ignore (nohup) stays ignored
      if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) sigaddset(&awaited_, number);
    }
    ::pthread_sigmask(SIG_BLOCK, &awaited_, nullptr);
  }
  void by_itself() const { ::kill(::getpid(), SIGURG); }
  void wait() const {
    int number = 0;
    while (::sigwait(&awaited_, &number) != 0) continue;
  }

 private:
  sigset_t awaited_{};
};

void tell(const Common& common, const ReplicateOptions& options, const std::string& path, const sqlite::CommitState& state) {
  const std::uint64_t bytes = std::uint64_t{state.page_count} * state.page_size;
  const std::string& file = options.file.empty() ? path : options.file;
  if (common.json) {
    print_json(nlohmann::json{{"name", options.name}, {"file", file}, {"commits", state.ordinal}, {"offset", state.offset.text}, {"bytes", bytes}});
    return;
  }
  const std::string_view what = options.once ? "is up to date" : options.takeover ? "stands by" : "follows";
  print(fmt::format("{} {}: '{}' as of commit {}, {}. Its offset is {}.\n", file, what, options.name, state.ordinal, byte_count(bytes), state.offset.text));
}

// What the standby did at last.
struct TookOver {
  std::uint64_t epoch = 0;
  std::string from;
  std::string_view why;
};

owner::Options options_of(const Rooms& rooms, const ReplicateOptions& options, const owner::Chance& chance) {
  owner::Options claim;
  claim.info = asking(*rooms.runtime, "standby");
  claim.info.name = options.owner;
  claim.create = false;
  claim.log = sqlite::spoken_log();
  if (chance.plan) {
    claim.watched = chance.plan;
    claim.takeover = owner::TakeoverMode::if_dead;
  }
  return claim;
}

// Claims upon what the standby saw, so that whoever owned it is refused from its next write on, and lets go in peace: the next one to open is the writer.
Result<TookOver> claim_for_the_next(const Rooms& rooms, const ReplicateOptions& options, const StreamName& name, sqlite::Copy& copy,
                                    const owner::Chance& chance) {
  auto owner = owner::Owner::open(*rooms.runtime, rooms.home->stream(name), copy, copy, options_of(rooms, options, chance));
  if (!owner) {
    if (const auto shown = copy.settle(); !shown) return tl::unexpected(shown.error());
    return tl::unexpected(owner.error());
  }
  const TookOver done{(*owner)->status().token.epoch.value, chance.from, owner::word(chance.why)};
  if (const auto let_go = (*owner)->stop(rooms.runtime->now() + kLetGoWithin); !let_go) note(let_go.error().message);
  return done;
}

void tell_takeover(const Common& common, const ReplicateOptions& options, const sqlite::CommitState& state, const TookOver& done) {
  if (common.json) {
    print_json(nlohmann::json{{"name", options.name},
                              {"took_over", true},
                              {"epoch", done.epoch},
                              {"from", done.from},
                              {"why", std::string(done.why)},
                              {"commits", state.ordinal},
                              {"offset", state.offset.text}});
    return;
  }
  print(fmt::format("Took over '{}'{}: {}. Claimed with epoch {}, as of commit {}, and let go: the next to open it is its writer.\n", options.name,
                    done.from.empty() ? std::string() : " from " + done.from, done.why, done.epoch, state.ordinal));
}

// Without --to the copy of this machine, which the next open finds warm.
Result<std::unique_ptr<sqlite::Copy>> acquire(const Common& common, const Rooms& rooms, const ReplicateOptions& options) {
  if (!options.file.empty()) {
    auto name = StreamName::parse(options.name);
    if (!name) return tl::unexpected(name.error());
    const sqlite::CopyPlace place{common.cache_root, rooms.home->url(), *name};
    return sqlite::Copy::acquire_at(*rooms.runtime, *rooms.disk, place, std::filesystem::absolute(options.file).string(), sqlite::spoken_log());
  }
  const auto place = copy_place(common, rooms, options.name);
  if (!place) return tl::unexpected(place.error());
  return sqlite::Copy::acquire(*rooms.runtime, *rooms.disk, *place, sqlite::spoken_log(), sqlite::CopyUse::read);
}

Result<> fill(sqlite::Copy& copy, core::Stream& stream, const ReplicateOptions& options) {
  ProgressBar bar;
  const auto show = [&](const owner::Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); };
  if (options.file.empty()) {
    if (auto read = copy.catch_up(stream, show); !read) return read;
    if (copy.state().ordinal != 0) return {};
    return tl::unexpected(Error{Outcome::not_found, fmt::format("'{}' has no commit yet: there is nothing to stand by for.", options.name), {}});
  }
  return copy.state().ordinal == 0 ? copy.begin_anew(stream, show) : Result<>{};
}

}  // namespace

int run_replicate(const Common& common, const ReplicateOptions& options) {
  if (options.file.empty() && !options.takeover)
    return report(common, kUsage, "usage", "Name the file: --to FILE. (Only a standby, --takeover, can do without.)");
  if (!options.takeover && (!options.owner.empty() || options.term != ReplicateOptions{}.term))
    return report(common, kUsage, "usage", "--term and --owner are a standby's: give --takeover as well.");
  const auto term = sqlite::read_duration(options.term);
  if (!term || *term < sqlite::kLeastTerm)
    return report(common, kUsage, "usage", fmt::format("--term '{}' is no time: write 250ms, 30s or 2m (at least 100ms).", options.term));
  const Ending ending;
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, options.name);
  if (!stream) return report(common, stream.error());
  const auto stat = (*stream)->stat();  // asked first, so that a name that is not there leaves nothing behind
  if (!stat) return report(common, refused_here(common, *rooms, options.name, stat.error()), ErrorOf::content);
  auto copy = acquire(common, *rooms, options);
  if (!copy) return report(common, copy.error());
  if (const auto filled = fill(**copy, **stream, options); !filled) return report(common, filled.error(), ErrorOf::content);
  if (const auto live = (*copy)->go_live({}); !live) return report(common, live.error(), ErrorOf::content);

  const StreamName name = (*stream)->name();
  const core::OwnerInfo us = asking(*rooms->runtime, "standby");
  sqlite::FollowManners manners;
  manners.pace = rooms->home->pace();
  owner::Standby standby(*rooms->runtime, options.name, {core::describe(Owner{{}, options.owner, us.host, {}, us.pid}), *term, true, manners.pace.metered},
                         sqlite::spoken_log());
  std::optional<TookOver> took_over;
  if (options.takeover) {
    manners.patience = [&] { return standby.patience(); };
    manners.turn = [&](core::Stream& at) {
      const auto chance = standby.look(at);
      if (!chance) return sqlite::FollowTurn::go_on;
      const auto done = claim_for_the_next(*rooms, options, name, **copy, *chance);
      if (!done) {
        standby.failed(done.error());
        return sqlite::FollowTurn::moved;
      }
      took_over = *done;
      ending.by_itself();
      return sqlite::FollowTurn::over;
    };
  }
  sqlite::Follow follow(*rooms->runtime, **copy, std::move(*stream), options.name, [&](const Error&) { ending.by_itself(); }, sqlite::spoken_log(), manners);
  follow.begin();
  const auto caught_up = follow.wait_for(stat->tail, rooms->runtime->now() + kOnceWithin);
  if (caught_up) tell(common, options, (*copy)->db_path(), follow.status().state);
  if (caught_up && !options.once) {
    static_cast<void>(finish_output(kOk));  // who waits for the line gets it now
    ending.wait();
  }
  follow.stop();
  (*copy)->rest();
  if (took_over) {
    tell_takeover(common, options, follow.status().state, *took_over);
    return kOk;
  }
  if (const auto status = follow.status(); status.ended) return report(common, *status.ended, ErrorOf::content);
  if (!caught_up) return report(common, caught_up.error());
  return kOk;
}

}  // namespace onepen::app
