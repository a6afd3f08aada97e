#include "home/object/file_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/failpoint.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "wire/log_object.h"

namespace onepen::home {
namespace {

constexpr std::size_t kFileIdDigits = 20, kShardDigits = 17;
constexpr std::size_t kFoldersRemembered = 256;
constexpr int kCreateTries = 3;
constexpr int kTries = 8;  // of one look, while names or folders vanish under it
constexpr std::size_t kAllFiles = static_cast<std::size_t>(-1);

std::pair<std::string_view, std::string_view> split(std::string_view key) {
  auto slash = key.rfind('/');
  if (slash == std::string_view::npos) return {"", key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}
bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}
std::optional<std::uint64_t> number(std::string_view name) {
  std::uint64_t value = 0;
  if (name.size() != kFileIdDigits || !all_digits(name)) return std::nullopt;
  auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (bad != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return value;
}
bool is_log(std::string_view folder) { return split(folder).second == "@log"; }
bool is_snapshot(std::string_view folder) { return split(split(folder).first).second == "@snap"; }
// What others build on as soon as they see it: a log is trimmed because of packs, marks and snapshot heads, whoever made them.
bool counts_when_synced(std::string_view folder, std::string_view name) {
  const auto last = split(folder).second;
  return is_log(folder) || last == "@mark" || last == "@pack" || (name == "head" && is_snapshot(folder));
}

// Failures before which nothing can have got the name.
bool certainly_not_written(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
    case EMLINK:
    case EXDEV: return true;
    default: return false;
  }
}

// Failures of a folder's sync that come from opening it, before anything was synced: it was moved, or closed to us, for a moment. No fsync failed, so the next one
// tells the truth (what Linux forgets is what an fsync that failed was for).
bool never_opened(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ELOOP:
    case ENAMETOOLONG: return true;
    default: return false;
  }
}

class FileStore final : public ObjectStore {
 public:
  FileStore(Runtime& runtime, io::Disk& disk, std::string root)
      : disk_(disk), root_(std::move(root)), scratch_prefix_(fmt::format("{:016x}", runtime.random_u64())) {}

  Result<Bytes> get(const std::string& key) override { return get_range(key, 0, wire::kMaxObjectBytes + 1); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::optional<bool> has(const std::string& key) override;
  std::string describe() const override { return "directory " + root_; }

 private:
  struct Place {
    std::string folder, path;
    std::string scratch_folder;  // beside the key's own folder
    std::optional<std::uint64_t> id;
  };
  struct Seen {  // ids low..high of a folder are durable
    std::uint64_t low = 0, high = 0;
  };
  Place place(const std::string& key) const;
  std::string scratch(const Place& at) { return fmt::format("{}/{}-{}", at.scratch_folder, scratch_prefix_, scratch_count_++); }
  bool known(const std::string& folder, std::uint64_t low, std::uint64_t high);
  Result<> sync_names(const std::string& folder);
  io::DiskResult<> anchor(const std::string& folder);
  Result<> make_folder(const std::string& folder);
  void remember(const std::string& folder, std::uint64_t low, std::uint64_t high);
  bool poisoned(const std::string& folder);
  void poison(const std::string& folder);
  void sweep(const Place& at);
  Result<std::vector<std::string>> list_log(const std::string& folder, const std::string& after, std::size_t limit);
  Result<std::vector<std::string>> durable_names(const std::string& shard, const std::string& after, std::size_t limit);
  Result<std::optional<std::vector<std::string>>> list_shards(const std::string& folder, const std::string& after, std::size_t limit);
  tl::unexpected<Error> refused(const io::DiskError& error, bool writing) const;

  io::Disk& disk_;
  const std::string root_, scratch_prefix_;
  std::atomic<std::uint64_t> scratch_count_{0};
  std::atomic<bool> root_seen_{false};  // something was found, or made, below the root
  Mutex mutex_;
  std::map<std::string, Seen> seen_ ONEPEN_GUARDED_BY(mutex_);
  std::set<std::string> poisoned_ ONEPEN_GUARDED_BY(mutex_), swept_ ONEPEN_GUARDED_BY(mutex_), anchored_ ONEPEN_GUARDED_BY(mutex_);
};

FileStore::Place FileStore::place(const std::string& key) const {
  auto [folder, name] = split(key);
  Place at;
  at.folder = folder.empty() ? root_ : fmt::format("{}/{}", root_, folder);
  at.id = number(name);
  if (is_log(folder)) at.folder += fmt::format("/{}", name.substr(0, std::min(name.size(), kShardDigits)));
  at.path = fmt::format("{}/{}", at.folder, name);
  auto above = split(folder).first;
  at.scratch_folder = above.empty() ? root_ + "/@tmp" : fmt::format("{}/{}/@tmp", root_, above);
  return at;
}

tl::unexpected<Error> FileStore::refused(const io::DiskError& error, bool writing) const {
  switch (error.code) {
    case ENOENT: return tl::unexpected(Error{Outcome::not_found, error.message, {}});
    case EACCES:
    case EPERM:
    case EROFS:
      return tl::unexpected(Error{Outcome::unauthorised,
                                  writing ? fmt::format("{}. Writing needs write permission in {}; without it, open read-only.", error.message, root_)
                                          : fmt::format("{}. Reading needs read permission in {}.", error.message, root_),
                                  {}});
    default: return tl::unexpected(Error{Outcome::unavailable, error.message, {}});
  }
}

void FileStore::remember(const std::string& folder, std::uint64_t low, std::uint64_t high) {
  Lock lock(mutex_);
  if (seen_.size() >= kFoldersRemembered && !seen_.contains(folder)) seen_.clear();  // forgetting costs a sync, nothing else
  auto [it, fresh] = seen_.try_emplace(folder, Seen{low, high});
  if (fresh) return;
  auto& s = it->second;
  bool touches = low <= s.high + 1 && s.low <= high + 1;
  s = touches ? Seen{std::min(s.low, low), std::max(s.high, high)} : Seen{low, high};
}

bool FileStore::known(const std::string& folder, std::uint64_t low, std::uint64_t high) {
  Lock lock(mutex_);
  const auto it = seen_.find(folder);
  return it != seen_.end() && it->second.low <= low && high <= it->second.high;
}

// What is in the folder when it returns, and was before, is durable. A name that was only seen before may be gone: with the power of whoever made it (found by
// the simulator, once in 170,000 runs); so callers look again.
Result<> FileStore::sync_names(const std::string& folder) {
  if (poisoned(folder))
    return tl::unexpected(Error{Outcome::unavailable,
                                fmt::format("{} could not be synced earlier: what is in it may not be durable. Check the disk, then "
                                            "start this program again.",
                                            folder),
                                {}});
  if (!guard_on(Guard::dir_reader_syncs)) return {};
  auto synced = anchor(folder);
  if (synced) synced = disk_.sync_folder(folder);
  if (!synced && !never_opened(synced.error().code)) poison(folder);  // ENOENT: it was emptied by a trim, and removed
  if (!synced) return refused(synced.error(), false);
  return {};
}

// The names above a folder must be durable as well: whoever made it may have died before they were synced, and a power loss would then take the folder
// with every object that was acknowledged in it (found by the simulator). Once per folder and process.
io::DiskResult<> FileStore::anchor(const std::string& folder) {
  {
    Lock lock(mutex_);
    if (anchored_.contains(folder)) return {};
  }
  for (std::string at = folder; at.size() > root_.size();) {
    at.resize(at.rfind('/'));
    if (auto synced = disk_.sync_folder(at); !synced) return synced;
  }
  // The folder the home lies in may be closed to us; then it was made by somebody else, who answers for it.
  const auto slash = root_.rfind('/');
  auto above = disk_.sync_folder(slash == 0 ? "/" : root_.substr(0, slash));
  if (!above && above.error().code != EACCES && above.error().code != EPERM) return above;
  Lock lock(mutex_);
  if (anchored_.size() >= kFoldersRemembered) anchored_.clear();
  anchored_.insert(folder);
  return {};
}

bool FileStore::poisoned(const std::string& folder) {
  Lock lock(mutex_);
  return poisoned_.contains(folder);
}
void FileStore::poison(const std::string& folder) {
  Lock lock(mutex_);
  poisoned_.insert(folder);
}

Result<Bytes> FileStore::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  auto at = place(key);
  const bool to_sync = counts_when_synced(split(key).first, split(key).second) && !(at.id && known(at.folder, *at.id, *at.id));
  for (int tries = 0; tries < kTries; ++tries) {
    const auto before = to_sync ? disk_.identity(at.path) : io::FileIdentity{};
    if (!before) return refused(before.error(), false);
    auto bytes = disk_.read(at.path, from, size);
    if (!bytes) return refused(bytes.error(), false);
    if (!to_sync) return std::move(*bytes);
    if (auto ok = sync_names(at.folder); !ok) return tl::unexpected(ok.error());
    const auto after = disk_.identity(at.path);
    if (!after) return refused(after.error(), false);
    if (*after != *before) continue;
    if (at.id) remember(at.folder, *at.id, *at.id);
    return std::move(*bytes);
  }
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} became another file each time it was read.", at.path), {}});
}

Result<PutOutcome> FileStore::put_if_absent(const std::string& key, ByteView bytes) {
  auto at = place(key);
  if (poisoned(at.folder))
    return tl::unexpected(Error{Outcome::unavailable,
                                fmt::format("{} could not be synced earlier, so nothing more is written there. Check the disk, then start "
                                            "this program again.",
                                            at.folder),
                                {}});
  // A claimer that has fallen behind a busy writer meets many taken names. One look costs microseconds where making and syncing a file for nothing costs
  // a whole write: so it catches up, and then races the writer's create with one of its own (B3). What decides is still the link below.
  if (disk_.size(at.path)) return PutOutcome::exists;
  io::DiskResult<> made;
  for (int attempt = 0; attempt < kCreateTries; ++attempt) {
    made = disk_.create_whole(at.path, bytes, guard_on(Guard::dir_file_synced), scratch(at));
    if (made || made.error().code != ENOENT) break;
    // The first object here; or, on a disk that needs one, there is no scratch folder yet, or somebody swept our scratch file.
    if (auto ok = make_folder(attempt == 0 ? at.folder : at.scratch_folder); !ok) return tl::unexpected(ok.error());
  }
  if (!made && made.error().code == EEXIST) return PutOutcome::exists;
  if (!made && certainly_not_written(made.error().code)) return refused(made.error(), true);
  if (!made) return PutOutcome::unknown;
  if (ONEPEN_FAILPOINT("file_store.linked")) return PutOutcome::unknown;
  auto synced = anchor(at.folder);
  if (synced) synced = disk_.sync_folder(at.folder);
  if (!synced) {
    if (!never_opened(synced.error().code)) poison(at.folder);
    return PutOutcome::unknown;
  }
  if (at.id) remember(at.folder, *at.id, *at.id);
  sweep(at);
  return PutOutcome::created;
}

// Once per process and stream, after the first create there: what a killed writer left behind. A live writer whose scratch file goes makes another.
void FileStore::sweep(const Place& at) {
  {
    Lock lock(mutex_);
    if (!swept_.insert(at.scratch_folder).second) return;
  }
  auto names = disk_.list(at.scratch_folder, "", kAllFiles);
  if (!names) return;
  for (const auto& name : *names)
    if (!name.starts_with(scratch_prefix_)) (void)disk_.remove(at.scratch_folder + "/" + name);
}

Result<> FileStore::put(const std::string& key, ByteView bytes) {
  auto at = place(key);
  for (int attempt = 0;; ++attempt) {
    auto temp = scratch(at);
    auto made = disk_.create(temp, bytes, false);
    if (made) made = disk_.rename(temp, at.path);
    if (made) return {};
    (void)disk_.remove(temp);
    if (made.error().code != ENOENT || attempt + 1 >= kCreateTries) return refused(made.error(), true);
    for (const auto* folder : {&at.folder, &at.scratch_folder})
      if (auto ok = make_folder(*folder); !ok) return ok;
  }
}

// A home that was there and is not any more (moved away, not mounted) is not made anew: what came to lie in its place would keep it from coming back.
Result<> FileStore::make_folder(const std::string& folder) {
  const auto there = disk_.list(root_, "", 1);
  const bool away = !there && (there.error().code == ENOENT || there.error().code == ENOTDIR);
  if (away && root_seen_) return tl::unexpected(Error{Outcome::unavailable, fmt::format("The home {} is not there any more. Is it mounted?", root_), {}});
  if (auto ok = disk_.make_folders(folder); !ok) return refused(ok.error(), true);
  root_seen_ = true;
  return {};
}

Result<std::vector<std::string>> FileStore::list(const std::string& folder, const std::string& after, std::size_t limit) {
  if (is_log(folder)) return list_log(folder, after, limit);
  auto path = folder.empty() ? root_ : fmt::format("{}/{}", root_, folder);
  auto names = disk_.list(path, after, limit);
  if (!names && (names.error().code == ENOENT || names.error().code == ENOTDIR)) return std::vector<std::string>{};
  if (!names) return refused(names.error(), false);
  if (names->empty() || !counts_when_synced(folder, {})) return std::move(*names);
  if (auto ok = sync_names(path); !ok) return tl::unexpected(ok.error());
  auto still = disk_.list(path, after, limit);
  if (!still) return refused(still.error(), false);
  std::erase_if(*names, [&](const std::string& name) { return !std::binary_search(still->begin(), still->end(), name); });
  return std::move(*names);
}

// A folder that was listed and is not there: a trim emptied and removed it, which a second look shows; or the whole home went away meanwhile, and what was found
// so far is no listing.
Result<std::vector<std::string>> FileStore::list_log(const std::string& folder, const std::string& after, std::size_t limit) {
  for (int tries = 0; tries < kTries; ++tries) {
    auto listed = list_shards(folder, after, limit);
    if (!listed) return tl::unexpected(listed.error());
    if (*listed) return std::move(**listed);
  }
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("Folders of {}/{} vanished while they were listed.", root_, folder), {}});
}

// Names of the log that no loss of power takes any more; not_found: the folder vanished, or what was its newest object did.
Result<std::vector<std::string>> FileStore::durable_names(const std::string& shard, const std::string& after, std::size_t limit) {
  auto names = disk_.list(shard, after, limit);
  if (!names) return refused(names.error(), false);
  if (names->empty()) return std::move(*names);
  const auto low = number(names->front()), high = number(names->back());
  const bool run = low && high && *high - *low + 1 == names->size();  // no name between them that was not seen
  if (run && known(shard, *low, *high)) return std::move(*names);
  // Only the newest can go: those before it were durable when it was made (B1).
  const std::string newest = shard + "/" + names->back();
  const auto before = disk_.identity(newest);
  if (!before) return refused(before.error(), false);
  if (auto ok = sync_names(shard); !ok) return tl::unexpected(ok.error());
  const auto now = disk_.identity(newest);
  if (!now) return refused(now.error(), false);
  if (*now != *before) return tl::unexpected(Error{Outcome::not_found, newest + " is another file now.", {}});
  if (run) remember(shard, *low, *high);
  return std::move(*names);
}

// None: a folder vanished.
Result<std::optional<std::vector<std::string>>> FileStore::list_shards(const std::string& folder, const std::string& after, std::size_t limit) {
  using Names = std::vector<std::string>;
  auto path = fmt::format("{}/{}", root_, folder);
  auto shards = disk_.list(path, "", kAllFiles);
  if (!shards && (shards.error().code == ENOENT || shards.error().code == ENOTDIR)) return Names{};
  if (!shards) return refused(shards.error(), false);
  root_seen_ = true;
  Names out;
  for (const auto& shard : *shards) {
    if (out.size() >= limit) break;
    if (shard < std::string_view(after).substr(0, kShardDigits)) continue;
    auto shard_path = path + "/" + shard;
    auto names = durable_names(shard_path, after, limit - out.size());
    if (!names && names.error().outcome == Outcome::not_found) return std::nullopt;
    if (!names) return tl::unexpected(names.error());
    out.insert(out.end(), std::make_move_iterator(names->begin()), std::make_move_iterator(names->end()));
  }
  return out;
}

Result<> FileStore::erase(const std::string& key) {
  auto gone = disk_.remove(place(key).path);
  if (!gone && gone.error().code != ENOENT) return refused(gone.error(), true);
  const auto folder = split(key).first;
  if (is_snapshot(folder) || is_log(folder)) (void)disk_.remove(place(key).folder);  // with its last file; it stays while it is not empty
  return {};
}

std::optional<bool> FileStore::has(const std::string& key) {
  auto size = disk_.size(place(key).path);
  if (size) return true;
  if (size.error().code == ENOENT) return false;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<ObjectStore> make_file_store(Runtime& runtime, io::Disk& disk, std::string root) {
  return std::make_unique<FileStore>(runtime, disk, std::move(root));
}

}  // namespace onepen::home
