#include "sim/sqlite_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "io/paths.h"
#include "sim/sqlite_vfs_file.h"

namespace onepen::sim {
namespace {

SimSqlite* the_sqlite = nullptr;  // SQLite knows one VFS of a name, and calls it without saying for whom

constexpr int kSectorBytes = 4096;

int close_file(sqlite3_file* f);

int read_file(sqlite3_file* f, void* to, int size, sqlite3_int64 from) {
  SqliteFile& file = of(f);
  const auto bytes = std::span(static_cast<std::byte*>(to), static_cast<std::size_t>(size));
  std::size_t done = 0;
  if (file.on_disk) {
    const auto read = file.on_disk->read_at(static_cast<std::uint64_t>(from), bytes);
    if (!read) return SQLITE_IOERR_READ;
    done = *read;
  } else if (static_cast<std::size_t>(from) < file.memory.size()) {
    done = std::min(bytes.size(), file.memory.size() - static_cast<std::size_t>(from));
    std::copy_n(file.memory.begin() + from, done, bytes.begin());
  }
  if (done == bytes.size()) return SQLITE_OK;
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(done), bytes.end(), std::byte{});
  return SQLITE_IOERR_SHORT_READ;
}

int write_file(sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
  SqliteFile& file = of(f);
  const ByteView bytes(static_cast<const std::byte*>(from), static_cast<std::size_t>(size));
  if (!file.on_disk) {
    const auto end = static_cast<std::size_t>(at) + bytes.size();
    if (file.memory.size() < end) file.memory.resize(end);
    std::copy(bytes.begin(), bytes.end(), file.memory.begin() + at);
    return SQLITE_OK;
  }
  const auto written = file.on_disk->write_at(static_cast<std::uint64_t>(at), bytes);
  if (written) return SQLITE_OK;
  return written.error().code == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

int truncate_file(sqlite3_file* f, sqlite3_int64 size) {
  SqliteFile& file = of(f);
  if (!file.on_disk) return file.memory.resize(static_cast<std::size_t>(size)), SQLITE_OK;
  return file.on_disk->cut(static_cast<std::uint64_t>(size)) ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
}

int sync_file(sqlite3_file* f, int) {
  SqliteFile& file = of(f);
  if (!file.on_disk) return SQLITE_OK;
  if (!file.on_disk->sync()) return SQLITE_IOERR_FSYNC;
  if (!file.sync_folder) return SQLITE_OK;
  if (!file.disk->sync_folder(io::folder_of(file.path))) return SQLITE_IOERR_DIR_FSYNC;
  file.sync_folder = false;
  return SQLITE_OK;
}

int size_of_file(sqlite3_file* f, sqlite3_int64* size) {
  SqliteFile& file = of(f);
  if (!file.on_disk) return *size = static_cast<sqlite3_int64>(file.memory.size()), SQLITE_OK;
  const auto answer = file.on_disk->size();
  if (!answer) return SQLITE_IOERR_FSTAT;
  *size = static_cast<sqlite3_int64>(*answer);
  return SQLITE_OK;
}

int control_file(sqlite3_file* f, int op, void* argument) {
  SqliteFile& file = of(f);
  switch (op) {
    case SQLITE_FCNTL_VFSNAME: *static_cast<char**>(argument) = sqlite3_mprintf("%s", kSimVfsName); return SQLITE_OK;
    case SQLITE_FCNTL_LOCKSTATE: *static_cast<int*>(argument) = file.level; return SQLITE_OK;
    case SQLITE_FCNTL_PERSIST_WAL:
    case SQLITE_FCNTL_POWERSAFE_OVERWRITE: {
      auto& value = *static_cast<int*>(argument);
      if (value < 0) value = op == SQLITE_FCNTL_POWERSAFE_OVERWRITE ? 1 : 0;
      return SQLITE_OK;
    }
    default: return SQLITE_NOTFOUND;
  }
}

int sector_size(sqlite3_file*) { return kSectorBytes; }
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }  // as on Linux

const sqlite3_io_methods kSimMethods = {2,           close_file,     read_file,      write_file,   truncate_file, sync_file,       size_of_file,
                                        lock_file,   unlock_file,    check_reserved, control_file, sector_size,   characteristics, map_memory,
                                        lock_memory, memory_barrier, unmap_memory,   nullptr,      nullptr};

int close_file(sqlite3_file* f) {
  std::unique_ptr<SqliteFile> file(&of(f));
  if (file->node) {
    unmap_memory(f, 0);
    file->node->levels.erase(file.get());
  }
  file->sqlite->closed(*file);
  if (file->remove_at_close) static_cast<void>(file->disk->remove(file->path));
  f->pMethods = nullptr;
  return SQLITE_OK;
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* f, int flags, int* out_flags) {
  f->pMethods = nullptr;
  SimSqlite::Seat* seat = the_sqlite->current();
  if (seat == nullptr || seat->process->dead) return SQLITE_CANTOPEN;
  auto file = std::make_unique<SqliteFile>();
  file->sqlite = the_sqlite;
  file->process = seat->process;
  file->disk = seat->disk;
  if (name != nullptr) {
    file->path = name;
    SimFs& fs = seat->disk->fs(file->path);
    const bool there = fs.find_id(file->path) != SimFs::kNone;
    const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
    if (there && create && (flags & SQLITE_OPEN_EXCLUSIVE) != 0) return SQLITE_CANTOPEN;
    const io::OpenMode mode = create ? io::OpenMode::create : (flags & SQLITE_OPEN_READONLY) != 0 ? io::OpenMode::read : io::OpenMode::write;
    auto opened = seat->disk->open(file->path, mode);
    if (!opened) return SQLITE_CANTOPEN;
    file->on_disk = std::move(*opened);
    file->sync_folder = !there && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0;
    file->remove_at_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0) file->node = &the_sqlite->node(fs, fs.find_id(file->path));
  }
  if (out_flags != nullptr) *out_flags = flags;
  the_sqlite->opened(*file);
  static_cast<CFile*>(f)->file = file.release();
  f->pMethods = &kSimMethods;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char* name, int sync) {
  SimSqlite::Seat* seat = the_sqlite->current();
  if (seat == nullptr) return SQLITE_IOERR_DELETE;
  if (const auto done = seat->disk->remove(name); !done) return done.error().code == ENOENT ? SQLITE_IOERR_DELETE_NOENT : SQLITE_IOERR_DELETE;
  if (sync != 0 && !seat->disk->sync_folder(io::folder_of(name))) return SQLITE_IOERR_DIR_FSYNC;
  return SQLITE_OK;
}

int access_file(sqlite3_vfs*, const char* name, int flags, int* result) {
  SimSqlite::Seat* seat = the_sqlite->current();
  *result = 0;
  if (seat == nullptr || seat->process->dead) return SQLITE_IOERR_ACCESS;
  SimFs& fs = seat->disk->fs(name);
  const SimFs::InodeId inode = fs.find_id(name);
  std::uint64_t size = 0;
  if (inode == SimFs::kNone) return SQLITE_OK;
  *result = fs.size(inode, size) != 0 || size > 0 || flags != SQLITE_ACCESS_EXISTS ? 1 : 0;  // an empty file is none, as on Unix
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
  const std::string path = *name == '/' ? std::string(name) : "/" + std::string(name);
  if (path.size() + 1 > static_cast<std::size_t>(size)) return SQLITE_CANTOPEN;
  std::memcpy(out, path.c_str(), path.size() + 1);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int size, char* out) {
  for (int i = 0; i < size; ++i) out[i] = the_sqlite == nullptr ? 0 : static_cast<char>(the_sqlite->world().random().next());
  return size;
}

int sleep_for(sqlite3_vfs*, int micros) {
  World& world = the_sqlite->world();
  world.sleep(micros * kMicro);
  return micros;
}

int current_time_ms(sqlite3_vfs*, sqlite3_int64* out) {
  constexpr sqlite3_int64 kUnixEpochMs = 210'866'760'000'000;  // in milliseconds of Julian days
  SimSqlite::Seat* seat = the_sqlite == nullptr ? nullptr : the_sqlite->current();
  *out = kUnixEpochMs + (seat == nullptr ? 0 : seat->process->runtime->wall_ms());
  return SQLITE_OK;
}

int current_time(sqlite3_vfs* vfs, double* out) {
  sqlite3_int64 ms = 0;
  current_time_ms(vfs, &ms);
  *out = static_cast<double>(ms) / 86'400'000.0;
  return SQLITE_OK;
}

sqlite::VfsProcess* current_registry() {
  SimSqlite::Seat* seat = the_sqlite == nullptr ? nullptr : the_sqlite->current();
  ONEPEN_CHECK(seat != nullptr && seat->ours != nullptr, "a simulated process that was not added opens a database by name");
  return seat->ours;
}

void register_once() {
  static const bool done = [] {
    sqlite3_shutdown();
    ONEPEN_CHECK(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK, "SQLite was used before the simulator");
    ONEPEN_CHECK(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK, "SQLite was used before the simulator");
    static sqlite3_vfs vfs{};
    vfs.iVersion = 2;
    vfs.szOsFile = sizeof(CFile);
    vfs.mxPathname = 512;
    vfs.zName = kSimVfsName;
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    vfs.xAccess = access_file;
    vfs.xFullPathname = full_path;
    vfs.xDlOpen = [](sqlite3_vfs*, const char*) -> void* { return nullptr; };
    vfs.xDlError = [](sqlite3_vfs*, int size, char* out) { sqlite3_snprintf(size, out, "%s", "not simulated"); };
    vfs.xDlSym = [](sqlite3_vfs*, void*, const char*) -> void (*)() { return nullptr; };
    vfs.xDlClose = [](sqlite3_vfs*, void*) {};
    vfs.xRandomness = randomness;
    vfs.xSleep = sleep_for;
    vfs.xCurrentTime = current_time;
    vfs.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    vfs.xCurrentTimeInt64 = current_time_ms;
    ONEPEN_CHECK(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK, "SQLite refused the simulator's VFS");
    ONEPEN_CHECK(sqlite::simulate_vfs_processes(&current_registry) == SQLITE_OK, "SQLite refused Onepen's VFS");
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

SimSqlite::SimSqlite(World& world) : world_(world) {
  ONEPEN_CHECK(the_sqlite == nullptr, "one simulated SQLite at a time");
  register_once();
  the_sqlite = this;
  sqlite3_randomness(0, nullptr);  // drawn anew from this world: the same seed writes the same salts
  world.on_kill.push_back([this](Process& process) { killed(process); });
}

SimSqlite::~SimSqlite() {
  while (!seats_.empty()) remove(*seats_.begin()->second.process);
  the_sqlite = nullptr;
}

void SimSqlite::add(Process& process, SimDisk& disk) { seats_[process.id] = Seat{&process, &disk, nullptr}; }

void SimSqlite::add(Process& process, SimDisk& disk, const sqlite::Environment& environment) {
  add(process, disk);
  seats_[process.id].ours = sqlite::make_vfs_process(environment);
}

void SimSqlite::remove(Process& process) {
  const auto seat = seats_.find(process.id);
  if (seat == seats_.end()) return;
  const bool open = std::any_of(files_.begin(), files_.end(), [&](const SqliteFile* file) { return file->process == &process; });
  if (seat->second.ours != nullptr && !open) sqlite::drop_vfs_process(seat->second.ours);
  seats_.erase(seat);
}

SimSqlite::Seat* SimSqlite::current() {
  if (!world_.inside()) return nullptr;
  const auto seat = seats_.find(world_.current().process->id);
  return seat == seats_.end() ? nullptr : &seat->second;
}

void SimSqlite::opened(SqliteFile& file) { files_.push_back(&file); }
void SimSqlite::closed(SqliteFile& file) { std::erase(files_, &file); }

}  // namespace onepen::sim
