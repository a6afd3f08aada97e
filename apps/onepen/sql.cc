// `onepen sql`: reads a database through a follower's copy; with --write becomes its writer, after naming whom that fences.
#include <fmt/format.h>
#include <sqlite3.h>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/sql_shell.h"
#include "apps/onepen/writer.h"
#include "sqlite/open_database_settings.h"

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

int write(const Common& common, const SqlOptions& options) {
  OpenOptions open;
  if (!options.commit_timeout.empty()) {
    const auto time = sqlite::read_duration(options.commit_timeout);
    if (!time || time->count() < 1)
      return report(common, kUsage, word(Outcome::invalid), fmt::format("--commit-timeout '{}' is no time: write 250ms, 30s or 2m.", options.commit_timeout));
    open.commit_timeout = *time;
  }
  {
    const auto rooms = open_rooms(common);
    if (!rooms) return report(common, rooms.error());
    if (const auto place = copy_place(common, *rooms, options.name); !place) return report(common, place.error());
    const auto stat = look(common, *rooms, options.name);
    if (!stat) return report(common, stat.error(), ErrorOf::content);
    name_the_owner(*rooms, options.name, *stat);
  }
  open.takeover = options.takeover == "never" ? Takeover::never : options.takeover == "if-dead" ? Takeover::if_dead : Takeover::always;
  open.owner_name = options.owner;
  auto writer = Writer::open(common, options.name, std::move(open));
  if (!writer) return report(common, writer.error());
  int code = kOk;
  {
    SqlShell shell(common, writer->connection(), [&](int failed, std::string message) { return writer->explain(failed, std::move(message)); });
    code = run_statements(shell, options);
  }
  const auto closed = writer->close();
  if (closed || code != kOk) return code;  // an error was told already
  note("onepen: " + closed.error().message);
  return exit_code(closed.error().outcome, ErrorOf::request);
}

}  // namespace

int run_sql(const Common& common, const SqlOptions& options) { return options.write ? write(common, options) : read(common, options); }

}  // namespace onepen::app
