#include "sqlite/plain_sqlite.h"

#include <fmt/format.h>

namespace onepen::sqlite {

Error plain_error(int code, std::string_view what, const std::string& path, const char* detail) {
  switch (code & 0xff) {
    case SQLITE_NOTADB: return {Outcome::invalid, fmt::format("{} is not a SQLite database, or it is encrypted", path), std::nullopt};
    case SQLITE_CORRUPT:
      return {Outcome::invalid, fmt::format("{} is a damaged SQLite database ({}): repair it first, e.g. with sqlite3's .recover", path, detail), std::nullopt};
    case SQLITE_CANTOPEN: return {Outcome::not_found, fmt::format("cannot open {}: {}", path, detail), std::nullopt};
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return {Outcome::unavailable, fmt::format("{} is locked by another program: close it there, or try again", path), std::nullopt};
    default: return {Outcome::unavailable, fmt::format("cannot {} {}: {}", what, path, detail), std::nullopt};
  }
}

Result<PlainConnection> open_plain(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, kPlatformVfs);
  PlainConnection db(raw);
  if (code != SQLITE_OK) return tl::unexpected(plain_error(code, "open", path, raw != nullptr ? sqlite3_errmsg(raw) : "no memory"));
  sqlite3_busy_timeout(db.get(), kPlainBusyMs);
  return db;
}

Result<std::string> plain_value(sqlite3* db, const std::string& path, const char* sql) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(db, sql, -1, &raw, nullptr);
  std::string value;
  if (code == SQLITE_OK) {
    code = sqlite3_step(raw);
    if (code == SQLITE_ROW) {
      if (const auto* text = sqlite3_column_text(raw, 0); text != nullptr) value = reinterpret_cast<const char*>(text);
      code = SQLITE_DONE;
    }
  }
  const std::string detail = sqlite3_errmsg(db);
  sqlite3_finalize(raw);
  if (code != SQLITE_DONE) return tl::unexpected(plain_error(code, "read", path, detail.c_str()));
  return value;
}

}  // namespace onepen::sqlite
