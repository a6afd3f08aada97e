// A database through the public C++ API alone. The home is one in memory behind a public Home, so that a test can take it out of reach; each place() is one process's
// way to it, each cache root one machine.
#pragma once
#include <gtest/gtest.h>
#include <onepen/database.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <thread>

#include "home/port.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "tests/sqlite/database_support.h"
#include "tests/support/memory_home.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {

struct Place {
  Home home;
  MemoryHome* memory;  // the port's
  void away() const {
    memory->set_hook([](const CallInfo&) { return Trouble::unavailable; });
  }
  void takes_nothing() const {
    memory->set_hook([](const CallInfo& call) { return call.call == Call::append ? Trouble::unavailable : Trouble::none; });
  }
  void back() const { memory->set_hook({}); }
};

class OptionsTest : public ::testing::Test {
 protected:
  Place place() {
    auto opened = Home::open("file://" + folder.path());
    EXPECT_TRUE(opened) << opened.error().message;
    auto runtime = io::make_system_runtime();
    auto memory = std::make_unique<MemoryHome>(*runtime, shared_);
    MemoryHome* raw = memory.get();
    *opened->port() = HomePort(std::move(runtime), io::make_posix_disk(), std::move(memory));
    return {*opened, raw};
  }
  OpenOptions on(const std::string& machine, Durability durability = Durability::replicated) {
    OpenOptions options;
    options.cache_root = folder.path() + "/" + machine;
    options.owner_name = machine;
    options.durability = durability;
    return options;
  }
  OpenOptions local(const std::string& machine) { return on(machine, Durability::local); }
  OpenOptions offline(const std::string& machine) {
    OpenOptions options = local(machine);
    options.offline = true;
    return options;
  }
  // A database with one row, left in peace.
  void make(const Place& at, const OpenOptions& options) {
    auto made = Database::open(at.home, "app", options);
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_EQ(run(*made->connect(), "CREATE TABLE t(x); INSERT INTO t VALUES ('first')"), SQLITE_OK);
    ASSERT_TRUE(made->synced());
    ASSERT_TRUE(made->close());
  }
  std::string seen_by_another_machine() {
    const Place at = place();
    auto opened = Database::open(at.home, "app", on("machine-" + std::to_string(++machines_)));
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? one(*opened->connect(), "SELECT group_concat(x) FROM t") : "";
  }
  static int insert(Database& into, const std::string& value) {
    auto connection = into.connect();
    return connection ? run(*connection, "INSERT INTO t VALUES ('" + value + "')") : SQLITE_CANTOPEN;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  // Waits, without a clock that decides anything: the test's own time limit ends it.
  template <class So>
  static void until(So so) {
    while (!so()) std::this_thread::yield();
  }
  TempFolder folder;

 private:
  std::shared_ptr<MemoryHome::Shared> shared_ = MemoryHome::make_shared_state();
  int machines_ = 0;
};

}  // namespace onepen::testing
