// A simulated filesystem (SimFs) and one process's view of the disks of its machine (SimDisk, the io::Disk port).
//
// What is kept apart: what a read shows now, and what a power loss would leave. Bytes are durable after a sync of their file, names after sync_folder of
// their folder (make_folders syncs each new folder into its parent). Power loss keeps, loses or tears each unsynced byte range and keeps or loses each
// unsynced name, each for itself, by the seed. A sync that failed drops what it was for: those bytes are still read, and never become durable,
// whatever later syncs say (Linux since 4.13). A failed sync_folder leaves its names unsynced: a journal that lost them would stop the filesystem.
// A shared filesystem (the home's directory used by several machines) loses, when one machine loses power, what that machine had not synced.
#pragma once
#include <map>
#include <memory>
#include <set>
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
  using InodeId = std::uint64_t;
  struct ByteOp {
    std::uint32_t author;
    std::uint64_t from;
    Bytes bytes;
    bool dropped = false;
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
  InodeId find_id(const std::string& path) const;
  Inode* parent_of(const std::string& path, std::string& leaf) const;
  void name_op(Inode& folder, NameOp op);
  static void apply(std::map<std::string, InodeId>& names, const NameOp& op);
  static void apply(Bytes& bytes, std::uint64_t from, ByteView with);
  void lose_bytes(Inode& inode, std::uint32_t author);
  void lose_names(Inode& inode, std::uint32_t author, std::uint64_t salt);

  World& world_;
  std::string name_;
  InodeId next_ = 1;
  std::uint64_t next_op_ = 1;
  std::map<InodeId, std::unique_ptr<Inode>> inodes_;
};

// Each call: a wait, the faults, the effect, a wait. Paths under `home_root` go to the home's filesystem, all others to the machine's own.
class SimDisk : public io::Disk {
 public:
  SimDisk(World& world, Process& process, SimFs& local, SimFs& home, std::string home_root);
  io::DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) override;
  io::DiskResult<std::uint64_t> size(const std::string& path) override;
  io::DiskResult<> create(const std::string& path, ByteView bytes, bool sync) override;
  io::DiskResult<> append(const std::string& path, ByteView bytes, bool sync) override;
  io::DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync) override;
  io::DiskResult<> link(const std::string& from, const std::string& to) override;
  // As the product's disk on Linux: a file without a name (O_TMPFILE), then linkat. No scratch name, no scratch folder.
  io::DiskResult<> create_whole(const std::string& path, ByteView bytes, bool sync, const std::string& scratch) override;
  io::DiskResult<> rename(const std::string& from, const std::string& to) override;
  io::DiskResult<> remove(const std::string& path) override;
  io::DiskResult<> sync_folder(const std::string& path) override;
  io::DiskResult<> make_folders(const std::string& path) override;
  io::DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) override;

 private:
  SimFs& fs(const std::string& path);
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
