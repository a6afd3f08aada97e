// A program of Onepen, built against an installed tree: opens a database by name, works with plain SQLite, and learns when somebody newer opened it.
//   standby file:///srv/pen
#include <onepen/database.h>
#include <sqlite3.h>

#include <cstdio>
#include <string>

namespace {

int failed(const onepen::Error& error) {
  std::fprintf(stderr, "%s: %s\n", std::string(onepen::word(error.outcome)).c_str(), error.message.c_str());
  return 1;
}

bool run(sqlite3* db, const char* sql) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return true;
  std::fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: standby HOME-URL\n"), 2;
  auto home = onepen::Home::open(argv[1]);
  if (!home) return failed(home.error());
  // From here on this process is the writer of 'app'; whoever was it is refused from its next write on.
  auto database = onepen::Database::open(*home, "app", {.owner_name = "standby"});
  if (!database) return failed(database.error());
  const auto listening = database->on_reset([](const onepen::Reset& reset) { std::fprintf(stderr, "%s\n", reset.message.c_str()); });
  auto connection = database->connect();
  if (!connection) return failed(connection.error());
  if (!run(connection->get(), "CREATE TABLE IF NOT EXISTS visit(at TEXT)") || !run(connection->get(), "INSERT INTO visit VALUES (datetime())")) return 1;
  // Everything committed so far is in the home, and this process still owns it.
  const auto offset = database->synced();
  if (!offset) return failed(offset.error());
  std::printf("epoch %llu, durable up to %s\nok\n", static_cast<unsigned long long>(database->status().token.epoch.value), offset->text.c_str());
  return 0;
}
