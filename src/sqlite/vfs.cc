#include "sqlite/vfs.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "sqlite/messages.h"

namespace onepen::sqlite {

// SQLite gives one pointer per VFS and calls it from any thread: the one place of process-wide state, never destroyed (registry.h).
struct VfsProcess {
  Registry* registry = nullptr;
  std::string default_home, default_parameters;  // onepen_use()
  std::mutex mutex;
  std::vector<MainFile*> files;
};

namespace {

// What SQLite knows of us: one VFS, over the one that was the default when it was registered.
struct Registered {
  sqlite3_vfs* root = nullptr;
  sqlite3_vfs vfs{};
};
Registered& registered() {
  static auto* const instance = new Registered;
  return *instance;
}
sqlite3_vfs* root() { return registered().root; }

#ifdef ONEPEN_TEST_HOOKS
VfsProcess* (*current_simulated)() = nullptr;
#endif
VfsProcess& process() {
#ifdef ONEPEN_TEST_HOOKS
  if (current_simulated != nullptr) return *current_simulated();
#endif
  static auto* const instance = new VfsProcess;
  return *instance;
}

// The platform's file begins here, behind our object.
template <class Ours>
constexpr std::size_t kRealAt = (sizeof(Ours) + 15) / 16 * 16;
template <class Ours>
sqlite3_file* real_behind(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<std::byte*>(file) + kRealAt<Ours>);
}

int code_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::unavailable:
    case Outcome::unknown:
    case Outcome::invalid:
    case Outcome::not_found:
    case Outcome::gone:
    case Outcome::state_mismatch: return SQLITE_CANTOPEN;
    default: return SQLITE_AUTH;
  }
}

bool is_ours(const char* name) {
  if (sqlite3_uri_parameter(name, "home") != nullptr) return true;
  const char* vfs = sqlite3_uri_parameter(name, "vfs");
  return (vfs != nullptr && std::strcmp(vfs, kVfsName) == 0) || std::string_view(name).ends_with(kOwnSuffix);
}

Result<OpenSettings> settings_of(const char* name) {
  std::vector<std::string> keys;
  for (int i = 0; const char* key = sqlite3_uri_key(name, i); ++i) keys.emplace_back(key);
  std::string default_home;
  std::vector<std::pair<std::string, std::string>> defaults;
  {
    const std::lock_guard lock(process().mutex);
    default_home = process().default_home;
    if (sqlite3_uri_parameter(name, "home") == nullptr) defaults = split_parameters(process().default_parameters);
  }
  const auto parameter = [&](std::string_view key) -> std::optional<std::string> {
    if (const char* value = sqlite3_uri_parameter(name, std::string(key).c_str()); value != nullptr) return std::string(value);
    for (auto pair = defaults.rbegin(); pair != defaults.rend(); ++pair) {
      if (pair->first == key) return pair->second;
    }
    return std::nullopt;
  };
  return read_settings(name, parameter, keys, default_home);
}

int full_pathname(const char* name, int size, char* out) {
  if (!is_ours(name)) return root()->xFullPathname(root(), name, size, out);
  Registry& registry = *process_registry();
  if (registry.forked()) return refuse_with(SQLITE_CANTOPEN, forked_sentence());
  if (registry.ours(name)) {  // the copy of a database that is open: another connection to just that (database.cc)
    if (std::strlen(name) >= static_cast<std::size_t>(size)) return SQLITE_CANTOPEN;
    registry.promise(name);
    std::memcpy(out, name, std::strlen(name) + 1);
    return SQLITE_OK;
  }
  const auto settings = settings_of(name);
  if (!settings) return refuse_with(code_of(settings.error().outcome), settings.error().message);
  const auto path = registry.path_for(*settings);
  if (!path) return refuse_with(code_of(path.error().outcome), path.error().message);
  // SQLite appends "-journal" and must keep within mxPathname.
  if (path->size() + 9 > static_cast<std::size_t>(std::min(size, root()->mxPathname)))
    return refuse_with(SQLITE_CANTOPEN, "The path of the local copy is too long for SQLite: " + *path + ". Choose a shorter cache_root or ONEPEN_CACHE.");
  std::memcpy(out, path->c_str(), path->size() + 1);
  return SQLITE_OK;
}

int open_main(const char* name, sqlite3_file* file, int flags, int* out_flags) {
  Registry& registry = *process_registry();
  const bool read_only = (flags & SQLITE_OPEN_READONLY) != 0;
  auto attached = registry.attach(name, read_only, (flags & SQLITE_OPEN_CREATE) != 0);
  if (attached.error) return refuse_with(code_of(attached.error->outcome), attached.error->message);
  if (!attached.database) return root()->xOpen(root(), name, file, flags, out_flags);
  sqlite3_file* real = real_behind<MainFile>(file);
  std::memset(static_cast<void*>(real), 0, static_cast<std::size_t>(root()->szOsFile));
  // The copy's file is there by now; the platform VFS need not make it.
  const int rc = root()->xOpen(root(), name, real, flags & ~SQLITE_OPEN_CREATE, out_flags);
  if (rc != SQLITE_OK) {
    if (real->pMethods != nullptr) real->pMethods->xClose(real);
    const std::string path = name;
    static_cast<void>(registry.detach(attached.database));
    return refuse_with(rc, "The local copy " + path + " could not be opened.");
  }
  remember_main_file(new (file) MainFile(real, name, registry, std::move(attached.database)));
  return SQLITE_OK;
}

int open_wal(MainFile* main, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_file* real = real_behind<WalFile>(file);
  std::memset(static_cast<void*>(real), 0, static_cast<std::size_t>(root()->szOsFile));
  const int rc = root()->xOpen(root(), name, real, flags, out_flags);
  if (rc != SQLITE_OK) {
    if (real->pMethods != nullptr) real->pMethods->xClose(real);
    return rc;
  }
  new (file) WalFile(real, main);
  return SQLITE_OK;
}

int open_file(const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (name == nullptr) return root()->xOpen(root(), name, file, flags, out_flags);
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    if (!process_registry()->ours(name) && !process_registry()->promised(name)) return root()->xOpen(root(), name, file, flags, out_flags);
    if (process_registry()->forked()) return refuse_with(SQLITE_CANTOPEN, forked_sentence());
    return open_main(name, file, flags, out_flags);
  }
  if ((flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0) {
    if (MainFile* main = find_main_file(sqlite3_filename_database(name))) {
      // A WAL is opened under SHARED; under EXCLUSIVE it would have its index in the heap, without the locks that stop a fenced handle.
      if ((flags & SQLITE_OPEN_WAL) != 0) return main->locked_exclusive() ? refuse(exclusive_sentence()) : open_wal(main, name, file, flags, out_flags);
      return refuse(rollback_sentence());
    }
  }
  return root()->xOpen(root(), name, file, flags, out_flags);
}

// The WAL of a copy that could not note what was in it: deleting it would cost a look at every page, or pending commits.
bool keeps_wal(std::string_view name) {
  if (!name.ends_with("-wal")) return false;
  name.remove_suffix(4);
  const std::lock_guard lock(process().mutex);
  return std::any_of(process().files.begin(), process().files.end(), [&](const MainFile* file) { return file->keeps_wal() && file->name() == name; });
}

template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return SQLITE_NOMEM;
  }
}

void fill(sqlite3_vfs& vfs) {
  // What we do not stand before is the platform's own function. They take their own VFS as argument; ours passes for it, since none of them looks into
  // what we changed but through pAppData, which is copied.
  vfs = *root();
  vfs.pNext = nullptr;
  vfs.zName = kVfsName;
  vfs.szOsFile = static_cast<int>(std::max(kRealAt<MainFile>, kRealAt<WalFile>)) + root()->szOsFile;
  vfs.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    return guarded([&] { return open_file(name, file, flags, out); });
  };
  vfs.xFullPathname = [](sqlite3_vfs*, const char* name, int size, char* out) { return guarded([&] { return full_pathname(name, size, out); }); };
  vfs.xDelete = [](sqlite3_vfs*, const char* name, int sync) {
    return guarded([&] { return keeps_wal(name) ? SQLITE_IOERR_DELETE : root()->xDelete(root(), name, sync); });
  };
  vfs.xAccess = [](sqlite3_vfs*, const char* name, int flags, int* result) { return root()->xAccess(root(), name, flags, result); };
  vfs.xDlOpen = [](sqlite3_vfs*, const char* name) { return root()->xDlOpen(root(), name); };
  vfs.xDlError = [](sqlite3_vfs*, int size, char* out) { root()->xDlError(root(), size, out); };
  vfs.xDlSym = [](sqlite3_vfs*, void* library, const char* symbol) { return root()->xDlSym(root(), library, symbol); };
  vfs.xDlClose = [](sqlite3_vfs*, void* library) { root()->xDlClose(root(), library); };
  vfs.xRandomness = [](sqlite3_vfs*, int size, char* out) { return root()->xRandomness(root(), size, out); };
  vfs.xSleep = [](sqlite3_vfs*, int us) { return root()->xSleep(root(), us); };
  vfs.xCurrentTime = [](sqlite3_vfs*, double* time) { return root()->xCurrentTime(root(), time); };
  vfs.xGetLastError = [](sqlite3_vfs*, int size, char* out) { return root()->xGetLastError != nullptr ? root()->xGetLastError(root(), size, out) : 0; };
  if (vfs.iVersion >= 2 && root()->xCurrentTimeInt64 != nullptr)
    vfs.xCurrentTimeInt64 = [](sqlite3_vfs*, sqlite3_int64* time) { return root()->xCurrentTimeInt64(root(), time); };
  if (vfs.iVersion > 2) vfs.iVersion = 2;  // xSetSystemCall stays the platform's own business
}

}  // namespace

int register_vfs(const Environment& environment) {
  VfsProcess& p = process();
  Registered& r = registered();
  {
    const std::lock_guard lock(p.mutex);
    if (p.registry != nullptr) return SQLITE_OK;
    r.root = sqlite3_vfs_find(nullptr);
    if (r.root == nullptr) return SQLITE_ERROR;
    fill(r.vfs);
    p.registry = new Registry(environment);
    // A fork() by another thread must not leave our mutex locked in the child for ever. (Never unloaded, so never unregistered.)
    ::pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); }, [] { process().mutex.unlock(); });
  }
  return sqlite3_vfs_register(&r.vfs, 0);
}

#ifdef ONEPEN_TEST_HOOKS
int simulate_vfs_processes(VfsProcess* (*current)()) {
  Registered& r = registered();
  r.root = sqlite3_vfs_find(nullptr);
  if (r.root == nullptr) return SQLITE_ERROR;
  fill(r.vfs);
  current_simulated = current;
  return sqlite3_vfs_register(&r.vfs, 0);
}

VfsProcess* make_vfs_process(const Environment& environment) {
  auto* p = new VfsProcess;
  p->registry = new Registry(environment);
  return p;
}

void drop_vfs_process(VfsProcess* p) {
  delete p->registry;
  delete p;
}
#endif

// A child after fork() gets one of its own, so that "open it after fork(), in the child" can be followed: hosts that load the extension, fork workers and open
// in each of them are usual. The parent's stays with the connections that were open: they are refused for good (MainFile holds the registry it was made by).
Registry* process_registry() {
  VfsProcess& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.registry != nullptr && p.registry->forked() && p.registry->environment().after_fork) p.registry = new Registry(p.registry->environment().after_fork());
  return p.registry;
}

sqlite3_vfs* platform_vfs() { return root() != nullptr ? root() : sqlite3_vfs_find(nullptr); }

int use_home(std::string url, std::string parameters) {
  {
    const std::lock_guard lock(process().mutex);
    process().default_home = std::move(url);
    process().default_parameters = std::move(parameters);
  }
  return sqlite3_vfs_register(&registered().vfs, 1);
}

void remember_main_file(MainFile* file) {
  const std::lock_guard lock(process().mutex);
  process().files.push_back(file);
}

void forget_main_file(MainFile* file) {
  const std::lock_guard lock(process().mutex);
  std::erase(process().files, file);
}

MainFile* find_main_file(const char* name) {
  const std::lock_guard lock(process().mutex);
  for (MainFile* file : process().files) {
    if (file->name() == name) return file;
  }
  return nullptr;
}

std::string landed_beside(const MainFile& file) {
  std::string names;
  const std::lock_guard lock(process().mutex);
  for (MainFile* other : process().files) {
    if (other == &file || file.connection() == nullptr || other->connection() != file.connection() || !other->landed()) continue;
    names += (names.empty() ? "'" : ", '") + other->database().settings().name->text() + "'";
  }
  return names;
}

}  // namespace onepen::sqlite
