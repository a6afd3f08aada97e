// `onepen salvage`: copies that were moved aside on this machine instead of being deleted; what they hold that the log does not, and how to get it out.
// Needs no home, and changes nothing, but for `remove`.
#include "sqlite/salvage.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/admin.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "io/posix_disk.h"

namespace onepen::app {
namespace {

struct Unsent {
  std::uint64_t commits = 0, pages = 0, bytes = 0;
};

Unsent sum_of(const sqlite::SalvageEntry& entry) {
  Unsent sum;
  for (const sqlite::PendingCommit& commit : entry.unsent) {
    ++sum.commits;
    sum.pages += commit.pages;
    sum.bytes += commit.wal_bytes;
  }
  return sum;
}

nlohmann::json entry_json(const sqlite::SalvageEntry& entry) {
  auto unsent = nlohmann::json::array();
  for (const sqlite::PendingCommit& commit : entry.unsent)
    unsent.push_back({{"commit", commit.ordinal}, {"pages", commit.pages}, {"bytes", commit.wal_bytes}, {"page_count", commit.page_count}});
  nlohmann::json out{{"entry", entry.id},
                     {"name", entry.name},
                     {"home", entry.home_url},
                     {"kind", entry.kind},
                     {"why", entry.why},
                     {"moved_at", entry.moved_at},
                     {"folder", entry.folder},
                     {"has_database", entry.has_database},
                     {"bytes", entry.bytes},
                     {"acknowledged", {{"commits", entry.acknowledged.ordinal}, {"offset", entry.acknowledged.offset.text}}},
                     {"perhaps_dropped_commits", sqlite::perhaps_dropped(entry)},
                     {"owned", nullptr},
                     {"unsent", unsent},
                     {"unsent_known", entry.unsent_known}};
  if (entry.owned)
    out["owned"] = {{"incarnation", to_text(entry.owned->incarnation)}, {"epoch", entry.owned->epoch.value}, {"claim_id", to_text(entry.owned->claim_id)}};
  if (!entry.trouble.empty()) out["trouble"] = entry.trouble;
  return out;
}

std::string unsent_text(const sqlite::SalvageEntry& entry) {
  const Unsent sum = sum_of(entry);
  if (!entry.unsent_known) return sum.commits == 0 ? "not known" : fmt::format("{} or more", sum.commits);
  return sum.commits == 0 ? "none" : std::to_string(sum.commits);
}

// What the stream acknowledged and may have no longer; empty: it has all of it.
std::string dropped_text(const sqlite::SalvageEntry& entry) {
  const std::uint64_t dropped = sqlite::perhaps_dropped(entry);
  if (dropped == 0) return {};
  return fmt::format(
      "Its commits up to {} were acknowledged, but the stream was put back, restored or deleted since and has dropped or lost some of them: this may be the only "
      "place that has those.",
      dropped);
}

void show_entry(const sqlite::SalvageEntry& entry) {
  const auto field = [](std::string_view key, const std::string& value) {
    if (!value.empty()) print(fmt::format("{:<14}{}\n", key, value));
  };
  field("entry", entry.id);
  field("database", entry.name + (entry.home_url.empty() ? "" : " at " + entry.home_url));
  field("moved aside", entry.moved_at + "  (" + entry.kind + ")");
  field("why", entry.why);
  field("trouble", entry.trouble);
  if (entry.acknowledged.ordinal > 0) {
    const bool dropped = sqlite::perhaps_dropped(entry) > 0;
    field(dropped ? "acknowledged" : "in the stream", fmt::format("up to commit {}", entry.acknowledged.ordinal));
  }
  field("dropped", dropped_text(entry));
  if (entry.owned) field("written in", fmt::format("epoch {} of incarnation {}", entry.owned->epoch.value, to_text(entry.owned->incarnation)));
  const Unsent sum = sum_of(entry);
  field("unsent", sum.commits == 0 ? unsent_text(entry)
                                   : fmt::format("{} ({} pages, {}){}", sum.commits == 1 ? "1 commit" : fmt::format("{} commits", sum.commits), sum.pages,
                                                 byte_count(sum.bytes), entry.unsent_known ? "" : ", and perhaps more; some may be in the stream"));
  field("folder", fmt::format("{}  ({})", entry.folder, byte_count(entry.bytes)));
  if (!entry.unsent.empty()) {
    Table table({"COMMIT", "PAGES", "BYTES"});
    for (const sqlite::PendingCommit& commit : entry.unsent)
      table.row({std::to_string(commit.ordinal), std::to_string(commit.pages), std::to_string(commit.wal_bytes)});
    print("\n" + table.text());
  }
  print(entry.has_database ? fmt::format("\nIts database, with what was never sent:  onepen salvage export {} FILE\n", entry.id) : "\nIt holds no database.\n");
}

Result<std::vector<sqlite::SalvageEntry>> entries_of(const Common& common, io::Disk& disk, const std::string& name) {
  std::optional<StreamName> only;
  if (!name.empty()) {
    auto parsed = StreamName::parse(name);
    if (!parsed) return tl::unexpected(parsed.error());
    only = std::move(*parsed);
  }
  return sqlite::list_salvage(disk, common.cache_root, only);
}

int list(const Common& common, io::Disk& disk, const SalvageOptions& options) {
  const auto entries = entries_of(common, disk, options.name);
  if (!entries) return report(common, entries.error());
  std::uint64_t total = 0;
  for (const auto& entry : *entries) total += entry.bytes;
  if (common.json) {
    auto all = nlohmann::json::array();
    for (const auto& entry : *entries) all.push_back(entry_json(entry));
    print_json(nlohmann::json{{"cache_root", common.cache_root}, {"entries", all}, {"bytes", total}});
    return kOk;
  }
  Table table({"ENTRY", "MOVED ASIDE", "KIND", "UNSENT COMMITS", "UNSENT BYTES", "PERHAPS DROPPED", "BYTES"});
  bool dropped = false;
  for (const auto& entry : *entries) {
    const std::uint64_t up_to = sqlite::perhaps_dropped(entry);
    dropped = dropped || up_to > 0;
    table.row({entry.id, entry.moved_at, entry.kind, unsent_text(entry), std::to_string(sum_of(entry).bytes),
               up_to == 0 ? "" : fmt::format("up to commit {}", up_to), std::to_string(entry.bytes)});
  }
  if (table.empty()) {
    note(options.name.empty() ? "Nothing was moved aside under " + common.cache_root + "."
                              : fmt::format("No copy of '{}' was moved aside under {}.", options.name, common.cache_root));
  } else {
    print(table.text());
    if (dropped)
      print("\nPerhaps dropped: commits that were acknowledged, of a stream that was put back, restored or deleted since: some may be nowhere else.\n");
    print(fmt::format("\n{} in all. What one holds, and why:  onepen salvage show ENTRY\n", byte_count(total)));
  }
  return kOk;
}

int show(const Common& common, io::Disk& disk, const SalvageOptions& options) {
  std::vector<sqlite::SalvageEntry> shown;
  // A database's name stands for all entries of it.
  if (StreamName::parse(options.entry)) {
    auto entries = entries_of(common, disk, options.entry);
    if (!entries) return report(common, entries.error());
    shown = std::move(*entries);
  }
  if (shown.empty()) {
    auto entry = sqlite::find_salvage(disk, common.cache_root, options.entry);
    if (!entry) return report(common, entry.error());
    shown.push_back(std::move(*entry));
  }
  if (common.json) {
    auto all = nlohmann::json::array();
    for (const auto& entry : shown) {
      auto out = entry_json(entry);
      if (const auto manifest = sqlite::salvage_manifest(disk, entry)) out["manifest"] = nlohmann::json::parse(*manifest, nullptr, false);
      if (out["manifest"].is_discarded()) out["manifest"] = nullptr;
      all.push_back(std::move(out));
    }
    print_json(nlohmann::json{{"cache_root", common.cache_root}, {"entries", all}});
    return kOk;
  }
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (i > 0) print("\n");
    show_entry(shown[i]);
  }
  return kOk;
}

int export_entry(const Common& common, io::Disk& disk, const SalvageOptions& options) {
  const auto entry = sqlite::find_salvage(disk, common.cache_root, options.entry);
  if (!entry) return report(common, entry.error());
  if (auto done = sqlite::export_salvage(disk, *entry, options.file); !done) return report(common, done.error());
  const Unsent sum = sum_of(*entry);
  if (common.json) {
    print_json(nlohmann::json{
        {"entry", entry->id}, {"name", entry->name}, {"file", options.file}, {"unsent_commits", sum.commits}, {"unsent_known", entry->unsent_known}});
  } else {
    print(fmt::format("{} is in {}, a plain SQLite file, with {}. The entry stays where it is.\n", entry->id, options.file,
                      sum.commits == 0 ? "everything the copy held" : fmt::format("its {} unsent commits", sum.commits)));
  }
  return kOk;
}

nlohmann::json remove_json(const sqlite::SalvageEntry& entry) {
  const Unsent sum = sum_of(entry);
  return {{"entry", entry.id},
          {"name", entry.name},
          {"folder", entry.folder},
          {"bytes", entry.bytes},
          {"unsent_commits", sum.commits},
          {"unsent_known", entry.unsent_known},
          {"perhaps_dropped_commits", sqlite::perhaps_dropped(entry)}};
}

std::string unsent_lost_with(const sqlite::SalvageEntry& entry) {
  const std::uint64_t commits = sum_of(entry).commits;
  if (!entry.unsent_known)
    return fmt::format("It is not known how many commits in it were never sent ({} or more); this may be the only place that has them.", commits);
  if (commits == 0) return "Nothing in it is unsent.";
  return commits == 1 ? "It holds 1 commit that was never sent, and is the only place that has it."
                      : fmt::format("It holds {} commits that were never sent, and is the only place that has them.", commits);
}

std::string lost_with(const sqlite::SalvageEntry& entry) {
  const std::string dropped = dropped_text(entry);
  return dropped.empty() ? unsent_lost_with(entry) : fmt::format("{} {}", unsent_lost_with(entry), dropped);
}

int remove_entry(const Common& common, io::Disk& disk, const SalvageOptions& options) {
  const auto entry = sqlite::find_salvage(disk, common.cache_root, options.entry);
  if (!entry) return report(common, entry.error());
  if (!options.yes) {
    return ask_for_yes(common,
                       fmt::format("Removing {} ({}): {}{}", entry->id, byte_count(entry->bytes), lost_with(*entry),
                                   entry->has_database ? fmt::format(" To keep it: onepen salvage export {} FILE.", entry->id) : ""),
                       remove_json(*entry));
  }
  if (auto done = sqlite::remove_salvage(disk, *entry); !done) return report(common, done.error());
  if (common.json) {
    print_json(remove_json(*entry));
  } else {
    print(fmt::format("{} is deleted ({}).\n", entry->id, byte_count(entry->bytes)));
  }
  return kOk;
}

int with_disk(const Common& common, const SalvageOptions& options, int (*command)(const Common&, io::Disk&, const SalvageOptions&)) {
  if (const auto given = cache_root_given(common); !given) return report(common, given.error());
  const auto disk = io::make_posix_disk();
  return command(common, *disk, options);
}

}  // namespace

int run_salvage_list(const Common& common, const SalvageOptions& options) { return with_disk(common, options, list); }
int run_salvage_show(const Common& common, const SalvageOptions& options) { return with_disk(common, options, show); }
int run_salvage_export(const Common& common, const SalvageOptions& options) { return with_disk(common, options, export_entry); }
int run_salvage_remove(const Common& common, const SalvageOptions& options) { return with_disk(common, options, remove_entry); }

}  // namespace onepen::app
