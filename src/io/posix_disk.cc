#include "io/posix_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <utility>

#include "base/failpoint.h"
#include "base/mutex.h"

namespace onepen::io {
namespace {

constexpr mode_t kFileMode = 0666, kFolderMode = 0777;  // the umask decides
constexpr mode_t kPrivateMode = 0600;                     // what is opened and kept open is one user's: local copies of databases

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};
using Folder = std::shared_ptr<Fd>;

template <class Call>
auto retry(Call call) {  // EINTR: nothing was done, do it again
  decltype(call()) r;
  do r = call();
  while (r < 0 && errno == EINTR);
  return r;
}

tl::unexpected<DiskError> failed(std::string_view verb, std::string_view path, int code) {
  const char* text = strerrordesc_np(code);
  return tl::unexpected(DiskError{code, fmt::format("cannot {} {}: {}", verb, path, text != nullptr ? text : "unknown error")});
}

struct Split {
  std::string folder, name;
};
Split split(const std::string& path) {
  auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// A folder kept open is only good while the path still leads to it: one that was removed, or moved aside and put back as a copy, would take writes that
// nobody else ever sees. Two calls, a microsecond, beside a sync of hundreds.
bool still_there(int fd, const std::string& path) {
  struct stat kept{}, now{};
  return ::fstat(fd, &kept) == 0 && ::stat(path.c_str(), &now) == 0 && kept.st_dev == now.st_dev && kept.st_ino == now.st_ino && kept.st_nlink > 0;
}

bool write_all(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    auto n = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

DiskResult<std::size_t> read_all(int fd, std::uint64_t from, std::span<std::byte> out, const std::string& path) {  // fewer at the end
  std::size_t done = 0;
  while (done < out.size()) {
    auto n = retry([&] { return ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(from + done)); });
    if (n < 0) return failed("read", path, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

DiskResult<> write_all_at(int fd, std::uint64_t from, ByteView bytes, const std::string& path) {
  while (!bytes.empty()) {
    auto n = retry([&] { return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(from)); });
    if (n < 0) return failed("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    from += static_cast<std::uint64_t>(n);
  }
  return {};
}

class PosixFile final : public DiskFile {
 public:
  PosixFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  DiskResult<std::size_t> read_at(std::uint64_t from, std::span<std::byte> out) override { return read_all(fd_.get(), from, out, path_); }
  DiskResult<> write_at(std::uint64_t from, ByteView bytes) override { return write_all_at(fd_.get(), from, bytes, path_); }
  DiskResult<std::uint64_t> size() override {
    struct stat st{};
    if (::fstat(fd_.get(), &st) != 0) return failed("look at", path_, errno);
    return static_cast<std::uint64_t>(st.st_size);
  }
  DiskResult<> cut(std::uint64_t size) override {
    if (retry([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) return failed("cut", path_, errno);
    return {};
  }
  DiskResult<> sync() override {
    if (retry([&] { return ::fdatasync(fd_.get()); }) != 0) return failed("sync", path_, errno);
    return {};
  }
  void sync_soon(std::uint64_t from, std::uint64_t bytes) override {
    // A failed write of these pages is told by the next sync.
    static_cast<void>(::sync_file_range(fd_.get(), static_cast<off64_t>(from), static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE));
  }
  DiskResult<bool> lock(bool wait) override {
    if (retry([&] { return ::flock(fd_.get(), LOCK_EX | (wait ? 0 : LOCK_NB)); }) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    return failed("lock", path_, errno);
  }
  std::int64_t foreign_lock(std::uint64_t at, std::uint64_t bytes) override {
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(at);
    range.l_len = static_cast<off_t>(bytes);
    return ::fcntl(fd_.get(), F_GETLK, &range) == 0 && range.l_type != F_UNLCK ? range.l_pid : 0;
  }

 private:
  Fd fd_;
  const std::string path_;
};

class PosixDisk final : public Disk {
 public:
  DiskResult<Bytes> read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) override;
  DiskResult<std::uint64_t> size(const std::string& path) override;
  DiskResult<> create(const std::string& path, ByteView bytes, bool sync) override;
  DiskResult<> create_whole(const std::string& path, ByteView bytes, bool sync, const std::string& scratch) override;
  DiskResult<> append(const std::string& path, ByteView bytes, bool sync) override;
  DiskResult<> write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync) override;
  DiskResult<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) override;
  DiskResult<FileIdentity> identity(const std::string& path) override;
  DiskResult<std::int64_t> modified_ns(const std::string& path) override;
  DiskResult<> link(const std::string& from, const std::string& to) override;
  DiskResult<> rename(const std::string& from, const std::string& to) override;
  DiskResult<> remove(const std::string& path) override;
  DiskResult<> sync_folder(const std::string& path) override;
  DiskResult<> make_folders(const std::string& path) override;
  DiskResult<std::vector<std::string>> list(const std::string& path, const std::string& after, std::size_t limit) override;

 private:
  Folder folder(const std::string& path);  // null: errno says why
  void keep(const std::string& path, Folder fd);
  void forget(const std::string& path);
  DiskResult<> unnamed(int folder_fd, const std::string& name, ByteView bytes, bool sync, const std::string& path, bool& unsupported);

  struct Entry {
    std::string path;
    Folder fd;
  };
  Mutex mutex_;
  std::list<Entry> open_ ONEPEN_GUARDED_BY(mutex_);  // most recently used first
};

Folder PosixDisk::folder(const std::string& path) {
  Folder kept;
  {
    Lock lock(mutex_);
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->path != path) continue;
      open_.splice(open_.begin(), open_, it);
      kept = open_.front().fd;
      break;
    }
  }
  if (kept && still_there(kept->get(), path)) return kept;
  if (kept) forget(path);
  int fd = retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return nullptr;
  auto opened = std::make_shared<Fd>(fd);
  keep(path, opened);
  return opened;
}

void PosixDisk::keep(const std::string& path, Folder fd) {
  std::list<Entry> dropped;  // closed after the lock is let go
  Lock lock(mutex_);
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    if (it->path != path) continue;
    dropped.splice(dropped.begin(), open_, it);
    break;
  }
  open_.push_front({path, std::move(fd)});
  if (open_.size() > kOpenFolders) dropped.splice(dropped.begin(), open_, std::prev(open_.end()));
}

void PosixDisk::forget(const std::string& path) {
  std::list<Entry> dropped;
  Lock lock(mutex_);
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    if (it->path != path) continue;
    dropped.splice(dropped.begin(), open_, it);
    break;
  }
}

DiskResult<Bytes> PosixDisk::read(const std::string& path, std::uint64_t from, std::uint64_t max_bytes) {
  Fd fd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!fd.ok()) return failed("open", path, errno);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return failed("read", path, errno);
  auto size = static_cast<std::uint64_t>(st.st_size);
  Bytes out(static_cast<std::size_t>(size <= from ? 0 : std::min(size - from, max_bytes)));
  auto done = read_all(fd.get(), from, out, path);
  if (!done) return tl::unexpected(done.error());
  out.resize(*done);
  return out;
}

DiskResult<std::uint64_t> PosixDisk::size(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return failed("look at", path, errno);
  return static_cast<std::uint64_t>(st.st_size);
}

DiskResult<> PosixDisk::create(const std::string& path, ByteView bytes, bool sync) {
  if (ONEPEN_FAILPOINT("disk.create")) return failed("create", path, EIO);
  Fd fd(retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode); }));
  if (!fd.ok()) return failed("create", path, errno);
  if (!write_all(fd.get(), bytes)) return failed("write", path, errno);
  if (sync && retry([&] { return ::fdatasync(fd.get()); }) != 0) return failed("sync", path, errno);
  return {};
}

// The bytes go into a file without a name, then get it in one step. Nothing to sweep after a crash.
DiskResult<> PosixDisk::unnamed(int folder_fd, const std::string& name, ByteView bytes, bool sync, const std::string& path, bool& unsupported) {
  Fd fd(retry([&] { return ::openat(folder_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, kFileMode); }));
  if (!fd.ok()) {
    unsupported = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    return failed("create", path, errno);
  }
  if (!write_all(fd.get(), bytes)) return failed("write", path, errno);
  if (sync && retry([&] { return ::fdatasync(fd.get()); }) != 0) return failed("sync", path, errno);
  if (ONEPEN_FAILPOINT("disk.before_link")) return failed("link", path, ENOSPC);
  std::array<char, 32> self{};
  fmt::format_to_n(self.data(), self.size() - 1, "/proc/self/fd/{}", fd.get());
  if (retry([&] { return ::linkat(AT_FDCWD, self.data(), folder_fd, name.c_str(), AT_SYMLINK_FOLLOW); }) == 0) return {};
  int code = errno;
  unsupported = code == ENOENT && ::access("/proc/self/fd", F_OK) != 0;  // no /proc here
  return failed("link", path, code);
}

DiskResult<> PosixDisk::create_whole(const std::string& path, ByteView bytes, bool sync, const std::string& scratch) {
  auto [dir, name] = split(path);
  for (int attempt = 0;; ++attempt) {
    auto open = folder(dir);
    if (!open) return failed("open", dir, errno);
    bool unsupported = false;
    auto made = unnamed(open->get(), name, bytes, sync, path, unsupported);
    if (made) return made;
    if (unsupported) return Disk::create_whole(path, bytes, sync, scratch);
    // The folder we held open was removed just now; perhaps it was made again. Filesystems say so with either code (ext4: EPERM).
    if ((made.error().code != ENOENT && made.error().code != EPERM) || attempt > 0) return made;
    forget(dir);
  }
}

DiskResult<> PosixDisk::append(const std::string& path, ByteView bytes, bool sync) {
  if (ONEPEN_FAILPOINT("disk.append")) return failed("append to", path, EIO);
  Fd fd(retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode); }));
  if (!fd.ok()) return failed("open", path, errno);
  if (!write_all(fd.get(), bytes)) return failed("append to", path, errno);
  if (sync && retry([&] { return ::fdatasync(fd.get()); }) != 0) return failed("sync", path, errno);
  return {};
}

DiskResult<> PosixDisk::write_at(const std::string& path, std::uint64_t from, ByteView bytes, bool sync) {
  if (ONEPEN_FAILPOINT("disk.write_at")) return failed("write", path, EIO);
  Fd fd(retry([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode); }));
  if (!fd.ok()) return failed("open", path, errno);
  if (auto written = write_all_at(fd.get(), from, bytes, path); !written) return written;
  if (sync && retry([&] { return ::fdatasync(fd.get()); }) != 0) return failed("sync", path, errno);
  return {};
}

DiskResult<std::unique_ptr<DiskFile>> PosixDisk::open(const std::string& path, OpenMode mode) {
  const int flags = mode == OpenMode::read ? O_RDONLY : mode == OpenMode::write ? O_RDWR : O_RDWR | O_CREAT;
  Fd fd(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kPrivateMode); }));
  if (!fd.ok()) return failed("open", path, errno);
  // Never one of the standard streams: a host that closed them would write its output into a database.
  if (fd.get() <= STDERR_FILENO) {
    Fd higher(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!higher.ok()) return failed("open", path, errno);
    return std::make_unique<PosixFile>(std::move(higher), path);
  }
  return std::make_unique<PosixFile>(std::move(fd), path);
}

DiskResult<FileIdentity> PosixDisk::identity(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return failed("look at", path, errno);
  return FileIdentity{st.st_dev, st.st_ino};
}

DiskResult<std::int64_t> PosixDisk::modified_ns(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return failed("look at", path, errno);
  return std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
}

DiskResult<> PosixDisk::link(const std::string& from, const std::string& to) {
  if (ONEPEN_FAILPOINT("disk.before_link")) return failed("link", to, ENOSPC);
  if (::link(from.c_str(), to.c_str()) != 0) return failed("link", to, errno);
  return {};
}

DiskResult<> PosixDisk::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename to", to, errno);
  return {};
}

DiskResult<> PosixDisk::remove(const std::string& path) {
  if (::remove(path.c_str()) != 0) return failed("remove", path, errno);
  return {};
}

DiskResult<> PosixDisk::sync_folder(const std::string& path) {
  if (ONEPEN_FAILPOINT("disk.before_folder_sync")) return failed("sync", path, EIO);
  auto open = folder(path);
  if (!open) return failed("open", path, errno);
  if (retry([&] { return ::fsync(open->get()); }) != 0) return failed("sync", path, errno);
  if (ONEPEN_FAILPOINT("disk.after_folder_sync")) return failed("sync", path, EIO);
  return {};
}

// Top down, each synced into its parent before the next is made: so whoever finds a folder knows that the ones above it are durable, and only its own
// entry may not be (somebody else may be between mkdir and sync).
DiskResult<> PosixDisk::make_folders(const std::string& path) {
  auto [parent, name] = split(path);
  if (name.empty()) return {};
  auto made = retry([&] { return ::mkdir(path.c_str(), kFolderMode); });
  if (made != 0 && errno == ENOENT) {
    if (auto above = make_folders(parent); !above) return above;
    made = retry([&] { return ::mkdir(path.c_str(), kFolderMode); });
  }
  bool existed = made != 0 && errno == EEXIST;
  if (made != 0 && !existed) return failed("make folder", path, errno);
  if (existed) {
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) return failed("look at", path, errno);
    if (!S_ISDIR(st.st_mode)) return failed("make folder", path, ENOTDIR);
  } else {
    forget(path);
  }
  auto synced = sync_folder(parent);
  if (!synced && existed && synced.error().code == EACCES) return {};  // it was there, and who made it could sync it
  return synced;
}

DiskResult<std::vector<std::string>> PosixDisk::list(const std::string& path, const std::string& after, std::size_t limit) {
  int raw = retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (raw < 0) return failed("open folder", path, errno);
  auto fd = std::make_shared<Fd>(raw);
  std::vector<std::string> names;
  alignas(dirent64) std::array<char, 32768> buffer;
  for (;;) {
    auto n = ::syscall(SYS_getdents64, fd->get(), buffer.data(), buffer.size());
    if (n < 0) return failed("list", path, errno);
    if (n == 0) break;
    for (long at = 0; at < n;) {
      auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      std::string_view name = entry->d_name;
      if (name != "." && name != ".." && name > after) names.emplace_back(name);
      at += entry->d_reclen;
    }
  }
  keep(path, std::move(fd));
  std::sort(names.begin(), names.end());
  if (names.size() > limit) names.resize(limit);
  return names;
}

}  // namespace

std::unique_ptr<Disk> make_posix_disk() { return std::make_unique<PosixDisk>(); }

}  // namespace onepen::io
