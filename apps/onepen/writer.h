// A database opened for writing, through the public API like any program's, after naming whom that fences. Used by one thread.
#pragma once
#include <onepen/database.h>

#include <optional>
#include <string>

#include "apps/onepen/rooms.h"
#include "apps/onepen/sql_shell.h"

namespace onepen::sqlite {
class OpenDatabase;
}

namespace onepen::app {

// What the home says of a database before anything is claimed; none: there is no such database. Errors: the home's; unavailable when this machine has a copy of
// what is not there (local_places.h).
Result<std::optional<core::StreamStat>> look(const Common& common, const Rooms& rooms, const std::string& name);
// Somebody owns it and has not said that it went in peace.
bool owned_now(const core::StreamStat& stat);
// "'ingest', pid 4711 on host b (epoch 2, since 2026-11-29 17:05:11)"
std::string owner_phrase(const core::StreamStat& stat);
// Says on standard error whom opening `name` for writing fences, or that it is made.
void name_the_owner(const Rooms& rooms, const std::string& name, const std::optional<core::StreamStat>& stat);

class Writer {
 public:
  // Claims, with a progress bar; home, cache and progress of `options` are filled in. Errors: Database::open's.
  static Result<Writer> open(const Common& common, const std::string& name, OpenOptions options);
  sqlite3* connection() const { return connection_.get(); }
  sqlite::OpenDatabase* database() const;  // what SQLite works on inside; null: it could not be told
  Database& api() { return database_; }
  // What an SQLite error of the connection means: who fenced us, whether the commit is in the stream.
  SqlProblem explain(int code, std::string message) const;
  // Sends what is pending and ends the ownership. Errors: what could not be sent.
  Result<> close();

 private:
  explicit Writer(Database database) : database_(std::move(database)) {}
  Database database_;
  Connection connection_;  // after database_: closed first
};

}  // namespace onepen::app
