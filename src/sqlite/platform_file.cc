#include "sqlite/platform_file.h"

#include <fmt/format.h>

#include <cstring>

#include "sqlite/vfs.h"

namespace onepen::sqlite {

Result<std::unique_ptr<PlatformFile>> PlatformFile::open(const std::string& path) {
  sqlite3_vfs* const vfs = platform_vfs();
  std::unique_ptr<PlatformFile> made(new PlatformFile);
  made->path_ = path;
  made->name_ = sqlite3_create_filename(path.c_str(), "", "", 0, nullptr);
  made->file_ = static_cast<sqlite3_file*>(sqlite3_malloc(vfs->szOsFile));
  int rc = SQLITE_NOMEM;
  if (made->name_ != nullptr && made->file_ != nullptr) {
    std::memset(static_cast<void*>(made->file_), 0, static_cast<std::size_t>(vfs->szOsFile));
    rc = vfs->xOpen(vfs, made->name_, made->file_, SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READONLY, nullptr);
  }
  if (rc == SQLITE_OK) return made;
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("cannot open {} (SQLite code {})", path, rc), {}});
}

PlatformFile::~PlatformFile() {
  if (file_ != nullptr && file_->pMethods != nullptr) file_->pMethods->xClose(file_);
  sqlite3_free(file_);
  if (name_ != nullptr) sqlite3_free_filename(name_);
}

Result<> PlatformFile::read(std::uint64_t from, std::span<std::byte> out) {
  const int rc = file_->pMethods->xRead(file_, out.data(), static_cast<int>(out.size()), static_cast<sqlite3_int64>(from));
  if (rc == SQLITE_OK || rc == SQLITE_IOERR_SHORT_READ) return {};  // the rest was filled with zeros
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("cannot read {} (SQLite code {})", path_, rc), {}});
}

}  // namespace onepen::sqlite
