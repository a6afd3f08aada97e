// A connection of plain SQLite on the platform's own VFS, for files that are no copies of ours. Not for use on a copy while it is captured. One thread.
#pragma once
#include <memory>
#include <string>

#include <onepen/result.h>
#include "sqlite/api.h"

namespace onepen::sqlite {

inline constexpr const char* kPlatformVfs = "unix";  // never the default one: that may be ours
inline constexpr int kPlainBusyMs = 5000;

struct ClosePlain {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using PlainConnection = std::unique_ptr<sqlite3, ClosePlain>;

// flags: SQLITE_OPEN_... Errors: as plain_error.
Result<PlainConnection> open_plain(const std::string& path, int flags);
// Runs SQL that returns at most one value and hands it back (empty: none).
Result<std::string> plain_value(sqlite3* db, const std::string& path, const char* sql);
// invalid: not a database, encrypted or damaged; unavailable: locked or a disk error; not_found: cannot be opened.
Error plain_error(int code, std::string_view what, const std::string& path, const char* detail);

}  // namespace onepen::sqlite
