// A replica: a database file at a path of the user's (Copy::acquire_at).
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "io/mounts.h"
#include "io/paths.h"
#include "sqlite/copy_local.h"

namespace onepen::sqlite {
namespace {

constexpr std::uint64_t kMostOf = 64u << 10;

tl::unexpected<Error> no_replica(const std::string& path, std::string_view what) {
  return tl::unexpected(Error{Outcome::invalid, fmt::format("{} {}: name a file that does not exist", path, what), {}});
}

// Whose replica the folder is of: a replica of one database must never go on as one of another.
Result<> check_whose(io::Disk& disk, const std::string& folder, const std::string& db_path, const CopyPlace& place) {
  const std::string ours = place.home_url + "\n" + place.name.text() + "\n", path = folder + "/of";
  auto there = disk.read(path, 0, kMostOf);
  if (!there && there.error().code != ENOENT) return tl::unexpected(of_disk(there.error()));
  if (there && as_text(*there) == ours) return {};
  if (there) {
    std::string other(as_text(*there));
    const auto line = other.find('\n');
    return no_replica(db_path, fmt::format("is a replica of '{}' at {}", other.substr(line + 1, other.size() - line - 2), other.substr(0, line)));
  }
  if (is_there(disk, db_path)) return no_replica(db_path, "exists, and is no replica of Onepen's");
  if (auto made = of_disk(disk.write_at(path, 0, as_bytes(ours), true)); !made) return made;
  return of_disk(disk.sync_folder(folder));
}

}  // namespace

Result<std::unique_ptr<Copy>> Copy::acquire_at(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const std::string& db_path, const Log& log) {
  const std::string parent = io::folder_of(db_path), real = io::existing_above(parent);
  if (auto local = judge_cache_root(io::mountinfo_for(real), real); !local)
    return tl::unexpected(
        Error{Outcome::unavailable,
              fmt::format("{} is not on a local filesystem, and SQLite's locks do not hold over a network or in user space: name a file on a local "
                          "one",
                          db_path),
              {}});
  CopyFolder folder{db_path + "-onepen", {}};
  if (is_there(disk, db_path) && !disk.size(folder.path + "/of")) return no_replica(db_path, "exists, and is no replica of Onepen's");
  if (auto made = of_disk(disk.make_folders(folder.path)); !made) return tl::unexpected(made.error());
  auto lock = open_on(disk, folder.path + "/lock", io::OpenMode::create);
  if (!lock) return tl::unexpected(lock.error());
  auto locked = of_disk((*lock)->lock(false));
  if (!locked) return tl::unexpected(locked.error());
  if (!*locked) return tl::unexpected(Error{Outcome::unavailable, fmt::format("another process keeps {} up to date already", db_path), {}});
  folder.lock = std::move(*lock);
  if (auto ours = check_whose(disk, folder.path, db_path, place); !ours) return tl::unexpected(ours.error());
  auto copy = std::make_unique<LocalCopy>(runtime, disk, place, log, std::move(folder), db_path);
  if (auto loaded = copy->load(); !loaded) return tl::unexpected(loaded.error());
  return copy;
}

// The whole database was read into `scratch`, and is durable. It counts when the state file says so.
Result<> LocalCopy::place_scratch(const std::string& scratch, const CommitState& state, PageTable table) {
  if (auto kept = write_record(CommitState{}, place_, state, WalPlace{}, true); !kept) return kept;
  if (auto moved = rename_on(disk_, scratch, files_.db); !moved) return moved;
  if (auto named = of_disk(disk_.sync_folder(io::folder_of(files_.db))); !named) return named;
  return begin_at(std::move(table), state);
}

// Its database is in the stream; but somebody may have put something of his own into it.
Result<std::string> LocalCopy::move_replica(const std::string& kind, const std::string& why) {
  if (const std::int64_t user = sqlite_user_of(disk_, files_); user != 0)
    return tl::unexpected(Error{
        Outcome::unavailable,
        fmt::format("{} is not what Onepen left there ({}), and process {} has it open: close it there, so that it can be moved aside", files_.db, why, user),
        {}});
  const std::string aside = fmt::format("{}.{:%Y%m%dT%H%M%SZ}-{}", files_.db, fmt::gmtime(runtime_.wall_ms() / 1000), kind);
  if (is_there(disk_, aside)) return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} is there already", aside), {}});
  let_go();
  // The WAL first: a database without it is one of an earlier time, a WAL without its database is nothing.
  if (is_there(disk_, files_.wal())) {
    if (auto moved = rename_on(disk_, files_.wal(), aside + "-wal"); !moved) return tl::unexpected(moved.error());
  }
  if (auto removed = remove_from(disk_, files_.shm()); !removed) return tl::unexpected(removed.error());
  if (is_there(disk_, files_.db)) {
    if (auto moved = rename_on(disk_, files_.db, aside); !moved) return tl::unexpected(moved.error());
  }
  for (const char* file : {"/state", "/pages"}) {
    if (auto removed = remove_from(disk_, folder_.path + file); !removed) return tl::unexpected(removed.error());
  }
  log_(LogLevel::warn, fmt::format("{} was moved to {}: {}. It is made anew from the stream of '{}'", files_.db, aside, why, place_of_copy_.name.text()));
  found_pending_.clear();
  landed_ = 0;
  pending_known_ = true;
  salvaged_ = aside;
  if (auto opened = open_files(); !opened) return tl::unexpected(opened.error());
  return aside;
}

}  // namespace onepen::sqlite
