#include "sqlite/apply.h"

#include <gtest/gtest.h>

#include "base/guard.h"
#include "sqlite/copy_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::PlainSource;
using testing::slurp;
using testing::TempFolder;
using testing::told;

struct Remembered {
  std::vector<std::pair<CommitState, CommitState>> all;
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  Applier::Hooks fn() {
    return {[this](const CommitState& settled, const CommitState& next, const std::optional<WalPlace>&) -> Result<> {
              all.emplace_back(settled, next);
              return {};
            },
            {}};
  }
};

Applier fresh(const std::string& path, Remembered& kept) { return Applier(*kept.disk, DatabaseFiles{path}, PageTable{}, CommitState{}, kept.fn()); }

void expect_same(PlainSource& source, const Applier& applier, const std::string& path) {
  EXPECT_EQ(applier.state().page_sum, source.state().page_sum);
  EXPECT_EQ(applier.state().page_count, source.state().page_count);
  EXPECT_EQ(applier.state().ordinal, source.state().ordinal);
  for (std::uint32_t n = 1; n <= source.table().page_count(); ++n) ASSERT_EQ(applier.table().hash(n), source.table().hash(n)) << n;
  EXPECT_FALSE(file_exists(path + "-wal"));
  const bool same = slurp(path) == source.bytes();
  EXPECT_TRUE(same) << "the bytes of the files differ";
  auto db = open_plain(path, SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db) << told(db);
  auto check = plain_value(db->get(), path, "PRAGMA integrity_check");
  EXPECT_EQ(told(check), "ok");
  EXPECT_EQ(check.value_or(""), "ok");
}

void workload(PlainSource& source) {
  source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)");
  for (int i = 0; i < 40; ++i) source.exec("INSERT INTO t(x) VALUES (printf('%0*d', 300, " + std::to_string(i * 7919 % 101) + "))");
  source.exec("BEGIN; INSERT INTO t(x) SELECT zeroblob(2000) FROM t; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT");
  source.exec("UPDATE t SET x = x WHERE id = 3");
  source.exec("DELETE FROM t WHERE id > 10");
  source.exec("VACUUM");  // shrinks
  source.exec("INSERT INTO t(x) SELECT zeroblob(3000) FROM t, t AS u");  // grows again
  source.exec("PRAGMA auto_vacuum=FULL; VACUUM");
  source.exec("DELETE FROM t WHERE id > 5");  // shrinks by auto_vacuum
  source.exec("PRAGMA cache_size=10; INSERT INTO t(x) SELECT zeroblob(1000) FROM t, t AS u, t AS v");  // spills
}

class Apply : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(PageSizes, Apply, ::testing::Values(512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u, 65536u));

TEST_P(Apply, MakesTheSameFileAsPlainSqlite) {
  const TempFolder folder;
  PlainSource source(folder.path(), GetParam());
  workload(source);
  for (const std::size_t settle_every : {std::size_t{1}, std::size_t{9}, std::size_t{100'000}}) {
    const std::string path = folder / ("copy" + std::to_string(settle_every));
    Remembered kept;
    Applier applier = fresh(path, kept);
    std::size_t n = 0;
    for (const auto& record : source.records()) {
      auto done = applier.apply(record);
      ASSERT_TRUE(done) << told(done);
      if (++n % settle_every == 0) {
        ASSERT_TRUE(applier.settle());
      }
    }
    auto done = applier.settle();
    ASSERT_TRUE(done) << told(done);
    EXPECT_EQ(applier.state(), source.state());
    EXPECT_EQ(kept.all.back().second, source.state());
    for (std::size_t i = 1; i < kept.all.size(); ++i) EXPECT_EQ(kept.all[i].first, kept.all[i - 1].second);
    if (settle_every == 9) expect_same(source, applier, path);
  }
  EXPECT_EQ(slurp(folder / "copy1"), slurp(folder / "copy100000"));
}

TEST(Apply, ACommitLargerThanABatch) {
  const TempFolder folder;
  PlainSource source(folder.path(), 4096);
  source.exec("CREATE TABLE t(x); INSERT INTO t VALUES (randomblob(80000000))");
  source.exec("UPDATE t SET x = randomblob(1000)");
  source.exec("VACUUM");
  ASSERT_GT(source.records().size(), 80u);
  Remembered kept;
  Applier applier = fresh(folder / "copy", kept);
  for (const auto& record : source.records()) ASSERT_TRUE(applier.apply(record));
  EXPECT_GE(kept.all.size(), 1u) << "settled by itself after the big commit";
  ASSERT_TRUE(applier.settle());
  expect_same(source, applier, folder / "copy");
}

TEST(Apply, AClaimVoidsPartsWithoutTheirLast) {
  const TempFolder folder;
  PlainSource source(folder.path(), 512);
  source.exec("CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(10))");
  const std::size_t before = source.records().size();
  source.exec("INSERT INTO t VALUES (randomblob(3000000))");
  const auto& all = source.records();
  ASSERT_GT(all.size(), before + 2);
  for (const bool settle_between : {false, true}) {
    const std::string path = folder / (settle_between ? "a" : "b");
    Remembered kept;
    Applier applier = fresh(path, kept);
    for (std::size_t i = 0; i < before + 2; ++i) ASSERT_TRUE(applier.apply(all[i]));
    EXPECT_TRUE(applier.unfinished());
    EXPECT_EQ(applier.position(), all[before - 1].next) << "not past parts that do not count yet";
    if (settle_between) {
      ASSERT_TRUE(applier.settle());
    }
    core::Record control = all[0];
    control.kind = core::RecordKind::control;
    control.next = Offset{"1"};
    ASSERT_TRUE(applier.apply(control));
    EXPECT_EQ(applier.position(), all[before - 1].next);
    core::Record claim = control;
    claim.kind = core::RecordKind::claim;
    claim.next = Offset{"2"};
    ASSERT_TRUE(applier.apply(claim));
    EXPECT_FALSE(applier.unfinished());
    EXPECT_EQ(applier.position(), Offset{"2"});
    // The rest of the old run is nothing by itself; the whole commit, begun again, counts.
    for (std::size_t i = before; i < all.size(); ++i) ASSERT_TRUE(applier.apply(all[i]));
    ASSERT_TRUE(applier.settle());
    EXPECT_EQ(applier.state(), source.state());
    EXPECT_EQ(slurp(path).size(), std::size_t{source.state().page_count} * 512);
  }
  EXPECT_EQ(slurp(folder / "a"), slurp(folder / "b"));
}

TEST(Apply, APartOneVoidsTheRunBeforeItAndASettleKeepsIt) {
  const TempFolder folder;
  PlainSource source(folder.path(), 512);
  source.exec("CREATE TABLE t(x); INSERT INTO t VALUES (randomblob(3000000))");
  const auto& all = source.records();
  Remembered kept;
  Applier applier = fresh(folder / "copy", kept);
  std::size_t first = 1;
  while (all[first + 1].payload.size() < 900'000 || all[first + 1].payload.size() > wire::kMaxPartBytes) ++first;
  for (std::size_t i = 0; i <= first + 2; ++i) ASSERT_TRUE(applier.apply(all[i]));
  ASSERT_TRUE(applier.unfinished());
  ASSERT_TRUE(applier.settle());
  ASSERT_TRUE(applier.unfinished());
  for (std::size_t i = first + 3; i < all.size(); ++i) {
    auto done = applier.apply(all[i]);
    ASSERT_TRUE(done) << told(done);
  }
  ASSERT_TRUE(applier.settle());
  expect_same(source, applier, folder / "copy");
}

TEST(Apply, WhatDoesNotFitIsRefused) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  source.exec("CREATE TABLE t(x)");
  source.exec("INSERT INTO t VALUES (1)");
  source.exec("INSERT INTO t VALUES (randomblob(3000000))");
  const auto& all = source.records();
  const auto refusal = [&](std::vector<core::Record> records) {
    const TempFolder place;
    Remembered kept;
    Applier applier = fresh(place / "copy", kept);
    for (const auto& record : records) {
      if (auto done = applier.apply(record); !done) return std::string(word(done.error().outcome));
    }
    return std::string("applied");
  };
  const std::string diverged(word(Outcome::state_mismatch)), invalid(word(Outcome::invalid));
  EXPECT_EQ(refusal({all[0], all[1], all[2]}), "applied");
  EXPECT_EQ(refusal({all[1]}), diverged);                                  // a commit is missing before it
  EXPECT_EQ(refusal({all[0], all[2]}), diverged);                          // one is missing between
  EXPECT_EQ(refusal({all[0], all[1], all[1]}), diverged);                  // twice
  EXPECT_EQ(refusal({all[0], all[1], all[2], all[3], all[5]}), invalid);   // a part is missing
  EXPECT_EQ(refusal({all[0], all[1], all[2], all[4]}), invalid);           // begins in the middle
  core::Record other = all[1];
  other.payload = Bytes(100);
  EXPECT_EQ(refusal({all[0], other}), invalid);                            // no commit at all
  core::Record foreign = all[4];
  foreign.epoch = Epoch{77};
  EXPECT_EQ(refusal({all[0], all[1], all[2], all[3], foreign}), invalid);  // another owner's part
  // A whole and well-formed commit whose pages do not give the sum it names.
  wire::PageCodec codec;
  core::Record lying = all[0];
  wire::PartEncoder encoder(codec, {1, 1024, 1, {}}, [&](Bytes part) -> Result<> {
    lying.payload = std::move(part);
    return {};
  });
  ASSERT_TRUE(encoder.add(1, initial_page(1024)));
  ASSERT_TRUE(encoder.finish(page_hash_of(1, initial_page(1024)) + 1));
  EXPECT_EQ(refusal({lying}), diverged);
  set_guard(Guard::commit_fits, false);
  EXPECT_EQ(refusal({lying}), "applied");
  set_guard(Guard::commit_fits, true);
}

TEST(Apply, PagesGrownOverAreZerosEvenWhereOlderBytesWere) {
  const TempFolder folder;
  Remembered kept;
  Applier applier = fresh(folder / "copy", kept);
  wire::PageCodec codec;
  PageTable table(512);
  std::uint64_t ordinal = 0;
  const auto commit = [&](std::uint32_t count, const std::vector<std::pair<std::uint32_t, Bytes>>& pages) {
    core::Record record;
    record.kind = core::RecordKind::data;
    record.next = Offset{std::to_string(ordinal + 1)};
    wire::PartEncoder encoder(codec, {++ordinal, 512, count, ordinal == 1 ? wire::RunningSum{} : table.running()}, [&](Bytes part) -> Result<> {
      record.payload = std::move(part);
      return {};
    });
    std::vector<PageHash> hashes;
    for (const auto& [number, image] : pages) {
      ASSERT_TRUE(encoder.add(number, image));
      hashes.emplace_back(number, page_hash_of(number, image));
    }
    table.commit(count, hashes, 512);
    ASSERT_TRUE(encoder.finish(table.sum()));
    auto done = applier.apply(record);
    ASSERT_TRUE(done) << told(done);
  };
  const Bytes ones(512, std::byte{1});
  commit(4, {{1, ones}, {2, ones}, {3, ones}, {4, ones}});
  commit(1, {{1, ones}});
  commit(4, {{4, ones}});
  ASSERT_TRUE(applier.settle());
  const std::string bytes = slurp(folder / "copy");
  EXPECT_EQ(bytes, std::string(512, '\1') + std::string(1024, '\0') + std::string(512, '\1'));
}

}  // namespace
}  // namespace onepen::sqlite
