// What the C++ API keeps for the whole process: SQLite knows VFSes per process, so the registry of open databases is per process too (registry.h), and so are the
// homes that databases are opened at. Never destroyed. Thread-safe.
#pragma once
#include <onepen/database.h>
#include <onepen/home.h>

#include <memory>
#include <string>
#include <string_view>

#include "sqlite/open_database.h"
#include "sqlite/registry.h"

namespace onepen {
struct DatabaseState;
}

namespace onepen::sqlite {

// Registers the VFS, and `home` as what its URL stands for from now on. Errors: unavailable; invalid: in a child after fork() of a process without means to go on.
Result<Registry*> api_registry(const Home& home);

// Opens `settings`, read-only or not, as one more user of the database; paid back by Registry::detach.
Result<std::shared_ptr<OpenDatabase>> api_attach(const Home& home, const OpenSettings& settings, bool read_only);

// A plain connection to an open database, by the copy's own path: a name would be opened afresh, and claimed again, if the handle reset right now.
Result<Connection> api_connect(const OpenDatabase& database, bool read_only);

// What `options` of the public API say. Errors: read_settings'.
Result<OpenSettings> api_settings(std::string_view url, std::string_view name, const OpenOptions& options);

// A handle of the public API upon an open database, which it pays back.
std::shared_ptr<DatabaseState> api_state(std::shared_ptr<OpenDatabase> database);

// Until the answer is dropped.
Listening listen(OpenDatabase& database, std::function<void(const Reset&)> listener);

}  // namespace onepen::sqlite
