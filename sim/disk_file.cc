// An open file of the simulated disk. Reads rarely wait, since SQLite reads much; writes sometimes arrive in two halves; syncs always wait.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/checksum.h"
#include "sim/disk.h"

namespace onepen::sim {
namespace {
constexpr Nanos kLockPoll = 50 * kMilli;
constexpr std::uint32_t kReadWaits = 30, kWriteWaits = 300, kHalves = 60, kLongSyncs = 150;  // per mille
}  // namespace

class SimFile final : public io::DiskFile {
 public:
  SimFile(SimDisk& disk, SimFs& fs, SimFs::InodeId inode, std::string path) : disk_(disk), fs_(fs), inode_(inode), path_(std::move(path)) {}
  ~SimFile() override { fs_.unlock(inode_, this); }
  io::DiskResult<std::size_t> read_at(std::uint64_t from, std::span<std::byte> out) override;
  io::DiskResult<> write_at(std::uint64_t from, ByteView bytes) override;
  io::DiskResult<std::uint64_t> size() override;
  io::DiskResult<> cut(std::uint64_t size) override;
  io::DiskResult<> sync() override;
  io::DiskResult<bool> lock(bool wait) override;
  std::int64_t foreign_lock(std::uint64_t at, std::uint64_t bytes) override;

 private:
  int begin(std::string_view verb, bool writes, std::uint32_t waits);
  tl::unexpected<io::DiskError> failed(int code, std::string_view verb) { return tl::unexpected(disk_.error(code, verb, path_)); }

  SimDisk& disk_;
  SimFs& fs_;
  const SimFs::InodeId inode_;
  const std::string path_;
  const bool wal_ = path_.ends_with("-wal");
};

int SimFile::begin(std::string_view verb, bool writes, std::uint32_t waits) {
  World& world = disk_.world_;
  Process& process = disk_.process_;
  if (process.dead) return world.yield(), EIO;
  if (writes) ++process.writes;
  world.point(process);
  if (process.dead) return world.yield(), EIO;
  if (process.paused_until > world.now()) waits = 1000;  // it was stopped just now
  if (world.random().chance(waits) && !world.sleep(world.random().between(5, 400) * kMicro * process.link)) return EIO;
  if (world.random().chance(fs_.faults.eio)) return world.note("disk.eio", path_), EIO;
  if (writes && world.random().chance(fs_.faults.enospc)) return world.note("disk.enospc", path_), ENOSPC;
  if (writes || world.tracing()) world.note(verb, path_);
  return 0;
}

io::DiskResult<std::size_t> SimFile::read_at(std::uint64_t from, std::span<std::byte> out) {
  std::size_t done = 0;
  int code = begin("file.read", false, kReadWaits);
  if (code == 0) code = fs_.read(inode_, from, out, done);
  if (code != 0) return failed(code, "read");
  return done;
}

io::DiskResult<> SimFile::write_at(std::uint64_t from, ByteView bytes) {
  World& world = disk_.world_;
  Process& process = disk_.process_;
  int code = begin("file.write", true, kWriteWaits);
  if (code == ENOSPC) fs_.write(inode_, from, bytes.first(world.random().below(bytes.size() + 1)), process.machine);
  if (code != 0) return failed(code, "write");
  const std::size_t half = world.random().chance(kHalves) ? world.random().below(bytes.size() + 1) : bytes.size();
  if (wal_) process.wal_unpublished = true;
  code = fs_.write(inode_, from, bytes.first(half), process.machine);
  if (code == 0 && half < bytes.size()) {
    world.point(process);
    if (!world.sleep(world.random().between(1, 50) * kMicro)) return failed(EIO, "write");
    code = fs_.write(inode_, from + half, bytes.subspan(half), process.machine);
  }
  world.point(process);
  if (process.dead || code != 0) return failed(code != 0 ? code : EIO, "write");
  return {};
}

io::DiskResult<std::uint64_t> SimFile::size() {
  std::uint64_t out = 0;
  int code = begin("file.size", false, kReadWaits);
  if (code == 0) code = fs_.size(inode_, out);
  if (code != 0) return failed(code, "look at");
  return out;
}

io::DiskResult<> SimFile::cut(std::uint64_t size) {
  int code = begin("file.cut", true, kWriteWaits);
  if (code == 0) code = fs_.cut(inode_, size, disk_.process_.machine);
  disk_.world_.point(disk_.process_);
  if (disk_.process_.dead) code = EIO;
  if (code != 0) return failed(code, "cut");
  return {};
}

io::DiskResult<> SimFile::sync() {
  World& world = disk_.world_;
  int code = begin("file.sync", false, 1000);
  if (world.random().chance(kLongSyncs)) world.sleep(world.random().between(2, 60) * kMilli);  // as disks do: whoever reads beside goes on meanwhile
  if (code == 0 && world.random().chance(fs_.faults.eio_sync)) {
    world.note("disk.sync_eio", path_);
    fs_.drop_unsynced(inode_);
    code = EIO;
  }
  if (code == 0 && !world.random().chance(fs_.faults.lost_sync)) code = fs_.sync_file(inode_);
  world.point(disk_.process_);
  if (disk_.process_.dead) code = EIO;
  if (code != 0) return failed(code, "sync");
  return {};
}

io::DiskResult<bool> SimFile::lock(bool wait) {
  World& world = disk_.world_;
  for (;;) {
    if (const int code = begin("file.lock", false, kWriteWaits); code != 0) return failed(code, "lock");
    const void* holder = fs_.locked_by(inode_);
    if (holder == nullptr || holder == this) {
      fs_.lock(inode_, this, disk_.process_.id);
      return true;
    }
    if (!wait) return false;
    if (!world.sleep(kLockPoll)) return failed(EIO, "lock");
  }
}

std::int64_t SimFile::foreign_lock(std::uint64_t at, std::uint64_t bytes) {
  if (disk_.process_.dead || !fs_.on_foreign_lock) return 0;
  return fs_.on_foreign_lock(inode_, at, bytes, disk_.process_.id);
}

io::DiskResult<std::unique_ptr<io::DiskFile>> SimDisk::open(const std::string& path, io::OpenMode mode) {
  SimFs& at = fs(path);
  int code = begin(path, "open", mode == io::OpenMode::create);
  if (code == 0 && mode == io::OpenMode::create && at.find_id(path) == SimFs::kNone) code = at.create(path, {}, process_.machine);
  if (code == 0 && at.is_folder(path)) code = EISDIR;
  const SimFs::InodeId inode = at.find_id(path);
  if (code == 0 && inode == SimFs::kNone) code = ENOENT;
  if (process_.dead) code = EIO;
  if (code != 0) return tl::unexpected(error(code, "open", path));
  return std::make_unique<SimFile>(*this, at, inode, path);
}

io::DiskResult<io::FileIdentity> SimDisk::identity(const std::string& path) {
  int code = begin(path, "stat", false);
  const SimFs::InodeId inode = fs(path).find_id(path);
  if (code == 0 && inode == SimFs::kNone) code = ENOENT;
  if (process_.dead) code = EIO;
  if (code != 0) return tl::unexpected(error(code, "look at", path));
  return io::FileIdentity{xxh3(as_bytes(fs(path).name())), inode};
}

}  // namespace onepen::sim
