#include "sqlite/copy_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace onepen::sqlite {

Error file_error(std::string_view what, const std::string& path, int code) {
  return Error{code == ENOENT ? Outcome::not_found : Outcome::unavailable, fmt::format("cannot {} {}: {}", what, path, std::strerror(code)), std::nullopt};
}
namespace {
tl::unexpected<Error> failed(std::string_view what, const std::string& path) { return tl::unexpected(file_error(what, path, errno)); }
}  // namespace

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}
int File::release() { return std::exchange(fd_, -1); }
void File::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<File> open_file(const std::string& path, OpenMode mode) {
  const int flags = O_CLOEXEC | (mode == OpenMode::read ? O_RDONLY : O_RDWR) | (mode == OpenMode::create ? O_CREAT : 0);
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd < 0) return failed("open", path);
  // Never one of the standard streams: a host that closed them would write its output into the database.
  if (fd <= STDERR_FILENO) {
    const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int code = errno;
    ::close(fd);
    if (higher < 0) return tl::unexpected(file_error("open", path, code));
    return File(higher);
  }
  return File(fd);
}

Result<std::size_t> read_at(int fd, std::uint64_t from, std::span<std::byte> out, const std::string& path) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Result<> write_at(int fd, std::uint64_t from, ByteView bytes, const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(from + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("write", path);
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Result<std::uint64_t> file_size(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return failed("look at", path);
  return static_cast<std::uint64_t>(info.st_size);
}
Result<> cut_file(int fd, std::uint64_t size, const std::string& path) {
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) return failed("resize", path);
  return {};
}
Result<> sync_file(int fd, const std::string& path) {
  if (::fdatasync(fd) != 0) return failed("sync", path);
  return {};
}
Result<> move_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("move", from + " to " + to);
  return {};
}
Result<> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("remove", path);
  return {};
}
bool file_exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace onepen::sqlite
