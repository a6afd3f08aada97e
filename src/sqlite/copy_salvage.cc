#include "sqlite/copy_salvage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/failpoint.h"

namespace onepen::sqlite {
namespace {

constexpr int kMaxSameSecond = 1000;

tl::unexpected<Error> not_saved(const io::DiskError& error) { return tl::unexpected(Error{Outcome::unavailable, error.message, std::nullopt}); }

nlohmann::ordered_json tell(const CommitState& state) {
  return {{"offset", state.offset.text},    {"incarnation", to_text(state.incarnation)},
          {"commits", state.ordinal},       {"page_sum", fmt::format("{:016x}", state.page_sum)},
          {"page_count", state.page_count}, {"page_size", state.page_size}};
}

std::string manifest(const Salvage& salvage, std::int64_t wall_ms) {
  nlohmann::ordered_json json{{"format", 1},
                              {"kind", salvage.kind},
                              {"why", salvage.why},
                              {"name", salvage.place.name.text()},
                              {"home", salvage.place.home_url},
                              {"moved_from", salvage.copy_folder},
                              {"moved_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(wall_ms / 1000))}};
  if (salvage.expected) {
    const CopyRecord& record = *salvage.expected;
    const bool same = record.previous == record.next;
    json["expected"] = nlohmann::ordered_json::array();
    json["expected"].push_back(tell(record.next));
    if (!same) json["expected"].push_back(tell(record.previous));
    json["restarted_since"] = !(record.boot == current_boot_id());
    if (record.poisoned) json["poisoned"] = record.why;
  }
  if (salvage.found) {
    json["found"] = {{"page_sum", fmt::format("{:016x}", salvage.found->sum.page_sum)},
                     {"page_count", salvage.found->sum.page_count},
                     {"page_size", salvage.found->page_size},
                     {"bytes", salvage.found->bytes},
                     {"replaced", salvage.expected && salvage.expected->inode != 0 && salvage.expected->inode != salvage.found->inode}};
  }
  json["files"] = "db is a SQLite database (its db-wal, when there, belongs to it): open it with sqlite3 to see what it holds";
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string folder_name(const StreamName& name) {
  std::string out;
  for (const char c : name.text()) out += c == '/' ? std::string("%2F") : std::string(1, c);
  return out;
}

Result<std::string> move_aside(Runtime& runtime, io::Disk& disk, const Salvage& salvage) {
  const std::int64_t now_ms = runtime.wall_ms();
  const std::string parent = salvage.place.cache_root + "/salvage/" + folder_name(salvage.place.name);
  const std::string base = fmt::format("{}/{:%Y%m%dT%H%M%SZ}-{}", parent, fmt::gmtime(now_ms / 1000), salvage.kind);
  const std::string text = manifest(salvage, now_ms);
  for (int n = 1; n <= kMaxSameSecond; ++n) {
    const std::string folder = n == 1 ? base : fmt::format("{}-{}", base, n);
    if (auto made = disk.make_folders(folder); !made) return not_saved(made.error());
    auto written = disk.create(folder + "/manifest.json", as_bytes(text), true);
    if (!written && written.error().code == EEXIST) continue;  // another one of the same second
    if (!written) return not_saved(written.error());
    if (ONEPEN_FAILPOINT("copy.move_aside")) return tl::unexpected(file_error("move", salvage.copy_folder, EIO));
    // The state first: what is left without it is not trusted, so that a kill in between is no loss.
    for (const char* file : {"state", "db", "db-wal", "db-shm"}) {
      const std::string from = salvage.copy_folder + "/" + file;
      if (!file_exists(from)) continue;
      if (auto moved = move_file(from, folder + "/" + file); !moved) return tl::unexpected(moved.error());
    }
    if (auto synced = disk.sync_folder(folder); !synced) return not_saved(synced.error());
    return folder;
  }
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("there are already {} folders like {}", kMaxSameSecond, base), std::nullopt});
}

}  // namespace onepen::sqlite
