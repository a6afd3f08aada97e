#include "apps/onepen/local_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "core/writer.h"
#include "io/paths.h"

namespace onepen::app {

LocalPlaces local_places(const Common& common, const Rooms& rooms, const std::string& name) {
  LocalPlaces out;
  const auto place = copy_place(common, rooms, name);
  if (!place) return out;  // a name that was asked for reads only; without a place for copies there are none
  auto copies = sqlite::copies_here(*rooms.disk, *place);
  if (copies) out.copies = std::move(*copies);
  else out.trouble = copies.error().message;
  auto salvage = sqlite::list_salvage(*rooms.disk, common.cache_root, place->name);
  if (salvage) out.salvage = std::move(*salvage);
  else out.trouble = salvage.error().message;
  std::erase_if(out.salvage, [&](const sqlite::SalvageEntry& entry) { return !entry.home_url.empty() && entry.home_url != place->home_url; });
  std::uint64_t newest = 0;
  for (const sqlite::CopyGlance& copy : out.copies) {
    if (copy.acknowledged.ordinal < newest) continue;
    newest = copy.acknowledged.ordinal;
    out.database_bytes = std::uint64_t{copy.acknowledged.page_count} * copy.acknowledged.page_size;
  }
  return out;
}

namespace {

// Where the copy that is ahead of the others stands; empty: none was ever read from the home.
std::string newest_offset(const LocalPlaces& local) {
  const sqlite::CopyGlance* newest = nullptr;
  for (const sqlite::CopyGlance& copy : local.copies) {
    if (!copy.acknowledged.offset.text.empty() && (newest == nullptr || copy.acknowledged.ordinal >= newest->acknowledged.ordinal)) newest = &copy;
  }
  return newest == nullptr ? "" : newest->acknowledged.offset.text;
}

}  // namespace

Error refused_here(const Common& common, const Rooms& rooms, const std::string& name, const core::Refusal& refusal) {
  Error error = from_refusal(refusal);
  if (!core::out_of_sight(refusal)) return error;
  const LocalPlaces local = local_places(common, rooms, name);
  const std::string offset = newest_offset(local);
  if (offset.empty()) return error;
  error.outcome = Outcome::unavailable;
  error.message = fmt::format(
      "'{}' was read on this machine up to {}, and nothing of it is there now: {} Is the home mounted, and the right one? When it is lost for good, put it back "
      "from a backup; this machine's copy may be the only one of those commits. Here: {}.",
      name, offset, refusal.message, fmt::join(local_lines(name, local), "; "));
  return error;
}

std::vector<OutOfSight> out_of_sight_here(const Common& common, const Rooms& rooms, const std::vector<std::string>& names, const std::string& prefix) {
  std::vector<OutOfSight> out;
  const auto any = copy_place(common, rooms, "any");
  if (!any) return out;
  constexpr std::size_t kMostNames = 100'000;
  const auto folders = rooms.disk->list(io::folder_of(sqlite::copies_folder(*any)), "", kMostNames);
  if (!folders) return out;  // nothing of this home was ever read here
  for (std::string name : *folders) {
    for (std::size_t at; (at = name.find("%2F")) != std::string::npos;) name.replace(at, 3, 1, '/');
    if (!name.starts_with(prefix) || std::find(names.begin(), names.end(), name) != names.end()) continue;
    auto stream = open_stream(rooms, name);
    if (!stream) continue;
    const auto stat = (*stream)->stat();
    if (stat || stat.error().outcome != Outcome::not_found) continue;
    Error error = refused_here(common, rooms, name, stat.error());
    if (error.outcome == Outcome::unavailable) out.push_back({std::move(name), std::move(error)});
  }
  return out;
}

std::vector<sqlite::CopyGlance> copies_elsewhere(const Common& common, const Rooms& rooms, const std::string& name, const Incarnation& incarnation) {
  std::vector<sqlite::CopyGlance> out;
  const auto place = copy_place(common, rooms, name);
  if (!place) return out;
  const std::string own = sqlite::copies_folder(*place), own_home = io::folder_of(own);
  constexpr std::size_t kMostHomes = 100'000;
  const auto homes = rooms.disk->list(common.cache_root, "", kMostHomes);
  if (!homes) return out;
  for (const std::string& home : *homes) {
    const std::string folder = common.cache_root + "/" + home;
    if (home.find_first_not_of("0123456789abcdef") != std::string::npos || folder == own_home) continue;
    auto copies = sqlite::copies_in(*rooms.disk, folder + own.substr(own_home.size()));
    if (!copies) continue;
    for (sqlite::CopyGlance& copy : *copies) {
      const bool same = copy.acknowledged.incarnation == incarnation || (copy.owned && copy.owned->incarnation == incarnation);
      if (same && (copy.unsent > 0 || !copy.unsent_known)) out.push_back(std::move(copy));
    }
  }
  return out;
}

std::vector<std::string> unsent_lines(const LocalPlaces& local) {
  std::vector<std::string> lines;
  const auto count = [](const sqlite::CopyGlance& copy) {
    if (copy.unsent == 0) return std::string("perhaps commits that are not in the stream");
    return fmt::format("{} not in the stream", copy.unsent == 1 ? "1 commit" : fmt::format("{} commits", copy.unsent));
  };
  for (const sqlite::CopyGlance& copy : local.copies) {
    if (copy.unsent == 0 && copy.unsent_known) continue;
    lines.push_back(fmt::format("the local copy {} has {}{}", copy.folder, count(copy),
                                copy.in_use ? ": the process that has it open sends them" : ": the next open for writing on this machine sends them"));
  }
  for (const sqlite::CopyGlance& copy : local.elsewhere)
    lines.push_back(fmt::format(
        "the local copy {} has {}, of this very database under another URL of its home: they are sent only when it is opened for writing by that URL",
        copy.folder, count(copy)));
  return lines;
}

std::vector<std::string> local_lines(const std::string& name, const LocalPlaces& local) {
  std::vector<std::string> lines;
  LocalPlaces others;
  others.elsewhere = local.elsewhere;
  for (std::string& line : unsent_lines(others)) lines.push_back(std::move(line));
  for (const sqlite::CopyGlance& copy : local.copies) {
    std::string line = copy.folder;
    if (!copy.trouble.empty()) {
      lines.push_back(line + ": " + copy.trouble);
      continue;
    }
    line += fmt::format(": commit {}", copy.acknowledged.ordinal);
    if (copy.in_use) line += ", open in a process";
    if (copy.unsent > 0)
      line +=
          fmt::format(", {} not in the stream yet ({})", copy.unsent == 1 ? "1 commit" : fmt::format("{} commits", copy.unsent), byte_count(copy.unsent_bytes));
    else if (!copy.unsent_known) line += ", and perhaps commits that are not in the stream yet: opening it tells";
    lines.push_back(std::move(line));
  }
  if (!local.salvage.empty()) {
    std::uint64_t unsent = 0, dropped = 0;
    for (const sqlite::SalvageEntry& entry : local.salvage) {
      unsent += entry.unsent.size();
      dropped = std::max(dropped, sqlite::perhaps_dropped(entry));
    }
    lines.push_back(fmt::format("{} moved aside{}{}: onepen salvage list {}",
                                local.salvage.size() == 1 ? "1 copy was" : fmt::format("{} copies were", local.salvage.size()),
                                unsent == 0 ? "" : fmt::format(", with {} commits that the stream does not have", unsent),
                                dropped == 0 ? "" : fmt::format(", with acknowledged commits up to {} of which the stream has dropped some", dropped), name));
  }
  if (!local.trouble.empty()) lines.push_back(local.trouble);
  return lines;
}

std::string local_json(const LocalPlaces& local) {
  auto copies = nlohmann::json::array(), salvage = nlohmann::json::array();
  for (const sqlite::CopyGlance& copy : local.copies) {
    copies.push_back({{"folder", copy.folder},
                      {"in_use", copy.in_use},
                      {"commits", copy.acknowledged.ordinal},
                      {"offset", copy.acknowledged.offset.text},
                      {"unsent_commits", copy.unsent},
                      {"unsent_bytes", copy.unsent_bytes},
                      {"unsent_known", copy.unsent_known}});
    if (!copy.trouble.empty()) copies.back()["trouble"] = copy.trouble;
  }
  for (const sqlite::SalvageEntry& entry : local.salvage)
    salvage.push_back({{"entry", entry.id},
                       {"kind", entry.kind},
                       {"unsent_commits", entry.unsent.size()},
                       {"unsent_known", entry.unsent_known},
                       {"perhaps_dropped_commits", sqlite::perhaps_dropped(entry)}});
  auto elsewhere = nlohmann::json::array();
  for (const sqlite::CopyGlance& copy : local.elsewhere)
    elsewhere.push_back({{"folder", copy.folder}, {"in_use", copy.in_use}, {"unsent_commits", copy.unsent}, {"unsent_known", copy.unsent_known}});
  nlohmann::json out{{"copies", copies}, {"salvage", salvage}, {"elsewhere", elsewhere}};
  if (!local.trouble.empty()) out["trouble"] = local.trouble;
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace onepen::app
