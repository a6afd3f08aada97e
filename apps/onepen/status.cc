// `onepen status`: who owns a database and since when; how far its log is, what it takes and when it shrinks; what this machine holds of it that the log
// does not have. Reads only.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/writer.h"
#include "sqlite/caretaker.h"
#include "sqlite/snapshot_part.h"

namespace onepen::app {
namespace {

struct Growth {
  core::Usage usage;
  std::optional<core::SnapshotInfo> newest;
  std::optional<sqlite::SnapshotAbout> about;  // of the newest
  std::uint64_t since_snapshot = 0;            // bytes of log
  std::uint64_t next_at = 0;                   // of those, by the automatic rule: as much as the database has, at least sqlite::kLeastSnapshotAfter
};

struct FullStatus {
  core::StreamStat stat;
  Growth growth;
  LocalPlaces local;
};

Result<Growth> growth_of(core::Stream& stream, const core::StreamStat& stat, const LocalPlaces& local) {
  Growth out;
  auto usage = stream.usage();
  if (!usage) return tl::unexpected(from_refusal(usage.error()));
  out.usage = *usage;
  auto newest = stream.newest_snapshot();
  if (!newest) return tl::unexpected(from_refusal(newest.error()));
  out.newest = std::move(*newest);
  std::uint64_t database = local.database_bytes;
  if (out.newest) {
    if (auto about = sqlite::decode_snapshot_about(out.newest->about)) out.about = *about;
    if (out.about) database = std::max(database, std::uint64_t{out.about->page_count} * out.about->page_size);
  }
  const std::uint64_t before = out.newest ? out.newest->log_bytes : 0;
  out.since_snapshot = stat.log_bytes > before ? stat.log_bytes - before : 0;
  out.next_at = std::max(database, sqlite::kLeastSnapshotAfter);
  return out;
}

std::string who(const core::OwnerInfo& owner) {
  const std::string process = owner.host.empty() ? "" : fmt::format("pid {} on {}", owner.pid, owner.host);
  if (owner.name.empty()) return process;
  return process.empty() ? owner.name : fmt::format("{} ({})", owner.name, process);
}

bool has_owner(const core::StreamStat& stat) { return stat.epoch.value > 0 && !stat.claim_id.nil(); }

std::string owner_word(const core::StreamStat& stat) {
  if (!has_owner(stat)) return stat.floor.value == 0 ? "nobody yet" : "nobody";
  return who(stat.owner) + (stat.released ? ", closed" : "");
}

nlohmann::json stat_json(const std::string& name, const core::StreamStat& stat) {
  nlohmann::json out{{"name", name},
                     {"incarnation", to_text(stat.incarnation)},
                     {"epoch", stat.epoch.value},
                     {"floor", stat.floor.value},
                     {"last_sequence", stat.last_sequence.value},
                     {"tail", stat.tail.text},
                     {"log_bytes", stat.log_bytes},
                     {"closed", stat.closed},
                     {"released", stat.released},
                     {"suspect", stat.suspect.empty() ? nlohmann::json(nullptr) : nlohmann::json(stat.suspect)},
                     {"claims_since_data", stat.claims_since_data},
                     {"recent_contenders", stat.recent_contenders},
                     {"owner", nullptr}};
  if (has_owner(stat)) {
    out["owner"] = {{"name", stat.owner.name},
                    {"host", stat.owner.host},
                    {"pid", stat.owner.pid},
                    {"version", stat.owner.version},
                    {"why", stat.owner.why},
                    {"claim_id", to_text(stat.claim_id)},
                    {"claimed", iso_time(stat.claimed_ms)},
                    {"endpoint", stat.endpoint}};
  }
  return out;
}

nlohmann::json growth_json(const Growth& growth) {
  nlohmann::json out{{"log_bytes", growth.usage.log_bytes},
                     {"log_objects", growth.usage.log_objects},
                     {"oldest", growth.usage.oldest.text.empty() ? nlohmann::json(nullptr) : nlohmann::json(growth.usage.oldest.text)},
                     {"snapshots", growth.usage.snapshots},
                     {"snapshot_bytes", growth.usage.snapshot_bytes},
                     {"newest_snapshot", nullptr},
                     {"since_snapshot", growth.since_snapshot},
                     {"next_snapshot_at", growth.next_at}};
  if (growth.newest) {
    out["newest_snapshot"] = {{"id", growth.newest->id},
                              {"offset", growth.newest->offset.text},
                              {"time", iso_time(growth.newest->time_ms)},
                              {"bytes", growth.newest->bytes},
                              {"epoch", growth.newest->epoch.value}};
    if (growth.about) out["newest_snapshot"]["commits"] = growth.about->ordinal;
  }
  return out;
}

std::string age(std::int64_t ms) {
  constexpr std::int64_t kMinute = 60'000, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (ms < 2 * kMinute) return fmt::format("{} s ago", std::max<std::int64_t>(ms, 0) / 1000);
  if (ms < 2 * kHour) return fmt::format("{} min ago", ms / kMinute);
  if (ms < 2 * kDay) return fmt::format("{} h ago", ms / kHour);
  return fmt::format("{} days ago", ms / kDay);
}

void field(std::string_view key, const std::string& value) {
  if (!value.empty()) print(fmt::format("{:<14}{}\n", key, value));
}

void show_growth(const Growth& growth, std::int64_t now_ms) {
  field("log", fmt::format("{} in {} objects{}", byte_count(growth.usage.log_bytes), growth.usage.log_objects,
                           growth.usage.oldest.text.empty() ? "" : ", trimmed: begins at " + growth.usage.oldest.text));
  if (growth.newest) {
    field("snapshots", fmt::format("{}, {}; the newest {} ({}{}) at {}", growth.usage.snapshots, byte_count(growth.usage.snapshot_bytes),
                                   age(now_ms - growth.newest->time_ms), byte_count(growth.newest->bytes),
                                   growth.about ? fmt::format(", commit {}", growth.about->ordinal) : "", growth.newest->offset.text));
  } else {
    field("snapshots", "none yet");
  }
  field("growth", fmt::format("{} of log since {}; its owner makes the next snapshot at {}", byte_count(growth.since_snapshot),
                              growth.newest ? "the newest snapshot" : "the beginning", byte_count(growth.next_at)));
}

void show_one(const std::string& home, const std::string& name, const FullStatus& full, std::int64_t now_ms) {
  const core::StreamStat& stat = full.stat;
  field("database", name);
  field("home", home);
  field("owner", owner_word(stat));
  if (has_owner(stat)) {
    field("epoch", fmt::format("{}", stat.epoch.value));
    field("since", local_time(stat.claimed_ms) + (stat.owner.why.empty() ? "" : "  (" + stat.owner.why + ")"));
    field("last write", fmt::format("sequence {} of epoch {}", stat.last_sequence.value, stat.epoch.value));
  }
  field("endpoint", stat.endpoint);
  field("tail", stat.tail.text);
  field("incarnation", to_text(stat.incarnation));
  if (!stat.suspect.empty()) field("suspect", stat.suspect + " Nobody may write it: see onepen adopt.");
  if (stat.closed) field("closed", "yes: nothing is appended any more");
  constexpr std::uint32_t kFlapping = 3;  // changes of owner without a write in between that are worth a line
  if (stat.claims_since_data >= kFlapping)
    field("flapping", fmt::format("{} changes of owner since the last write, by {}", stat.claims_since_data, fmt::join(stat.recent_contenders, ", ")));
  show_growth(full.growth, now_ms);
  for (const std::string& line : local_lines(name, full.local)) field("on this host", line);
}

// The home has nothing to say of it: what this machine has is said all the same.
int without_home(const Common& common, const Rooms& rooms, const std::string& name, const core::Refusal& refusal, const LocalPlaces& local) {
  const Error error = refused_here(common, rooms, name, refusal);
  if (local.copies.empty() && local.salvage.empty()) return report(common, error, ErrorOf::content);
  if (!common.json) {
    field("database", name);
    field("home", rooms.home->url());
    for (const std::string& line : local_lines(name, local)) field("on this host", line);
  }
  return report_with(common, error, ErrorOf::content, "local", local_json(local));
}

int status_of_one(const Common& common, const Rooms& rooms, const std::string& name) {
  auto stream = open_stream(rooms, name);
  if (!stream) return report(common, stream.error());
  auto stat = (*stream)->stat();
  LocalPlaces local = local_places(common, rooms, name);
  if (!stat) return without_home(common, rooms, name, stat.error(), local);
  local.elsewhere = copies_elsewhere(common, rooms, name, stat->incarnation);
  FullStatus full{std::move(*stat), {}, std::move(local)};
  auto growth = growth_of(**stream, full.stat, full.local);
  if (!growth) return report(common, growth.error(), ErrorOf::content);
  full.growth = std::move(*growth);
  if (common.json) {
    auto out = stat_json(name, full.stat);
    out["home"] = rooms.home->url();
    out["growth"] = growth_json(full.growth);
    out["local"] = nlohmann::json::parse(local_json(full.local));
    print_json(out);
  } else {
    show_one(rooms.home->url(), name, full, rooms.runtime->wall_ms());
  }
  return kOk;
}

int status_of_all(const Common& common, const Rooms& rooms) {
  const auto names = rooms.home->list("");
  if (!names) return report(common, names.error(), ErrorOf::content);
  Table table({"DATABASE", "EPOCH", "OWNER", "SINCE", "LAST WRITE", "LOG", "TAIL"});
  auto all = nlohmann::json::array();
  int worst = kOk;  // one that cannot be read does not hide the others
  for (const std::string& name : *names) {
    auto stream = open_stream(rooms, name);
    if (!stream) return report(common, stream.error());
    const auto stat = (*stream)->stat();
    if (!stat && stat.error().outcome == Outcome::not_found) continue;  // deleted meanwhile
    if (!stat) {
      worst = std::max<int>(worst, exit_code(stat.error().outcome, ErrorOf::content));
      table.row({name, "", "(" + stat.error().message + ")"});
      all.push_back({{"name", name}, {"error", {{"outcome", word(stat.error().outcome)}, {"message", stat.error().message}}}});
      continue;
    }
    const bool owned = has_owner(*stat);
    table.row({name, owned ? std::to_string(stat->epoch.value) : "", owner_word(*stat) + (stat->suspect.empty() ? "" : ", suspect"),
               local_time(stat->claimed_ms), owned ? std::to_string(stat->last_sequence.value) : "", byte_count(stat->log_bytes), stat->tail.text});
    all.push_back(stat_json(name, *stat));
  }
  for (const OutOfSight& missing : out_of_sight_here(common, rooms, *names, "")) {
    worst = std::max<int>(worst, kUnavailable);
    table.row({missing.name, "", "(" + missing.error.message + ")"});
    all.push_back({{"name", missing.name}, {"error", {{"outcome", word(missing.error.outcome)}, {"message", missing.error.message}}}});
  }
  if (common.json) print_json(nlohmann::json{{"home", rooms.home->url()}, {"databases", all}});
  else if (table.empty()) note("There is no database at " + rooms.home->url() + " yet.");
  else print(table.text());
  return worst;
}

}  // namespace

int run_status(const Common& common, const StatusOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  return options.name.empty() ? status_of_all(common, *rooms) : status_of_one(common, *rooms, options.name);
}

}  // namespace onepen::app
