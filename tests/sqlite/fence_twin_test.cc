// One claim in two processes that both live (a virtual machine resumed twice, I2): the other one appends with the owner's own token behind its back. Whoever
// comes second at a sequence is refused and resets `diverged`; never are two acknowledged under one epoch.
#include <atomic>
#include <set>

#include "sqlite/page_sum.h"
#include "tests/sqlite/local_support.h"
#include "wire/commit_frame.h"

namespace onepen::testing {
namespace {

class TwinTest : public LocalTest, public ::testing::WithParamInterface<bool> {
 protected:
  bool is_local() const { return GetParam(); }
  std::string mine() { return is_local() ? local("a", "&close_flush=0&notice_within=60m") : uri("a", "&notice_within=60m"); }
  std::vector<core::Record> records() { return world().handle()->records(*StreamName::parse("app")); }

  // The next commit of the stream, as the twin makes it: user_version = 7.
  Bytes twin_commit() {
    const std::string path = world().folder() + "/twin.db";
    const sqlite::CommitState state = world().rebuild("app", path);
    Bytes page(state.page_size);
    std::FILE* file = std::fopen(path.c_str(), "re");
    EXPECT_EQ(std::fread(page.data(), 1, page.size(), file), page.size());
    std::fclose(file);
    const std::uint64_t before = sqlite::page_hash_of(1, page);
    constexpr std::size_t kUserVersion = 63;  // low byte (SQLite file format, 1.3)
    page[kUserVersion] = std::byte{7};
    wire::PageCodec codec;
    Bytes payload;
    wire::PartEncoder encoder(codec, {state.ordinal + 1, state.page_size, state.page_count, {state.page_sum, state.page_count}}, [&](Bytes part) -> Result<> {
      payload = std::move(part);
      return {};
    });
    EXPECT_TRUE(encoder.add(1, page));
    EXPECT_TRUE(encoder.finish(state.page_sum - before + sqlite::page_hash_of(1, page)));
    return payload;
  }
  // By a session of its own, with what the owner's memory holds: its claim, and the next sequence.
  void twin_appends() {
    const core::Record last = records().back();
    core::AppendBatch batch;
    batch.incarnation = last.incarnation;
    batch.epoch = last.epoch;
    batch.claim_id = last.claim_id;
    batch.first = Sequence{last.sequence.value + 1};
    batch.attempt = world().runtime().draw<PutId>();
    batch.appends.push_back({core::RecordKind::data, twin_commit()});
    const auto home = world().handle();
    const auto sent = home->stream(*StreamName::parse("app"))->append(batch);
    ASSERT_TRUE(sent) << sent.error().message;
  }
  void listen(const Sql& db) {
    opened(db).on_reset([this](const Reset& reset) {
      EXPECT_EQ(reset.kind, ResetKind::diverged) << reset.message;
      ++told_;
    });
  }
  void expect_diverged(const Sql& db) {
    EXPECT_TRUE(has(db.ok("SELECT onepen_status()"), "\"kind\":\"diverged\"")) << db.ok("SELECT onepen_status()");
    EXPECT_EQ(db.run("INSERT INTO t VALUES ('later')").code, SQLITE_AUTH);
    EXPECT_EQ(db.run("SELECT onepen_synced()").code, SQLITE_AUTH);
    until([&] { return told_.load() != 0; });
    EXPECT_EQ(told_.load(), 1);
  }
  // Each sequence of an epoch once, and what stands there is the twin's: this process was not acknowledged.
  void expect_one_writer(const Sql& again) {
    std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
    for (const core::Record& record : records()) {
      if (record.kind == core::RecordKind::claim) continue;
      EXPECT_TRUE(seen.emplace(record.epoch.value, record.sequence.value).second);
    }
    EXPECT_EQ(again.ok("PRAGMA user_version"), "7");
    EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "both");
    again.ok("INSERT INTO t VALUES ('goes on'); SELECT onepen_synced()");
    expect_rebuilds(again);
    EXPECT_EQ(told_.load(), 1);
  }
  std::atomic<int> told_{0};
};

TEST_P(TwinTest, ACommitBehindTheTwinsIsRefused) {
  auto db = std::make_unique<Sql>(mine());
  db->ok("CREATE TABLE t(x); INSERT INTO t VALUES ('both'); SELECT onepen_synced()");
  listen(*db);
  twin_appends();
  if (is_local()) {
    db->ok("INSERT INTO t VALUES ('mine')");  // local: it is committed here, and nowhere else
    EXPECT_EQ(db->run("SELECT onepen_synced()").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "1 commit")) << told();
  } else {
    EXPECT_EQ(db->run("INSERT INTO t VALUES ('mine')").code, SQLITE_AUTH);
    EXPECT_TRUE(has(told(), "diverged")) << told();
  }
  expect_diverged(*db);
  db.reset();
  const Sql again(is_local() ? local() : uri());
  EXPECT_EQ(salvaged("a").size(), is_local() ? 1u : 0u) << "what only this process had";
  expect_one_writer(again);
}

TEST_P(TwinTest, SyncedSeesWhatTheTwinWrote) {
  auto db = std::make_unique<Sql>(mine());
  db->ok("CREATE TABLE t(x); INSERT INTO t VALUES ('both'); SELECT onepen_synced()");
  listen(*db);
  twin_appends();
  EXPECT_EQ(db->run("SELECT onepen_synced()").code, SQLITE_AUTH) << "a look at the stream that finds more than this process wrote";
  expect_diverged(*db);
  db.reset();
  const Sql again(is_local() ? local() : uri());
  EXPECT_TRUE(salvaged("a").empty()) << "nothing was only here";
  expect_one_writer(again);
}

INSTANTIATE_TEST_SUITE_P(Durability, TwinTest, ::testing::Values(false, true),
                         [](const auto& which) { return std::string(which.param ? "Local" : "Replicated"); });

}  // namespace
}  // namespace onepen::testing
