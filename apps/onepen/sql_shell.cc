#include "apps/onepen/sql_shell.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/onepen/output.h"

namespace onepen::app {
namespace {

constexpr std::size_t kRowsOfOneTable = 2000;  // wider results are shown in several tables, so that memory stays bounded
constexpr int kBlobBytesShown = 24;            // of a blob in a table; --json shows all

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string_view bytes_of(sqlite3_stmt* row, int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(row, column));
  return bytes == nullptr ? std::string_view{} : std::string_view(bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string cell(sqlite3_stmt* row, int column) {
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL: return "NULL";
    case SQLITE_BLOB: {
      const auto bytes = bytes_of(row, column);
      if (bytes.size() <= kBlobBytesShown) return "x'" + hex(bytes) + "'";
      return fmt::format("x'{}...' ({} bytes)", hex(bytes.substr(0, kBlobBytesShown)), bytes.size());
    }
    default: {  // SQLite writes numbers as text better than we would
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
      return text == nullptr ? "" : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
    }
  }
}

nlohmann::json json_cell(sqlite3_stmt* row, int column) {
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL: return nullptr;
    case SQLITE_INTEGER: return sqlite3_column_int64(row, column);
    case SQLITE_FLOAT: {
      const double value = sqlite3_column_double(row, column);
      return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(cell(row, column));  // JSON has no infinity
    }
    case SQLITE_BLOB: return {{"blob", hex(bytes_of(row, column))}};
    default: return cell(row, column);
  }
}

std::vector<std::string> column_names(sqlite3_stmt* statement) {
  std::vector<std::string> names;
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    const char* name = sqlite3_column_name(statement, i);
    std::string text = name == nullptr ? "" : name;
    const std::string plain = text;
    for (int again = 1; std::find(names.begin(), names.end(), text) != names.end(); ++again) text = fmt::format("{}:{}", plain, again);  // keys of one object
    names.push_back(text);
  }
  return names;
}

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n;") == std::string_view::npos; }

}  // namespace

struct SqlShell::Results {
  nlohmann::json all = nlohmann::json::array();
};

SqlProblem plain_sql_problem(int sqlite_code, std::string message) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM: return {kUnavailable, "unavailable", std::move(message)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return {kDamaged, "damaged", std::move(message)};
    case SQLITE_AUTH: return {kRefused, "refused", std::move(message)};
    case SQLITE_MISUSE:
    case SQLITE_INTERNAL: return {kBug, "bug", std::move(message)};
    default: return {kUsage, "invalid", "SQL error: " + std::move(message)};
  }
}

SqlShell::SqlShell(const Common& common, sqlite3* db, ExplainSql explain)
    : common_(common), db_(db), explain_(std::move(explain)), results_(std::make_unique<Results>()) {}
SqlShell::~SqlShell() = default;

int SqlShell::fail(int sqlite_code) {
  const SqlProblem problem = explain_(sqlite_code, sqlite3_errmsg(db_));
  return report(common_, problem.code, problem.word, problem.message);
}

int SqlShell::run_one(std::string_view text, std::size_t& used) {
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  const int prepared = sqlite3_prepare_v2(db_, text.data(), static_cast<int>(text.size()), &raw, &rest);
  const Statement statement(raw);
  used = rest == nullptr ? text.size() : static_cast<std::size_t>(rest - text.data());
  if (prepared != SQLITE_OK) return fail(prepared);
  if (!statement) return kOk;  // a comment
  const auto names = column_names(raw);
  auto rows = nlohmann::json::array();
  std::optional<Table> table;
  std::size_t in_table = 0;
  int code = sqlite3_step(raw);
  for (; code == SQLITE_ROW; code = sqlite3_step(raw)) {
    if (common_.json) {
      nlohmann::json row = nlohmann::json::object();
      for (int i = 0; i < static_cast<int>(names.size()); ++i) row[names[static_cast<std::size_t>(i)]] = json_cell(raw, i);
      rows.push_back(std::move(row));
      continue;
    }
    if (!table) table.emplace(names);
    std::vector<std::string> cells;
    for (int i = 0; i < static_cast<int>(names.size()); ++i) cells.push_back(cell(raw, i));
    table->row(std::move(cells));
    if (++in_table == kRowsOfOneTable) {
      print(table->text());
      table.reset();
      in_table = 0;
    }
  }
  if (table) print(table->text());
  if (code != SQLITE_DONE) return fail(code);
  if (common_.json) {
    nlohmann::json result{{"sql", std::string(text.substr(0, used))}};
    if (!names.empty()) {
      result["columns"] = names;
      result["rows"] = std::move(rows);
    } else {
      result["changes"] = sqlite3_changes64(db_);
    }
    results_->all.push_back(std::move(result));
  }
  return kOk;
}

int SqlShell::run(std::string_view text) {
  while (!blank(text)) {
    std::size_t used = 0;
    if (const int code = run_one(text, used); code != kOk) return code;
    text.remove_prefix(std::min(used, text.size()));
  }
  return kOk;
}

int SqlShell::run_input(const std::string& prompt) {
  const bool people = ::isatty(STDIN_FILENO) == 1;
  std::string pending;
  int worst = kOk;
  const auto ask = [&] {
    if (people) std::cout << (pending.empty() ? prompt + "> " : std::string(prompt.size(), ' ') + "> ") << std::flush;
  };
  ask();
  for (std::string line; std::getline(std::cin, line); ask()) {
    pending += line + "\n";
    if (blank(pending)) pending.clear();
    if (pending.empty() || sqlite3_complete(pending.c_str()) == 0) continue;
    const int code = run(pending);
    std::fflush(stdout);
    pending.clear();
    if (code == kOk) continue;
    if (!people) return code;
    worst = code;
  }
  if (people) std::cout << "\n";
  return blank(pending) ? worst : run(pending);
}

int SqlShell::finish(int code) {
  if (sqlite3_get_autocommit(db_) == 0) {
    const bool wrote = sqlite3_txn_state(db_, nullptr) == SQLITE_TXN_WRITE;
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    // A script must not take it for done.
    if (code == kOk && wrote)
      return report(common_, kUsage, "invalid",
                    "The transaction was begun and never committed: it was rolled back, and nothing of it was written. End it with COMMIT.");
  }
  if (common_.json && code == kOk) print(nlohmann::json{{"results", results_->all}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return code;
}

}  // namespace onepen::app
