#include "sqlite/copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/failpoint.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"
#include "sqlite/copy_test_support.h"
#include "sqlite/rebuild.h"

namespace onepen::sqlite {
namespace {

using testing::PlainSource;
using testing::slurp;
using testing::spill;
using testing::TempFolder;
using testing::told;

constexpr std::uint32_t kPageSize = 1024;

struct Place {
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  CopyPlace place;
  std::vector<std::string> lines;

  explicit Place(const std::string& root) : place{root + "/cache", "file:///srv/pen", *StreamName::parse("team/app")} {}
  Result<std::unique_ptr<Copy>> acquire() {
    return Copy::acquire(*runtime, *disk, place, Log([this](LogLevel, std::string_view line) { lines.emplace_back(line); }));
  }
  std::vector<std::string> salvaged() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(place.cache_root + "/salvage/team%2Fapp", none)) out.push_back(entry.path().string());
    return out;
  }
};

// Many small commits, some with claims between, growth and shrinking; the same in every process that makes it.
std::vector<std::string> story() {
  std::vector<std::string> sql = {"CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)"};
  for (int i = 0; i < 20; ++i) sql.push_back(fmt::format("INSERT INTO t(x) VALUES (printf('%0*d', 700, {}))", i * 7919 % 101));
  sql.emplace_back("UPDATE t SET x = x WHERE id = 1");
  sql.emplace_back("INSERT INTO t(x) SELECT zeroblob(3000) FROM t");
  sql.emplace_back("DELETE FROM t WHERE id > 12");
  sql.emplace_back("VACUUM");
  for (int i = 0; i < 6; ++i) sql.push_back(fmt::format("UPDATE t SET x = printf('%0*d', 900, {}) WHERE id = {}", i, i + 1));
  return sql;
}

struct Source {
  TempFolder folder;
  PlainSource plain{folder.path(), kPageSize};
  Source() {
    plain.claim();
    for (const std::string& sql : story()) plain.exec(sql);
  }
  const CommitState* find(const CommitState& state) const {
    for (const auto& commit : plain.commits()) {
      if (commit.state.ordinal == state.ordinal && commit.state.page_sum == state.page_sum && commit.state.page_count == state.page_count) return &commit.state;
    }
    return nullptr;
  }
};

void apply_all(Copy& copy, const PlainSource& source, std::size_t settle_every = 5) {
  std::size_t n = 0;
  const Offset from = copy.position();
  for (const auto& record : source.records()) {
    if (record.next <= from) continue;
    auto done = copy.apply(record);
    ASSERT_TRUE(done) << told(done);
    if (++n % settle_every == 0) {
      done = copy.settle();
      ASSERT_TRUE(done) << told(done);
    }
  }
  auto done = copy.settle();
  ASSERT_TRUE(done) << told(done);
}

// What a process that owns the database does, but for the stream: will_land() before each commit of a plain SQLite on the copy.
void live(Copy& copy, const PlainSource& source, const std::string& checkpoints) {
  auto db = open_plain(copy.db_path(), SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db) << told(db);
  testing::run_sql(db->get(), "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF");
  std::size_t commit = copy.state().ordinal;
  // One statement may be several commits (the first of the story is two): they land one by one, as the capture does it.
  for (std::size_t i = 0; i < story().size(); ++i) {
    const auto land = [&] {
      const auto& next = source.commits()[commit++];
      auto done = copy.will_land(next.state, next.hashes);
      ASSERT_TRUE(done) << told(done);
    };
    if (ONEPEN_FAILPOINT("test.before_land")) return;
    land();
    if (ONEPEN_FAILPOINT("test.before_frame")) return;
    if (i == 0) {
      const std::string both = story()[0];
      const auto at = both.find(';');
      testing::run_sql(db->get(), both.substr(0, at));
      land();
      testing::run_sql(db->get(), both.substr(at + 1));
    } else {
      testing::run_sql(db->get(), story()[i]);
    }
    if (ONEPEN_FAILPOINT("test.after_frame")) return;
    if (!checkpoints.empty() && i % 3 == 0) testing::run_sql(db->get(), "PRAGMA wal_checkpoint(" + checkpoints + ")");
    if (ONEPEN_FAILPOINT("test.after_checkpoint")) return;
  }
  db->reset();
  if (ONEPEN_FAILPOINT("test.after_close")) return;
}

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
    testing::run_sql(db->get(), "INSERT INTO t(x) VALUES ('mine, and precious')");
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

TEST(Copy, ACopyThatDoesNotFitItsStreamHealsAtTheNextOpening) {
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
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().outcome, Outcome::state_mismatch);
  }
  auto copy = place.acquire();
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->state(), CommitState{});
  EXPECT_EQ(place.salvaged().size(), 1u);
  // From scratch it is the stream that is wrong: nothing to move aside.
  EXPECT_FALSE((*copy)->apply(source.plain.records()[3]));
  copy->reset();
  auto again = place.acquire();
  ASSERT_TRUE(again);
  EXPECT_EQ(place.salvaged().size(), 1u);
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

// ---- kills. The child is this very program, begun anew so that its failpoints are read; it is killed at the named place.

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

// Waits for it. 9: killed by SIGKILL; else its exit code.
int run_child(const std::string& what, const std::string& root, const std::string& failpoint) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ONEPEN_FAILPOINT", failpoint.c_str(), 1);
    const char* const args[] = {"copy_test", "--child", what.c_str(), root.c_str(), nullptr};
    ::execv("/proc/self/exe", const_cast<char* const*>(args));
    _exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 100 + WEXITSTATUS(status);
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
                                 "copy.fold_page", "copy.fold_cut", "copy.folded", "copy.acquire_folded"}) {
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
  EXPECT_GE(killed, 28u);
}

TEST(CopyKill, AKillWhileRecoveringFromAKill) {
  Source source;
  const TempFolder folder;
  ASSERT_EQ(run_child("apply", folder.path(), "copy.fold_page=kill@9"), SIGKILL);
  for (const char* again : {"copy.fold_page=kill@2", "copy.fold_page=kill@3", "copy.acquire_folded=kill", "copy.after_state_write=kill"}) {
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
  const std::pair<const char*, int> places[] = {{"copy.before_state_write", -2}, {"copy.after_state_write", -2}, {"test.before_land", 1},
                                                {"test.before_frame", 1},        {"test.after_frame", 2},        {"test.after_checkpoint", 2}};
  for (const char* what : {"live", "PASSIVE", "RESTART", "TRUNCATE"}) {
    for (const auto& [place_name, more] : places) {
      for (const int nth : {3, 5, 14, 26}) {
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

int run_as_child(int argc, char** argv) { return argc == 4 && std::string_view(argv[1]) == "--child" ? child_main(argv[2], argv[3]) : -1; }
}  // namespace onepen::sqlite

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const int code = onepen::sqlite::run_as_child(argc, argv); code >= 0) return code;
  return RUN_ALL_TESTS();
}
