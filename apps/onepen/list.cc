// `onepen list`: the databases of a home.
#include <nlohmann/json.hpp>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"

namespace onepen::app {

int run_list(const Common& common, const ListOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  const auto names = rooms->home->list(options.prefix);
  if (!names) return report(common, names.error(), ErrorOf::content);
  const auto missing = out_of_sight_here(common, *rooms, *names, options.prefix);
  if (common.json) {
    auto away = nlohmann::json::array();
    for (const OutOfSight& one : missing) away.push_back({{"name", one.name}, {"message", one.error.message}});
    print_json(nlohmann::json{{"home", rooms->home->url()}, {"databases", *names}, {"out_of_sight", away}});
    return missing.empty() ? kOk : kUnavailable;
  }
  for (const std::string& name : *names) print(name + "\n");
  for (const OutOfSight& one : missing) note("onepen: " + one.error.message);
  if (!missing.empty()) return kUnavailable;
  if (names->empty())
    note("There is no database" + (options.prefix.empty() ? "" : " whose name begins with '" + options.prefix + "'") + " at " + rooms->home->url() + ".");
  return kOk;
}

}  // namespace onepen::app
