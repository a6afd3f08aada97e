#include "sqlite/copy_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/checksum.h"
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
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = bytes;
  if (::fcntl(file->fd(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid;
}

Result<> refuse_network(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return tl::unexpected(file_error("look at", path, errno));
  const auto name = network_filesystem(static_cast<std::int64_t>(info.f_type));
  if (name.empty()) return {};
  return tl::unexpected(Error{Outcome::unavailable,
                              fmt::format("the cache root {} is on a network filesystem ({}), where SQLite's locks do not hold: set cache_root (or ONEPEN_CACHE) "
                                          "to a local folder; the home may stay where it is",
                                          path, name),
                              std::nullopt});
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

std::string_view network_filesystem(std::int64_t magic) {
  // linux/magic.h and statfs(2). The kernel widens the 32-bit magics differently by architecture.
  constexpr std::pair<std::uint32_t, std::string_view> kNetwork[] = {
      {0x6969, "nfs"},     {0x517b, "smb"},        {0xfe534d42, "smb2"}, {0xff534d42, "cifs"},     {0x5346414f, "afs"},     {0x73757245, "coda"},
      {0x564c, "ncp"},     {0x00c36400, "ceph"},   {0x0bd00bd0, "lustre"}, {0x01021997, "9p"},     {0x7461636f, "ocfs2"},   {0x01161970, "gfs2"},
      {0x47504653, "gpfs"}, {0x19830326, "fhgfs"}, {0x24051905, "panfs"}, {0x013111a8, "ibrix"}};
  for (const auto& [known, name] : kNetwork) {
    if (known == static_cast<std::uint32_t>(magic)) return name;
  }
  return {};
}

std::string copies_folder(const CopyPlace& place) {
  return fmt::format("{}/{:016x}/{}", place.cache_root, xxh3(as_bytes(place.home_url)), folder_name(place.name));
}

Result<CopyFolder> choose_copy(io::Disk& disk, const CopyPlace& place, const Log& log) {
  const std::string parent = copies_folder(place);
  if (auto made = disk.make_folders(parent); !made) return failed(made.error());
  if (auto local = refuse_network(parent); !local) return tl::unexpected(local.error());
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
