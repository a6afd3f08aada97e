#include "apps/onepen/rooms.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/messages.h"

namespace onepen::app {

Result<Rooms> open_rooms(const Common& common) {
  if (common.home.empty())
    return tl::unexpected(
        Error{Outcome::invalid, "No home is given: add --home file:///dir, s3://bucket/prefix, az://container/prefix, or set ONEPEN_HOME_URL.", {}});
  Rooms rooms;
  rooms.runtime = io::make_system_runtime();
  rooms.disk = io::make_posix_disk();
  auto home = home::open_home(*rooms.runtime, *rooms.disk, common.home, sqlite::host_log());
  if (!home) return tl::unexpected(home.error());
  rooms.home = std::move(*home);
  return rooms;
}

Result<> cache_root_given(const Common& common) {
  if (common.cache_root.empty())
    return tl::unexpected(Error{Outcome::invalid, "There is no place for local copies: HOME is not set; add --cache-root DIR, or set ONEPEN_CACHE.", {}});
  if (common.cache_root.front() != '/')
    return tl::unexpected(Error{
        Outcome::invalid, fmt::format("The folder for local copies must be an absolute path, not '{}': set ONEPEN_CACHE to one.", common.cache_root), {}});
  return {};
}

Result<sqlite::CopyPlace> copy_place(const Common& common, const Rooms& rooms, const std::string& name) {
  auto parsed = StreamName::parse(name);
  if (!parsed) return tl::unexpected(parsed.error());
  if (auto given = cache_root_given(common); !given) return tl::unexpected(given.error());
  return sqlite::CopyPlace{common.cache_root, rooms.home->url(), std::move(*parsed)};
}

bool place_is_invalid(const Common& common) {
  auto rooms = open_rooms(common);
  if (!rooms) return rooms.error().outcome == Outcome::invalid;
  const auto names = rooms->home->list("");
  return !names && names.error().outcome == Outcome::invalid;
}

Result<std::unique_ptr<core::Stream>> open_stream(const Rooms& rooms, const std::string& name) {
  auto parsed = StreamName::parse(name);
  if (!parsed) return tl::unexpected(parsed.error());
  return rooms.home->stream(*parsed);
}

Error from_refusal(const core::Refusal& refusal) { return {refusal.outcome, refusal.message, refusal.current}; }

Result<Offset> oldest_of(core::Stream& stream) {
  const auto usage = stream.usage();
  if (!usage) return tl::unexpected(from_refusal(usage.error()));
  if (!usage->oldest.text.empty()) return usage->oldest;
  const auto first = stream.read(Offset{}, {1, 1});
  if (first) return Offset{};
  if (first.error().outcome != Outcome::gone) return tl::unexpected(from_refusal(first.error()));
  const auto kept = stream.snapshots();
  if (!kept) return tl::unexpected(from_refusal(kept.error()));
  if (kept->empty()) return tl::unexpected(from_refusal(first.error()));
  return kept->back().offset;
}

Result<> each_record(core::Stream& stream, Offset from, const std::function<void(const core::Record&)>& take,
                     const std::function<void(std::uint64_t)>& bytes_read) {
  std::uint64_t bytes = 0;
  for (;;) {
    const auto batch = stream.read(from, {});
    if (!batch) return tl::unexpected(from_refusal(batch.error()));
    for (const core::Record& record : batch->records) {
      bytes += record.payload.size();
      take(record);
    }
    if (bytes_read) bytes_read(bytes);
    from = batch->next;
    if (batch->up_to_date) return {};
  }
}

Result<Follower> open_follower(const Common& common, const Rooms& rooms, const std::string& name) {
  auto place = copy_place(common, rooms, name);
  if (!place) return tl::unexpected(place.error());
  auto stream = rooms.home->stream(place->name);
  // Asked first, so that a name that is not there leaves no folder behind.
  if (auto stat = stream->stat(); !stat) return tl::unexpected(refused_here(common, rooms, name, stat.error()));
  Follower follower;
  auto copy = sqlite::Copy::acquire(*rooms.runtime, *rooms.disk, *place, sqlite::spoken_log(), sqlite::CopyUse::read);
  if (!copy) return tl::unexpected(copy.error());
  follower.copy = std::move(*copy);
  {
    ProgressBar bar;
    auto done = follower.copy->catch_up(*stream, [&](const owner::Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); });
    if (!done) return tl::unexpected(done.error());
  }
  if (follower.copy->state().ordinal == 0)
    return tl::unexpected(Error{Outcome::not_found, fmt::format("'{}' was claimed and never written: there is nothing to read yet.", name), {}});
  auto db = sqlite::open_plain(follower.copy->db_path(), SQLITE_OPEN_READONLY);
  if (!db) return tl::unexpected(db.error());
  follower.db = std::move(*db);
  return follower;
}

}  // namespace onepen::app
