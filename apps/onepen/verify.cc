// `onepen verify`: the local copy against the log, end to end. The whole log is folded into a scratch database — every object and commit frame
// checked by its checksums, every commit by the checksum of the whole database before and after it — SQLite checks what came out, and the copy must
// be what the log says at the commit where it stands, byte by byte. Writes nothing to the home.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "sqlite/rebuild.h"

namespace onepen::app {
namespace {

class ScratchFolder {  // removed with what is in it
 public:
  explicit ScratchFolder(const std::string& cache_root) : path_(fmt::format("{}/verify-{}", cache_root, ::getpid())) {}
  ~ScratchFolder() {
    std::error_code ignored;  // a left-over scratch folder harms nobody
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  Result<> make() const {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) return tl::unexpected(Error{Outcome::unavailable, fmt::format("Cannot make {}: {}", path_, error.message()), {}});
    return {};
  }
  std::string database() const { return path_ + "/db"; }

 private:
  std::string path_;
};

struct Verified {
  sqlite::CommitState log;                 // what the whole log says the database is
  std::optional<sqlite::Comparison> copy;  // none: there is no local copy
  std::string copy_folder;
  std::optional<std::string> moved_aside;  // what was said when a copy did not fit its own state
};

Error damage(std::string message) { return {Outcome::content_mismatch, std::move(message), {}}; }

// SQLite's own opinion of the database that the log makes.
Result<> check_integrity(const std::string& database) {
  auto db = sqlite::open_plain(database, SQLITE_OPEN_READWRITE);
  if (!db) return tl::unexpected(db.error());
  const auto said = sqlite::plain_value(db->get(), database, "PRAGMA integrity_check(1)");
  if (!said) return tl::unexpected(said.error());
  if (*said != "ok") return tl::unexpected(damage("The commits of the log fit, but SQLite finds the database they make damaged: " + *said));
  return {};
}

Result<Verified> verify(const Common& common, const Rooms& rooms, const std::string& name) {
  const auto place = copy_place(common, rooms, name);
  if (!place) return tl::unexpected(place.error());
  auto stream = rooms.home->stream(place->name);
  if (const auto stat = stream->stat(); !stat) return tl::unexpected(from_refusal(stat.error()));
  Verified out;
  const Log log([&](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) out.moved_aside = std::string(line);
  });
  const auto copy = sqlite::Copy::acquire(*rooms.runtime, *rooms.disk, *place, log);
  if (!copy) return tl::unexpected(copy.error());
  const ScratchFolder scratch(common.cache_root);
  if (auto made = scratch.make(); !made) return tl::unexpected(made.error());
  ProgressBar bar;
  const auto progress = [&](const owner::Progress& now) { bar.show(now.step, now.done_bytes, now.total_bytes); };
  const auto state = sqlite::rebuild_into(*stream, scratch.database(), progress);
  if (!state) return tl::unexpected(state.error());
  out.log = *state;
  if (state->ordinal > 0) {
    if (auto sound = check_integrity(scratch.database()); !sound) return tl::unexpected(sound.error());
  }
  if ((*copy)->state().ordinal == 0) return out;
  auto comparison = sqlite::compare(**copy, *stream, progress);
  if (!comparison) return tl::unexpected(comparison.error());
  out.copy = std::move(*comparison);
  out.copy_folder = (*copy)->folder();
  return out;
}

void show_json(const std::string& name, const Rooms& rooms, const Verified& verified) {
  nlohmann::json out{{"name", name},
                     {"home", rooms.home->url()},
                     {"commits", verified.log.ordinal},
                     {"offset", verified.log.offset.text},
                     {"page_count", verified.log.page_count},
                     {"page_size", verified.log.page_size},
                     {"page_sum", fmt::format("{:016x}", verified.log.page_sum)},
                     {"copy", nullptr}};
  if (verified.copy)
    out["copy"] = {{"folder", verified.copy_folder}, {"commits", verified.copy->copy.ordinal}, {"pages_compared", verified.copy->pages}, {"same", true}};
  print(out.dump(2) + "\n");
}

void show(const std::string& name, const Verified& verified) {
  print(fmt::format("the log of '{}' is whole: {} commits, each with the checksum of the whole database before and after it\n", name, verified.log.ordinal));
  print(fmt::format("folded, it is a sound database of {} pages of {} bytes, page sum {:016x}\n", verified.log.page_count, verified.log.page_size,
                    verified.log.page_sum));
  if (verified.copy) {
    print(fmt::format("the copy in {} is the log at commit {}: {} pages compared, none differs\n", verified.copy_folder, verified.copy->copy.ordinal,
                      verified.copy->pages));
  } else {
    print("there is no local copy to compare it with\n");
  }
}

}  // namespace

int run_verify(const Common& common, const VerifyOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  const auto verified = verify(common, *rooms, options.name);
  if (!verified) return report(common, verified.error(), ErrorOf::content);
  if (verified->copy && !verified->copy->same()) {
    return report(common, kDamaged, "diverged",
                  fmt::format("The copy in {} is not what the log says at commit {}: {} of {} pages differ, the first is page {}. The log itself is whole.",
                              verified->copy_folder, verified->copy->copy.ordinal, verified->copy->differing, verified->copy->pages,
                              verified->copy->first.empty() ? 0 : verified->copy->first.front()));
  }
  if (verified->moved_aside) return report(common, kDamaged, "diverged", *verified->moved_aside + " The log itself is whole.");
  if (common.json) {
    show_json(options.name, *rooms, *verified);
  } else {
    show(options.name, *verified);
  }
  return kOk;
}

}  // namespace onepen::app
