#include "sqlite/copy_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "io/mounts.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"

namespace onepen::sqlite {
namespace {

constexpr std::size_t kMaxCopies = 10'000;
// Where SQLite keeps its locks (sqlite3.c: PENDING_BYTE, SHARED_SIZE; wal.c: UNIX_SHM_BASE, WAL locks and the dead-man switch).
constexpr off_t kDbLockAt = 0x40000000, kDbLockBytes = 512, kShmLockAt = 120, kShmLockBytes = 9;

tl::unexpected<Error> failed(const io::DiskError& error) { return tl::unexpected(Error{Outcome::unavailable, error.message, std::nullopt}); }

// False: another has it.
Result<bool> try_lock(const File& file, const std::string& path, bool wait) {
  while (::flock(file.fd(), LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    return tl::unexpected(file_error("lock", path, errno));
  }
  return true;
}

// Another program (a sqlite3 shell, say) has this file open in SQLite right now. Its process id, or 0.
pid_t foreign_lock(const std::string& path, off_t at, off_t bytes) {
  auto file = open_file(path, OpenMode::write);
  if (!file) return 0;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = bytes;
  if (::fcntl(file->fd(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid;
}

struct Candidate {
  CopyFolder folder;
  std::uint64_t ordinal = 0;
  Offset offset;
};

// Locks copy `number` if it can be had. Empty: somebody works on it.
Result<std::optional<Candidate>> try_copy(const std::string& path, const Log& log) {
  Candidate candidate;
  candidate.folder.path = path;
  const std::string lock_path = path + "/lock";
  auto lock = open_file(lock_path, OpenMode::create);
  if (!lock) return tl::unexpected(lock.error());
  auto locked = try_lock(*lock, lock_path, false);
  if (!locked) return tl::unexpected(locked.error());
  if (!*locked) return std::nullopt;
  candidate.folder.lock = std::move(*lock);
  pid_t other = foreign_lock(path + "/db-shm", kShmLockAt, kShmLockBytes);
  if (other == 0) other = foreign_lock(path + "/db", kDbLockAt, kDbLockBytes);
  if (other != 0) {
    log(LogLevel::warn, fmt::format("the local copy {} is opened by process {}, which is not Onepen: another copy is used", path, other));
    return std::nullopt;
  }
  auto state = StateFile::open(path + "/state");
  if (!state) return tl::unexpected(state.error());
  if (state->record()) {
    candidate.ordinal = state->record()->next.ordinal;
    candidate.offset = state->record()->next.offset;
  }
  return candidate;
}

Result<std::vector<std::uint64_t>> copy_numbers(io::Disk& disk, const std::string& parent) {
  auto names = disk.list(parent, "", kMaxCopies);
  if (!names) return failed(names.error());
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : *names) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size() && number != 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

Result<> judge_cache_root(std::string_view mountinfo, const std::string& real_path) {
  const auto mount = io::mount_of(mountinfo, real_path);
  if (!mount || io::local_filesystem(mount->type)) return {};  // not told: as SQLite itself, which does not look
  return tl::unexpected(
      Error{Outcome::unavailable,
            fmt::format("the cache root {} is not on a local filesystem ({} is {} from {}), and SQLite's locks do not hold over a network or in "
                        "user space: set cache_root (or ONEPEN_CACHE) to a local folder; the home may stay where it is",
                        real_path, mount->point, mount->type, mount->source),
            std::nullopt});
}

std::string copies_folder(const CopyPlace& place) {
  return fmt::format("{}/{:016x}/{}", place.cache_root, xxh3(as_bytes(place.home_url)), folder_name(place.name));
}

Result<CopyFolder> choose_copy(io::Disk& disk, const CopyPlace& place, const Log& log) {
  const std::string parent = copies_folder(place);
  const std::string real = io::existing_above(parent);
  if (auto local = judge_cache_root(io::mountinfo_for(real), real); !local) return tl::unexpected(local.error());
  if (auto made = disk.make_folders(parent); !made) return failed(made.error());
  auto choosing = open_file(parent + "/choose", OpenMode::create);
  if (!choosing) return tl::unexpected(choosing.error());
  if (auto locked = try_lock(*choosing, parent + "/choose", true); !locked) return tl::unexpected(locked.error());
  auto numbers = copy_numbers(disk, parent);
  if (!numbers) return tl::unexpected(numbers.error());
  std::optional<Candidate> best;
  for (const std::uint64_t number : *numbers) {
    auto candidate = try_copy(fmt::format("{}/{}", parent, number), log);
    if (!candidate) return tl::unexpected(candidate.error());
    if (!*candidate) continue;
    if (!best || std::pair((*candidate)->ordinal, (*candidate)->offset) > std::pair(best->ordinal, best->offset)) best = std::move(**candidate);
  }
  if (best) return std::move(best->folder);
  const std::string path = fmt::format("{}/{}", parent, numbers->empty() ? 1 : numbers->back() + 1);
  if (auto made = disk.make_folders(path); !made) return failed(made.error());
  auto fresh = try_copy(path, log);
  if (!fresh) return tl::unexpected(fresh.error());
  if (!*fresh) return tl::unexpected(Error{Outcome::unavailable, fmt::format("the new copy {} was taken by another program", path), std::nullopt});
  return std::move((*fresh)->folder);
}

}  // namespace onepen::sqlite
