// `onepen sql`: reads a database through a follower's copy; with --write becomes its writer, after naming whom that fences.
#include <fmt/format.h>
#include <sqlite3.h>

#include <optional>

#include "apps/onepen/output.h"
#include "apps/onepen/rooms.h"
#include "apps/onepen/sql_shell.h"
#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/vfs.h"

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

// Names whom a claim is going to fence; a database that is not there yet is made. The exit code when it cannot be told.
int name_the_owner(const Common& common, const std::string& name) {
  const auto rooms = open_rooms(common);
  if (!rooms) return report(common, rooms.error());
  auto stream = open_stream(*rooms, name);
  if (!stream) return report(common, stream.error());
  const auto stat = (*stream)->stat();
  if (!stat && stat.error().outcome != Outcome::not_found) return report(common, from_refusal(stat.error()), ErrorOf::content);
  if (!stat) {
    note(fmt::format("There is no database '{}' at {} yet: it is made.", name, rooms->home->url()));
  } else if (stat->epoch.value > 0) {
    const std::string called = stat->owner.name.empty() ? "" : fmt::format("'{}', ", stat->owner.name);
    note(fmt::format("'{}' is written by {}pid {} on host {} (epoch {}, since {}). Opening it for writing refuses that process from its next write on.", name,
                     called, stat->owner.pid, stat->owner.host, stat->epoch.value, local_time(stat->claimed_ms)));
  }
  return kOk;
}

// The rooms under the VFS live as long as the process: the registry of open databases does (sqlite/registry.h).
const sqlite::Environment& process_environment() {
  static const auto* const environment = [] {
    auto* made = new sqlite::Environment;
    made->runtime = io::make_system_runtime().release();
    made->disk = io::make_posix_disk().release();
    made->log = sqlite::host_log();
    made->open_home = [made](const std::string& url) { return home::open_home(*made->runtime, *made->disk, url, made->log); };
    return made;
  }();
  return *environment;
}

std::string escaped(std::string_view text) {  // for a URI's name or value
  std::string out;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("-._~/:").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string uri_of(const Common& common, const SqlOptions& options) {
  std::string uri = fmt::format("file:{}?vfs=onepen&home={}&cache_root={}&takeover={}", escaped(options.name), escaped(common.home), escaped(common.cache_root),
                                options.takeover);
  if (!options.owner.empty()) uri += "&owner=" + escaped(options.owner);
  return uri;
}

SqlProblem explain_refusal(sqlite3* db, int code, std::string message) {
  if ((code & 0xff) != SQLITE_AUTH) return plain_sql_problem(code, std::move(message));
  sqlite::OpenDatabase* database = nullptr;
  std::optional<Reset> reset;
  if (sqlite3_file_control(db, "main", sqlite::kDatabaseOp, &database) == SQLITE_OK && database != nullptr) reset = database->current_reset();
  if (!sqlite::last_refusal().empty()) message = sqlite::last_refusal();
  if (!reset) return {kRefused, "refused", std::move(message)};
  switch (reset->kind) {
    case ResetKind::unresolved: return {kUnknown, "unknown", std::move(message)};
    case ResetKind::broken: return {kUnavailable, std::string(word(reset->kind)), std::move(message)};
    default: return {kRefused, std::string(word(reset->kind)), std::move(message)};
  }
}

int write(const Common& common, const SqlOptions& options) {
  if (const int code = name_the_owner(common, options.name); code != kOk) return code;
  if (sqlite::register_vfs(process_environment()) != SQLITE_OK) return report(common, kBug, "bug", "The VFS could not be registered.");
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(uri_of(common, options).c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, sqlite::kVfsName);
  const sqlite::PlainConnection db(raw);
  // SQLite opens the file at the first statement that needs it.
  if (code == SQLITE_OK) code = sqlite3_exec(raw, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    const SqlProblem problem = plain_sql_problem(code, sqlite::last_refusal().empty() ? sqlite3_errmsg(raw) : sqlite::last_refusal());
    return report(common, problem.code, problem.word, problem.message);
  }
  sqlite::register_functions(raw);
  SqlShell shell(common, raw, [&](int failed, std::string message) { return explain_refusal(raw, failed, std::move(message)); });
  return run_statements(shell, options);
}

}  // namespace

int run_sql(const Common& common, const SqlOptions& options) { return options.write ? write(common, options) : read(common, options); }

}  // namespace onepen::app
