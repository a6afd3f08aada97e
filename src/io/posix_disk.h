// Disk over POSIX: every file opened O_CLOEXEC, writes complete or fail, EINTR repeated, syncs exactly where the port says.
//
// Folder descriptors are kept open (at most kOpenFolders), because a create in a folder is the product's hot path: create_whole + sync_folder cost
// open(O_TMPFILE), write, fdatasync, linkat, fsync(folder), close and nothing else. list() opens its folder afresh by path and keeps that descriptor, so
// that a folder that was removed and made again is not mistaken for the old one by readers.
// Thread-safe. Failpoints: disk.create, disk.before_link, disk.before_folder_sync, disk.after_folder_sync, disk.append, disk.write_at.
#pragma once
#include <memory>

#include "io/disk.h"

namespace onepen::io {

inline constexpr std::size_t kOpenFolders = 64;

std::unique_ptr<Disk> make_posix_disk();

}  // namespace onepen::io
