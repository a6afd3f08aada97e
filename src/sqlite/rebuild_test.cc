#include "sqlite/rebuild.h"

#include <gtest/gtest.h>

#include "sqlite/copy_test_support.h"
#include "sqlite/salvage.h"
#include "sqlite/snapshot.h"

namespace onepen::sqlite {
namespace {

using testing::MemoryStream;
using testing::PlainSource;
using testing::slurp;
using testing::TempFolder;
using testing::told;

struct World {
  TempFolder folder;
  PlainSource source{folder.path(), 512};
  MemoryStream stream;
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();

  World() {
    source.claim();
    source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    for (int i = 0; i < 20; ++i) source.exec("INSERT INTO t(x) VALUES (zeroblob(600))");
    source.claim();
    source.control();
    stream.records = source.records();
  }
  Result<std::unique_ptr<Copy>> acquire() { return Copy::acquire(*runtime, *disk, {folder / "cache", "file:///pen", *StreamName::parse("app")}, Log()); }
};

// Keeps what is written to it.
class Parts final : public core::SnapshotWriter {
 public:
  core::Answer<bool> add(ByteView part) override {
    parts.push_back(to_bytes(part));
    return true;
  }
  core::Answer<core::SnapshotInfo> finish(const Bytes&) override { return tl::unexpected(core::Refusal{Outcome::invalid, "not asked for"}); }
  std::vector<Bytes> parts;
};

// A snapshot of the stream as it is after the commit.
void keep_snapshot(World& w, const testing::SourceCommit& commit, std::int64_t time_ms) {
  const std::string file = w.folder / ("pin" + commit.state.offset.text);
  const auto state = rebuild_into(w.stream, file, {}, commit.state.offset);
  ASSERT_TRUE(state) << told(state);
  auto pin = pin_file(*w.disk, file, *state);
  ASSERT_TRUE(pin) << told(pin);
  Parts writer;
  auto about = write_snapshot_parts(**pin, writer);
  ASSERT_TRUE(about) << told(about);
  core::SnapshotInfo info;
  info.id = "snap" + commit.state.offset.text;
  info.offset = commit.state.offset;
  info.incarnation = commit.state.incarnation;
  info.time_ms = time_ms;
  info.parts = static_cast<std::uint32_t>(writer.parts.size());
  info.about = *about;
  w.stream.parts[info.id] = std::move(writer.parts);
  w.stream.kept.insert(w.stream.kept.begin(), info);
}

TEST(CatchUp, AFreshCopyBeginsWithTheNewestSnapshot) {
  World w;
  keep_snapshot(w, w.source.commits()[9], 0);
  w.stream.oldest = w.source.commits()[9].state.offset;
  for (int again = 0; again < 2; ++again) {
    auto copy = w.acquire();
    ASSERT_TRUE(copy) << told(copy);
    auto done = (*copy)->catch_up(w.stream);
    ASSERT_TRUE(done) << told(done);
    EXPECT_EQ((*copy)->state().page_sum, w.source.state().page_sum);
    EXPECT_EQ((*copy)->position(), w.stream.records.back().next);
    EXPECT_FALSE(file_exists((*copy)->db_path() + "-snapshot"));
    auto same = compare(**copy, w.stream);
    ASSERT_TRUE(same) << told(same);
    EXPECT_TRUE(same->same());
  }
  // One that stands before what was trimmed begins anew.
  auto behind = w.acquire();
  ASSERT_TRUE(behind);
  w.source.exec("INSERT INTO t(x) VALUES ('more')");
  w.source.exec("INSERT INTO t(x) VALUES ('and more')");
  w.stream.records = w.source.records();
  w.stream.oldest = {};
  keep_snapshot(w, w.source.commits().back(), 0);
  w.stream.oldest = w.source.state().offset;
  auto done = (*behind)->catch_up(w.stream);
  ASSERT_TRUE(done) << told(done);
  EXPECT_EQ((*behind)->state(), w.source.state());
}

// All that it had is in the stream, and it was the trim that took its place away: nothing of it is kept. Where that cannot be told, it is.
TEST(CatchUp, ACopyWhosePlaceWasTrimmedIsKeptOnlyWhenThatIsNotAllThereIsToIt) {
  struct Case {
    const char* what;
    bool tells_stat, other_history, trimmed;
    std::size_t salvaged;
  };
  for (const Case& is : {Case{"trimmed", true, false, true, 0}, Case{"the home does not tell", false, false, true, 1},
                         Case{"another history", true, true, true, 1}, Case{"not trimmed: another branch", true, false, false, 1}}) {
    World w;
    auto copy = w.acquire();
    ASSERT_TRUE(copy) << told(copy);
    ASSERT_TRUE((*copy)->catch_up(w.stream));
    w.source.exec("INSERT INTO t(x) VALUES ('more')");
    w.stream.records = w.source.records();
    keep_snapshot(w, w.source.commits().back(), 0);
    w.stream.tells_stat = is.tells_stat;
    if (is.other_history) w.stream.incarnation = {9, 9};
    if (is.trimmed) w.stream.oldest = w.source.state().offset;
    else w.stream.refuse_once = core::Refusal{Outcome::gone, "it is no position of this history"};
    ASSERT_TRUE((*copy)->catch_up(w.stream)) << is.what;
    EXPECT_EQ((*copy)->state(), w.source.state()) << is.what;
    auto same = compare(**copy, w.stream);
    ASSERT_TRUE(same) << is.what << told(same);
    EXPECT_TRUE(same->same()) << is.what;
    auto entries = list_salvage(*w.disk, w.folder / "cache");
    ASSERT_TRUE(entries);
    EXPECT_EQ(entries->size(), is.salvaged) << is.what;
    copy->reset();
    auto again = w.acquire();  // and what is there is whole
    ASSERT_TRUE(again) << told(again);
    EXPECT_EQ((*again)->state(), w.source.state()) << is.what;
  }
}

// What was logged while the copy caught up.
struct Opened {
  Result<std::unique_ptr<Copy>> copy;
  Result<> done;
  std::shared_ptr<std::vector<std::string>> warnings = std::make_shared<std::vector<std::string>>();  // the copy goes on logging
};
Opened open_fresh(World& w, const std::string& cache) {
  Opened out;
  const Log log([warnings = out.warnings](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) warnings->emplace_back(line);
  });
  out.copy = Copy::acquire(*w.runtime, *w.disk, {w.folder / cache, "file:///pen", *StreamName::parse("app")}, log);
  if (out.copy) out.done = (*out.copy)->catch_up(w.stream);
  return out;
}
void damage(World& w, const core::SnapshotInfo& info) {
  Bytes& part = w.stream.parts.at(info.id).back();
  part[part.size() / 2] ^= std::byte{1};
}

TEST(CatchUp, ADamagedSnapshotGivesWayToTheOneBefore) {
  World w;
  const auto& commits = w.source.commits();
  keep_snapshot(w, commits[5], 0);
  keep_snapshot(w, commits[9], 0);
  w.stream.oldest = commits[5].state.offset;
  const core::SnapshotInfo newest = w.stream.kept[0], before = w.stream.kept[1];
  damage(w, newest);
  auto opened = open_fresh(w, "first");
  ASSERT_TRUE(opened.done) << told(opened.done);
  EXPECT_EQ((*opened.copy)->state().page_sum, w.source.state().page_sum);
  EXPECT_EQ((*opened.copy)->position(), w.stream.records.back().next);
  ASSERT_EQ(opened.warnings->size(), 1u);
  EXPECT_NE(opened.warnings->front().find("snapshot " + newest.id + " of the stream cannot be used: part 0 of 1: damaged"), std::string::npos)
      << opened.warnings->front();
  EXPECT_NE(opened.warnings->front().find("Snapshot " + before.id + ", of before, was used instead"), std::string::npos) << opened.warnings->front();
  auto rebuilt = rebuild_into(w.stream, w.folder / "rebuilt");
  ASSERT_TRUE(rebuilt) << told(rebuilt);
  EXPECT_EQ(rebuilt->page_sum, w.source.state().page_sum);
  RebuildOptions options;
  options.until.offset = commits[12].state.offset;
  rebuilt = rebuild_into(*w.runtime, *w.disk, w.stream, w.folder / "until", options);
  ASSERT_TRUE(rebuilt) << told(rebuilt);
  EXPECT_EQ(*rebuilt, commits[12].state);

  damage(w, before);  // and with nothing whole to begin with
  opened = open_fresh(w, "second");
  ASSERT_FALSE(opened.done);
  EXPECT_EQ(opened.done.error().outcome, Outcome::state_mismatch) << told(opened.done);
  for (const std::string& says : {"snapshot " + newest.id + " of the stream cannot be used: part 0 of 1",
                                  std::string("The snapshot before it is damaged as well"), std::string("Put the damaged file back from a backup")}) {
    EXPECT_NE(opened.done.error().message.find(says), std::string::npos) << opened.done.error().message;
  }
  rebuilt = rebuild_into(w.stream, w.folder / "none");
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().outcome, Outcome::state_mismatch) << told(rebuilt);
  EXPECT_FALSE(file_exists(w.folder / "none"));

  damage(w, before);  // put right again: the same copy opens
  auto done = (*opened.copy)->catch_up(w.stream);
  ASSERT_TRUE(done) << told(done);
  EXPECT_EQ((*opened.copy)->state().page_sum, w.source.state().page_sum);
}

TEST(CatchUp, WithoutASnapshotThatCanBeReadTheLogIsReadFromItsBeginning) {
  World w;
  keep_snapshot(w, w.source.commits()[9], 0);
  damage(w, w.stream.kept[0]);
  auto opened = open_fresh(w, "cache");
  ASSERT_TRUE(opened.done) << told(opened.done);
  EXPECT_EQ((*opened.copy)->state().page_sum, w.source.state().page_sum);
  ASSERT_EQ(opened.warnings->size(), 1u);
  EXPECT_NE(opened.warnings->front().find("part 0 of 1"), std::string::npos) << opened.warnings->front();
  EXPECT_NE(opened.warnings->front().find("the log is read from its beginning"), std::string::npos) << opened.warnings->front();
  auto rebuilt = rebuild_into(w.stream, w.folder / "rebuilt");
  ASSERT_TRUE(rebuilt) << told(rebuilt);
  EXPECT_EQ(rebuilt->page_sum, w.source.state().page_sum);
}

TEST(Rebuild, BeginsWithASnapshotNotBehindWhatIsWanted) {
  World w;
  for (std::size_t i = 0; i < w.stream.records.size(); ++i) w.stream.records[i].time_ms = static_cast<std::int64_t>(i) * 10;
  const auto& commits = w.source.commits();
  keep_snapshot(w, commits[5], static_cast<std::int64_t>(commits[5].records_end) * 10);
  keep_snapshot(w, commits[12], static_cast<std::int64_t>(commits[12].records_end) * 10);
  w.stream.oldest = commits[5].state.offset;
  const auto rebuilt = [&](const char* name, RebuildUntil until) {
    RebuildOptions options;
    options.until = until;
    return rebuild_into(*w.runtime, *w.disk, w.stream, w.folder / name, options);
  };
  auto whole = rebuilt("whole", {});
  ASSERT_TRUE(whole) << told(whole);
  EXPECT_EQ(whole->page_sum, w.source.state().page_sum);
  auto between = rebuilt("between", {commits[8].state.offset, {}});
  ASSERT_TRUE(between) << told(between);
  EXPECT_EQ(*between, commits[8].state);
  // The record of commit 15 and nothing later.
  auto timed = rebuilt("timed", {{}, static_cast<std::int64_t>(commits[15].records_end - 1) * 10});
  ASSERT_TRUE(timed) << told(timed);
  EXPECT_EQ(*timed, commits[15].state);
  auto gone = rebuilt("gone", {commits[3].state.offset, {}});
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().outcome, Outcome::gone);
  EXPECT_FALSE(file_exists(w.folder / "gone"));
}

TEST(CatchUp, ReadsToTheTailPastClaimsAndGoesOn) {
  World w;
  auto copy = w.acquire();
  ASSERT_TRUE(copy);
  std::uint64_t told_bytes = 0;
  auto done = (*copy)->catch_up(w.stream, [&](const owner::Progress& progress) { told_bytes = progress.done_bytes; });
  ASSERT_TRUE(done) << told(done);
  EXPECT_GT(told_bytes, 1000u);
  EXPECT_EQ((*copy)->state().ordinal, w.source.state().ordinal);
  EXPECT_EQ((*copy)->position(), w.stream.records.back().next) << "claims and control records after the last commit are behind it";
  w.source.exec("INSERT INTO t(x) VALUES ('more')");
  w.stream.records = w.source.records();
  ASSERT_TRUE((*copy)->catch_up(w.stream));
  EXPECT_EQ((*copy)->state(), w.source.state());
  copy->reset();
  auto again = w.acquire();
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->position(), w.source.state().offset);
}

TEST(CatchUp, PartsWithoutTheirLastAreReadAgain) {
  World w;
  w.source.exec("INSERT INTO t(x) VALUES (randomblob(3000000))");
  ASSERT_GT(w.source.records().size(), w.stream.records.size() + 2);
  auto all = w.source.records();
  const std::size_t before = w.stream.records.size();
  auto copy = w.acquire();
  ASSERT_TRUE(copy);
  for (std::size_t upto = before + 1; upto <= all.size(); ++upto) {
    w.stream.records.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(upto));
    auto done = (*copy)->catch_up(w.stream);
    ASSERT_TRUE(done) << told(done);
    EXPECT_EQ((*copy)->state().ordinal, w.source.state().ordinal - (upto == all.size() ? 0 : 1));
  }
  EXPECT_EQ((*copy)->state(), w.source.state());
}

TEST(CatchUp, APositionThatIsGoneStartsOver) {
  World w;
  auto copy = w.acquire();
  ASSERT_TRUE(copy);
  ASSERT_TRUE((*copy)->catch_up(w.stream));
  w.stream.refuse_once = core::Refusal{Outcome::gone, "no such position"};
  auto done = (*copy)->catch_up(w.stream);
  ASSERT_TRUE(done) << told(done);
  EXPECT_EQ((*copy)->state().ordinal, w.source.state().ordinal);
  w.stream.refuse_once = core::Refusal{Outcome::not_found, "no such stream"};
  done = (*copy)->catch_up(w.stream);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().outcome, Outcome::not_found);
}

TEST(Rebuild, MakesTheWholeDatabaseAndRefusesAnExistingFile) {
  World w;
  auto state = rebuild_into(w.stream, w.folder / "new");
  ASSERT_TRUE(state) << told(state);
  EXPECT_EQ(state->page_sum, w.source.state().page_sum);
  EXPECT_EQ(state->offset, w.stream.records.back().next);
  EXPECT_FALSE(file_exists(w.folder / "new-batch"));
  auto again = rebuild_into(w.stream, w.folder / "new");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().outcome, Outcome::invalid);
  auto part = rebuild_into(w.stream, w.folder / "part", {}, w.source.commits()[5].state.offset);
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, w.source.commits()[5].state);
  EXPECT_EQ(slurp(w.folder / "new"), w.source.bytes());
}

TEST(Rebuild, ADamagedStreamLeavesNoFile) {
  World w;
  w.stream.records.erase(w.stream.records.begin() + 8);
  auto state = rebuild_into(w.stream, w.folder / "new");
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().outcome, Outcome::state_mismatch);
  for (const char* name : {"new", "new-wal", "new-batch"}) EXPECT_FALSE(file_exists(w.folder / name));
}

TEST(Compare, NamesThePagesThatDiffer) {
  World w;
  auto copy = w.acquire();
  ASSERT_TRUE(copy);
  ASSERT_TRUE((*copy)->catch_up(w.stream));
  auto same = compare(**copy, w.stream);
  ASSERT_TRUE(same) << told(same);
  EXPECT_TRUE(same->same());
  EXPECT_EQ(same->pages, w.source.state().page_count);
  // Damage that comes after the copy was acquired, so that its own check did not see it.
  std::string bytes = slurp((*copy)->db_path());
  bytes[512 * 4 + 9] ^= 1;
  bytes[512 * 6 + 9] ^= 1;
  testing::spill((*copy)->db_path(), bytes);
  auto differs = compare(**copy, w.stream);
  ASSERT_TRUE(differs);
  EXPECT_FALSE(differs->same());
  EXPECT_EQ(differs->first, (std::vector<std::uint32_t>{5, 7}));
  EXPECT_EQ(differs->differing, 2u);
  EXPECT_FALSE(file_exists((*copy)->folder() + "/compare"));
}

}  // namespace
}  // namespace onepen::sqlite
