#include "sqlite/copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"
#include "sqlite/copy_story_support.h"
#include "sqlite/rebuild.h"

namespace onepen::sqlite::testing {
namespace {

// ---- acquire

TEST(Copy, BeginsEmptyAndGoesOnWhereItWas) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy) << told(copy);
    EXPECT_EQ((*copy)->state(), CommitState{});
    EXPECT_EQ((*copy)->position(), Offset{});
    apply_all(**copy, source.plain);
    EXPECT_EQ((*copy)->state(), source.plain.state());
    EXPECT_EQ((*copy)->page_hash(2), source.plain.table().hash(2));
    EXPECT_EQ((*copy)->page_hash(100'000), 0u);
  }
  auto copy = place.acquire();
  ASSERT_TRUE(copy) << told(copy);
  EXPECT_EQ((*copy)->state(), source.plain.state());
  EXPECT_EQ(slurp((*copy)->db_path()), source.plain.bytes());
  EXPECT_TRUE(place.salvaged().empty());
  EXPECT_TRUE(place.lines.empty());
}

TEST(Copy, EachHolderHasItsOwnAndTheNewestFreeOneIsTaken) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  auto first = place.acquire();
  auto second = place.acquire();
  ASSERT_TRUE(first && second);
  EXPECT_NE((*first)->folder(), (*second)->folder());
  apply_all(**second, source.plain);
  const std::string newest = (*second)->folder(), older = (*first)->folder();
  first->reset();
  second->reset();
  auto third = place.acquire();
  ASSERT_TRUE(third);
  EXPECT_EQ((*third)->folder(), newest);
  auto fourth = place.acquire();
  ASSERT_TRUE(fourth);
  EXPECT_EQ((*fourth)->folder(), older);
  auto fifth = place.acquire();
  ASSERT_TRUE(fifth);
  EXPECT_NE((*fifth)->folder(), older);
  ASSERT_TRUE((*third)->close());
  auto sixth = place.acquire();
  ASSERT_TRUE(sixth);
  EXPECT_EQ((*sixth)->folder(), newest);
}

TEST(Copy, HomesAndNamesDoNotMix) {
  const TempFolder folder;
  Place a(folder.path()), b(folder.path()), c(folder.path());
  b.place.home_url = "file:///srv/other";
  c.place.name = *StreamName::parse("team");
  EXPECT_NE(copies_folder(a.place), copies_folder(b.place));
  EXPECT_NE(copies_folder(a.place), copies_folder(c.place));
  EXPECT_EQ(folder_name(a.place.name), "team%2Fapp");
}

TEST(Copy, ACopyThatPlainSqliteHasOpenIsLeftAlone) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  std::string path, taken;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    apply_all(**copy, source.plain);
    path = (*copy)->db_path();
    taken = (*copy)->folder();
  }
  int ready[2], go[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto db = open_plain(path, SQLITE_OPEN_READWRITE);
    const bool read = db && plain_value(db->get(), path, "SELECT count(*) FROM t").has_value();
    char c = read ? 'y' : 'n';
    if (::write(ready[1], &c, 1) != 1 || ::read(go[0], &c, 1) != 1) _exit(1);
    _exit(0);
  }
  char c = 0;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  ASSERT_EQ(c, 'y');
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy) << told(copy);
    EXPECT_NE((*copy)->folder(), taken);
    ASSERT_FALSE(place.lines.empty());
    EXPECT_NE(place.lines[0].find(fmt::format("process {}", child)), std::string::npos) << place.lines[0];
  }
  ASSERT_EQ(::write(go[1], &c, 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->folder(), taken);
  EXPECT_TRUE(place.salvaged().empty());
}

TEST(Copy, ForeignWritesAreFoundAndMovedAsideNotDeleted) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  std::string path;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    apply_all(**copy, source.plain);
    path = (*copy)->db_path();
  }
  {
    auto db = open_plain(path, SQLITE_OPEN_READWRITE);
    run_sql(db->get(), "INSERT INTO t(x) VALUES ('mine, and precious')");
  }
  auto copy = place.acquire();
  ASSERT_TRUE(copy) << told(copy);
  EXPECT_EQ((*copy)->state(), CommitState{});
  EXPECT_FALSE(file_exists((*copy)->db_path()));
  const auto salvaged = place.salvaged();
  ASSERT_EQ(salvaged.size(), 1u);
  EXPECT_TRUE(salvaged[0].ends_with("-diverged"));
  const auto manifest = nlohmann::json::parse(slurp(salvaged[0] + "/manifest.json"));
  EXPECT_EQ(manifest["kind"], "diverged");
  EXPECT_EQ(manifest["name"], "team/app");
  EXPECT_EQ(manifest["expected"][0]["commits"], source.plain.state().ordinal);
  EXPECT_NE(manifest["found"]["page_sum"], manifest["expected"][0]["page_sum"]);
  EXPECT_EQ(manifest["restarted_since"], false);
  auto db = open_plain(salvaged[0] + "/db", SQLITE_OPEN_READWRITE);
  EXPECT_EQ(plain_value(db->get(), "", "SELECT x FROM t ORDER BY id DESC LIMIT 1").value_or(""), "mine, and precious");
  ASSERT_EQ(place.lines.size(), 1u);
  EXPECT_NE(place.lines[0].find(salvaged[0]), std::string::npos);
  apply_all(**copy, source.plain);
  EXPECT_EQ((*copy)->state(), source.plain.state());
}

TEST(Copy, WhatCannotBeTrustedIsMovedAside) {
  using Spoil = std::function<void(const std::string&)>;
  const std::vector<std::pair<std::string, Spoil>> spoils = {
      {"no state", [](const std::string& folder) { std::filesystem::remove(folder + "/state"); }},
      {"a damaged state", [](const std::string& folder) { spill(folder + "/state", std::string(8192, 'x')); }},
      {"a cut database", [](const std::string& folder) { std::filesystem::resize_file(folder + "/db", 3000); }},
      {"no database", [](const std::string& folder) { std::filesystem::remove(folder + "/db"); }},
      {"one byte",
       [](const std::string& folder) {
         std::string bytes = slurp(folder + "/db");
         bytes[bytes.size() / 2] ^= 1;
         spill(folder + "/db", bytes);
       }},
      {"another database", [](const std::string& folder) { spill(folder + "/db", "this is no database at all"); }}};
  for (const auto& [what, spoil] : spoils) {
    const TempFolder folder;
    Place place(folder.path());
    Source source;
    {
      auto copy = place.acquire();
      ASSERT_TRUE(copy);
      apply_all(**copy, source.plain);
      spoil((*copy)->folder());
    }
    auto copy = place.acquire();
    ASSERT_TRUE(copy) << what << told(copy);
    EXPECT_EQ((*copy)->state(), CommitState{}) << what;
    EXPECT_EQ(place.salvaged().size(), 1u) << what;
    apply_all(**copy, source.plain);
    EXPECT_EQ((*copy)->state(), source.plain.state()) << what;
  }
}

TEST(Copy, PoisonedMeansMovedAsideAtTheNextAcquire) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    apply_all(**copy, source.plain);
    ASSERT_TRUE((*copy)->poison("the disk failed in the middle of a commit"));
  }
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->state(), CommitState{});
  const auto salvaged = place.salvaged();
  ASSERT_EQ(salvaged.size(), 1u);
  EXPECT_NE(slurp(salvaged[0] + "/manifest.json").find("the disk failed in the middle"), std::string::npos);
}

TEST(Copy, ANewerFormatIsRefusedAndNothingIsTouched) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  std::string path, before;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    apply_all(**copy, source.plain);
    path = (*copy)->folder();
  }
  auto slot = encode_state_slot(CopyRecord{}, 1'000'000);
  Bytes bytes(slot->begin(), slot->end() - 8);
  bytes[4] = std::byte{9};
  ByteWriter(bytes).u<std::uint64_t>(xxh3(bytes));
  std::string state = slurp(path + "/state");
  state.replace(0, bytes.size(), as_text(bytes));
  spill(path + "/state", state);
  before = slurp(path + "/db");
  auto copy = place.acquire();
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().outcome, Outcome::invalid);
  EXPECT_NE(copy.error().message.find("newer Onepen"), std::string::npos);
  EXPECT_EQ(slurp(path + "/db"), before);
  EXPECT_TRUE(place.salvaged().empty());
}

TEST(Copy, StartingOverMovesTheOldHistoryAside) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  ASSERT_TRUE((*copy)->start_over());
  EXPECT_TRUE(place.salvaged().empty()) << "nothing was there";
  apply_all(**copy, source.plain);
  ASSERT_TRUE((*copy)->start_over());
  EXPECT_EQ((*copy)->position(), Offset{});
  ASSERT_EQ(place.salvaged().size(), 1u);
  EXPECT_TRUE(place.salvaged()[0].ends_with("-rewound"));
  apply_all(**copy, source.plain);
  EXPECT_EQ((*copy)->state(), source.plain.state());
}

TEST(Copy, ACopyThatDoesNotFitItsStreamBeginsAnew) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    apply_all(**copy, source.plain);
  }
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    core::Record wrong = source.plain.records()[3];
    wrong.next = Offset{"9"};
    auto done = (*copy)->apply(wrong);
    ASSERT_TRUE(done) << told(done);
    EXPECT_EQ((*copy)->restarts(), 1u);
    EXPECT_EQ((*copy)->position(), Offset{});
    EXPECT_EQ(place.salvaged().size(), 1u);
    EXPECT_TRUE(place.salvaged()[0].ends_with("-diverged"));
    apply_all(**copy, source.plain);
    EXPECT_EQ((*copy)->state(), source.plain.state());
    ASSERT_TRUE((*copy)->start_over());
    // From scratch it is the stream that is wrong: nothing to move aside.
    done = (*copy)->apply(source.plain.records()[3]);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().outcome, Outcome::state_mismatch);
    EXPECT_EQ((*copy)->restarts(), 1u);
  }
  auto again = place.acquire();
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->state(), CommitState{});
  EXPECT_EQ(place.salvaged().size(), 2u) << "that of start_over()";
}

TEST(Copy, WillLandRefusesASumThatItsPagesDoNotGive) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  ASSERT_TRUE((*copy)->apply(source.plain.records()[0]));
  ASSERT_TRUE((*copy)->settle());
  auto next = source.plain.commits()[1];
  next.state.page_sum ^= 1;
  auto done = (*copy)->will_land(next.state, next.hashes);
  ASSERT_FALSE(done);
  EXPECT_EQ((*copy)->state(), source.plain.commits()[0].state);
  next.state.page_sum ^= 1;
  ASSERT_TRUE((*copy)->will_land(next.state, next.hashes));
  EXPECT_EQ((*copy)->state(), source.plain.commits()[1].state);
}

TEST(Copy, ACacheRootThatIsNotLocalIsRefusedWithTheMount) {
  const std::string mounts =
      "21 1 8:1 / / rw,relatime - ext4 /dev/vda rw\n"
      "22 21 0:40 / /net rw,relatime - nfs4 server:/export rw,lookupcache=none\n"
      "23 21 0:41 / /ssh rw,relatime - fuse.sshfs host:/x rw\n"
      "24 21 0:42 / /mem rw - tmpfs tmpfs rw\n";
  EXPECT_TRUE(judge_cache_root(mounts, "/var/cache"));
  EXPECT_TRUE(judge_cache_root(mounts, "/mem/cache"));
  for (const std::string& path : {std::string("/net/cache"), std::string("/ssh/cache")}) {
    const auto judged = judge_cache_root(mounts, path);
    ASSERT_FALSE(judged) << path;
    EXPECT_EQ(judged.error().outcome, Outcome::unavailable);
    EXPECT_NE(judged.error().message.find("not on a local filesystem"), std::string::npos);
    EXPECT_NE(judged.error().message.find(path.substr(0, 4)), std::string::npos);
  }
}

TEST(Copy, ANewerStateIsInThePlaceOfTwoWhenACommitChangedNothing) {
  const TempFolder folder;
  Place place(folder.path());
  Source source;
  const auto& commits = source.plain.commits();
  std::size_t same = 0;
  for (std::size_t i = 1; i < commits.size(); ++i) {
    if (commits[i].state.page_sum == commits[i - 1].state.page_sum) same = i;
  }
  ASSERT_NE(same, 0u) << "the story has an UPDATE that changes nothing";
  {
    auto copy = place.acquire();
    ASSERT_TRUE(copy);
    for (std::size_t i = 0; i < commits[same - 1].records_end; ++i) ASSERT_TRUE((*copy)->apply(source.plain.records()[i]));
    ASSERT_TRUE((*copy)->settle());
    ASSERT_TRUE((*copy)->will_land(commits[same].state, commits[same].hashes));
  }
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->state(), commits[same].state);
}

}  // namespace
}  // namespace onepen::sqlite::testing
