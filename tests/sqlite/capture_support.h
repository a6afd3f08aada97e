// For tests of the SQLite front: the real VFS, owner and copy over a home in memory. Two "processes" are two cache roots: a database open under each has an
// owner of its own, as on two machines.
#pragma once
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/functions.h"
#include "sqlite/messages.h"
#include "sqlite/rebuild.h"
#include "sqlite/vfs.h"
#include "tests/support/memory_home.h"

namespace onepen::testing {

struct SqlResult {
  int code = SQLITE_OK;  // primary
  std::string message;
  std::vector<std::vector<std::string>> rows;
  const std::string& one() const {
    static const std::string none;
    return rows.empty() || rows[0].empty() ? none : rows[0][0];
  }
};

class Sql {  // one plain SQLite connection
 public:
  Sql() = default;
  Sql(const std::string& uri, int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI) { open(uri, flags); }
  ~Sql() { close(); }
  Sql(const Sql&) = delete;
  Sql& operator=(const Sql&) = delete;

  int open(const std::string& uri, int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI) {
    close();
    const int rc = sqlite3_open_v2(uri.c_str(), &db_, flags, nullptr);
    if (rc != SQLITE_OK) {
      close();
      return rc & 0xff;
    }
    sqlite3_busy_timeout(db_, 10'000);
    return SQLITE_OK;
  }
  void close() {
    if (db_ != nullptr) sqlite3_close_v2(db_);
    db_ = nullptr;
  }
  sqlite3* get() const { return db_; }

  SqlResult run(const std::string& sql) const {
    SqlResult result;
    char* error = nullptr;
    const auto row = [](void* out, int n, char** values, char**) {
      std::vector<std::string> cells;
      for (int i = 0; i < n; ++i) cells.emplace_back(values[i] != nullptr ? values[i] : "");
      static_cast<SqlResult*>(out)->rows.push_back(std::move(cells));
      return 0;
    };
    result.code = sqlite3_exec(db_, sql.c_str(), row, &result, &error) & 0xff;
    if (error != nullptr) result.message = error;
    sqlite3_free(error);
    return result;
  }
  // Expects success; the first cell.
  std::string ok(const std::string& sql) const {
    const SqlResult result = run(sql);
    EXPECT_EQ(result.code, SQLITE_OK) << sql << ": " << result.message << " / " << sqlite::last_refusal();
    return result.one();
  }

 private:
  sqlite3* db_ = nullptr;
};

// The process under test: one VFS, one registry, homes by URL.
class World {
 public:
  static World& get() {
    static World* const world = new World;  // as long as the VFS: never destroyed
    return *world;
  }
  Runtime& runtime() { return *runtime_; }

  // A fresh home and folder for one test.
  void fresh() {
    const std::lock_guard lock(mutex_);
    shared_ = MemoryHome::make_shared_state();
    hook_ = {};
    reachable_ = true;
    std::string pattern = (std::filesystem::temp_directory_path() / "onepen-sqlite-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void clear() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& folder() const { return folder_; }
  // Every request to the home from every "process".
  void set_hook(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  // False: nobody answers, neither at open nor later.
  void set_reachable(bool reachable) { reachable_ = reachable; }
  std::unique_ptr<MemoryHome> handle() { return std::make_unique<MemoryHome>(*runtime_, shared_); }

  std::string uri(const std::string& name, const std::string& process, const std::string& more = "") const {
    return "file:" + name + "?vfs=onepen&home=memory:&cache_root=" + folder_ + "/" + process + more;
  }
  // The stream folded from its beginning into a fresh file: what another machine would see.
  sqlite::CommitState rebuild(const std::string& name, const std::string& path) {
    const auto home = handle();
    const auto stream = home->stream(*StreamName::parse(name));
    const auto state = sqlite::rebuild_into(*stream, path);
    EXPECT_TRUE(state.has_value()) << (state ? "" : state.error().message);
    return state.value_or(sqlite::CommitState{});
  }

 private:
  World() {
    environment_.runtime = runtime_.get();
    environment_.disk = disk_.get();
    environment_.log = sqlite::host_log();
    environment_.open_home = [this](const std::string&) -> Result<std::unique_ptr<core::Home>> {
      if (!reachable_) return tl::unexpected(Error{Outcome::unavailable, "the home is out of reach", {}});
      auto home = handle();
      home->set_hook([this](const CallInfo& call) {
        if (!reachable_) return Trouble::unavailable;
        Hook hook;
        {
          const std::lock_guard lock(mutex_);
          hook = hook_;
        }
        return hook ? hook(call) : Trouble::none;
      });
      return std::unique_ptr<core::Home>(std::move(home));
    };
    EXPECT_EQ(sqlite::register_vfs(environment_), SQLITE_OK);
    EXPECT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(&each)), SQLITE_OK);
  }
  static int each(sqlite3* db, char**, const void*) { return sqlite::register_functions(db); }

  std::unique_ptr<Runtime> runtime_ = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
  sqlite::Environment environment_;
  std::mutex mutex_;
  std::shared_ptr<MemoryHome::Shared> shared_;
  Hook hook_;
  std::atomic<bool> reachable_{true};
  std::string folder_;
};

class CaptureTest : public ::testing::Test {
 protected:
  void SetUp() override { World::get().fresh(); }
  void TearDown() override { World::get().clear(); }

  World& world() { return World::get(); }
  std::string uri(const std::string& process = "a", const std::string& more = "") { return world().uri("app", process, more); }

  // What is here is what the stream says: same page sum, and the same `.dump` by the sqlite3 shell.
  void expect_rebuilds(const Sql& db, const std::string& name = "app") {
    const std::string path = world().folder() + "/rebuilt-" + std::to_string(++rebuilt_);
    sqlite::OpenDatabase* open = nullptr;
    ASSERT_EQ(sqlite3_file_control(db.get(), "main", sqlite::kDatabaseOp, &open), SQLITE_OK);
    const sqlite::CommitState here = open->status().copy;
    const sqlite::CommitState there = world().rebuild(name, path);
    EXPECT_EQ(here.ordinal, there.ordinal);
    EXPECT_EQ(here.page_sum, there.page_sum);
    EXPECT_EQ(here.page_count, there.page_count);
    const Sql plain(path);
    EXPECT_EQ(plain.ok("PRAGMA integrity_check"), "ok");
    EXPECT_EQ(contents(db), contents(plain));
    const std::string dumped = dump(db.ok("SELECT file FROM pragma_database_list WHERE name = 'main'"));
    EXPECT_NE(dumped.find("COMMIT;"), std::string::npos) << "the dump is whole";
    EXPECT_TRUE(dumped == dump(path)) << "the dumps differ";
  }
  static std::string dump(const std::string& path) {
    std::string out;
    std::FILE* shell = ::popen(("sqlite3 -readonly '" + path + "' .dump").c_str(), "re");
    if (shell == nullptr) return out;
    std::vector<char> buffer(1 << 16);
    while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), shell)) out.append(buffer.data(), n);
    EXPECT_EQ(::pclose(shell), 0) << path;
    return out;
  }
  static std::vector<std::vector<std::string>> contents(const Sql& db) {
    auto all = db.run("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").rows;
    for (const auto& table : db.run("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").rows) {
      for (auto& row : db.run("SELECT * FROM \"" + table[0] + "\" ORDER BY rowid").rows) all.push_back(std::move(row));
    }
    return all;
  }

 private:
  int rebuilt_ = 0;
};

}  // namespace onepen::testing
