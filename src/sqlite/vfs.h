// The VFS "onepen": opens databases by name. A name of ours becomes the path of a local copy in xFullPathname, so that SQLite works on a real file with
// the platform's VFS (locks, wal-index, -wal and -shm names), and only the database file and its WAL are stood before. Every other file is the platform
// VFS's, untouched.
//
// Ours are: names with home= or vfs=onepen in their URI, and names that end in ".onepen" (for hosts without URI names, once the VFS is the default).
// Thread-safe. Never unregistered: an extension that registers a VFS stays loaded (SQLITE_OK_LOAD_PERMANENTLY).
#pragma once
#include "sqlite/registry.h"
#include "sqlite/vfs_file.h"

namespace onepen::sqlite {

inline constexpr const char* kVfsName = "onepen";

// Registers the VFS over the platform's default one; idempotent. The first caller's environment stays. Returns an SQLite code.
int register_vfs(const Environment& environment);
// The process's registry; null before register_vfs.
Registry* process_registry();
// The VFS below ours: the platform's, also before ours is registered. Its files are opened without capture.
sqlite3_vfs* platform_vfs();
// onepen_use(): the home of plain names "x.onepen" from now on, and the VFS becomes the default.
int use_home(std::string url, std::string parameters = {});

#ifdef ONEPEN_TEST_HOOKS
// The simulator runs many processes in one: each has a registry and files of its own. `current` answers whose code runs now. Registers the VFS, as
// register_vfs does, over the default one.
struct VfsProcess;
int simulate_vfs_processes(VfsProcess* (*current)());
VfsProcess* make_vfs_process(const Environment& environment);
void drop_vfs_process(VfsProcess* process);  // when nothing of it is open any more
#endif

// xOpen(WAL) finds its database's file by the name both were opened with.
void remember_main_file(MainFile* file);
void forget_main_file(MainFile* file);
MainFile* find_main_file(const char* name);
std::string landed_beside(const MainFile& file);  // vfs_file.h

}  // namespace onepen::sqlite
