// A simulated filesystem (SimFs) and one process's view of the disks of its machine (SimDisk, the io::Disk port).
//
// What is kept apart: what a read shows now, and what a power loss would leave. Bytes are durable after a sync of their file, names after sync_folder of
// their folder (make_folders syncs each new folder into its parent). Power loss keeps, loses or tears each unsynced byte range and keeps or loses each
// unsynced name, each for itself, by the seed. A sync that failed drops what it was for: those bytes are still read, and never become durable,
// whatever later syncs say (Linux since 4.13). A failed sync_folder leaves its names unsynced: a journal that lost them would stop the filesystem.
// A shared filesystem (the home's directory used by several machines) loses, when one machine loses power, what that machine had not synced.
// Changing a file's size (cut) is one more unsynced operation, kept or lost for itself like each write.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/disk.h"
#include "sim/world.h"

namespace onepen::sim {

inline constexpr std::uint32_t kEverybody = UINT32_MAX;

struct DiskFaults {  // per mille of calls, while the faults last
  std::uint32_t eio = 0, eio_sync = 0, enospc = 0;
  std::uint32_t lost_sync = 0;   // a disk that lies: answers a sync that it did not do
  std::uint32_t slow = 0;        // calls that take up to slow_ms
  std::int64_t slow_ms = 500;
};

// The state of one filesystem. No latency, no faults of its own (SimDisk adds them); errors are errno numbers, 0 = done.
class SimFs {
 public:
  explicit SimFs(World& world, std::string name);
  DiskFaults faults;
  bool unnamed_files = true;  // create_whole needs no scratch name (O_TMPFILE); false: a filesystem without them

  int read(const std::string& path, std::uint64_t from, std::uint64_t max, Bytes& out) const;
  int size(const std::string& path, std::uint64_t& out) const;
  int create(const std::string& path, ByteView bytes, std::uint32_t author);
  int write(const std::string& path, std::uint64_t from, ByteView bytes, std::uint32_t author);  // the file must exist
  int sync_file(const std::string& path);
  int drop_unsynced(const std::string& path);                                                    // after a failed sync
  int link(const std::string& from, const std::string& to, std::uint32_t author);
  // By inode, as an open file has it: its name may be gone or another's meanwhile.
  using InodeId = std::uint64_t;
  static constexpr InodeId kNone = UINT64_MAX;
  InodeId find_id(const std::string& path) const;  // kNone: not there
  int read(InodeId file, std::uint64_t from, std::span<std::byte> out, std::size_t& done) const;
  int size(InodeId file, std::uint64_t& out) const;
  int write(InodeId file, std::uint64_t from, ByteView bytes, std::uint32_t author);
  int cut(InodeId file, std::uint64_t size, std::uint32_t author);
  int sync_file(InodeId file);
  int drop_unsynced(InodeId file);
  const void* locked_by(InodeId file) const;  // whoever holds the advisory lock; null: nobody
  void lock(InodeId file, const void* holder, std::uint32_t process);
  void unlock(InodeId file, const void* holder);
  // POSIX locks that SQLite holds (sim/sqlite_vfs.h): the process, other than `process`, that has one there.
  std::function<std::int64_t(InodeId file, std::uint64_t at, std::uint64_t bytes, std::uint32_t process)> on_foreign_lock;
  void copy_tree(const SimFs& from, const std::string& source, const std::string& target);  // as it is read now, all of it durable
  std::uint32_t boots() const { return boots_; }
  // For replaying what a power loss may leave (sim/prefix_replay.cc).
  std::function<void()> before_sync;                    // of a file or folder that has something unsynced
  void record(const SimFs& from);                       // everything as it is there, unsynced operations too
  std::vector<std::uint64_t> unsynced() const;          // operations, in the order they were made
  std::vector<std::vector<std::uint64_t>> unsynced_by_file() const;  // the same of each file, and the names of each folder
  // `from` after a loss of power that kept just those; booted again. torn: of this one, when it is a write, only the first half.
  void become(const SimFs& from, const std::set<std::uint64_t>& kept, std::uint64_t torn = 0);
  // A file that appears whole under its name; synced: its bytes are durable, and its name is not.
  int create_whole(const std::string& path, ByteView bytes, bool synced, std::uint32_t author);
  bool is_folder(const std::string& path) const;
  int rename(const std::string& from, const std::string& to, std::uint32_t author);
  int remove(const std::string& path, std::uint32_t author);
  int sync_folder(const std::string& path);
  int make_folder(const std::string& path, std::uint32_t author);                                // one level; EEXIST is for the caller
  int list(const std::string& path, const std::string& after, std::size_t limit, std::vector<std::string>& out) const;

  std::function<void(const std::string& name, bool kept)> on_name_at_risk;  // of each unsynced name when the power goes
  std::function<void()> on_own_found;                                        // a link found the name taken by the same bytes
  void power_loss(std::uint32_t author);  // kEverybody: the machine that holds the disk
  bool unsynced_names(const std::string& folder) const;
  const std::string& name() const { return name_; }

 private:
  struct ByteOp {
    std::uint64_t id;
    std::uint32_t author;
    std::uint64_t from;  // cut: the new size
    Bytes bytes;
    bool dropped = false;
    bool cut = false;
  };
  struct NameOp {
    std::uint64_t id;  // the two halves of a rename across folders share it: kept or lost together
    std::uint32_t author;
    std::string name, old_name;  // old_name: what a rename inside the folder takes away
    InodeId inode;               // 0: removed
  };
  struct Inode {
    bool folder = false;
    Bytes bytes, durable_bytes;
    std::vector<ByteOp> byte_ops;
    std::map<std::string, InodeId> names, durable_names;
    std::vector<NameOp> name_ops;
  };
  Inode* find(const std::string& path) const;
  Inode* file(InodeId id) const;  // null: a folder
  Inode* parent_of(const std::string& path, std::string& leaf) const;
  void name_op(Inode& folder, NameOp op);
  static void apply(std::map<std::string, InodeId>& names, const NameOp& op);
  static void apply(Bytes& bytes, std::uint64_t from, ByteView with);
  static void apply(Bytes& bytes, const ByteOp& op);
  void lose_bytes(Inode& inode, std::uint32_t author);
  void lose_names(Inode& inode, std::uint32_t author, std::uint64_t salt);

  World& world_;
  std::string name_;
  InodeId next_ = 1;
  std::uint64_t next_op_ = 1;
  std::uint32_t boots_ = 1;
  struct FileLock {
    const void* holder;
    std::uint32_t process;
  };
  std::map<InodeId, FileLock> locks_;
  std::map<InodeId, std::unique_ptr<Inode>> inodes_;
};

inline constexpr std::string_view kBootIdPath = "/proc/sys/kernel/random/boot_id";  // every machine has it; another one after each loss of power

// Each call: a wait, the faults, the effect, a wait. Paths under `home_root` go to the home's filesystem, all others to the machine's own.
class SimDisk : public io::Disk {
 public:
  SimDisk(World& world, Process& process, SimFs& local, SimFs& home, std::string home_root);
  io::DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) override;
  io::DiskResult<std::uint64_t> size(const std::string& path) override;
  io::DiskResult<> create(const std::string& path, ByteView bytes, bool sync) override;
  io::DiskResult<> append(const std::string& path, ByteView bytes, bool sync) override;
  io::DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync) override;
  io::DiskResult<std::unique_ptr<io::DiskFile>> open(const std::string& path, io::OpenMode mode) override;
  io::DiskResult<io::FileIdentity> identity(const std::string& path) override;
  io::DiskResult<> link(const std::string& from, const std::string& to) override;
  // As the product's disk on Linux: a file without a name (O_TMPFILE), then linkat. No scratch name, no scratch folder.
  io::DiskResult<> create_whole(const std::string& path, ByteView bytes, bool sync, const std::string& scratch) override;
  io::DiskResult<> rename(const std::string& from, const std::string& to) override;
  io::DiskResult<> remove(const std::string& path) override;
  io::DiskResult<> sync_folder(const std::string& path) override;
  io::DiskResult<> make_folders(const std::string& path) override;
  io::DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) override;

  SimFs& fs(const std::string& path);
  World& world() { return world_; }
  Process& process() { return process_; }

 private:
  friend class SimFile;
  io::DiskError error(int code, std::string_view verb, const std::string& path);
  int begin(const std::string& path, std::string_view verb, bool writes);  // the wait before; 0 or the injected error
  int end(const std::string& path, std::string_view verb, int code);       // the wait after; EIO when the process died meanwhile
  io::DiskResult<> finish(const std::string& path, std::string_view verb, int code);
  io::DiskResult<> write(const std::string& path, std::string_view verb, std::uint64_t from, ByteView bytes, bool sync, bool at_end, bool must_be_new);
  int sync(SimFs& at, const std::string& path, bool folder);

  World& world_;
  Process& process_;
  SimFs& local_;
  SimFs& home_;
  std::string home_root_;
};

}  // namespace onepen::sim
