#include "apps/onepen/writer.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "apps/onepen/local_places.h"
#include "apps/onepen/output.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen::app {

Result<std::optional<core::StreamStat>> look(const Common& common, const Rooms& rooms, const std::string& name) {
  auto stream = open_stream(rooms, name);
  if (!stream) return tl::unexpected(stream.error());
  auto stat = (*stream)->stat();
  if (stat) return std::optional(std::move(*stat));
  Error error = refused_here(common, rooms, name, stat.error());
  if (error.outcome == Outcome::not_found) return std::optional<core::StreamStat>{};
  return tl::unexpected(std::move(error));
}

bool owned_now(const core::StreamStat& stat) { return stat.epoch.value > 0 && !stat.claim_id.nil() && !stat.released; }

std::string owner_phrase(const core::StreamStat& stat) {
  const std::string called = stat.owner.name.empty() ? "" : fmt::format("'{}', ", stat.owner.name);
  return fmt::format("{}pid {} on host {} (epoch {}, since {})", called, stat.owner.pid, stat.owner.host, stat.epoch.value, local_time(stat.claimed_ms));
}

void name_the_owner(const Rooms& rooms, const std::string& name, const std::optional<core::StreamStat>& stat) {
  if (!stat) return note(fmt::format("There is no database '{}' at {} yet: it is made.", name, rooms.home->url()));
  if (stat->epoch.value == 0 || stat->claim_id.nil()) return;
  if (stat->released) return note(fmt::format("'{}' was last written by {}, who has closed it.", name, owner_phrase(*stat)));
  note(fmt::format("'{}' is written by {}. Opening it for writing refuses that process from its next write on.", name, owner_phrase(*stat)));
}

Result<Writer> Writer::open(const Common& common, const std::string& name, OpenOptions options) {
  if (auto given = cache_root_given(common); !given) return tl::unexpected(given.error());
  const auto home = Home::open(common.home);
  if (!home) return tl::unexpected(home.error());
  ProgressBar bar;
  options.cache_root = common.cache_root;
  options.progress = [&](const Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); };
  auto database = Database::open(*home, name, std::move(options));
  if (!database) return tl::unexpected(database.error());
  Writer writer(std::move(*database));
  if (const std::string moved = writer.database_.status().salvaged; !moved.empty())
    note(fmt::format(
        "onepen: The local copy of '{}' that was there was moved to {}, because the stream cannot take what it holds, or it is not trusted: onepen salvage show {}",
        name, moved, name));
  auto connection = writer.database_.connect();
  if (!connection) return tl::unexpected(connection.error());
  writer.connection_ = std::move(*connection);
  return writer;
}

sqlite::OpenDatabase* Writer::database() const {
  sqlite::OpenDatabase* database = nullptr;
  return sqlite3_file_control(connection_.get(), "main", sqlite::kDatabaseOp, &database) == SQLITE_OK ? database : nullptr;
}

SqlProblem Writer::explain(int code, std::string message) const {
  if ((code & 0xff) != SQLITE_AUTH) return plain_sql_problem(code, std::move(message));
  const auto reset = database_.status().reset;
  if (!sqlite::last_refusal().empty()) message = sqlite::last_refusal();
  if (!reset) return {kRefused, "refused", std::move(message)};
  switch (reset->kind) {
    case ResetKind::unresolved: return {kUnknown, "unknown", std::move(message)};
    case ResetKind::broken: return {kUnavailable, std::string(word(reset->kind)), std::move(message)};
    default: return {kRefused, std::string(word(reset->kind)), std::move(message)};
  }
}

Result<> Writer::close() {
  connection_.reset();
  return database_.close();
}

}  // namespace onepen::app
