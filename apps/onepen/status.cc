// `onepen status`: who owns a database, since when, and how far its log is. Reads only.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"

namespace onepen::app {
namespace {

std::string who(const core::OwnerInfo& owner) {
  const std::string process = owner.host.empty() ? "" : fmt::format("pid {} on {}", owner.pid, owner.host);
  if (owner.name.empty()) return process;
  return process.empty() ? owner.name : fmt::format("{} ({})", owner.name, process);
}

nlohmann::json to_json(const std::string& name, const core::StreamStat& stat) {
  nlohmann::json out{{"name", name},
                     {"incarnation", to_text(stat.incarnation)},
                     {"epoch", stat.epoch.value},
                     {"last_sequence", stat.last_sequence.value},
                     {"tail", stat.tail.text},
                     {"closed", stat.closed},
                     {"claims_since_data", stat.claims_since_data},
                     {"recent_contenders", stat.recent_contenders},
                     {"owner", nullptr}};
  if (stat.epoch.value > 0) {
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

void show_one(const std::string& home, const std::string& name, const core::StreamStat& stat) {
  const auto field = [](std::string_view key, const std::string& value) {
    if (!value.empty()) print(fmt::format("{:<14}{}\n", key, value));
  };
  field("database", name);
  field("home", home);
  if (stat.epoch.value == 0) {
    field("owner", "nobody yet");
  } else {
    field("owner", who(stat.owner));
    field("epoch", fmt::format("{}", stat.epoch.value));
    field("since", local_time(stat.claimed_ms) + (stat.owner.why.empty() ? "" : "  (" + stat.owner.why + ")"));
    field("last write", fmt::format("sequence {} of epoch {}", stat.last_sequence.value, stat.epoch.value));
  }
  field("endpoint", stat.endpoint);
  field("tail", stat.tail.text);
  field("incarnation", to_text(stat.incarnation));
  if (stat.closed) field("closed", "yes: nothing is appended any more");
  constexpr std::uint32_t kFlapping = 3;  // changes of owner without a write in between that are worth a line
  if (stat.claims_since_data >= kFlapping)
    field("flapping", fmt::format("{} changes of owner since the last write, by {}", stat.claims_since_data, fmt::join(stat.recent_contenders, ", ")));
}

int status_of_one(const Common& common, const Rooms& rooms, const std::string& name) {
  auto stream = open_stream(rooms, name);
  if (!stream) return report(common, stream.error());
  const auto stat = (*stream)->stat();
  if (!stat) return report(common, from_refusal(stat.error()), ErrorOf::content);
  if (common.json) {
    auto out = to_json(name, *stat);
    out["home"] = rooms.home->url();
    print(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    show_one(rooms.home->url(), name, *stat);
  }
  return kOk;
}

int status_of_all(const Common& common, const Rooms& rooms) {
  const auto names = rooms.home->list("");
  if (!names) return report(common, names.error(), ErrorOf::content);
  Table table({"DATABASE", "EPOCH", "OWNER", "SINCE", "LAST WRITE", "TAIL"});
  auto all = nlohmann::json::array();
  int worst = kOk;  // one that cannot be read does not hide the others
  for (const std::string& name : *names) {
    auto stream = open_stream(rooms, name);
    if (!stream) return report(common, stream.error());
    const auto stat = (*stream)->stat();
    if (!stat) {
      worst = std::max<int>(worst, exit_code(stat.error().outcome, ErrorOf::content));
      table.row({name, "", "(" + stat.error().message + ")"});
      all.push_back({{"name", name}, {"error", {{"outcome", word(stat.error().outcome)}, {"message", stat.error().message}}}});
      continue;
    }
    const bool owned = stat->epoch.value > 0;
    table.row({name, owned ? std::to_string(stat->epoch.value) : "", owned ? who(stat->owner) : "nobody yet", local_time(stat->claimed_ms),
               owned ? std::to_string(stat->last_sequence.value) : "", stat->tail.text});
    all.push_back(to_json(name, *stat));
  }
  if (common.json) {
    print(nlohmann::json{{"home", rooms.home->url()}, {"databases", all}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else if (table.empty()) {
    note("There is no database at " + rooms.home->url() + " yet.");
  } else {
    print(table.text());
  }
  return worst;
}

}  // namespace

int run_status(const Common& common, const StatusOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  return options.name.empty() ? status_of_all(common, *rooms) : status_of_one(common, *rooms, options.name);
}

}  // namespace onepen::app
