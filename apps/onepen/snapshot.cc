// `onepen snapshot`: makes a snapshot now, whatever the policy says. Snapshots carry the token of an owner, so this process becomes it: silently only where
// nobody is, else with --write.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/writer.h"
#include "sqlite/open_database.h"

namespace onepen::app {
namespace {

int say(const Common& common, const Rooms& rooms, const std::string& name, const core::SnapshotInfo& info) {
  if (common.json) {
    print_json(nlohmann::json{{"name", name},
                              {"home", rooms.home->url()},
                              {"id", info.id},
                              {"offset", info.offset.text},
                              {"epoch", info.epoch.value},
                              {"bytes", info.bytes},
                              {"parts", info.parts}});
  } else {
    print(fmt::format("a snapshot of '{}' at {} is made: {} in {} parts\n", name, info.offset.text, byte_count(info.bytes), info.parts));
  }
  return kOk;
}

}  // namespace

int run_snapshot(const Common& common, const SnapshotOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  const auto stat = look(common, *rooms, options.name);
  if (!stat) return report(common, stat.error(), ErrorOf::content);
  if (!*stat) return report(common, kNotFound, word(Outcome::not_found), fmt::format("There is no database '{}' at {}.", options.name, rooms->home->url()));
  if (owned_now(**stat) && !options.write) {
    return report(
        common, kRefused, word(Outcome::held),
        fmt::format("'{}' is written by {}, who makes snapshots by itself as its log grows. With --write this process takes the pen and makes one now: that "
                    "process is refused from its next write on.",
                    options.name, owner_phrase(**stat)));
  }
  name_the_owner(*rooms, options.name, *stat);
  OpenOptions open;
  open.takeover = options.write ? Takeover::always : Takeover::never;  // nobody is thrown out who came after we looked
  open.owner_name = options.owner;
  auto writer = Writer::open(common, options.name, std::move(open));
  if (!writer) return report(common, writer.error());
  sqlite::OpenDatabase* database = writer->database();
  if (database == nullptr) return report(common, kBug, "bug", "The open database could not be found.");
  auto info = [&] {
    ProgressBar bar;
    return database->snapshot_now();
  }();
  const auto closed = writer->close();
  if (!info) return report(common, info.error());
  if (!closed) return report(common, closed.error());
  return say(common, *rooms, options.name, *info);
}

}  // namespace onepen::app
