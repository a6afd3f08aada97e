/* LD_PRELOAD shim: makes chosen file operations of a process fail, as a full or dying disk would.
 *
 *   ONEPEN_FAULT=<call>|<glob of the path>|<N>|<errno>[|once|sticky|short|hold][;...]
 *       call: write sync truncate create link linked rename mmap mkdir (each stands for all libc functions of its kind, 64-bit variants included);
 *             linked: after a link was made, so that its answer alone is lost
 *       N: the N-th such call fails; sticky: and all after it; short: half of it is written, then it fails (ENOSPC as it really comes);
 *       hold: its thread waits there until it is let go, then it fails with errno (OK: it goes on)
 *   ONEPEN_FAULT_HOLD=<path>    of two FIFOs, <path>.held, opened for writing by the thread that waits, and <path>.go, opened for reading until it may go on
 *   ONEPEN_FAULT_ARM=<file>     counting begins only once this file exists
 *   ONEPEN_FAULT_ROOT=<folder>  only paths below it are looked at
 *   ONEPEN_FAULT_LOG=<file>     each call that was looked at, one a line: "<call> <path>"
 *   ONEPEN_FAULT_FIRED=<file>   each call that was failed, one a line
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_RULES = 8, GO_ON = 0, SHORT = -1, NO_ERROR = 0 };

struct rule {
  char call[16];
  char pattern[PATH_MAX];
  long left;
  int error;
  int sticky, is_short, hold;
};

static struct rule rules[MAX_RULES];
static int rule_count;
static const char *arm_file, *root, *log_file, *fired_file, *hold_path;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int armed;

static int error_number(const char *name) {
  if (strcmp(name, "OK") == 0) return NO_ERROR;
  if (strcmp(name, "EIO") == 0) return EIO;
  if (strcmp(name, "ENOSPC") == 0) return ENOSPC;
  if (strcmp(name, "EDQUOT") == 0) return EDQUOT;
  if (strcmp(name, "ENOMEM") == 0) return ENOMEM;
  if (strcmp(name, "EACCES") == 0) return EACCES;
  return atoi(name);
}

static void set_up(void) {
  arm_file = getenv("ONEPEN_FAULT_ARM");
  root = getenv("ONEPEN_FAULT_ROOT");
  log_file = getenv("ONEPEN_FAULT_LOG");
  fired_file = getenv("ONEPEN_FAULT_FIRED");
  hold_path = getenv("ONEPEN_FAULT_HOLD");
  armed = arm_file == NULL;
  const char *text = getenv("ONEPEN_FAULT");
  if (text == NULL) return;
  char *copy = strdup(text), *rest = copy, *one;
  while ((one = strsep(&rest, ";")) != NULL && rule_count < MAX_RULES) {
    struct rule *r = &rules[rule_count];
    const char *call = strsep(&one, "|"), *pattern = strsep(&one, "|"), *n = strsep(&one, "|"), *error = strsep(&one, "|"), *how = strsep(&one, "|");
    if (call == NULL || pattern == NULL || n == NULL || error == NULL) continue;
    snprintf(r->call, sizeof r->call, "%s", call);
    snprintf(r->pattern, sizeof r->pattern, "%s", pattern);
    r->left = atol(n);
    r->error = error_number(error);
    r->sticky = how != NULL && strcmp(how, "sticky") == 0;
    r->is_short = how != NULL && strcmp(how, "short") == 0;
    r->hold = how != NULL && strcmp(how, "hold") == 0;
    ++rule_count;
  }
  free(copy);
}

static void note(const char *file, const char *call, const char *path) {
  if (file == NULL) return;
  const long fd = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  char line[PATH_MAX + 32];
  const int n = snprintf(line, sizeof line, "%s %s\n", call, path);
  syscall(SYS_write, fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
  syscall(SYS_close, fd);
}

static void open_and_close(const char *end, int flags) {
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%s.%s", hold_path, end);
  const long fd = syscall(SYS_openat, AT_FDCWD, name, flags | O_CLOEXEC, 0);
  if (fd >= 0) syscall(SYS_close, fd);
}

/* Says that it waits, and waits: opening a FIFO does not return before somebody opens its other end. */
static void wait_to_be_let_go(void) {
  if (hold_path == NULL) return;
  open_and_close("held", O_WRONLY);
  open_and_close("go", O_RDONLY);
}

/* 0: go on; SHORT: write half, the next one fails; else the errno to fail with. */
static int decide(const char *call, const char *path) {
  pthread_once(&once, set_up);
  if (rule_count == 0 && log_file == NULL) return GO_ON;
  if (path == NULL || path[0] == '\0') return GO_ON;
  if (root != NULL && strncmp(path, root, strlen(root)) != 0) return GO_ON;
  const int saved = errno;
  int answer = GO_ON, hold = 0;
  pthread_mutex_lock(&mutex);
  if (!armed && syscall(SYS_access, arm_file, F_OK) == 0) armed = 1;
  if (armed) {
    note(log_file, call, path);
    for (int i = 0; i < rule_count && answer == GO_ON && !hold; ++i) {
      struct rule *r = &rules[i];
      if (strcmp(r->call, call) != 0 || fnmatch(r->pattern, path, 0) != 0) continue;
      if (r->left > 1) {
        --r->left;
      } else if (r->left == 1) {
        if (r->is_short) {
          r->is_short = 0; /* the next one fails */
          answer = SHORT;
        } else {
          if (!r->sticky) r->left = 0;
          answer = r->error;
          hold = r->hold;
        }
        note(fired_file, call, path);
      }
    }
  }
  pthread_mutex_unlock(&mutex);
  if (hold) wait_to_be_let_go();
  errno = saved;
  return answer;
}

static int decide_fd(const char *call, int fd) {
  pthread_once(&once, set_up);
  if (rule_count == 0 && log_file == NULL) return GO_ON;
  char name[64], path[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const int saved = errno;
  const long n = syscall(SYS_readlink, name, path, sizeof path - 1);
  errno = saved;
  if (n <= 0) return GO_ON;
  path[n] = '\0';
  return decide(call, path);
}

static const char *full_path(int folder, const char *path, char *out, size_t size) {
  if (path == NULL) return NULL;
  if (path[0] == '/') return path;
  char base[PATH_MAX], name[64];
  if (folder == AT_FDCWD) {
    if (syscall(SYS_getcwd, base, sizeof base) < 0) return path;
  } else {
    snprintf(name, sizeof name, "/proc/self/fd/%d", folder);
    const long n = syscall(SYS_readlink, name, base, sizeof base - 1);
    if (n <= 0) return path;
    base[n] = '\0';
  }
  snprintf(out, size, "%s/%s", base, path);
  return out;
}

#define REAL(name, type) \
  static type real;      \
  if (real == NULL) real = (type)dlsym(RTLD_NEXT, name)
#define FAIL(e, result) \
  do {                  \
    errno = (e);        \
    return (result);    \
  } while (0)

typedef ssize_t (*write_fn)(int, const void *, size_t);
ssize_t write(int fd, const void *data, size_t size) {
  REAL("write", write_fn);
  const int e = decide_fd("write", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd, data, e == SHORT && size > 1 ? size / 2 : size);
}

typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  REAL("pwrite", pwrite_fn);
  const int e = decide_fd("write", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd, data, e == SHORT && size > 1 ? size / 2 : size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
  REAL("pwrite64", pwrite_fn);
  const int e = decide_fd("write", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd, data, e == SHORT && size > 1 ? size / 2 : size, at);
}

typedef ssize_t (*writev_fn)(int, const struct iovec *, int);
ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL("writev", writev_fn);
  const int e = decide_fd("write", fd);
  if (e > 0) FAIL(e, -1);
  return e == SHORT && count > 1 ? real(fd, parts, count / 2) : real(fd, parts, count);
}
typedef ssize_t (*pwritev_fn)(int, const struct iovec *, int, off_t);
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  REAL("pwritev", pwritev_fn);
  const int e = decide_fd("write", fd);
  if (e > 0) FAIL(e, -1);
  return e == SHORT && count > 1 ? real(fd, parts, count / 2, at) : real(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

typedef int (*fd_fn)(int);
int fsync(int fd) {
  REAL("fsync", fd_fn);
  const int e = decide_fd("sync", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd);
}
int fdatasync(int fd) {
  REAL("fdatasync", fd_fn);
  const int e = decide_fd("sync", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd);
}

typedef int (*truncate_fn)(int, off_t);
int ftruncate(int fd, off_t size) {
  REAL("ftruncate", truncate_fn);
  const int e = decide_fd("truncate", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd, size);
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

typedef int (*fallocate_fn)(int, int, off_t, off_t);
int fallocate(int fd, int mode, off_t at, off_t size) {
  REAL("fallocate", fallocate_fn);
  const int e = decide_fd("truncate", fd);
  if (e > 0) FAIL(e, -1);
  return real(fd, mode, at, size);
}
int fallocate64(int fd, int mode, off_t at, off_t size) { return fallocate(fd, mode, at, size); }

typedef int (*posix_fallocate_fn)(int, off_t, off_t);
int posix_fallocate(int fd, off_t at, off_t size) {
  REAL("posix_fallocate", posix_fallocate_fn);
  const int e = decide_fd("truncate", fd);
  return e > 0 ? e : real(fd, at, size);
}
int posix_fallocate64(int fd, off_t at, off_t size) { return posix_fallocate(fd, at, size); }

typedef void *(*mmap_fn)(void *, size_t, int, int, int, off_t);
void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t at) {
  REAL("mmap", mmap_fn);
  const int e = fd >= 0 ? decide_fd("mmap", fd) : GO_ON;
  if (e > 0) FAIL(e, MAP_FAILED);
  return real(address, size, protection, flags, fd, at);
}
void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t at) { return mmap(address, size, protection, flags, fd, at); }

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    char full[2 * PATH_MAX];
    const int e = decide("create", full_path(folder, path, full, sizeof full));
    if (e > 0) FAIL(e, -1);
  }
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}
#define MODE_OF(flags, last)                                       \
  mode_t mode = 0;                                                 \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                  \
    va_start(list, last);                                          \
    mode = va_arg(list, mode_t);                                   \
    va_end(list);                                                  \
  }
int open(const char *path, int flags, ...) {
  MODE_OF(flags, flags);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE_OF(flags, flags);
  return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int folder, const char *path, int flags, ...) {
  MODE_OF(flags, flags);
  return open_at(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) {
  MODE_OF(flags, flags);
  return open_at(folder, path, flags | O_LARGEFILE, mode);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  char full[2 * PATH_MAX];
  const int e = decide("link", full_path(to_folder, to, full, sizeof full));
  if (e > 0) FAIL(e, -1);
  const int done = (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
  const int lost = done == 0 ? decide("linked", full_path(to_folder, to, full, sizeof full)) : GO_ON;
  if (lost > 0) FAIL(lost, -1);
  return done;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  char full[2 * PATH_MAX];
  const int e = decide("rename", full_path(to_folder, to, full, sizeof full));
  if (e > 0) FAIL(e, -1);
  return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) { return renameat2(from_folder, from, to_folder, to, 0); }
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkdirat(int folder, const char *path, mode_t mode) {
  char full[2 * PATH_MAX];
  const int e = decide("mkdir", full_path(folder, path, full, sizeof full));
  if (e > 0) FAIL(e, -1);
  return (int)syscall(SYS_mkdirat, folder, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
