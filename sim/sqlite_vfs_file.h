// An open file of the simulator's VFS, what the kernel knows of a database file, and the VFS methods for SQLite's locks and its shared memory.
// Inside sqlite_vfs.cc and sqlite_vfs_locks.cc only.
#pragma once
#include <sqlite3.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/sqlite_vfs.h"

namespace onepen::sim {

inline constexpr int kSlots = 8;  // SQLITE_SHM_NLOCK

// A region of the wal-index as one process has it mapped.
struct Mapping {
  void* at = nullptr;
  std::size_t bytes = 0;
};

// What the kernel knows of one database file on one machine.
struct SqliteNode {
  SimFs* fs = nullptr;
  SimFs::InodeId shm_inode = SimFs::kNone;
  std::map<SqliteFile*, int> levels;  // only those above none
  int memory = -1;                    // a memfd; -1: nobody has the wal-index
  std::size_t memory_bytes = 0;
  std::vector<SqliteFile*> users;     // connections that have the wal-index
  struct ProcessMaps {
    std::vector<Mapping> regions;
    std::vector<const SqliteFile*> files;  // connections that read and write there
  };
  std::map<std::uint32_t, ProcessMaps> maps;  // by process, zombies too
  struct Slot {
    std::vector<const SqliteFile*> shared;
    const SqliteFile* exclusive = nullptr;
  };
  std::array<Slot, kSlots> slots;

  ~SqliteNode() { drop_memory(); }
  void drop_memory();
  void release(const SqliteFile* file);  // its slots
};

// One open file. Kept apart from the sqlite3_file, whose memory is SQLite's.
struct SqliteFile {
  SimSqlite* sqlite = nullptr;
  Process* process = nullptr;
  SimDisk* disk = nullptr;
  std::string path;                       // empty: without a name
  Bytes memory;                           // of one without a name
  std::unique_ptr<io::DiskFile> on_disk;
  SqliteNode* node = nullptr;             // database files
  int level = SQLITE_LOCK_NONE;
  bool sync_folder = false, remove_at_close = false;
};

struct CFile : sqlite3_file {
  SqliteFile* file;
};
inline SqliteFile& of(sqlite3_file* file) { return *static_cast<CFile*>(file)->file; }

int lock_file(sqlite3_file* f, int level);
int unlock_file(sqlite3_file* f, int level);
int check_reserved(sqlite3_file* f, int* out);
int map_memory(sqlite3_file* f, int region, int size, int extend, void volatile** out);
int lock_memory(sqlite3_file* f, int offset, int n, int flags);
void memory_barrier(sqlite3_file* f);
int unmap_memory(sqlite3_file* f, int remove);

}  // namespace onepen::sim
