// SQLite's locks and its shared memory between the connections of a machine; what is left of them when a process is killed.
#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "sim/sqlite_vfs_file.h"

namespace onepen::sim {
namespace {

constexpr std::uint64_t kLockBytesAt = 0x40000000;     // PENDING_BYTE, RESERVED_BYTE, the shared range (os.h)
constexpr std::uint64_t kLockBytes = 512;
constexpr std::uint64_t kSlotBytesAt = 120;            // of the -shm file (wal.c); behind the slots the byte of the dead man's switch
constexpr int kWriteSlot = 0, kCheckpointSlot = 1, kReadSlots = 3;  // wal.c
constexpr std::uint32_t kLockWaits = 40, kBarrierWaits = 25;  // per mille

// A turn for the others, now and then. False: the process is dead.
bool turn(SqliteFile& file, std::uint32_t per_mille) {
  World& world = file.sqlite->world();
  if (file.process->dead) return world.yield(), false;
  world.point(*file.process);
  if (world.random().chance(per_mille)) world.sleep(world.random().between(1, 300) * kMicro);
  if (!file.process->dead && file.process->paused_until > world.now()) world.yield();
  return !file.process->dead;
}

void join_memory(SqliteFile& file) {
  SqliteNode& node = *file.node;
  if (std::find(node.users.begin(), node.users.end(), &file) != node.users.end()) return;
  if (node.users.empty()) node.drop_memory();  // the first one begins it anew, whatever was left
  node.users.push_back(&file);
  if (node.memory < 0) node.memory = ::memfd_create("onepen-sim-shm", MFD_CLOEXEC);
  ONEPEN_CHECK(node.memory >= 0, "no memory for a wal-index");
  const std::string name = file.path + "-shm";
  if (node.fs->find_id(name) == SimFs::kNone) static_cast<void>(node.fs->create(name, {}, file.process->machine));
  node.shm_inode = node.fs->find_id(name);
}

}  // namespace

void SqliteNode::drop_memory() {
  if (memory >= 0) ::close(memory);
  memory = -1;
  memory_bytes = 0;
}

void SqliteNode::release(const SqliteFile* file) {
  for (Slot& slot : slots) {
    std::erase(slot.shared, file);
    if (slot.exclusive == file) slot.exclusive = nullptr;
  }
}

// SQLite's own rules (lockingv3): one writer intends, pending keeps new readers out, exclusive waits for the readers that are there.
int lock_file(sqlite3_file* f, int level) {
  SqliteFile& file = of(f);
  if (file.level >= level) return SQLITE_OK;
  if (!turn(file, kLockWaits)) return SQLITE_IOERR_LOCK;
  if (!file.node) return file.level = level, SQLITE_OK;
  int others = SQLITE_LOCK_NONE;
  for (const auto& [other, held] : file.node->levels) {
    if (other != &file) others = std::max(others, held);
  }
  if (level == SQLITE_LOCK_SHARED && others >= SQLITE_LOCK_PENDING) return SQLITE_BUSY;
  if (level >= SQLITE_LOCK_RESERVED && others >= SQLITE_LOCK_RESERVED) return SQLITE_BUSY;
  const bool readers = level == SQLITE_LOCK_EXCLUSIVE && others >= SQLITE_LOCK_SHARED;
  file.level = readers ? SQLITE_LOCK_PENDING : level;
  file.node->levels[&file] = file.level;
  return readers ? SQLITE_BUSY : SQLITE_OK;
}

int unlock_file(sqlite3_file* f, int level) {
  SqliteFile& file = of(f);
  if (file.level <= level) return SQLITE_OK;
  file.level = level;
  if (!file.node) return SQLITE_OK;
  file.node->levels.erase(&file);
  if (level != SQLITE_LOCK_NONE && !file.process->dead) file.node->levels[&file] = level;
  return SQLITE_OK;
}

int check_reserved(sqlite3_file* f, int* out) {
  SqliteFile& file = of(f);
  *out = 0;
  if (!file.node) return SQLITE_OK;
  for (const auto& [other, held] : file.node->levels) {
    if (held >= SQLITE_LOCK_RESERVED) *out = 1;
  }
  return SQLITE_OK;
}

int map_memory(sqlite3_file* f, int region, int size, int extend, void volatile** out) {
  SqliteFile& file = of(f);
  *out = nullptr;
  if (!file.node) return SQLITE_IOERR_SHMMAP;
  SqliteNode& node = *file.node;
  const auto index = static_cast<std::size_t>(region), bytes = static_cast<std::size_t>(size);
  const bool alive = turn(file, kLockWaits);
  if (alive) join_memory(file);
  auto& process_maps = node.maps[file.process->id];
  auto& maps = process_maps.regions;
  if (std::find(process_maps.files.begin(), process_maps.files.end(), &file) == process_maps.files.end()) process_maps.files.push_back(&file);
  if (index < maps.size() && maps[index].at != nullptr) return *out = maps[index].at, SQLITE_OK;
  if (!alive) return SQLITE_IOERR_SHMMAP;
  const std::size_t needed = (index + 1) * bytes;
  if (node.memory_bytes < needed) {
    if (extend == 0) return SQLITE_OK;
    if (::ftruncate(node.memory, static_cast<off_t>(needed)) != 0) return SQLITE_IOERR_SHMSIZE;
    node.memory_bytes = needed;
  }
  maps.resize(std::max(maps.size(), index + 1));
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, node.memory, static_cast<off_t>(index * bytes));
  ONEPEN_CHECK(at != MAP_FAILED, "cannot map a wal-index");
  maps[index] = Mapping{at, bytes};
  *out = at;
  return SQLITE_OK;
}

int lock_memory(sqlite3_file* f, int offset, int n, int flags) {
  SqliteFile& file = of(f);
  if (!file.node) return SQLITE_IOERR_SHMLOCK;
  const auto slots = std::span(file.node->slots).subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(n));
  const bool shared = (flags & SQLITE_SHM_SHARED) != 0;
  const bool ends_wal = offset == kReadSlots + 1 && n == kSlots - kReadSlots - 1 && !shared;
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    if (ends_wal && !file.process->dead && file.sqlite->on_wal_ends)
      file.sqlite->on_wal_ends(*file.process, true, !file.node->slots.at(kReadSlots).shared.empty());
    for (auto& slot : slots) {
      if (shared) std::erase(slot.shared, &file);
      if (!shared && slot.exclusive == &file) slot.exclusive = nullptr;
    }
    if (offset == kWriteSlot && !file.process->dead) file.process->wal_unpublished = false;
    static_cast<void>(turn(file, kBarrierWaits));
    return SQLITE_OK;
  }
  if (!turn(file, kLockWaits)) return SQLITE_IOERR_SHMLOCK;
  const bool held = std::any_of(slots.begin(), slots.end(), [&](const auto& slot) {
    if (slot.exclusive != nullptr && slot.exclusive != &file) return true;
    return !shared && std::any_of(slot.shared.begin(), slot.shared.end(), [&](const SqliteFile* other) { return other != &file; });
  });
  if (held && ends_wal && file.sqlite->on_wal_ends) file.sqlite->on_wal_ends(*file.process, false, false);
  if (held) return SQLITE_BUSY;
  if (offset == kCheckpointSlot && n == 1 && file.sqlite->on_checkpoint) file.sqlite->on_checkpoint(*file.process);
  for (auto& slot : slots) {
    if (!shared) slot.exclusive = &file;
    if (shared && std::find(slot.shared.begin(), slot.shared.end(), &file) == slot.shared.end()) slot.shared.push_back(&file);
  }
  return SQLITE_OK;
}

void memory_barrier(sqlite3_file* f) { static_cast<void>(turn(of(f), kBarrierWaits)); }

int unmap_memory(sqlite3_file* f, int remove) {
  SqliteFile& file = of(f);
  if (!file.node) return SQLITE_OK;
  SqliteNode& node = *file.node;
  node.release(&file);
  std::erase(node.users, &file);
  if (const auto maps = node.maps.find(file.process->id); maps != node.maps.end()) {
    std::erase(maps->second.files, &file);
    if (maps->second.files.empty()) {
      for (const Mapping& map : maps->second.regions) {
        if (map.at != nullptr) ::munmap(map.at, map.bytes);
      }
      node.maps.erase(maps);
    }
  }
  if (node.users.empty()) node.drop_memory();
  if (remove != 0 && !file.process->dead) static_cast<void>(node.fs->remove(file.path + "-shm", file.process->machine));
  return SQLITE_OK;
}

SqliteNode& SimSqlite::node(SimFs& fs, SimFs::InodeId inode) {
  auto& node = nodes_[{&fs, inode}];
  if (!node) {
    node = std::make_unique<SqliteNode>();
    node->fs = &fs;
    if (!fs.on_foreign_lock) {
      fs.on_foreign_lock = [this, &fs](SimFs::InodeId at, std::uint64_t from, std::uint64_t bytes, std::uint32_t process) {
        return static_cast<std::int64_t>(foreign_locks(fs, at, from, bytes, process));
      };
    }
  }
  return *node;
}

std::uint64_t SimSqlite::foreign_locks(const SimFs& fs, SimFs::InodeId inode, std::uint64_t at, std::uint64_t bytes, std::uint32_t process) const {
  const auto overlaps = [&](std::uint64_t from, std::uint64_t size) { return at < from + size && from < at + bytes; };
  std::uint64_t found = 0;  // the lowest process: the order of the files is not the same in every run
  const auto note = [&](const SqliteFile& file) {
    if (file.process->id != process && (found == 0 || file.process->id < found)) found = file.process->id;
  };
  for (const auto& [key, node] : nodes_) {
    if (key.first != &fs) continue;
    if (key.second == inode && overlaps(kLockBytesAt, kLockBytes)) {
      for (const auto& [file, level] : node->levels) note(*file);
    }
    if (node->shm_inode == inode && overlaps(kSlotBytesAt, kSlots + 1)) {
      for (const SqliteFile* file : node->users) note(*file);
    }
  }
  return found;
}

// Its locks are gone at once; what it had mapped becomes private, so that its zombie spoils nothing.
void SimSqlite::killed(Process& process) {
  for (auto& [key, node] : nodes_) {
    for (SqliteFile* file : files_) {
      if (file->process != &process || file->node != node.get()) continue;
      node->levels.erase(file);
      node->release(file);
      std::erase(node->users, file);
    }
    if (const auto maps = node->maps.find(process.id); maps != node->maps.end()) {
      for (std::size_t i = 0; i < maps->second.regions.size(); ++i) {
        const Mapping& map = maps->second.regions[i];
        if (map.at == nullptr) continue;
        void* again = ::mmap(map.at, map.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, node->memory, static_cast<off_t>(i * map.bytes));
        ONEPEN_CHECK(again == map.at, "cannot make a dead process's wal-index its own");
      }
    }
    if (node->users.empty()) node->drop_memory();
  }
}

}  // namespace onepen::sim
