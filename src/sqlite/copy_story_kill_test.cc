// A copy that keeps up with its stream, killed anywhere: in apply, and in the life of an owner. This program is its own child.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "sqlite/copy_child_support.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_story_support.h"

namespace onepen::sqlite::testing {
namespace {

int child_main(const std::string& what, const std::string& root) {
  Place place(root);
  Source source;
  auto copy = place.acquire();
  if (!copy) return 3;
  if (what == "apply") {
    apply_all(**copy, source.plain);
  } else {
    for (std::size_t i = 0; i < source.plain.commits()[0].records_end + 1; ++i) {
      if (!(*copy)->apply(source.plain.records()[i])) return 4;
    }
    if (!(*copy)->settle()) return 5;
    live(**copy, source.plain, what == "live" ? "" : what);
  }
  return ::testing::Test::HasFailure() ? 2 : 0;
}

// After a kill: nothing moved aside, the copy is at a commit of the stream, and reading on ends in the same database.
void expect_recovers(Place& place, Source& source, const std::string& where, std::uint64_t at_least, std::uint64_t at_most) {
  auto copy = place.acquire();
  ASSERT_TRUE(copy) << where << told(copy);
  EXPECT_TRUE(place.salvaged().empty()) << where << (place.lines.empty() ? "" : place.lines[0]);
  const CommitState state = (*copy)->state();
  EXPECT_TRUE(state.ordinal == 0 || source.find(state) != nullptr) << where << " commit " << state.ordinal;
  EXPECT_GE(state.ordinal, at_least) << where;
  EXPECT_LE(state.ordinal, at_most) << where;
  apply_all(**copy, source.plain);
  EXPECT_EQ((*copy)->state(), source.plain.state()) << where;
  const std::string bytes = slurp((*copy)->db_path());
  EXPECT_EQ(bytes.size(), std::size_t{source.plain.state().page_count} * kPageSize) << where;
}

TEST(CopyKill, AnywhereInApply) {
  Source source;
  const std::uint64_t all = source.plain.commits().size();
  std::size_t killed = 0;
  for (const char* place_name : {"copy.wal_frame", "copy.before_settle", "copy.before_state_write", "copy.after_state_write", "copy.batch_is_wal",
                                 "copy.fold_page", "copy.fold_cut", "copy.folded", "copy.table_written_anew", "copy.table_merge_begins",
                                 "copy.table_merge_begun", "copy.table_merge_entries", "copy.table_merge_ends", "copy.table_merged"}) {
    for (const int nth : {1, 2, 3, 7, 40}) {
      const TempFolder folder;
      const std::string where = fmt::format("{}=kill@{} ", place_name, nth);
      const int end = run_child("apply", folder.path(), fmt::format("{}=kill@{}", place_name, nth));
      if (end != SIGKILL) {
        EXPECT_EQ(end, 100) << where;  // never reached so often
        continue;
      }
      ++killed;
      Place place(folder.path());
      expect_recovers(place, source, where, 0, all);
    }
  }
  EXPECT_GE(killed, 50u);
}

TEST(CopyKill, AKillWhileRecoveringFromAKill) {
  Source source;
  const TempFolder folder;
  ASSERT_EQ(run_child("apply", folder.path(), "copy.fold_page=kill@9"), SIGKILL);
  for (const char* again : {"copy.fold_page=kill@2", "copy.fold_page=kill@3", "copy.after_state_write=kill@2", "copy.left_wal_folded=kill",
                            "copy.table_merge_begun=kill", "copy.left_wal_gone=kill"}) {
    EXPECT_EQ(run_child("apply", folder.path(), again), SIGKILL) << again;
  }
  Place place(folder.path());
  expect_recovers(place, source, "twice", 1, source.plain.commits().size());
}

// (a) between will_land and the frame, (b) after the frame, (c) around checkpoints that let the WAL begin anew, (f) after the last close.
TEST(CopyKill, AnywhereInTheLifeOfAnOwner) {
  Source source;
  const std::uint64_t all = source.plain.commits().size();
  // The n-th time a place is reached the copy holds n plus this many commits, neither more nor less. (Not at commit 24, which changes nothing: there the
  // two states are one database, and the later is taken.)
  const std::pair<const char*, int> places[] = {{"copy.before_state_write", -3}, {"copy.after_state_write", -3}, {"test.before_land", 1},
                                                {"test.before_frame", 1},        {"test.after_frame", 2},        {"test.after_checkpoint", 2}};
  for (const char* what : {"live", "PASSIVE", "RESTART", "TRUNCATE"}) {
    for (const auto& [place_name, more] : places) {
      for (const int later : {3, 5, 14, 26}) {
        const int nth = more < 0 ? later + 1 : later;
        const TempFolder folder;
        const std::string where = fmt::format("{} {}=kill@{} ", what, place_name, nth);
        ASSERT_EQ(run_child(what, folder.path(), fmt::format("{}=kill@{}", place_name, nth)), SIGKILL) << where;
        Place place(folder.path());
        const auto commits = static_cast<std::uint64_t>(nth + more);
        expect_recovers(place, source, where, commits, commits);
      }
    }
    const TempFolder folder;
    ASSERT_EQ(run_child(what, folder.path(), "test.after_close=kill"), SIGKILL);
    Place place(folder.path());
    expect_recovers(place, source, "after close", all, all);
  }
}

// A frame that was written only in part, as a full disk leaves it, is no commit.
TEST(CopyKill, ATornFrameIsTheStateBefore) {
  Source source;
  for (const std::size_t cut : {std::size_t{1}, std::size_t{500}, std::size_t{kPageSize + 23}}) {
    const TempFolder folder;
    ASSERT_EQ(run_child("live", folder.path(), "test.after_frame=kill@9"), SIGKILL);
    Place place(folder.path());
    const std::string wal = copies_folder(place.place) + "/1/db-wal";
    std::filesystem::resize_file(wal, std::filesystem::file_size(wal) - cut);
    expect_recovers(place, source, "torn", 10, 10);
  }
}

}  // namespace

int run_story_kills(int argc, char** argv) { return run_tests_or_child(argc, argv, child_main); }

}  // namespace onepen::sqlite::testing

int main(int argc, char** argv) { return onepen::sqlite::testing::run_story_kills(argc, argv); }
