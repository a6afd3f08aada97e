// `onepen sql`: reads a database through a follower's copy; with --write becomes its writer, after naming whom that fences.
#include <fmt/format.h>
#include <onepen/database.h>
#include <sqlite3.h>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/sql_shell.h"
#include "sqlite/messages.h"

namespace onepen::app {
namespace {

int run_statements(SqlShell& shell, const SqlOptions& options) {
  if (options.statements.empty()) return shell.finish(shell.run_input(options.name));
  for (const std::string& text : options.statements) {
    if (const int code = shell.run(text); code != kOk) return shell.finish(code);
  }
  return shell.finish(kOk);
}

int read(const Common& common, const SqlOptions& options) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
  const auto follower = open_follower(common, *rooms, options.name);
  if (!follower) return report(common, follower.error(), ErrorOf::content);
  SqlShell shell(common, follower->db.get(), [&](int code, std::string message) -> SqlProblem {
    if ((code & 0xff) == SQLITE_READONLY) {
      return {kRefused, "not-owner",
              fmt::format("Without --write '{}' is only read. With --write this process becomes its writer, and the writer of now is refused.", options.name)};
    }
    return plain_sql_problem(code, std::move(message));
  });
  return run_statements(shell, options);
}

// Names whom a claim is going to fence. A database that is not there yet is made.
Result<> name_the_owner(const Common& common, const std::string& name) {
  const auto rooms = open_rooms(common);
  if (!rooms) return tl::unexpected(rooms.error());
  auto stream = open_stream(*rooms, name);
  if (!stream) return tl::unexpected(stream.error());
  const auto stat = (*stream)->stat();
  if (!stat) {
    if (stat.error().outcome != Outcome::not_found) return tl::unexpected(from_refusal(stat.error()));
    note(fmt::format("There is no database '{}' at {} yet: it is made.", name, rooms->home->url()));
    return {};
  }
  if (stat->epoch.value == 0) return {};
  const std::string called = stat->owner.name.empty() ? "" : fmt::format("'{}', ", stat->owner.name);
  note(fmt::format("'{}' is written by {}pid {} on host {} (epoch {}, since {}). Opening it for writing refuses that process from its next write on.", name,
                   called, stat->owner.pid, stat->owner.host, stat->epoch.value, local_time(stat->claimed_ms)));
  return {};
}

Takeover takeover_of(const std::string& text) {
  if (text == "if-dead") return Takeover::if_dead;
  return text == "never" ? Takeover::never : Takeover::always;
}

SqlProblem explain_refusal(const Database& database, int code, std::string message) {
  if ((code & 0xff) != SQLITE_AUTH) return plain_sql_problem(code, std::move(message));
  const auto reset = database.status().reset;
  if (!reset) return {kRefused, "refused", sqlite::last_refusal().empty() ? std::move(message) : sqlite::last_refusal()};
  const bool in_doubt = reset->kind == ResetKind::unresolved;
  return {in_doubt ? kUnknown : (reset->kind == ResetKind::broken ? kUnavailable : kRefused), std::string(word(reset->kind)), reset->message};
}

int write(const Common& common, const SqlOptions& options) {
  if (auto named = name_the_owner(common, options.name); !named) return report(common, named.error());
  const auto home = Home::open(common.home);
  if (!home) return report(common, home.error());
  ProgressBar bar;
  OpenOptions open;
  open.owner_name = options.owner;
  open.cache_root = common.cache_root;
  open.takeover = takeover_of(options.takeover);
  open.progress = [&](const Progress& progress) { bar.show(progress.step, progress.done_bytes, progress.total_bytes); };
  auto database = Database::open(*home, options.name, std::move(open));
  if (!database) return report(common, database.error());
  auto connection = database->connect();
  if (!connection) return report(common, connection.error());
  SqlShell shell(common, connection->get(), [&](int code, std::string message) { return explain_refusal(*database, code, std::move(message)); });
  const int code = run_statements(shell, options);
  connection->reset();
  const auto closed = database->close();
  return code == kOk && !closed ? report(common, closed.error()) : code;
}

}  // namespace

int run_sql(const Common& common, const SqlOptions& options) { return options.write ? write(common, options) : read(common, options); }

}  // namespace onepen::app
