// `onepen export`: what the log holds now, as a plain SQLite file. The writer goes on; the home is only read.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/tidy.h"
#include "sqlite/copy_file.h"
#include "sqlite/import.h"

namespace onepen::app {

int run_export(const Common& common, const ExportOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, options.name);
  if (!stream) return report(common, stream.error());
  const auto stat = (*stream)->stat();
  if (!stat) return report(common, refused_here(common, *rooms, options.name, stat.error()), ErrorOf::content);
  if (sqlite::file_exists(options.file))
    return report(common, kUsage, "invalid", fmt::format("{} exists already; export writes only a new file.", options.file));
  const RemovedWhenStopped tidy(sqlite::export_scratch(options.file));
  ProgressBar bar;
  const auto state = sqlite::export_database(**stream, options.file,
                                             [&](const owner::Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); });
  if (!state) return report(common, state.error(), ErrorOf::content);
  LocalPlaces local = local_places(common, *rooms, options.name);
  local.elsewhere = copies_elsewhere(common, *rooms, options.name, stat->incarnation);
  for (const std::string& line : unsent_lines(local)) note(fmt::format("onepen: Not in {}: {}.", options.file, line));
  const std::uint64_t bytes = std::uint64_t{state->page_count} * state->page_size;
  if (common.json) {
    print(
        nlohmann::json{{"name", options.name}, {"file", options.file}, {"commits", state->ordinal}, {"offset", state->offset.text}, {"bytes", bytes}}.dump(2) +
        "\n");
  } else {
    print(fmt::format("'{}' as of commit {} is in {}, {}.\nIts offset is {}: onepen restore goes back to it with --at.\n", options.name, state->ordinal,
                      options.file, byte_count(bytes), state->offset.text));
  }
  return kOk;
}

}  // namespace onepen::app
