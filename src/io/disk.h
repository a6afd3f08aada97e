// The disk port: the few file operations that durable code of ours needs, with their sync made explicit, so that a simulator can lose what was not
// synced. The product's is io/posix_disk.h. Paths are absolute. Thread-safe (each call stands alone). Blocking.
//
// A failed sync poisons what it was for: the caller never retries a sync on the same file and calls it good.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>
#include "base/bytes.h"

namespace onepen::io {

struct DiskError {
  int code = 0;         // errno
  std::string message;  // "cannot create /x/y: No space left on device"
};
template <class T = void>
using DiskResult = tl::expected<T, DiskError>;

enum class OpenMode : std::uint8_t { read, write, create };  // create: read and write, made when absent

// An open file. read_at and write_at may be called from several threads at once; the destructor closes.
class DiskFile {
 public:
  virtual ~DiskFile() = default;
  virtual DiskResult<std::size_t> read_at(std::uint64_t from, std::span<std::byte> out) = 0;  // fewer at the end
  virtual DiskResult<> write_at(std::uint64_t from, ByteView bytes) = 0;
  virtual DiskResult<std::uint64_t> size() = 0;
  virtual DiskResult<> cut(std::uint64_t size) = 0;  // or grow, by zeros
  virtual DiskResult<> sync() = 0;                   // bytes and size; a failure is final for the file
  // These bytes will be synced and not be written again soon: a hint, so that a later sync has less to wait for. Promises nothing, and does not wait.
  virtual void sync_soon(std::uint64_t from, std::uint64_t bytes) { static_cast<void>(from), static_cast<void>(bytes); }
  // An advisory lock on the whole file until it is closed or the process ends. false: another process has it (never, with wait).
  virtual DiskResult<bool> lock(bool wait) = 0;
  // Process id of another process that holds a POSIX lock in this range, as SQLite's are; 0: none, or not to be told.
  virtual std::int64_t foreign_lock(std::uint64_t at, std::uint64_t bytes) = 0;
};

struct FileIdentity {  // changes when a file is another one under the same name
  std::uint64_t device = 0, inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) = 0;  // up to max_bytes; fewer at the end
  virtual DiskResult<std::uint64_t> size(const std::string& path) = 0;
  // A new file with these bytes; EEXIST when the name is taken. sync: the bytes are durable when it returns (the name is not, see sync_folder).
  virtual DiskResult<> create(const std::string& path, ByteView bytes, bool sync) = 0;
  virtual DiskResult<> append(const std::string& path, ByteView bytes, bool sync) = 0;  // creates the file when absent
  // Overwrites in place (creates when absent). Not atomic: the caller's format survives a torn write.
  virtual DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync) = 0;
  virtual DiskResult<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) = 0;  // ENOENT when absent
  virtual DiskResult<FileIdentity> identity(const std::string& path) = 0;
  // When the file's bytes were last changed, in nanoseconds of any clock; equal values mean "not changed between". 0: not told.
  virtual DiskResult<std::int64_t> modified_ns(const std::string& path) {
    (void)path;
    return std::int64_t{0};
  }
  virtual DiskResult<> link(const std::string& from, const std::string& to) = 0;         // EEXIST when `to` is taken; atomic
  virtual DiskResult<> rename(const std::string& from, const std::string& to) = 0;       // replaces `to`; atomic
  virtual DiskResult<> remove(const std::string& path) = 0;
  // A new file with these bytes, whose name appears at once and whole; EEXIST when `path` is taken. sync: the bytes are durable before the name appears
  // (the name is not, see sync_folder). `scratch` is a path on the same filesystem that may hold the bytes on the way and be left behind by a crash.
  // The product has a quicker way (O_TMPFILE, where the filesystem knows it: one journal commit less); the meaning is this one.
  virtual DiskResult<> create_whole(const std::string& path, ByteView bytes, bool sync, const std::string& scratch) {
    if (auto made = create(scratch, bytes, sync); !made) return made;
    auto linked = link(scratch, path);
    (void)remove(scratch);  // only tidies: what stays is swept later
    return linked;
  }
  virtual DiskResult<> sync_folder(const std::string& path) = 0;                         // names made, moved and removed in it are durable
  virtual DiskResult<> make_folders(const std::string& path) = 0;                        // with parents, each synced into its parent
  // Names in the folder (not the path), sorted, strictly after `after`, at most `limit`; ENOENT when there is no folder.
  virtual DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) = 0;
};

}  // namespace onepen::io
