#include "sim/disk.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace onepen::sim {
namespace {
constexpr std::int64_t kFastestMicro = 5, kUsualMicro = 400;
}

SimDisk::SimDisk(World& world, Process& process, SimFs& local, SimFs& home, std::string home_root)
    : world_(world), process_(process), local_(local), home_(home), home_root_(std::move(home_root)) {}

SimFs& SimDisk::fs(const std::string& path) { return path == home_root_ || path.starts_with(home_root_ + "/") ? home_ : local_; }

io::DiskError SimDisk::error(int code, std::string_view verb, const std::string& path) {
  return io::DiskError{code, fmt::format("cannot {} {}: {}", verb, path, ::strerrordesc_np(code))};
}

int SimDisk::begin(const std::string& path, std::string_view verb, bool writes) {
  if (process_.dead) return world_.yield(), EIO;
  DiskFaults& faults = fs(path).faults;
  const bool slow = world_.random().chance(faults.slow);
  const Nanos wait = slow ? world_.random().between(1, faults.slow_ms) * kMilli : world_.random().between(kFastestMicro, kUsualMicro) * kMicro * process_.link;
  if (writes) ++process_.writes;
  if (writes && (path == home_root_ || path.starts_with(home_root_ + "/"))) ++process_.home_writes;
  world_.point(process_);
  if (!world_.sleep(wait)) return EIO;
  if (world_.random().chance(faults.eio)) return world_.note("disk.eio", path), EIO;
  if (writes && world_.random().chance(faults.enospc)) return world_.note("disk.enospc", path), ENOSPC;
  world_.note(verb, path);
  return 0;
}

int SimDisk::end(const std::string&, std::string_view, int code) {
  world_.point(process_);
  world_.sleep(world_.random().between(kFastestMicro, kUsualMicro) * kMicro * process_.link);
  return process_.dead ? EIO : code;
}

io::DiskResult<> SimDisk::finish(const std::string& path, std::string_view verb, int code) {
  code = end(path, verb, code);
  if (code != 0) return tl::unexpected(error(code, verb, path));
  return {};
}

int SimDisk::sync(SimFs& at, const std::string& path, bool folder) {
  if (world_.random().chance(at.faults.eio_sync)) {
    world_.note("disk.sync_eio", path);
    if (!folder) at.drop_unsynced(path);
    return EIO;
  }
  if (world_.random().chance(at.faults.lost_sync)) return world_.note("disk.lost_sync", path), 0;
  world_.note(folder ? "disk.sync_folder" : "disk.sync", path);
  return folder ? at.sync_folder(path) : at.sync_file(path);
}

io::DiskResult<Bytes> SimDisk::read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) {
  Bytes out;
  int code = begin(path, "read", false);
  if (code == 0 && path == kBootIdPath) {
    out = to_bytes(as_bytes(fmt::format("{:08x}-0000-4000-8000-{:012x}\n", local_.boots(), process_.machine)));
    out.resize(std::min<std::uint64_t>(out.size(), max_bytes));
  } else if (code == 0) {
    code = fs(path).read(path, from, max_bytes, out);
  }
  code = end(path, "read", code);
  if (code != 0) return tl::unexpected(error(code, "read", path));
  return out;
}

io::DiskResult<std::uint64_t> SimDisk::size(const std::string& path) {
  std::uint64_t out = 0;
  int code = begin(path, "stat", false);
  if (code == 0) code = fs(path).size(path, out);
  code = end(path, "stat", code);
  if (code != 0) return tl::unexpected(error(code, "stat", path));
  return out;
}

io::DiskResult<> SimDisk::write(const std::string& path, std::string_view verb, std::uint64_t from, ByteView bytes, bool sync_it, bool at_end,
                                bool must_be_new) {
  SimFs& at = fs(path);
  const std::uint32_t author = process_.machine;
  int code = begin(path, verb, true);
  if (code == EIO && process_.dead) return tl::unexpected(error(code, verb, path));
  std::uint64_t here = 0;
  const bool there = at.size(path, here) == 0;
  if (code == 0 && must_be_new && there) code = EEXIST;
  if (code == 0 && !there) code = at.create(path, {}, author);
  if (code == ENOSPC && there && !must_be_new) {  // a full disk takes a part of the bytes
    at.write(path, at_end ? here : from, bytes.first(world_.random().below(bytes.size() + 1)), author);
  }
  if (code != 0) return finish(path, verb, code);
  // The bytes arrive in two halves: a kill in between leaves the first, and so may a reader see it.
  const std::size_t half = world_.random().below(bytes.size() + 1);
  const std::uint64_t start = at_end ? here : from;
  code = at.write(path, start, bytes.first(half), author);
  if (code == 0 && half < bytes.size()) {
    world_.point(process_);
    if (!world_.sleep(world_.random().between(1, 50) * kMicro)) return tl::unexpected(error(EIO, verb, path));
    code = at.write(path, start + half, bytes.subspan(half), author);
  }
  if (code == 0 && sync_it) {
    world_.point(process_);
    if (!world_.sleep(world_.random().between(kFastestMicro, kUsualMicro) * kMicro)) return tl::unexpected(error(EIO, verb, path));
    code = sync(at, path, false);
  }
  return finish(path, verb, code);
}

io::DiskResult<> SimDisk::create(const std::string& path, ByteView bytes, bool sync_it) { return write(path, "create", 0, bytes, sync_it, false, true); }
io::DiskResult<> SimDisk::append(const std::string& path, ByteView bytes, bool sync_it) { return write(path, "append to", 0, bytes, sync_it, true, false); }
io::DiskResult<> SimDisk::write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync_it) {
  return write(path, "write", from, bytes, sync_it, false, false);
}

io::DiskResult<> SimDisk::link(const std::string& from, const std::string& to) {
  int code = begin(to, "link", true);
  if (code == 0) code = fs(to).link(from, to, process_.machine);
  return finish(to, "link", code);
}

io::DiskResult<> SimDisk::create_whole(const std::string& path, ByteView bytes, bool sync_it, const std::string& scratch) {
  SimFs& at = fs(path);
  if (!at.unnamed_files) return io::Disk::create_whole(path, bytes, sync_it, scratch);
  int code = begin(path, "create whole", true);
  if (code == 0 && !at.is_folder(path.substr(0, path.find_last_of('/')))) code = ENOENT;
  bool durable = false;
  if (code == 0 && sync_it) {  // a failed sync: the file never gets its name
    world_.point(process_);
    if (!world_.sleep(world_.random().between(kFastestMicro, kUsualMicro) * kMicro)) return tl::unexpected(error(EIO, "create", path));
    if (world_.random().chance(at.faults.eio_sync)) code = EIO;
    durable = !world_.random().chance(at.faults.lost_sync);
  }
  world_.point(process_);
  if (code == 0 && !world_.sleep(world_.random().between(1, 50) * kMicro)) return tl::unexpected(error(EIO, "create", path));
  if (code == 0) code = at.create_whole(path, bytes, durable, process_.machine);
  if (code == 0) world_.note("disk.linked", path);
  return finish(path, "create", code);
}

io::DiskResult<> SimDisk::rename(const std::string& from, const std::string& to) {
  int code = begin(to, "rename", true);
  if (code == 0) code = fs(to).rename(from, to, process_.machine);
  return finish(to, "rename", code);
}

io::DiskResult<> SimDisk::remove(const std::string& path) {
  int code = begin(path, "remove", true);
  if (code == ENOSPC) code = 0;  // taking away needs no room
  if (code == 0) code = fs(path).remove(path, process_.machine);
  return finish(path, "remove", code);
}

io::DiskResult<> SimDisk::sync_folder(const std::string& path) {
  int code = begin(path, "sync folder", false);
  if (code == 0) code = sync(fs(path), path, true);
  return finish(path, "sync folder", code);
}

io::DiskResult<> SimDisk::make_folders(const std::string& path) {
  int code = begin(path, "make folder", true);
  for (std::size_t end = path.find('/', 1); code == 0; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    code = fs(path).make_folder(part, process_.machine);
    if (code == EEXIST) code = 0;  // synced all the same: whoever made it may not have got that far
    world_.point(process_);
    if (code == 0 && !world_.sleep(world_.random().between(1, 50) * kMicro)) code = EIO;
    const std::size_t slash = part.find_last_of('/');
    if (code == 0) code = sync(fs(path), slash == 0 ? "/" : part.substr(0, slash), true);
    if (end == std::string::npos) break;
  }
  return finish(path, "make folder", code);
}

io::DiskResult<std::vector<std::string>> SimDisk::list(const std::string& path, const std::string& after, std::size_t limit) {
  std::vector<std::string> out;
  int code = begin(path, "list", false);
  if (code == 0) code = fs(path).list(path, after, limit, out);
  code = end(path, "list", code);
  if (code != 0) return tl::unexpected(error(code, "list", path));
  return out;
}

}  // namespace onepen::sim
