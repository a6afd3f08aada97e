// `onepen probe`: asks a place to prove that it can keep two writers apart, step by step. Writes scratch objects there and erases them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"

namespace onepen::app {
namespace {

nlohmann::json probe_json(const home::ProbedHome& probed) {
  nlohmann::json out{{"home", probed.name}, {"place", probed.report.place}, {"can_fence", probed.report.verdict.has_value()}};
  out["steps"] = nlohmann::json::array();
  for (const auto& step : probed.report.steps) out["steps"].push_back({{"step", step.name}, {"good", step.good}, {"said", step.said}});
  out["requests"] = nlohmann::json::object();
  for (const auto& [kind, count] : probed.requests) out["requests"][kind] = count;
  return out;
}

}  // namespace

int run_probe(const Common& common, const ProbeOptions& options) {
  const std::string& url = options.url.empty() ? common.home : options.url;
  if (url.empty()) return report(common, Error{Outcome::invalid, "No home is given: onepen probe URL, or --home URL, or set ONEPEN_HOME_URL.", {}});
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  const auto probed = home::probe_home(*runtime, *disk, url);
  if (!probed) return report(common, probed.error());
  const auto& verdict = probed->report.verdict;
  if (!common.json)
    for (const auto& step : probed->report.steps) print(fmt::format("{:<18}{}\n", step.name, step.good ? step.said : "FAILED"));
  if (!verdict)
    return report_with(common, verdict.error(), ErrorOf::request, "probe", probe_json(*probed).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (common.json) print_json(probe_json(*probed));
  else print(fmt::format("The {} keeps two writers apart.\n", probed->report.place));
  return kOk;
}

}  // namespace onepen::app
