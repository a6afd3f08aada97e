// `onepen list`: the databases of a home.
#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"

namespace onepen::app {

int run_list(const Common& common, const ListOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  const auto names = rooms->home->list(options.prefix);
  if (!names) return report(common, names.error(), ErrorOf::content);
  if (common.json) {
    print(nlohmann::json{{"home", rooms->home->url()}, {"databases", *names}}.dump(2) + "\n");
    return kOk;
  }
  for (const std::string& name : *names) print(name + "\n");
  if (names->empty())
    note("There is no database" + (options.prefix.empty() ? "" : " whose name begins with '" + options.prefix + "'") + " at " + rooms->home->url() + ".");
  return kOk;
}

}  // namespace onepen::app
