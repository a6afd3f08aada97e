// Small POSIX helpers for the copy's own files: everything close-on-exec, whole reads and writes, errors as sentences. Thread-safe.
//
// The database file of a copy is opened here only while no SQLite connection of this process is on it: closing any descriptor of a file drops the
// POSIX locks that SQLite holds on it (sqlite.org/lockingv3, "howtocorrupt" 2.2).
#pragma once
#include <cstdint>
#include <string>

#include <onepen/result.h>
#include "base/bytes.h"

namespace onepen::sqlite {

class File {  // owns a descriptor
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(other.release()) {}
  File& operator=(File&& other) noexcept;
  ~File() { close(); }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

enum class OpenMode : std::uint8_t { read, write, create };  // create: read and write, made when absent

// Errors of all: unavailable (what failed, on which path, errno's text); opening an absent file: not_found.
Result<File> open_file(const std::string& path, OpenMode mode);
Result<std::size_t> read_at(int fd, std::uint64_t from, std::span<std::byte> out, const std::string& path);  // fewer at the end
Result<> write_at(int fd, std::uint64_t from, ByteView bytes, const std::string& path);
Result<std::uint64_t> file_size(int fd, const std::string& path);
Result<> cut_file(int fd, std::uint64_t size, const std::string& path);
Result<> sync_file(int fd, const std::string& path);  // fdatasync; a failure is final for the file
Result<> move_file(const std::string& from, const std::string& to);
Result<> remove_file(const std::string& path);  // absent is fine
bool file_exists(const std::string& path);
Error file_error(std::string_view what, const std::string& path, int code);

}  // namespace onepen::sqlite
