// Copies with pending commits, killed at every step; this program is its own child.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/failpoint.h"
#include "sqlite/copy_child_support.h"
#include "sqlite/copy_pending_support.h"

namespace onepen::sqlite::testing {
namespace {

int child_main(const std::string& what, const std::string& root) {
  if (what == "aside") {
    Machine m(root);
    m.acquire();
    return m.copy->start_over() ? 0 : 3;
  }
  if (what == "discard") {
    const TempFolder own;
    PlainSource source(own.path(), 1024);
    for (const std::string& one : life()) source.exec(one);
    Machine m(root);
    m.acquire();
    read_on(*m.copy, source);
    testing::MemoryStream stream;
    stream.tells_stat = true;
    stream.oldest = Offset{"9"};
    return m.copy->gone_from(stream) && m.copy->position().text.empty() ? 0 : 3;
  }
  const TempFolder own;
  PlainSource source(own.path(), 1024);
  Machine m(root);
  m.begin(source);
  const auto sql = life();
  for (std::size_t i = 0; i < sql.size(); ++i) {
    source.exec(sql[i]);
    m.commit(sql[i]);
    if (ONEPEN_FAILPOINT("test.committed")) return 4;
    if (i % 3 == 2) {
      while (m.copy->state().ordinal < source.state().ordinal) m.acknowledge(source.commits()[m.copy->state().ordinal]);
      if (i % 2 == 0) m.restart_wal(i % 4 == 0 ? "RESTART" : "TRUNCATE");
    } else {
      m.hold();
      run_sql(m.db.get(), "PRAGMA wal_checkpoint(PASSIVE)");
    }
  }
  return ::testing::Test::HasFailure() ? 2 : 0;
}

TEST(CopyPendingKill, AtEveryStep) {
  const TempFolder own;
  PlainSource source(own.path(), 1024);
  for (const std::string& one : life()) source.exec(one);
  std::size_t killed = 0;
  for (const char* at : {"copy.table_merge_begins", "copy.table_merge_begun", "copy.table_merge_entries", "copy.table_merge_ends", "copy.table_merged",
                         "copy.wal_begun", "copy.before_state_write", "copy.after_state_write", "test.committed"}) {
    for (const int nth : {2, 3, 5, 9}) {
      const TempFolder folder;
      const int end = run_child("local", folder.path(), fmt::format("{}=kill@{}", at, nth));
      if (end != SIGKILL) {
        EXPECT_EQ(end, 100) << at << nth;
        continue;
      }
      ++killed;
      const std::string where = fmt::format("{}@{}", at, nth);
      Machine m(folder.path());
      m.acquire();
      ASSERT_TRUE(m.salvaged().empty()) << where << " " << (m.lines.empty() ? "" : m.lines[0]);
      const std::uint64_t state = m.copy->state().ordinal, pending = m.copy->pending().size();
      if (state != 0) {
        EXPECT_EQ(m.copy->state().page_sum, source.commits()[state - 1].state.page_sum) << where;
      }
      for (std::size_t i = 0; i < pending; ++i) EXPECT_EQ(m.copy->pending()[i].page_sum, source.commits()[state + i].state.page_sum) << where << " " << i;
      if (std::string_view(at) == "test.committed") {
        EXPECT_EQ(state + pending, static_cast<std::uint64_t>(nth) + 1) << where << ": a commit is lost";
      }
      read_on(*m.copy, source);
      ASSERT_TRUE(m.salvaged().empty()) << where;
      expect_is_source(*m.copy, source);
    }
  }
  EXPECT_GE(killed, 24u);
}

TEST(CopyPendingKill, AMoveToSalvageIsFinishedInTheSameFolder) {
  for (const int nth : {1, 2, 3, 4}) {
    const TempFolder folder;
    ASSERT_EQ(run_child("local", folder.path(), "test.committed=kill@14"), SIGKILL);
    const int end = run_child("aside", folder.path(), fmt::format("copy.move_aside=kill@{}", nth));
    ASSERT_EQ(end, SIGKILL) << nth;
    Machine m(folder.path());
    m.acquire();
    EXPECT_EQ(m.copy->state(), CommitState{});
    const auto entries = m.salvaged();
    ASSERT_EQ(entries.size(), 1u) << nth;
    EXPECT_EQ(m.copy->salvaged(), entries[0].folder);
    EXPECT_FALSE(entries[0].unsent.empty());
    for (const char* file : {"/db", "/db-wal", "/state"}) EXPECT_TRUE(file_exists(entries[0].folder + file)) << file;
    auto exported = export_salvage(m.disk, entries[0], folder / "out");
    ASSERT_TRUE(exported) << told(exported);
    auto db = open_plain(folder / "out", SQLITE_OPEN_READWRITE);
    EXPECT_EQ(plain_value(db->get(), "", "PRAGMA integrity_check").value_or(""), "ok");
    EXPECT_GT(entries[0].bytes, std::filesystem::file_size(entries[0].folder + "/db-wal"));
    auto removed = remove_salvage(m.disk, entries[0]);
    ASSERT_TRUE(removed) << told(removed);
    EXPECT_FALSE(std::filesystem::exists(entries[0].folder));
    EXPECT_TRUE(m.salvaged().empty());
  }
}

TEST(CopyPendingKill, ACopyThatBeginsAnewIsNeverHalfThere) {
  for (const int nth : {1, 2, 3, 4, 5, 6}) {
    const TempFolder folder;
    ASSERT_EQ(run_child("discard", folder.path(), fmt::format("copy.discard=kill@{}", nth)), SIGKILL) << nth;
    for (int again = 0; again < 2; ++again) {
      Machine m(folder.path());
      m.acquire();
      EXPECT_EQ(m.copy->state(), CommitState{}) << nth;
      EXPECT_TRUE(m.salvaged().empty()) << nth;
      EXPECT_FALSE(file_exists(m.folder() + "/db-wal")) << nth;
      EXPECT_FALSE(file_exists(m.folder() + "/discard")) << nth;
    }
  }
}

}  // namespace

int run_pending_kills(int argc, char** argv) { return run_tests_or_child(argc, argv, child_main); }

}  // namespace onepen::sqlite::testing

int main(int argc, char** argv) { return onepen::sqlite::testing::run_pending_kills(argc, argv); }
