// What the tests of the public C++ API (include/onepen) share: an open database with a connection, and SQL on it.
#pragma once
#include <gtest/gtest.h>
#include <onepen/database.h>
#include <sqlite3.h>

#include <optional>
#include <string>
#include <utility>

namespace onepen::testing {

inline int run(const Connection& connection, const std::string& sql) { return sqlite3_exec(connection.get(), sql.c_str(), nullptr, nullptr, nullptr); }

// The first value of the first row, or what SQLite says.
inline std::string one(sqlite3* db, const std::string& sql) {
  std::string out = "(none)";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return sqlite3_errmsg(db);
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr) {
    out = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  }
  sqlite3_finalize(statement);
  return out;
}
inline std::string one(const Connection& connection, const std::string& sql) { return one(connection.get(), sql); }

struct Opened {
  Database database;
  Connection connection;
};
// 'app', opened, with a table t(x).
inline std::optional<Opened> open_with_table(const Home& home, const OpenOptions& options) {
  auto database = Database::open(home, "app", options);
  EXPECT_TRUE(database) << database.error().message;
  if (!database) return {};
  auto connection = database->connect();
  EXPECT_TRUE(connection) << connection.error().message;
  if (!connection) return {};
  const int made = run(*connection, "CREATE TABLE IF NOT EXISTS t(x)");
  EXPECT_EQ(made, SQLITE_OK);
  if (made != SQLITE_OK) return {};
  return Opened{std::move(*database), std::move(*connection)};
}

}  // namespace onepen::testing
