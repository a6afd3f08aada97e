// Runs SQL text on a plain SQLite connection and shows what it answers: tables for people, one JSON document for scripts.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/onepen/commands.h"

struct sqlite3;

namespace onepen::app {

// What an SQLite error means here; the front knows more than the code says (who fenced us, that --write is missing).
struct SqlProblem {
  ExitCode code = kOk;
  std::string word, message;
};
using ExplainSql = std::function<SqlProblem(int sqlite_code, std::string message)>;

class SqlShell {
 public:
  // `db` outlives it.
  SqlShell(const Common& common, sqlite3* db, ExplainSql explain);
  ~SqlShell();
  SqlShell(const SqlShell&) = delete;
  SqlShell& operator=(const SqlShell&) = delete;

  // Every statement of the text, in order; ends at the first that fails. Returns the exit code and has said the error.
  int run(std::string_view text);
  // Standard input, statement by statement. On a terminal with a prompt, and an error does not end it.
  int run_input(const std::string& prompt);
  // Prints the JSON document (nothing without --json, or after an error); rolls back what was not committed and says so.
  int finish(int code);

 private:
  int run_one(std::string_view text, std::size_t& used);
  int fail(int sqlite_code);
  const Common& common_;
  sqlite3* db_;
  ExplainSql explain_;
  struct Results;
  std::unique_ptr<Results> results_;
};

// The meaning of a code that has no special one: the SQL is wrong (2), the disk or a lock did not serve (5), damaged (7), a bug (70).
SqlProblem plain_sql_problem(int sqlite_code, std::string message);

}  // namespace onepen::app
