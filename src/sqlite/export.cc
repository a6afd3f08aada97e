#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "sqlite/copy_file.h"
#include "sqlite/copy_find.h"
#include "sqlite/import.h"
#include "sqlite/plain_sqlite.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> taken(const std::string& target) {
  return tl::unexpected(Error{Outcome::invalid, fmt::format("{} exists already: name a file that does not, or move it away", target), std::nullopt});
}

// The copies of this process are WAL databases; one for other programs has no files beside it.
Result<> make_plain(const std::string& path) {
  auto db = open_plain(path, SQLITE_OPEN_READWRITE);
  if (!db) return tl::unexpected(db.error());
  auto mode = plain_value(db->get(), path, "PRAGMA journal_mode=DELETE");
  if (!mode) return tl::unexpected(mode.error());
  if (*mode != "delete") return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} stays in journal mode {}", path, *mode), std::nullopt});
  return {};
}

Result<> give_name(const std::string& from, const std::string& target) {
  auto file = open_file(from, OpenMode::write);
  if (!file) return tl::unexpected(file.error());
  if (auto synced = sync_file(file->fd(), from); !synced) return synced;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return taken(target);
  if (errno != EINVAL && errno != ENOSYS) return tl::unexpected(file_error("move", from + " to " + target, errno));
  // A filesystem without that call: a second name, then without the first.
  if (::link(from.c_str(), target.c_str()) != 0) return errno == EEXIST ? taken(target) : tl::unexpected(file_error("link", target, errno));
  return remove_file(from);
}

std::string part_of(const std::string& target) { return fmt::format("{}.{}.part", target, ::getpid()); }

}  // namespace

std::vector<std::string> export_scratch(const std::string& target) {
  const DatabaseFiles files{part_of(target)};
  return {files.db, files.db + "-journal", files.wal(), files.shm(), files.batch(), files.snapshot()};
}

Result<CommitState> export_database(core::Stream& stream, const std::string& target, const ProgressFn& progress) {
  if (file_exists(target)) return taken(target);
  const std::string part = part_of(target);
  auto state = rebuild_into(stream, part, progress);
  if (!state) return state;
  Result<> done;
  if (state->ordinal == 0)
    done = tl::unexpected(Error{Outcome::not_found, fmt::format("there is no commit in '{}' yet: nothing to export", stream.name().text()), std::nullopt});
  if (done) done = make_plain(part);
  if (done) done = give_name(part, target);
  if (!done) {
    for (const std::string& file : export_scratch(target)) static_cast<void>(remove_file(file));
    return tl::unexpected(done.error());
  }
  return state;
}

}  // namespace onepen::sqlite
