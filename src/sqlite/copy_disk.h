// The copy's own files over the Disk port, so that the simulator can run all of it: the port's errors as sentences of ours. Thread-safe.
//
// The database file of a copy is opened through it only while no SQLite connection of this process is on it: closing any descriptor of a file drops the
// POSIX locks that SQLite holds on it (sqlite.org/lockingv3, "howtocorrupt" 2.2).
#pragma once
#include <memory>
#include <string>
#include <type_traits>

#include <onepen/result.h>
#include "io/disk.h"

namespace onepen::sqlite {

using DiskFilePtr = std::unique_ptr<io::DiskFile>;

Error of_disk(const io::DiskError& error);  // not_found when the file is absent, else unavailable
template <class T>
Result<T> of_disk(io::DiskResult<T> done) {
  if (!done) return tl::unexpected(of_disk(done.error()));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*done);
  }
}
tl::unexpected<Error> io_failed(std::string_view what, const std::string& path);  // "cannot <what> <path>: Input/output error": what a failpoint makes fail

Result<DiskFilePtr> open_on(io::Disk& disk, const std::string& path, io::OpenMode mode);
bool is_there(io::Disk& disk, const std::string& path);
Result<> remove_from(io::Disk& disk, const std::string& path);  // absent is fine
Result<> rename_on(io::Disk& disk, const std::string& from, const std::string& to);
Result<> copy_bytes(io::DiskFile& from, io::DiskFile& to);  // all of them, to the same places
// Puts the file's bytes into a new file, synced, under the same name. What a failed sync did not write counts as written for the kernel from then on: later
// syncs succeed without it, and a loss of power takes it ("fsyncgate"; fsync(2), EIO). Only writing it again brings it to the disk; not in place, where a loss of
// power in the middle could take bytes that were safe. `scratch`: beside it. Absent is fine. While nobody has the file open.
Result<> write_again(io::Disk& disk, const std::string& path, const std::string& scratch);

// What tells whether a file is still as it was left: another file, another size, or written to since.
struct FileStamp {
  std::uint64_t inode = 0, size = 0;  // 0: there is none
  std::int64_t modified_ns = 0;  // 0: the disk does not tell
  bool operator==(const FileStamp&) const = default;
};
Result<FileStamp> stamp_of(io::Disk& disk, const std::string& path);

}  // namespace onepen::sqlite
