#include "sqlite/rebuild.h"

#include <gtest/gtest.h>

#include "sqlite/copy_test_support.h"

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
