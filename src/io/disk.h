// The disk port: the few file operations that durable code of ours needs, with their sync made explicit, so that a simulator can lose what was not
// synced. The product's is io/posix_disk.h. Paths are absolute. Thread-safe (each call stands alone). Blocking.
//
// A failed sync poisons what it was for: the caller never retries a sync on the same file and calls it good.
#pragma once
#include <cstdint>
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
