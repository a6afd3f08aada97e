// Copies that ran ahead of their stream, after a loss of power; which of several is taken; the walk over a WAL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sqlite/copy_pending_support.h"

namespace onepen::sqlite::testing {
namespace {

// The opening that made it may have failed before it synced the name, and the power would take the folder with what later openings synced in it.
TEST(CopyPower, TheNameOfACopysFolderIsSyncedByWhoeverTakesIt) {
  TempFolder folder;
  WatchedDisk disk;
  const CopyPlace place{folder.path() + "/cache", "file:///home", *StreamName::parse("app")};
  const std::string first = copies_folder(place) + "/1";
  std::filesystem::create_directories(first);
  const auto taken = choose_copy(disk, place, Log{}, CopyUse::write);
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(taken->path, first);
  EXPECT_EQ(std::count(disk.made_folders.begin(), disk.made_folders.end(), first), 1);
}

// ---- loss of power, made by hand

struct Powerless {
  TempFolder folder;
  PlainSource source{folder.path(), 1024};
  Machine m{folder.path()};
  std::string old_state;  // of the state file, at 6 acknowledged
  std::vector<std::string> sql = life();

  // 9 acknowledged of `made`, one restart of the WAL at 4.
  void make(std::size_t made) {
    m.begin(source);
    for (const std::string& one : sql) source.exec(one);
    for (std::size_t i = 0; i < made; ++i) {
      m.commit(sql[i]);
      if (i < 9) m.acknowledge(source.commits()[i + 1]);
      if (i == 3) m.restart_wal("RESTART");
      if (i == 5) old_state = slurp(m.folder() + "/state");
    }
    m.kill();
    m.reboot();
  }
};

TEST(CopyPower, AnOlderStateFileOnlyMakesMoreOfThemPending) {
  Powerless p;
  p.make(12);
  spill(p.m.folder() + "/state", p.old_state);
  p.m.reboot();
  p.m.acquire();
  EXPECT_TRUE(p.m.salvaged().empty());
  EXPECT_EQ(p.m.copy->state(), p.source.commits()[6].state);
  EXPECT_EQ(p.m.copy->pending().size(), 6u);
  read_on(*p.m.copy, p.source);
  EXPECT_TRUE(p.m.salvaged().empty());
  expect_is_source(*p.m.copy, p.source);
}

TEST(CopyPower, AWalThatLostAcknowledgedCommitsIsBehindAndMeetsTheStream) {
  Powerless p;
  p.make(9);
  const std::string wal = p.m.folder() + "/db-wal";
  auto content = read_wal(p.m.disk, wal);
  ASSERT_TRUE(content);
  // Two whole commits of this WAL are left of five.
  std::size_t commits = 0;
  std::uint64_t cut = 0;
  for (const auto& frame : content->frames) {
    if (frame.page_count_after != 0 && ++commits == 2) cut = frame.image_at + 1024;
  }
  ASSERT_EQ(commits, 5u);
  std::filesystem::resize_file(wal, cut);
  p.m.acquire();
  EXPECT_TRUE(p.m.salvaged().empty()) << (p.m.lines.empty() ? "" : p.m.lines[0]);
  EXPECT_TRUE(p.m.copy->behind());
  EXPECT_LT(p.m.copy->state().ordinal, p.source.commits()[9].state.ordinal);
  read_on(*p.m.copy, p.source);
  EXPECT_FALSE(p.m.copy->behind());
  EXPECT_TRUE(p.m.salvaged().empty());
  expect_is_source(*p.m.copy, p.source);
}

TEST(CopyPower, OfflineCommitsUponALostBaseGoToSalvage) {
  Powerless p;
  p.make(9);
  const std::string wal = p.m.folder() + "/db-wal";
  auto content = read_wal(p.m.disk, wal);
  std::size_t commits = 0;
  std::uint64_t cut = 0;
  for (const auto& frame : content->frames) {
    if (frame.page_count_after != 0 && ++commits == 2) cut = frame.image_at + 1024;
  }
  std::filesystem::resize_file(wal, cut);
  spill(p.m.folder() + "/state", p.old_state);  // it forgot as well
  p.m.reboot();
  p.m.acquire();
  EXPECT_FALSE(p.m.copy->behind()) << "nothing here knows better";
  p.m.open();
  p.m.commit("INSERT INTO t(x) VALUES ('offline')", false);
  p.m.kill();
  p.m.acquire();
  EXPECT_EQ(p.m.copy->pending().size(), 1u);
  read_on(*p.m.copy, p.source);
  ASSERT_EQ(p.m.salvaged().size(), 1u);
  EXPECT_EQ(p.m.salvaged()[0].kind, "fenced");
  EXPECT_EQ(p.m.salvaged()[0].unsent.size(), 1u);
  expect_is_source(*p.m.copy, p.source);
}

TEST(CopyPower, ATornTableIsCountedAnewOrWhatIsUnsentGoesToSalvage) {
  for (const std::size_t made : {std::size_t{9}, std::size_t{12}}) {
    Powerless p;
    p.make(made);
    std::string pages = slurp(p.m.folder() + "/pages");
    pages[kPagesEntriesAt + 3] ^= 1;
    spill(p.m.folder() + "/pages", pages);
    p.m.acquire();
    if (made == 9) {
      EXPECT_TRUE(p.m.salvaged().empty());
      EXPECT_EQ(p.m.copy->state(), p.source.commits()[9].state);
      p.m.kill();
      p.m.disk.database_bytes = 0;
      p.m.acquire();
      EXPECT_EQ(p.m.disk.database_bytes, 0u) << "the table was written anew";
    } else {
      ASSERT_EQ(p.m.salvaged().size(), 1u);
      EXPECT_EQ(p.m.salvaged()[0].kind, "diverged");
      EXPECT_EQ(p.m.salvaged()[0].unsent.size(), 3u);
    }
    read_on(*p.m.copy, p.source);
    expect_is_source(*p.m.copy, p.source);
  }
}

TEST(CopyPower, ADatabaseFileThatLostPagesIsNotTrusted) {
  Powerless p;
  p.make(9);
  std::string db = slurp(p.m.folder() + "/db");
  db[db.size() - 700] ^= 1;
  const std::string path = p.m.folder() + "/db";
  {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    out.write(db.data(), static_cast<std::streamsize>(db.size()));
  }
  p.m.acquire();
  EXPECT_EQ(p.m.copy->state(), CommitState{});
  EXPECT_EQ(p.m.salvaged().size(), 1u);
}

// ---- choosing

TEST(CopyChoose, ACopyWithUnsentCommitsIsTakenBeforeANewerOne) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine ahead(folder.path()), newer(folder.path());
  ahead.begin(source);
  newer.acquire();
  const std::string ours = ahead.copy->folder();
  for (const std::string& one : life()) source.exec(one);
  ahead.commit(life()[0]);
  read_on(*newer.copy, source);
  ahead.kill();
  newer.kill();
  Machine third(folder.path());
  auto glance = copies_here(third.disk, third.place);
  ASSERT_TRUE(glance);
  ASSERT_EQ(glance->size(), 2u);
  EXPECT_EQ((*glance)[1].unsent, 0u);
  EXPECT_FALSE((*glance)[0].in_use);
  third.acquire();
  EXPECT_EQ(third.copy->folder(), ours);
  EXPECT_EQ(third.copy->pending().size(), 1u);
  glance = copies_here(third.disk, third.place);
  ASSERT_TRUE(glance);
  EXPECT_TRUE((*glance)[0].in_use);
  EXPECT_EQ((*glance)[0].unsent, 1u);
}

// ---- the lock-byte page within a WAL

TEST(CopyWalk, TheLockBytePageHasNoContent) {
  const std::uint32_t size = 65536, lock_page = lock_byte_page(size);
  PageTable table(size);
  table.resize(lock_page - 2);
  WalContent wal;
  wal.page_size = size;
  wal.salt1 = 1;
  wal.frames = {{lock_page - 1, 0, 0, 11}, {lock_page + 2, lock_page + 3, 0, 12}, {3, lock_page - 1, 0, 13}, {4, lock_page + 1, 0, 14}};
  wal.page_count = lock_page + 1;
  const auto commits = commits_of(wal, 0, table);
  ASSERT_EQ(commits.size(), 3u);
  PageTable made = table;
  made.commit(lock_page + 3, {{lock_page - 1, 11}, {lock_page + 2, 12}}, size);
  EXPECT_EQ(commits[0].sum, made.sum());
  made.commit(lock_page - 1, {{3, 13}}, size);
  EXPECT_EQ(commits[1].sum, made.sum());
  made.commit(lock_page + 1, {{4, 14}}, size);
  EXPECT_EQ(commits[2].sum, made.sum());
  const WalView view = view_of(wal, 0, table.page_count());
  EXPECT_EQ(view.frame_of.count(lock_page), 0u);
  EXPECT_EQ(view.frame_of.at(lock_page + 1), 0u) << "grown over again: zeros, not the frame of before";
  EXPECT_EQ(view.frame_of.count(lock_page + 2), 0u);
  EXPECT_EQ(view.frame_of.at(3), 3u);
}

// SQLite syncs the folder of a WAL in the process that made it, and only once: killed before that, it leaves a name that the power can take, with all that
// later processes commit into it.
TEST(CopyPower, TheNameOfAWalThatIsThereIsDurableBeforeAnythingIsCommittedIntoIt) {
  Powerless p;
  p.make(9);
  for (const bool there : {true, false}) {
    if (!there) std::filesystem::remove(p.m.folder() + "/db-wal");
    p.m.disk.synced_folders.clear();
    p.m.acquire();
    EXPECT_EQ(std::count(p.m.disk.synced_folders.begin(), p.m.disk.synced_folders.end(), p.m.folder()) != 0, there);
    p.m.kill();
  }
}

}  // namespace
}  // namespace onepen::sqlite::testing
