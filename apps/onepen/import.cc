// `onepen import`: a SQLite file becomes the first commit of a database of a home. The file is only read; a database that exists is never
// overwritten.
#include "sqlite/import.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "sqlite/copy_file.h"
#include "sqlite/messages.h"

namespace onepen::app {
namespace {

constexpr std::chrono::seconds kPartTimeout{30};  // as long as a COMMIT waits by default

Error exists(const std::string& name, const Rooms& rooms, std::optional<Owner> current) {
  return {Outcome::held, fmt::format("'{}' exists at {}; import makes only new databases. Nothing was written.", name, rooms.home->url()), std::move(current)};
}

// Seen before anything is claimed. The whole check comes with the import itself.
Result<> looks_like_database(const std::string& file) {
  if (!sqlite::file_exists(file)) return tl::unexpected(Error{Outcome::not_found, fmt::format("There is no file {}. Nothing was written.", file), {}});
  if (std::error_code ignored; std::filesystem::is_directory(file, ignored))
    return tl::unexpected(Error{Outcome::invalid, fmt::format("{} is a folder; import takes a SQLite file. Nothing was written.", file), {}});
  auto db = sqlite::open_plain(file, SQLITE_OPEN_READONLY);
  if (!db) return tl::unexpected(db.error());
  const auto tables = sqlite::plain_value(db->get(), file, "SELECT count(*) FROM sqlite_schema");
  if (!tables) return tl::unexpected(tables.error());
  return {};
}

Result<sqlite::ImportReport> import_file(const Common& common, const Rooms& rooms, const ImportOptions& options) {
  const auto place = copy_place(common, rooms, options.name);
  if (!place) return tl::unexpected(place.error());
  auto stream = rooms.home->stream(place->name);
  const auto stat = stream->stat();
  if (!stat) {
    if (Error error = refused_here(common, rooms, options.name, stat.error()); error.outcome != Outcome::not_found) return tl::unexpected(std::move(error));
  }
  if (stat) {
    // A name that was claimed and holds nothing may be an import that failed half-way; it is taken over. One with commits is somebody's database.
    const auto oldest = oldest_of(*stream);
    if (!oldest) return tl::unexpected(oldest.error());
    bool holds_commits = !oldest->text.empty();  // only commits are ever trimmed, or made a snapshot of
    const auto read =
        each_record(*stream, *oldest, [&](const core::Record& record) { holds_commits = holds_commits || record.kind == core::RecordKind::data; });
    if (!read) return tl::unexpected(read.error());
    if (holds_commits) return tl::unexpected(exists(options.name, rooms, {}));
  }
  if (auto looks = looks_like_database(options.file); !looks) return tl::unexpected(looks.error());
  auto copy = sqlite::Copy::acquire(*rooms.runtime, *rooms.disk, *place, sqlite::spoken_log());
  if (!copy) return tl::unexpected(copy.error());
  ProgressBar bar;
  const auto progress = [&](const owner::Progress& now) { bar.show(now.step, now.done_bytes, now.total_bytes); };
  owner::Options open;
  const ProcessIdentity us = rooms.runtime->identity();
  open.info = {options.owner, us.host, ONEPEN_VERSION, us.pid, us.started_ms, "import", ""};
  open.progress = progress;
  open.log = sqlite::host_log();
  auto owner = owner::Owner::open(*rooms.runtime, std::move(stream), **copy, **copy, std::move(open));
  if (!owner) return tl::unexpected(owner.error());
  auto done = sqlite::import_through(*rooms.runtime, **owner, **copy, options.file, kPartTimeout, progress);
  const auto stopped = (*owner)->stop(rooms.runtime->now() + kPartTimeout);
  if (done && !stopped) return tl::unexpected(stopped.error());
  if (!done && done.error().outcome == Outcome::state_mismatch) return tl::unexpected(exists(options.name, rooms, done.error().current));
  return done;
}

}  // namespace

int run_import(const Common& common, const ImportOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  const auto done = import_file(common, *rooms, options);
  if (!done) return report(common, done.error());
  if (common.json) {
    print(nlohmann::json{{"name", options.name},
                         {"home", rooms->home->url()},
                         {"bytes", done->bytes},
                         {"sent_bytes", done->sent_bytes},
                         {"page_count", done->state.page_count},
                         {"page_size", done->state.page_size},
                         {"offset", done->state.offset.text}}
              .dump(2) +
          "\n");
  } else {
    print(fmt::format("{} is now the database '{}' at {}: {}, {} in the log.\n", options.file, options.name, rooms->home->url(), byte_count(done->bytes),
                      byte_count(done->sent_bytes)));
  }
  return kOk;
}

}  // namespace onepen::app
