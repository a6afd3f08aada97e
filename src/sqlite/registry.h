// The open databases of this process. All connections to one database share one OpenDatabase: one copy, one owner, one capture.
//
// An extension has no main() that could hold this, and SQLite's VFS is per process too: the one place of process-wide state. It is never destroyed (a host
// may exit with connections open, and its other threads may still be inside SQLite then); the copies' locks end with the process.
// Thread-safe. Opening the same database twice at once waits for the first; different databases open side by side.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sqlite/open_database.h"

namespace onepen::sqlite {

class Registry {
 public:
  explicit Registry(Environment environment);

  // xFullPathname: the path of the local copy's database file; acquires the copy when this process does not have the database open (or only a reset one:
  // opening again is how a program says that it means to take it back).
  Result<std::string> path_for(const OpenSettings& settings);
  // xOpen of that path: starts it when it is new. Nothing when the path is none of ours. Each attach is paid back with one detach.
  struct Attached {
    std::shared_ptr<OpenDatabase> database;  // null: not ours
    std::optional<Error> error;
  };
  Attached attach(const std::string& path, bool read_only, bool create);
  // The last one stops the database; errors and `flush`: OpenDatabase::stop.
  Result<> detach(const std::shared_ptr<OpenDatabase>& database, std::optional<std::chrono::nanoseconds> flush = {});
  bool ours(const std::string& path);
  // This thread was told `path` by path_for, or connects to it by that path, and will open it next: it stays ours until then, although the last connection
  // of another thread may close meanwhile. A path of ours that is forgotten in between would be opened as a plain file, uncaptured.
  void promise(const std::string& path);
  bool promised(const std::string& path) const;

  // A forked child has the memory but not the threads of the process that opened.
  bool forked() const { return environment_.fork_mark->forked(); }
  const Environment& environment() const { return environment_; }

 private:
  struct Entry {
    std::shared_ptr<OpenDatabase> database;
    int connections = 0;
  };
  std::shared_ptr<std::mutex> gate(const std::string& key);
  std::shared_ptr<OpenDatabase> find(const OpenSettings& settings);
  std::shared_ptr<OpenDatabase> take(const std::string& path);
  Attached attach_again(const std::string& path, bool read_only, bool create);

  const Environment environment_;
  std::mutex mutex_;  // guards what follows; never held while something is opened
  std::vector<Entry> entries_;
  std::map<std::string, std::shared_ptr<std::mutex>> gates_;  // held while a database is opened; a host's real threads wait here (the simulator has no SQLite)
};

}  // namespace onepen::sqlite
