#include "sqlite/salvage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/failpoint.h"
#include "io/paths.h"
#include "sqlite/copy_disk.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {
namespace {

constexpr std::size_t kMaxEntries = 100'000;
constexpr std::uint64_t kMaxManifestBytes = 256u << 20;
constexpr std::size_t kWriteVersionAt = 18, kReadVersionAt = 19;  // of a database's header: 2 is WAL, 1 is a rollback journal

std::uint64_t hex_of(const std::string& text) { return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 16); }

CommitState state_of(const nlohmann::json& json) {
  CommitState state;
  state.offset.text = json.value("offset", "");
  parse(json.value("incarnation", ""), state.incarnation);
  state.ordinal = json.value("commits", std::uint64_t{0});
  state.page_sum = hex_of(json.value("page_sum", ""));
  state.page_count = json.value("page_count", 0u);
  state.page_size = json.value("page_size", 0u);
  return state;
}

void fill(SalvageEntry& entry, const nlohmann::json& json) {
  entry.name = json.value("name", entry.name);
  entry.home_url = json.value("home", "");
  entry.kind = json.value("kind", entry.kind);
  entry.why = json.value("why", "");
  entry.moved_at = json.value("moved_at", "");
  if (json.contains("acknowledged")) entry.acknowledged = state_of(json["acknowledged"]);
  else if (json.contains("expected") && !json["expected"].empty()) entry.acknowledged = state_of(json["expected"][0]);
  entry.unsent_known = json.value("unsent_known", false);
  if (json.contains("owned")) {
    core::OwnerToken token;
    parse(json["owned"].value("incarnation", ""), token.incarnation);
    token.epoch.value = json["owned"].value("epoch", std::uint64_t{0});
    parse(json["owned"].value("claim_id", ""), token.claim_id);
    entry.owned = token;
  }
  for (const auto& one : json.value("unsent", nlohmann::json::array())) {
    PendingCommit commit;
    commit.ordinal = one.value("commit", std::uint64_t{0});
    commit.pages = one.value("pages", 0u);
    commit.wal_bytes = one.value("wal_bytes", std::uint64_t{0});
    commit.page_count = one.value("page_count", 0u);
    commit.page_sum = hex_of(one.value("page_sum", ""));
    if (one.contains("place")) commit.end = {one["place"].value("salt1", 0u), one["place"].value("salt2", 0u), one["place"].value("frame", 0u)};
    entry.unsent.push_back(commit);
  }
}

Result<std::vector<std::string>> names_in(io::Disk& disk, const std::string& folder) {
  auto names = disk.list(folder, "", kMaxEntries);
  if (!names && (names.error().code == ENOENT || names.error().code == ENOTDIR)) return std::vector<std::string>{};
  return of_disk(std::move(names));
}

SalvageEntry entry_of(io::Disk& disk, const std::string& folder, const std::string& name_folder, const std::string& leaf) {
  SalvageEntry entry;
  entry.folder = folder;
  entry.id = name_folder + "/" + leaf;
  entry.name = name_folder;
  for (std::size_t at; (at = entry.name.find("%2F")) != std::string::npos;) entry.name.replace(at, 3, "/");
  if (const auto dash = leaf.find('-'); dash != std::string::npos) entry.kind = leaf.substr(dash + 1);
  entry.has_database = is_there(disk, folder + "/db") || is_there(disk, folder + "/db-wal");
  if (const auto files = names_in(disk, folder)) {
    for (const std::string& file : *files) {
      if (const auto size = disk.size(folder + "/" + file)) entry.bytes += *size;
    }
  }
  const auto text = salvage_manifest(disk, entry);
  if (!text) {
    entry.trouble = text.error().message;
    entry.unsent_known = false;
    return entry;
  }
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_object()) {
    try {
      fill(entry, json);
      return entry;
    } catch (const nlohmann::json::exception& e) {  // a field of another type
      entry.trouble = fmt::format("{}/manifest.json cannot be read: {}", folder, e.what());
    }
  } else {
    entry.trouble = fmt::format("{}/manifest.json is no JSON object", folder);
  }
  entry.unsent_known = false;
  return entry;
}

Result<> make_whole(io::Disk& disk, const SalvageEntry& entry, const std::string& part) {
  auto out = open_on(disk, part, io::OpenMode::create);
  if (!out) return tl::unexpected(out.error());
  if (auto cut = of_disk((*out)->cut(0)); !cut) return cut;
  auto db = open_on(disk, entry.folder + "/db", io::OpenMode::read);
  if (!db && db.error().outcome != Outcome::not_found) return tl::unexpected(db.error());
  if (db) {
    if (auto copied = copy_bytes(**db, **out); !copied) return copied;
  }
  auto wal = read_wal(disk, entry.folder + "/db-wal");
  if (!wal) return tl::unexpected(wal.error());
  if (wal->page_count != 0) {
    auto file = open_on(disk, entry.folder + "/db-wal", io::OpenMode::read);
    if (!file) return tl::unexpected(file.error());
    if (auto folded = fold_wal(*wal, view_of(*wal), **file, **out, part); !folded) return tl::unexpected(folded.error());
  }
  // Out of WAL mode, as SQLite itself leaves it: the file then stands alone.
  std::array<std::byte, 2> versions{};
  auto got = of_disk((*out)->read_at(kWriteVersionAt, versions));
  if (!got) return tl::unexpected(got.error());
  if (*got == versions.size() && versions[0] == std::byte{2} && versions[1] == std::byte{2}) {
    versions = {std::byte{1}, std::byte{1}};
    if (auto put = of_disk((*out)->write_at(kWriteVersionAt, versions)); !put) return put;
  }
  static_assert(kReadVersionAt == kWriteVersionAt + 1);
  return of_disk((*out)->sync());
}

}  // namespace

std::string salvage_folder(const std::string& cache_root) { return cache_root + "/salvage"; }

std::uint64_t perhaps_dropped(const SalvageEntry& entry) { return entry.kind == "rewound" ? entry.acknowledged.ordinal : 0; }

Result<std::vector<SalvageEntry>> list_salvage(io::Disk& disk, const std::string& cache_root, const std::optional<StreamName>& name) {
  std::vector<SalvageEntry> entries;
  const std::string root = salvage_folder(cache_root);
  auto names = names_in(disk, root);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name_folder : *names) {
    if (name && name_folder != folder_name(*name)) continue;
    auto leaves = names_in(disk, root + "/" + name_folder);
    if (!leaves) return tl::unexpected(leaves.error());
    for (const std::string& leaf : *leaves) entries.push_back(entry_of(disk, fmt::format("{}/{}/{}", root, name_folder, leaf), name_folder, leaf));
  }
  std::sort(entries.begin(), entries.end(),
            [](const SalvageEntry& a, const SalvageEntry& b) { return std::tie(a.moved_at, a.id) < std::tie(b.moved_at, b.id); });
  return entries;
}

Result<SalvageEntry> find_salvage(io::Disk& disk, const std::string& cache_root, const std::string& id) {
  auto entries = list_salvage(disk, cache_root);
  if (!entries) return tl::unexpected(entries.error());
  std::vector<const SalvageEntry*> fitting;
  for (const SalvageEntry& entry : *entries) {
    if (entry.id == id || entry.folder == id) return entry;
    if (entry.id.substr(entry.id.find('/') + 1) == id || entry.name + "/" + entry.id.substr(entry.id.find('/') + 1) == id) fitting.push_back(&entry);
  }
  if (fitting.size() == 1) return *fitting[0];
  if (fitting.size() > 1)
    return tl::unexpected(
        Error{Outcome::invalid, fmt::format("several databases have something in salvage called {}: name one, as {}", id, fitting[0]->id), {}});
  if (entries->empty()) return tl::unexpected(Error{Outcome::not_found, fmt::format("there is nothing in salvage under {}", cache_root), {}});
  return tl::unexpected(Error{Outcome::not_found, fmt::format("there is no {} in salvage under {}; the newest is {}", id, cache_root, entries->back().id), {}});
}

Result<std::string> salvage_manifest(io::Disk& disk, const SalvageEntry& entry) {
  auto text = of_disk(disk.read(entry.folder + "/manifest.json", 0, kMaxManifestBytes));
  if (!text) return tl::unexpected(text.error());
  return std::string(as_text(*text));
}

Result<> export_salvage(io::Disk& disk, const SalvageEntry& entry, const std::string& target) {
  if (!entry.has_database) return tl::unexpected(Error{Outcome::not_found, fmt::format("{} holds no database", entry.folder), std::nullopt});
  const auto taken = [&] {
    return tl::unexpected(Error{Outcome::invalid, fmt::format("{} exists already: name a file that does not, or move it away", target), std::nullopt});
  };
  if (is_there(disk, target)) return taken();
  const std::string part = target + ".part";
  auto made = make_whole(disk, entry, part);
  if (made && ONEPEN_FAILPOINT("salvage.before_name")) made = io_failed("link", target);
  if (made) {
    // A second name, then without the first: never over a file that appeared meanwhile.
    auto linked = disk.link(part, target);
    if (!linked && linked.error().code == EEXIST) made = taken();
    else if (!linked) made = tl::unexpected(of_disk(linked.error()));
  }
  static_cast<void>(remove_from(disk, part));
  return made;
}

Result<> remove_salvage(io::Disk& disk, const SalvageEntry& entry) {
  auto files = names_in(disk, entry.folder);
  if (!files) return tl::unexpected(files.error());
  std::partition(files->begin(), files->end(), [](const std::string& file) { return file != "manifest.json"; });
  for (const std::string& file : *files) {
    if (auto removed = remove_from(disk, entry.folder + "/" + file); !removed) return removed;
  }
  if (auto removed = remove_from(disk, entry.folder); !removed) return removed;
  return of_disk(disk.sync_folder(io::folder_of(entry.folder)));
}

}  // namespace onepen::sqlite
