#include <onepen/home.h>

#include "home/object/open_home.h"
#include "home/port.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"

namespace onepen {

Result<Home> Home::open(std::string_view url, HomeOptions options) {
  auto runtime = io::make_system_runtime();
  auto disk = io::make_posix_disk();
  auto home = home::open_home(*runtime, *disk, std::string(url), {}, {std::move(options.credential), std::move(options.ca_file), options.request_timeout});
  if (!home) return tl::unexpected(home.error());
  return Home(std::make_shared<HomePort>(std::move(runtime), std::move(disk), std::move(*home)));
}

Result<std::vector<std::string>> Home::list(std::string_view prefix) const { return port_->home().list(std::string(prefix)); }

Result<Owner> Home::owner(std::string_view name) const {
  auto parsed = StreamName::parse(name);
  if (!parsed) return tl::unexpected(parsed.error());
  auto stat = port_->home().stream(*parsed)->stat();
  if (!stat) return tl::unexpected(Error{stat.error().outcome, stat.error().message, stat.error().current});
  Owner owner;
  owner.token = Token{to_text(stat->incarnation), stat->epoch, to_text(stat->claim_id)};
  owner.name = stat->owner.name;
  owner.host = stat->owner.host;
  owner.endpoint = stat->endpoint;
  owner.pid = stat->owner.pid;
  return owner;
}

std::string_view Home::url() const { return port_->home().url(); }

}  // namespace onepen
