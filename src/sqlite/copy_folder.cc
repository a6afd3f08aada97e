#include "sqlite/copy_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/checksum.h"
#include "base/guard.h"
#include "io/mounts.h"
#include "sqlite/copy_pages.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {
namespace {

constexpr std::size_t kMaxCopies = 10'000;
// Where SQLite keeps its locks (sqlite3.c: PENDING_BYTE, SHARED_SIZE; wal.c: UNIX_SHM_BASE, WAL locks and the dead-man switch).
constexpr std::uint64_t kDbLockAt = 0x40000000, kDbLockBytes = 512, kShmLockAt = 120, kShmLockBytes = 9;

// False: another has it.
Result<bool> try_lock(io::DiskFile& file, bool wait) { return of_disk(file.lock(wait)); }

// Another program (a sqlite3 shell, say) has this file open in SQLite right now. Its process id, or 0.
std::int64_t foreign_lock(io::Disk& disk, const std::string& path, std::uint64_t at, std::uint64_t bytes) {
  auto file = open_on(disk, path, io::OpenMode::write);
  return file ? (*file)->foreign_lock(at, bytes) : 0;
}

struct Unsent {
  std::uint64_t commits = 0, bytes = 0;
  bool known = true;
};

// Counted without hashing: the whole commits of the WAL behind the acknowledged one.
Result<Unsent> unsent_of(io::Disk& disk, const std::string& folder, const CopyRecord& record) {
  Unsent out;
  auto size = disk.size(folder + "/db-wal");
  if (!size || *size <= kWalHeaderBytes) return out;
  auto wal = read_wal(disk, folder + "/db-wal");
  if (!wal) return tl::unexpected(wal.error());
  if (wal->page_count == 0) return out;
  if (!record.next_place) return out;  // written before copies ran ahead of their stream
  std::uint32_t after = 0;
  bool found = false;
  for (const auto& place : {record.next_place, record.previous_place}) {
    if (!place || place->salt1 != wal->salt1 || place->salt2 != wal->salt2 || place->frame > wal->frames.size()) continue;
    after = std::max(after, place->frame);
    found = true;
  }
  // Of another WAL than the one there was: everything in this one came later, if it is the next one. The walk at acquire tells.
  out.known = found;
  std::uint32_t begin = after;
  for (std::uint32_t i = after; i < wal->frames.size(); ++i) {
    if (wal->frames[i].page_count_after == 0) continue;
    ++out.commits;
    out.bytes += (i + 1 - begin) * std::uint64_t{wal->page_size + kWalFrameHeaderBytes};
    begin = i + 1;
  }
  return out;
}

struct FreeCopy {
  CopyFolder folder;
  std::optional<CopyRecord> record;
  bool unsent = false;  // looked for only when there is a choice
};

// Locks copy `number` if it can be had. Empty: somebody works on it.
Result<std::optional<FreeCopy>> try_copy(io::Disk& disk, const std::string& path, const Log& log) {
  FreeCopy copy;
  copy.folder.path = path;
  auto lock = open_on(disk, path + "/lock", io::OpenMode::create);
  if (!lock) return tl::unexpected(lock.error());
  auto locked = try_lock(**lock, false);
  if (!locked) return tl::unexpected(locked.error());
  if (!*locked) return std::nullopt;
  copy.folder.lock = std::move(*lock);
  if (const std::int64_t other = sqlite_user_of(disk, DatabaseFiles{path + "/db"}); other != 0) {
    log(LogLevel::warn, fmt::format("the local copy {} is opened by process {}, which is not Onepen: another copy is used", path, other));
    return std::nullopt;
  }
  auto state = StateFile::open(disk, path + "/state");
  if (!state) return tl::unexpected(state.error());
  copy.record = state->record();
  return copy;
}

Result<std::vector<std::uint64_t>> copy_numbers(io::Disk& disk, const std::string& parent) {
  auto names = disk.list(parent, "", kMaxCopies);
  if (!names) return tl::unexpected(of_disk(names.error()));
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

std::int64_t sqlite_user_of(io::Disk& disk, const DatabaseFiles& files) {
  const std::int64_t user = foreign_lock(disk, files.shm(), kShmLockAt, kShmLockBytes);
  return user != 0 ? user : foreign_lock(disk, files.db, kDbLockAt, kDbLockBytes);
}

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

Result<CopyFolder> choose_copy(io::Disk& disk, const CopyPlace& place, const Log& log, CopyUse use) {
  const std::string parent = copies_folder(place);
  const std::string real = io::existing_above(parent);
  if (auto local = judge_cache_root(io::mountinfo_for(real), real); !local) return tl::unexpected(local.error());
  if (auto made = of_disk(disk.make_folders(parent)); !made) return tl::unexpected(made.error());
  auto choosing = open_on(disk, parent + "/choose", io::OpenMode::create);
  if (!choosing) return tl::unexpected(choosing.error());
  if (auto locked = try_lock(**choosing, true); !locked) return tl::unexpected(locked.error());
  auto numbers = copy_numbers(disk, parent);
  if (!numbers) return tl::unexpected(numbers.error());
  std::vector<FreeCopy> free;
  for (const std::uint64_t number : *numbers) {
    auto copy = try_copy(disk, fmt::format("{}/{}", parent, number), log);
    if (!copy) return tl::unexpected(copy.error());
    if (*copy) free.push_back(std::move(**copy));
  }
  if (free.size() > 1 || use == CopyUse::read) {
    for (FreeCopy& copy : free) {
      if (!copy.record) continue;
      auto unsent = unsent_of(disk, copy.folder.path, *copy.record);
      if (!unsent) return tl::unexpected(unsent.error());
      copy.unsent = unsent->commits != 0;
    }
  }
  if (use == CopyUse::read && guard_on(Guard::read_nothing_unsent)) std::erase_if(free, [](const FreeCopy& copy) { return copy.unsent; });
  const auto rank = [](const FreeCopy& copy) {
    const CommitState state = copy.record ? copy.record->next : CommitState{};
    return std::tuple(copy.unsent, state.ordinal, state.offset);
  };
  const auto best = std::max_element(free.begin(), free.end(), [&](const FreeCopy& a, const FreeCopy& b) { return rank(a) < rank(b); });
  if (best != free.end()) {
    // Whoever made it may have died before its name was synced (found by the simulator): the power would take the folder, with commits that were synced in it.
    if (auto made = of_disk(disk.make_folders(best->folder.path)); !made) return tl::unexpected(made.error());
    return std::move(best->folder);
  }
  const std::string path = fmt::format("{}/{}", parent, numbers->empty() ? 1 : numbers->back() + 1);
  if (auto made = of_disk(disk.make_folders(path)); !made) return tl::unexpected(made.error());
  auto fresh = try_copy(disk, path, log);
  if (!fresh) return tl::unexpected(fresh.error());
  if (!*fresh) return tl::unexpected(Error{Outcome::unavailable, fmt::format("the new copy {} was taken by another program", path), std::nullopt});
  return std::move((*fresh)->folder);
}

Result<std::vector<CopyGlance>> copies_here(io::Disk& disk, const CopyPlace& place) { return copies_in(disk, copies_folder(place)); }

Result<std::vector<CopyGlance>> copies_in(io::Disk& disk, const std::string& parent) {
  std::vector<CopyGlance> all;
  auto numbers = copy_numbers(disk, parent);
  if (!numbers && numbers.error().outcome == Outcome::not_found) return all;
  if (!numbers) return tl::unexpected(numbers.error());
  // Whoever chooses a copy meanwhile must not find one locked by this look.
  auto choosing = open_on(disk, parent + "/choose", io::OpenMode::write);
  if (choosing) {
    if (auto locked = try_lock(**choosing, true); !locked) return tl::unexpected(locked.error());
  }
  for (const std::uint64_t number : *numbers) {
    CopyGlance glance;
    glance.folder = fmt::format("{}/{}", parent, number);
    // Neither db nor db-shm is opened: closing them would drop the locks of a connection of this very process. The flock of `lock` is another matter.
    if (auto lock = open_on(disk, glance.folder + "/lock", io::OpenMode::write)) {
      auto free = try_lock(**lock, false);
      if (free && !*free) glance.in_use = true;
    }
    const auto record = StateFile::look(disk, glance.folder + "/state");
    if (!record) {
      glance.trouble = record.error().message;
    } else if (*record) {
      glance.acknowledged = (*record)->next;
      glance.owned = (*record)->owned;
      if (auto unsent = unsent_of(disk, glance.folder, **record)) {
        glance.unsent = unsent->commits;
        glance.unsent_bytes = unsent->bytes;
        glance.unsent_known = unsent->known;
      } else {
        glance.trouble = unsent.error().message;
      }
    }
    all.push_back(std::move(glance));
  }
  return all;
}

}  // namespace onepen::sqlite
