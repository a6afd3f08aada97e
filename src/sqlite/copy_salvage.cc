#include "sqlite/copy_salvage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/failpoint.h"
#include "sqlite/salvage.h"

namespace onepen::sqlite {
namespace {

constexpr int kMaxSameSecond = 1000;
constexpr int kManifestFormat = 2;
constexpr const char* kAsideNote = "aside";  // in a copy's folder while it is moved: names the folder it goes to
constexpr std::uint64_t kMaxAsideNote = 8192;
constexpr const char* kDiscardNote = "discard";  // in a copy's folder while its files are deleted

nlohmann::ordered_json tell(const CommitState& state) {
  return {{"offset", state.offset.text},    {"incarnation", to_text(state.incarnation)},
          {"commits", state.ordinal},       {"page_sum", fmt::format("{:016x}", state.page_sum)},
          {"page_count", state.page_count}, {"page_size", state.page_size}};
}

nlohmann::ordered_json tell(const PendingCommit& commit) {
  return {{"commit", commit.ordinal},
          {"pages", commit.pages},
          {"wal_bytes", commit.wal_bytes},
          {"page_count", commit.page_count},
          {"page_sum", commit.page_sum == 0 ? std::string() : fmt::format("{:016x}", commit.page_sum)},
          {"place", {{"salt1", commit.end.salt1}, {"salt2", commit.end.salt2}, {"frame", commit.end.frame}}}};
}

std::string manifest(const Salvage& salvage, std::int64_t wall_ms) {
  nlohmann::ordered_json json{{"format", kManifestFormat},
                              {"kind", salvage.kind},
                              {"why", salvage.why},
                              {"name", salvage.place.name.text()},
                              {"home", salvage.place.home_url},
                              {"moved_from", salvage.copy_folder},
                              {"moved_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(wall_ms / 1000))},
                              {"acknowledged", tell(salvage.acknowledged)}};
  if (salvage.owned) {
    json["owned"] = {
        {"incarnation", to_text(salvage.owned->incarnation)}, {"epoch", salvage.owned->epoch.value}, {"claim_id", to_text(salvage.owned->claim_id)}};
  }
  json["unsent_known"] = salvage.unsent_known;
  json["unsent"] = nlohmann::ordered_json::array();
  for (const PendingCommit& commit : salvage.unsent) json["unsent"].push_back(tell(commit));
  if (salvage.expected) {
    const CopyRecord& record = *salvage.expected;
    json["expected"] = nlohmann::ordered_json::array();
    json["expected"].push_back(tell(record.next));
    if (!(record.previous == record.next)) json["expected"].push_back(tell(record.previous));
    json["restarted_since"] = !(record.boot == salvage.boot);
    if (record.poisoned) json["poisoned"] = record.why;
  }
  if (salvage.found) {
    json["found"] = {{"page_sum", fmt::format("{:016x}", salvage.found->sum.page_sum)},
                     {"page_count", salvage.found->sum.page_count},
                     {"page_size", salvage.found->page_size},
                     {"bytes", salvage.found->bytes},
                     {"replaced", salvage.expected && salvage.expected->inode != 0 && salvage.expected->inode != salvage.found->inode}};
  }
  json["files"] = "db is a SQLite database (its db-wal, when there, belongs to it): `onepen salvage export` makes one file of them";
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The state last: a copy without it is not trusted, one with it would be looked at.
Result<> move_files(io::Disk& disk, const std::string& from, const std::string& to) {
  for (const char* file : {"db-wal", "db", "db-shm", "pages", "state"}) {
    if (!is_there(disk, from + "/" + file)) continue;
    if (ONEPEN_FAILPOINT("copy.move_aside")) return io_failed("move", from);
    if (auto moved = rename_on(disk, from + "/" + file, to + "/" + file); !moved) return moved;
  }
  // Both folders, and the note's end too, before anything new is made here: names that came back with a loss of power would be moved once more, over what
  // was kept.
  if (auto synced = of_disk(disk.sync_folder(to)); !synced) return synced;
  if (auto synced = of_disk(disk.sync_folder(from)); !synced) return synced;
  if (auto removed = remove_from(disk, from + "/" + kAsideNote); !removed) return removed;
  return of_disk(disk.sync_folder(from));
}

// The state last, and the note after everything: what a kill leaves is never taken for a copy.
Result<> delete_files(io::Disk& disk, const std::string& folder) {
  for (const char* file : {"db-wal", "db", "db-shm", "db-batch", "pages", "state"}) {
    if (ONEPEN_FAILPOINT("copy.discard")) return io_failed("delete", folder);
    if (auto removed = remove_from(disk, folder + "/" + file); !removed) return removed;
  }
  if (auto synced = of_disk(disk.sync_folder(folder)); !synced) return synced;
  if (auto removed = remove_from(disk, folder + "/" + kDiscardNote); !removed) return removed;
  return of_disk(disk.sync_folder(folder));  // a note that came back with a loss of power would delete the next copy
}

}  // namespace

Result<> discard_copy(io::Disk& disk, const std::string& copy_folder) {
  const std::string note = copy_folder + "/" + kDiscardNote;
  if (!is_there(disk, note)) {
    if (auto noted = of_disk(disk.create(note, {}, true)); !noted) return noted;
    if (auto synced = of_disk(disk.sync_folder(copy_folder)); !synced) return synced;
  }
  return delete_files(disk, copy_folder);
}

Result<> finish_discarding(io::Disk& disk, const std::string& copy_folder) {
  return is_there(disk, copy_folder + "/" + kDiscardNote) ? delete_files(disk, copy_folder) : Result<>{};
}

std::string folder_name(const StreamName& name) {
  std::string out;
  for (const char c : name.text()) out += c == '/' ? std::string("%2F") : std::string(1, c);
  return out;
}

Result<std::string> move_aside(Runtime& runtime, io::Disk& disk, const Salvage& salvage) {
  const std::int64_t now_ms = runtime.wall_ms();
  const std::string parent = salvage_folder(salvage.place.cache_root) + "/" + folder_name(salvage.place.name);
  const std::string base = fmt::format("{}/{:%Y%m%dT%H%M%SZ}-{}", parent, fmt::gmtime(now_ms / 1000), salvage.kind);
  const std::string text = manifest(salvage, now_ms);
  for (int n = 1; n <= kMaxSameSecond; ++n) {
    const std::string folder = n == 1 ? base : fmt::format("{}-{}", base, n);
    if (auto made = of_disk(disk.make_folders(folder)); !made) return tl::unexpected(made.error());
    auto written = disk.create(folder + "/manifest.json", as_bytes(text), true);
    if (!written && written.error().code == EEXIST) continue;  // another one of the same second
    if (!written) return tl::unexpected(of_disk(written.error()));
    if (auto synced = of_disk(disk.sync_folder(folder)); !synced) return tl::unexpected(synced.error());  // else nothing would tell where the move goes
    // Where it goes is written down first: a kill in between must not part a database from its WAL.
    const std::string note = salvage.copy_folder + "/" + kAsideNote;
    if (auto removed = remove_from(disk, note); !removed) return tl::unexpected(removed.error());
    if (auto noted = of_disk(disk.create(note, as_bytes(folder), true)); !noted) return tl::unexpected(noted.error());
    if (auto synced = of_disk(disk.sync_folder(salvage.copy_folder)); !synced) return tl::unexpected(synced.error());
    if (auto moved = move_files(disk, salvage.copy_folder, folder); !moved) return tl::unexpected(moved.error());
    return folder;
  }
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("there are already {} folders like {}", kMaxSameSecond, base), std::nullopt});
}

Result<std::string> finish_moving_aside(io::Disk& disk, const std::string& copy_folder, const Log& log) {
  auto note = disk.read(copy_folder + "/" + kAsideNote, 0, kMaxAsideNote);
  if (!note && note.error().code == ENOENT) return std::string();
  if (!note) return tl::unexpected(of_disk(note.error()));
  const std::string folder(as_text(*note));
  // The manifest is synced before the note is made; a note that was cut short by a loss of power leads nowhere, and nothing was moved yet.
  if (!is_there(disk, folder + "/manifest.json")) {
    if (auto removed = remove_from(disk, copy_folder + "/" + kAsideNote); !removed) return tl::unexpected(removed.error());
    return std::string();
  }
  log(LogLevel::warn, fmt::format("the local copy {} was being moved to {} when its process ended: the rest of it follows", copy_folder, folder));
  if (auto moved = move_files(disk, copy_folder, folder); !moved) return tl::unexpected(moved.error());
  return folder;
}

}  // namespace onepen::sqlite
