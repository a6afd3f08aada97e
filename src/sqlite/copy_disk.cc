#include "sqlite/copy_disk.h"

#include <fmt/format.h>

#include <cerrno>

#include "io/paths.h"

namespace onepen::sqlite {
namespace {
constexpr std::size_t kPieceBytes = 1u << 20;
}  // namespace

Error of_disk(const io::DiskError& error) { return Error{error.code == ENOENT ? Outcome::not_found : Outcome::unavailable, error.message, std::nullopt}; }

tl::unexpected<Error> io_failed(std::string_view what, const std::string& path) {
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("cannot {} {}: Input/output error", what, path), std::nullopt});
}

Result<DiskFilePtr> open_on(io::Disk& disk, const std::string& path, io::OpenMode mode) { return of_disk(disk.open(path, mode)); }

bool is_there(io::Disk& disk, const std::string& path) { return disk.size(path).has_value(); }

Result<> remove_from(io::Disk& disk, const std::string& path) {
  auto removed = disk.remove(path);
  if (removed || removed.error().code == ENOENT) return {};
  return tl::unexpected(of_disk(removed.error()));
}

Result<> rename_on(io::Disk& disk, const std::string& from, const std::string& to) { return of_disk(disk.rename(from, to)); }

Result<> copy_bytes(io::DiskFile& from, io::DiskFile& to) {
  Bytes piece(kPieceBytes);
  for (std::uint64_t at = 0;;) {
    auto got = of_disk(from.read_at(at, piece));
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) return {};
    if (auto put = of_disk(to.write_at(at, ByteView(piece).first(*got))); !put) return put;
    at += *got;
  }
}

Result<> write_again(io::Disk& disk, const std::string& path, const std::string& scratch) {
  auto file = open_on(disk, path, io::OpenMode::read);
  if (!file) return file.error().outcome == Outcome::not_found ? Result<>{} : tl::unexpected(file.error());
  auto fresh = open_on(disk, scratch, io::OpenMode::create);
  if (!fresh) return tl::unexpected(fresh.error());
  if (auto cut = of_disk((*fresh)->cut(0)); !cut) return cut;
  if (auto copied = copy_bytes(**file, **fresh); !copied) return copied;
  if (auto synced = of_disk((*fresh)->sync()); !synced) return synced;
  if (auto moved = rename_on(disk, scratch, path); !moved) return moved;
  return of_disk(disk.sync_folder(io::folder_of(path)));
}

Result<FileStamp> stamp_of(io::Disk& disk, const std::string& path) {
  FileStamp stamp;
  auto identity = disk.identity(path);
  if (!identity && identity.error().code == ENOENT) return stamp;
  if (!identity) return tl::unexpected(of_disk(identity.error()));
  stamp.inode = identity->inode;
  auto size = disk.size(path);
  if (!size) return tl::unexpected(of_disk(size.error()));
  stamp.size = *size;
  auto modified = disk.modified_ns(path);
  if (!modified) return tl::unexpected(of_disk(modified.error()));
  stamp.modified_ns = *modified;
  return stamp;
}

}  // namespace onepen::sqlite
