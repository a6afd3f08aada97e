// SQLite on the simulated disk: the platform's VFS as each simulated process has it, and under its own VFS "onepen" one registry for each.
//
// The SQLite library is the real one, in single-threaded mode: fibers change only inside of VFS methods, and one connection is used by one fiber.
// Locks: SQLite's five levels on a database file and the eight slots of its wal-index, between connections, whichever process of the machine they are in.
// Shared memory: each simulated process maps the same memory at addresses of its own. A killed process keeps what it had as private memory, so that what
// its zombie writes is seen by nobody; the memory of a file is gone when its last process is (SQLite then recovers from the WAL), also with the power.
// Files without a name (spilled sorters, VACUUM's) live in memory. Time is the process's wall clock, randomness the world's.
#pragma once
#include <map>
#include <memory>

#include "sim/disk.h"
#include "sqlite/vfs.h"

namespace onepen::sim {

inline constexpr const char* kSimVfsName = "sim";

struct SqliteFile;
struct SqliteNode;

class SimSqlite {
 public:
  explicit SimSqlite(World& world);  // at most one at a time; SQLite's default VFS works in it from now on
  ~SimSqlite();                      // when every process that was added has ended
  SimSqlite(const SimSqlite&) = delete;
  SimSqlite& operator=(const SimSqlite&) = delete;

  // Processes may use SQLite while they are added. `disk` outlives the process's connections.
  void add(Process& process, SimDisk& disk);
  void add(Process& process, SimDisk& disk, const sqlite::Environment& environment);  // and databases by name
  void remove(Process& process);

  struct Seat {
    Process* process = nullptr;
    SimDisk* disk = nullptr;
    sqlite::VfsProcess* ours = nullptr;
  };
  World& world() { return world_; }
  Seat* current();                    // of the fiber that runs; null: its process was not added
  SqliteNode& node(SimFs& fs, SimFs::InodeId inode);
  void opened(SqliteFile& file);
  void closed(SqliteFile& file);
  std::function<void(Process& process)> on_checkpoint;  // a process begins one
  // A process asked for read marks 1 to 4 at once, to begin a WAL anew. got: it had them, and gives them back; beside: somebody reads with mark 0 meanwhile.
  std::function<void(Process& process, bool got, bool beside)> on_wal_ends;
  std::uint64_t foreign_locks(const SimFs& fs, SimFs::InodeId inode, std::uint64_t at, std::uint64_t bytes, std::uint32_t process) const;

 private:
  void killed(Process& process);

  World& world_;
  std::map<std::uint32_t, Seat> seats_;
  std::map<std::pair<const SimFs*, SimFs::InodeId>, std::unique_ptr<SqliteNode>> nodes_;
  std::vector<SqliteFile*> files_;
};

}  // namespace onepen::sim
