// A file read through the platform's VFS, as SQLite's own: beside open connections of this process it drops none of their locks when it is closed, which a
// plain descriptor would. Read only. One thread.
#pragma once
#include <memory>
#include <span>
#include <string>

#include <onepen/result.h>
#include "sqlite/api.h"

namespace onepen::sqlite {

class PlatformFile {
 public:
  // Errors: unavailable.
  static Result<std::unique_ptr<PlatformFile>> open(const std::string& path);
  ~PlatformFile();
  PlatformFile(const PlatformFile&) = delete;
  PlatformFile& operator=(const PlatformFile&) = delete;
  sqlite3_file* file() const { return file_; }  // for its locks and the index of its WAL
  Result<> read(std::uint64_t from, std::span<std::byte> out);  // zeros beyond the end

 private:
  PlatformFile() = default;
  std::string path_;
  sqlite3_filename name_ = nullptr;  // SQLite keeps pointing to it
  sqlite3_file* file_ = nullptr;
};

}  // namespace onepen::sqlite
