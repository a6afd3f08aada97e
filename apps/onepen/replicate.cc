// `onepen replicate`: keeps a plain SQLite file up to date with a database, for any program to read. The home is only read.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "sqlite/follow.h"
#include "sqlite/messages.h"

namespace onepen::app {
namespace {

constexpr std::chrono::minutes kOnceWithin{60};

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

void tell(const Common& common, const ReplicateOptions& options, const sqlite::CommitState& state, std::string_view what) {
  const std::uint64_t bytes = std::uint64_t{state.page_count} * state.page_size;
  if (common.json) {
    print_json(nlohmann::json{{"name", options.name}, {"file", options.file}, {"commits", state.ordinal}, {"offset", state.offset.text}, {"bytes", bytes}});
    return;
  }
  print(fmt::format("{} {}: '{}' as of commit {}, {}. Its offset is {}.\n", options.file, what, options.name, state.ordinal, byte_count(bytes),
                    state.offset.text));
}

}  // namespace

int run_replicate(const Common& common, const ReplicateOptions& options) {
  const Ending ending;
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto name = StreamName::parse(options.name);
  if (!name) return report(common, name.error());
  auto stream = rooms->home->stream(*name);
  const auto stat = stream->stat();  // asked first, so that a name that is not there leaves nothing behind
  if (!stat) return report(common, refused_here(common, *rooms, options.name, stat.error()), ErrorOf::content);
  const sqlite::CopyPlace place{common.cache_root, rooms->home->url(), *name};
  auto copy = sqlite::Copy::acquire_at(*rooms->runtime, *rooms->disk, place, std::filesystem::absolute(options.file).string(), sqlite::spoken_log());
  if (!copy) return report(common, copy.error());
  if ((*copy)->state().ordinal == 0) {
    ProgressBar bar;
    const auto read =
        (*copy)->begin_anew(*stream, [&](const owner::Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); });
    if (!read) return report(common, read.error(), ErrorOf::content);
  }
  if (const auto live = (*copy)->go_live({}); !live) return report(common, live.error(), ErrorOf::content);
  sqlite::Follow follow(*rooms->runtime, **copy, std::move(stream), options.name, [&](const Error&) { ending.by_itself(); }, sqlite::spoken_log());
  follow.begin();
  const auto caught_up = follow.wait_for(stat->tail, rooms->runtime->now() + kOnceWithin);
  if (caught_up) tell(common, options, follow.status().state, options.once ? "is up to date" : "follows");
  if (caught_up && !options.once) {
    static_cast<void>(finish_output(kOk));  // who waits for the line gets it now
    ending.wait();
  }
  follow.stop();
  (*copy)->rest();
  if (const auto status = follow.status(); status.ended) return report(common, *status.ended, ErrorOf::content);
  if (!caught_up) return report(common, caught_up.error());
  return kOk;
}

}  // namespace onepen::app
