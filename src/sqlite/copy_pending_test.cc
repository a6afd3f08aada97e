// Copies that ran ahead of their stream: what is found after kills, what meets the stream's commits, and what goes to salvage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/guard.h"
#include "sqlite/copy_pending_support.h"

namespace onepen::sqlite::testing {
namespace {

class CopyPending : public SizesAndBoots {};
INSTANTIATE_TEST_SUITE_P(PageSizes, CopyPending, SizesAndBoots::all(), SizesAndBoots::name);

TEST_P(CopyPending, AreToldApartAfterAKillAndMeetTheirStream) {
  const TempFolder folder;
  PlainSource source(folder.path(), GetParam().page_size);
  Machine machine(folder.path());
  machine.begin(source);
  const auto sql = life();
  for (const std::string& one : sql) source.exec(one);
  ASSERT_EQ(source.commits().size(), sql.size() + 1);
  for (const std::size_t acknowledged : {std::size_t{0}, std::size_t{5}, std::size_t{11}, sql.size()}) {
    const TempFolder own;
    Machine m(own.path());
    m.begin(source);
    for (std::size_t i = 0; i < sql.size(); ++i) {
      m.commit(sql[i]);
      if (i < acknowledged) m.acknowledge(source.commits()[i + 1]);
    }
    if (acknowledged == 5) run_sql(m.db.get(), "PRAGMA wal_checkpoint(PASSIVE)");  // pages of pending commits are in the database file
    m.kill();
    if (GetParam().rebooted) m.reboot();
    m.disk.database_bytes = 0;
    m.acquire();
    EXPECT_EQ(m.disk.database_bytes != 0, GetParam().rebooted) << "opening does not read the database";
    EXPECT_TRUE(m.salvaged().empty()) << (m.lines.empty() ? "" : m.lines[0]);
    EXPECT_EQ(m.copy->state(), source.commits()[acknowledged].state) << acknowledged;
    EXPECT_FALSE(m.copy->behind());
    const auto& pending = m.copy->pending();
    ASSERT_EQ(pending.size(), sql.size() - acknowledged);
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const auto& expected = source.commits()[acknowledged + 1 + i];
      EXPECT_EQ(pending[i].ordinal, expected.state.ordinal);
      EXPECT_EQ(pending[i].page_sum, expected.state.page_sum) << "commit " << expected.state.ordinal;
      EXPECT_EQ(pending[i].page_count, expected.state.page_count);
      EXPECT_EQ(pending[i].pages, expected.hashes.size());
    }
    EXPECT_EQ(m.copy->wal_pages().size(), m.wal().frames.size());
    EXPECT_EQ(m.copy->page_hash(1), acknowledged == 0 ? source.commits()[0].hashes[0].second : m.copy->page_hash(1));
    // The first three of them, then a claim, then all.
    Machine& now = m;
    std::size_t landed = 0;
    for (const auto& record : source.records()) {
      if (record.next <= now.copy->position() || landed == 3) continue;
      ASSERT_TRUE(now.copy->apply(record));
      landed += record.kind == core::RecordKind::data;
    }
    ASSERT_TRUE(now.copy->settle());
    m.kill();
    m.acquire();
    EXPECT_GE(m.copy->state().ordinal, source.commits()[acknowledged].state.ordinal);
    read_on(*m.copy, source);
    EXPECT_TRUE(m.copy->pending().empty());
    EXPECT_TRUE(m.salvaged().empty());
    expect_is_source(*m.copy, source);
    // And SQLite finds the same.
    m.open();
    EXPECT_EQ(plain_value(m.db.get(), "", "PRAGMA integrity_check").value_or(""), "ok");
    EXPECT_EQ(plain_value(m.db.get(), "", "SELECT count(*) || sum(length(x)) FROM t").value_or(""),
              plain_value(source.db(), "", "SELECT count(*) || sum(length(x)) FROM t").value_or("no"));
  }
}

TEST_P(CopyPending, AreFoundInAWalThatWasBegunAnew) {
  for (const bool tell_begun : {true, false}) {
    const TempFolder folder;
    PlainSource source(folder.path(), GetParam().page_size);
    Machine m(folder.path());
    m.begin(source);
    const auto sql = life();
    for (std::size_t i = 0; i < sql.size(); ++i) {
      source.exec(sql[i]);
      m.commit(sql[i], tell_begun);
      if (i < 11) m.acknowledge(source.commits()[i + 1]);
      if (i == 3 || i == 10) m.restart_wal(i == 3 ? "RESTART" : "TRUNCATE");
    }
    m.kill();
    if (GetParam().rebooted) m.reboot();
    m.disk.database_bytes = 0;
    m.acquire();
    if (!tell_begun) {  // an older WAL that came back looks the same
      ASSERT_EQ(m.salvaged().size(), 1u);
      EXPECT_EQ(m.salvaged()[0].kind, "diverged");
      EXPECT_NE(m.salvaged()[0].why.find("does not belong to this database file"), std::string::npos) << m.salvaged()[0].why;
      EXPECT_EQ(m.salvaged()[0].unsent.size(), sql.size() - 11);
      continue;
    }
    EXPECT_TRUE(m.salvaged().empty()) << (m.lines.empty() ? "" : m.lines[0]);
    if (!GetParam().rebooted) {
      EXPECT_EQ(m.disk.database_bytes, 0u);
    }
    EXPECT_EQ(m.copy->state(), source.commits()[11].state);
    ASSERT_EQ(m.copy->pending().size(), sql.size() - 11);
    EXPECT_EQ(m.copy->pending().back().page_sum, source.state().page_sum);
    read_on(*m.copy, source);
    expect_is_source(*m.copy, source);
  }
}

TEST(CopyQuick, AfterAnOrderlyCloseNothingIsReadAndAForeignWriteIsSeen) {
  const TempFolder folder;
  PlainSource source(folder.path(), 4096);
  Machine m(folder.path());
  live(m, source, life().size(), life().size());
  m.restart_wal("TRUNCATE");
  m.db.reset();  // SQLite deletes its WAL
  const std::string path = m.copy->db_path();
  m.copy.reset();
  EXPECT_FALSE(file_exists(path + "-wal"));
  m.disk.database_bytes = 0;
  m.acquire();
  EXPECT_EQ(m.disk.database_bytes, 0u);
  EXPECT_EQ(m.copy->state(), source.state());
  EXPECT_EQ(m.copy->place(), WalPlace{});
  m.copy.reset();
  {
    auto foreign = open_plain(path, SQLITE_OPEN_READWRITE);
    run_sql(foreign->get(), "INSERT INTO t(x) VALUES ('foreign')");
  }
  m.acquire();
  EXPECT_EQ(m.copy->state(), CommitState{});
  ASSERT_EQ(m.salvaged().size(), 1u);
  EXPECT_EQ(m.salvaged()[0].kind, "diverged");
}

// ---- what the stream has instead

struct Rivals {
  TempFolder folder;
  PlainSource source{folder.path(), 1024};
  Machine m{folder.path()};
  std::size_t shared = 4;  // commits that both have

  // `ours` commits of ours behind the shared ones, of which the stream has `landed`; then `theirs`.
  void make(std::size_t ours, std::size_t landed, std::size_t theirs) {
    m.begin(source);
    const auto sql = life();
    for (std::size_t i = 0; i < shared + ours; ++i) {
      const std::string one = i < shared ? sql[i] : fmt::format("INSERT INTO t(x) VALUES ('ours {}')", i);
      if (i < shared + landed) source.exec(one);
      m.commit(one);
      if (i < shared) m.acknowledge(source.commits().back());
    }
    ASSERT_TRUE(m.copy->remember_owned({testing::kIncarnation, {7}, {0xabc, 0xdef}}));
    source.claim();
    for (std::size_t i = 0; i < theirs; ++i) source.exec(fmt::format("INSERT INTO t(x) VALUES ('theirs {}')", i));
    m.kill();
    m.acquire();
    ASSERT_EQ(m.copy->pending().size(), ours);
    ASSERT_TRUE(m.copy->owned());
    EXPECT_EQ(m.copy->owned()->epoch.value, 7u);
  }
};

TEST(CopyFenced, WhatSomebodyElseOvertookGoesToSalvageAndIsExported) {
  Rivals r;
  r.make(3, 1, 2);
  const CommitState landed = r.source.commits()[r.shared + 1].state;
  read_on(*r.m.copy, r.source);
  EXPECT_EQ(r.m.copy->restarts(), 1u);
  EXPECT_TRUE(r.m.copy->pending().empty());
  EXPECT_FALSE(r.m.copy->owned());
  expect_is_source(*r.m.copy, r.source);
  const auto entries = r.m.salvaged();
  ASSERT_EQ(entries.size(), 1u);
  const SalvageEntry& entry = entries[0];
  EXPECT_EQ(entry.kind, "fenced");
  EXPECT_EQ(entry.name, "app");
  EXPECT_EQ(entry.home_url, "file:///srv/pen");
  EXPECT_TRUE(entry.trouble.empty()) << entry.trouble;
  EXPECT_EQ(entry.acknowledged.ordinal, landed.ordinal);
  EXPECT_EQ(entry.acknowledged.page_sum, landed.page_sum);
  ASSERT_TRUE(entry.owned);
  EXPECT_EQ(entry.owned->epoch.value, 7u);
  EXPECT_TRUE(entry.unsent_known);
  ASSERT_EQ(entry.unsent.size(), 2u);
  EXPECT_EQ(entry.unsent[0].ordinal, landed.ordinal + 1);
  EXPECT_GT(entry.unsent[0].wal_bytes, 1024u);
  EXPECT_NE(entry.unsent[1].page_sum, 0u);
  EXPECT_NE(entry.why.find("2 commits"), std::string::npos) << entry.why;
  const std::string target = r.folder / "saved.db";
  auto exported = export_salvage(r.m.disk, entry, target);
  ASSERT_TRUE(exported) << told(exported);
  auto db = open_plain(target, SQLITE_OPEN_READWRITE);
  EXPECT_EQ(plain_value(db->get(), "", "PRAGMA integrity_check").value_or(""), "ok");
  EXPECT_EQ(plain_value(db->get(), "", "PRAGMA journal_mode").value_or(""), "delete");
  EXPECT_EQ(plain_value(db->get(), "", "SELECT group_concat(x) FROM (SELECT x FROM t WHERE x LIKE 'ours%' ORDER BY id)").value_or(""), "ours 4,ours 5,ours 6");
  EXPECT_EQ(told(export_salvage(r.m.disk, entry, target)).substr(0, 8), "invalid:");
  auto again = find_salvage(r.m.disk, r.m.place.cache_root, entry.id.substr(entry.id.find('/') + 1));
  ASSERT_TRUE(again) << told(again);
  EXPECT_EQ(again->folder, entry.folder);
  EXPECT_FALSE(find_salvage(r.m.disk, r.m.place.cache_root, "nothing"));
}

TEST(CopyFenced, AnUnfinishedForeignCommitIsNoReason) {
  Rivals r;
  r.make(2, 2, 0);
  // A part of a larger commit by somebody who was fenced in the middle of it.
  core::Record part = r.source.records().back();
  part.kind = core::RecordKind::data;
  wire::PageCodec codec;
  std::vector<Bytes> parts;
  wire::PartEncoder encoder(codec, {r.source.commits()[r.shared].state.ordinal + 1, 1024, 9000, {1, 2}}, [&](Bytes bytes) -> Result<> {
    parts.push_back(std::move(bytes));
    return {};
  });
  Bytes image(1024, std::byte{3});
  for (std::uint32_t n = 1; n <= 2000 && parts.empty(); ++n) ASSERT_TRUE(encoder.add(n, image));
  ASSERT_FALSE(parts.empty());
  part.payload = parts[0];
  ASSERT_TRUE(r.m.copy->apply(part));
  core::Record claim = part;
  claim.kind = core::RecordKind::claim;
  claim.payload.clear();
  claim.next = r.source.commits()[r.shared].state.offset;
  ASSERT_TRUE(r.m.copy->apply(claim));
  read_on(*r.m.copy, r.source);
  EXPECT_EQ(r.m.copy->restarts(), 0u);
  EXPECT_TRUE(r.m.copy->pending().empty());
  expect_is_source(*r.m.copy, r.source);
}

TEST(CopyFenced, WithoutTheSumsAForeignCommitWouldBeTakenForOurs) {
  Rivals r;
  r.make(1, 0, 1);
  set_guard(Guard::copy_landed_by_sum, false);
  read_on(*r.m.copy, r.source);
  set_guard(Guard::copy_landed_by_sum, true);
  EXPECT_TRUE(r.m.salvaged().empty());
  EXPECT_NE(r.m.copy->state().page_sum, r.source.state().page_sum) << "the guard is what this is found by";
}

TEST(CopyFenced, AnotherHistoryIsARewind) {
  Rivals r;
  r.make(2, 0, 1);
  for (auto record : r.source.records()) {
    if (record.next <= r.m.copy->position()) continue;
    record.incarnation = {9, 9};
    ASSERT_TRUE(r.m.copy->apply(record));
    if (r.m.copy->restarts() != 0) break;
  }
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_EQ(r.m.salvaged()[0].kind, "rewound");
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 2u);
}

TEST(CopyFenced, StartingOverKeepsWhatWasNotSent) {
  Rivals r;
  r.make(2, 0, 0);
  ASSERT_TRUE(r.m.copy->start_over());
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 2u);
  read_on(*r.m.copy, r.source);
  expect_is_source(*r.m.copy, r.source);
}

TEST(CopyFenced, ACopyWithUnsentCommitsIsKeptWhenItsPlaceWasTrimmed) {
  Rivals r;
  r.make(2, 0, 0);
  testing::MemoryStream stream;
  stream.tells_stat = true;
  stream.oldest = Offset{"9"};
  ASSERT_LT(r.m.copy->position(), stream.oldest);
  ASSERT_TRUE(r.m.copy->gone_from(stream));
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 2u);
  EXPECT_EQ(r.m.copy->state(), CommitState{});
}

TEST(CopyFenced, ARunningDatabaseSavesAllThatIsPending) {
  Rivals r;
  r.make(1, 0, 0);
  r.m.open();
  r.m.commit("INSERT INTO t(x) VALUES ('one more')", false);
  sqlite3_db_config(r.m.db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  r.m.db.reset();
  auto where = r.m.copy->salvage("fenced", "somebody else is the owner now");
  ASSERT_TRUE(where) << told(where);
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 2u);
  EXPECT_EQ(r.m.salvaged()[0].folder, *where);
  EXPECT_EQ(r.m.copy->state(), CommitState{});
}

// ---- places: the same content at two places of one WAL

TEST(CopyPlace, ACommitThatUndoesAnotherIsNotTakenForNothingPending) {
  for (const bool guarded : {true, false}) {
    const TempFolder folder;
    PlainSource source(folder.path(), 1024);
    Machine m(folder.path());
    m.begin(source);
    for (const char* sql : {"CREATE TABLE t(id INTEGER PRIMARY KEY, x)", "INSERT INTO t VALUES (1, 'aaaa')"}) {
      source.exec(sql);
      m.commit(sql);
      m.acknowledge(source.commits().back());
    }
    m.commit("UPDATE t SET x = 'bbbb'");
    m.commit("UPDATE t SET x = 'aaaa'");
    m.kill();
    set_guard(Guard::copy_place_checked, guarded);
    m.acquire();
    set_guard(Guard::copy_place_checked, true);
    EXPECT_EQ(m.copy->state(), source.state());
    EXPECT_EQ(m.copy->pending().size(), guarded ? 2u : 0u) << "the sum alone is at two places";
  }
}

TEST(CopyPlace, ACopyKilledBeforeItsFrameIsBehindUntilItReadOn) {
  const TempFolder folder;
  PlainSource source(folder.path(), 1024);
  Machine m(folder.path());
  live(m, source, 3, 3);
  source.exec(life()[3]);
  const WalContent wal = m.wal();
  const auto& next = source.commits().back();
  const WalPlace there{wal.salt1, wal.salt2, static_cast<std::uint32_t>(wal.frames.size() + next.hashes.size())};
  ASSERT_TRUE(m.copy->will_land(next.state, next.hashes, there));
  EXPECT_EQ(m.copy->place(), there);
  m.kill();
  for (int again = 0; again < 2; ++again) {  // and it does not forget
    m.acquire();
    EXPECT_TRUE(m.copy->behind());
    EXPECT_EQ(m.copy->state(), source.commits()[3].state);
    EXPECT_TRUE(m.copy->pending().empty());
    ASSERT_TRUE(m.copy->remember_owned({testing::kIncarnation, {3}, {1, 1}}));
    m.kill();
  }
  m.acquire();
  read_on(*m.copy, source);
  EXPECT_FALSE(m.copy->behind());
  m.kill();
  m.acquire();
  EXPECT_FALSE(m.copy->behind());
  expect_is_source(*m.copy, source);
}

}  // namespace
}  // namespace onepen::sqlite::testing
