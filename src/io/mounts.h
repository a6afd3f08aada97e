// Which filesystem a path lies on, from the text of /proc/self/mountinfo (proc(5)). The parser is pure, so that tests can feed it any mount.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace onepen::io {

struct Mount {
  std::string point;    // where it is mounted
  std::string type;     // "ext4", "nfs4", "fuse.sshfs"
  std::string source;
  std::string options;  // of the mount and of its superblock, comma separated: "rw,relatime,lookupcache=none"
  bool has_option(std::string_view option) const;  // whole option, "lookupcache=none"
};

// The mount that `path` (absolute, without symbolic links) lies on: the longest mount point above it, the last one mounted there. None: not told.
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view path);

// True for filesystems of this machine by name: what one process does there (a link, a lock, a listing) every other process sees at once. Network and
// user-space filesystems are not among them, nor is any name that is not known.
bool local_filesystem(std::string_view type);

// The deepest folder at or above `path` (absolute) that exists, without symbolic links; "/" when nothing else does.
std::string existing_above(const std::string& path);

// The name of a local filesystem by its statfs(2) magic; empty: not known as local.
std::string_view local_filesystem_by_magic(std::int64_t magic);

// The text of /proc/self/mountinfo. Where it says nothing of `real_path` (in a chroot it lists only what was mounted inside) and statfs(2) knows a local
// filesystem there, a line for "/" says so at its end.
std::string mountinfo_for(const std::string& real_path);

// What a path is, before anything is opened there.
struct PathFacts {
  bool exists = false, folder = false, parent_exists = false;
  bool readable = false;  // this process may list it and read in it
  bool writable = false;  // this process may create in it (in its parent, when it does not exist)
  std::string real;       // without symbolic links; of the parent when the path does not exist
};
PathFacts look_at(const std::string& path);

}  // namespace onepen::io
