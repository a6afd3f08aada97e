// Takeover with pending commits, exactly as fence.md says it.
#include <algorithm>
#include <atomic>
#include <fstream>

#include "tests/sqlite/local_support.h"

namespace onepen::testing {
namespace {

class TakeoverTest : public LocalTest {
 protected:
  // A has commits acknowledged, and then three pending, of which the first has landed without A knowing it. Their bytes as A sent them stay in sent_.
  void three_pending(const Sql& a) {
    a.ok("CREATE TABLE t(x); INSERT INTO t VALUES ('acknowledged'); SELECT onepen_synced()");
    const std::size_t before = data().size();
    world().set_hook([this](const CallInfo& call) {
      if (call.call != Call::append) return call.call == Call::stat || call.call == Call::read ? Trouble::unavailable : Trouble::none;
      for (const core::Append& append : call.batch->appends) {
        if (append.kind == core::RecordKind::data && sent_.empty()) sent_.push_back(append.payload);
      }
      return landed_.exchange(true) ? Trouble::unavailable : Trouble::lost_answer;
    });
    a.ok("INSERT INTO t VALUES ('landed')");
    until([&] { return landed_.load() && data().size() == before + 1; });
    a.ok("INSERT INTO t VALUES ('second'); INSERT INTO t VALUES ('third')");
    EXPECT_EQ(pending(a), 3u);
  }
  static std::string manifest(const std::filesystem::path& folder) {
    std::ifstream file(folder / "manifest.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<Bytes> sent_;
  std::atomic<bool> landed_{false};
};

// S38: what was only here is in salvage and said so, never dropped.
TEST_F(TakeoverTest, SomebodyElseWroteTheUnlandedGoToSalvage) {
  auto a = std::make_unique<Sql>(local("a", "&owner=first&close_flush=0"));
  three_pending(*a);
  std::atomic<int> listeners{0};
  const std::string copy = opened(*a).copy().folder();
  opened(*a).on_reset([&](const Reset& reset) {
    EXPECT_EQ(reset.kind, ResetKind::fenced);
    EXPECT_EQ(reset.salvage_path, copy) << "there they are until the database is opened again";
    ++listeners;
  });
  free_home_for_others();
  const Sql b(uri("b", "&owner=second"));
  EXPECT_EQ(b.ok("SELECT group_concat(x) FROM t"), "acknowledged,landed");
  b.ok("INSERT INTO t VALUES ('of b')");
  free_home();
  EXPECT_EQ(a->run("SELECT onepen_synced()").code, SQLITE_AUTH);
  EXPECT_TRUE(has(told(), "second")) << told();
  EXPECT_EQ(a->run("SELECT onepen_synced()").code, SQLITE_AUTH);
  EXPECT_EQ(a->run("INSERT INTO t VALUES ('later')").code, SQLITE_AUTH);
  until([&] { return listeners.load() != 0; });
  EXPECT_TRUE(has(a->ok("SELECT onepen_status()"), "\"salvage_path\":\"" + copy + "\""));
  a.reset();
  EXPECT_EQ(listeners.load(), 1);
  Sql again(local("a"));
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "acknowledged,landed,of b");
  again.ok("INSERT INTO t VALUES ('goes on'); SELECT onepen_synced()");
  expect_rebuilds(again);
  const auto folders = salvaged("a");
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(opened(again).status().salvaged, folders[0].string()) << "and from then on here";
  EXPECT_TRUE(has(again.ok("SELECT onepen_status()"), "\"salvaged\":\"" + folders[0].string() + "\""));
  EXPECT_TRUE(has(folders[0].filename().string(), "fenced")) << folders[0];
  const auto text = manifest(folders[0]);
  EXPECT_TRUE(has(text, "\"fenced\"")) << text;
  again.close();
  EXPECT_TRUE(opened(Sql(local("a"))).status().salvaged.empty()) << "what this open found fits";
}

TEST_F(TakeoverTest, NobodyWroteTheyAreSentAgainUnchanged) {
  auto a = std::make_unique<Sql>(local("a", "&close_flush=0"));
  three_pending(*a);
  const auto before = data();
  free_home_for_others();
  {
    const Sql b(uri("b"));
    EXPECT_EQ(b.ok("SELECT group_concat(x) FROM t"), "acknowledged,landed");
  }
  a.reset();
  free_home();
  const Sql again(local("a"));
  again.ok("SELECT onepen_synced()");
  EXPECT_EQ(again.ok("SELECT group_concat(x) FROM t"), "acknowledged,landed,second,third");
  expect_rebuilds(again);
  EXPECT_TRUE(salvaged("a").empty());
  const auto after = data();
  ASSERT_EQ(after.size(), before.size() + 2);
  EXPECT_EQ(after[before.size() - 1].payload, sent_.at(0));
  EXPECT_GT(after.back().epoch, before.back().epoch);
}

// What one process encoded and could not send, another one encodes again: the same bytes.
TEST_F(TakeoverTest, TheBytesOfAPendingCommitFollowFromTheWalAlone) {
  std::vector<Bytes> first;
  std::mutex mutex;
  const auto watch = [&](const CallInfo& call) {
    if (call.call != Call::append) return Trouble::none;
    const std::lock_guard lock(mutex);
    for (const core::Append& append : call.batch->appends) {
      if (append.kind == core::RecordKind::data && std::find(first.begin(), first.end(), append.payload) == first.end()) first.push_back(append.payload);
    }
    return Trouble::unavailable;
  };
  std::size_t before = 0;
  {
    const Sql a(local("a", "&close_flush=0"));
    a.ok("PRAGMA auto_vacuum = incremental; VACUUM; CREATE TABLE t(id INTEGER PRIMARY KEY, x); SELECT onepen_synced()");
    before = data().size();
    world().set_hook(watch);
    a.ok("INSERT INTO t(x) VALUES (randomblob(60000))");
    until([&] {
      const std::lock_guard lock(mutex);
      return !first.empty();
    });
    a.ok("DELETE FROM t; PRAGMA incremental_vacuum; INSERT INTO t(x) VALUES (randomblob(90000)); UPDATE t SET x = 'small'");
  }
  free_home();
  const Sql again(local("a"));
  again.ok("SELECT onepen_synced()");
  expect_rebuilds(again);
  const auto after = data();
  ASSERT_GT(after.size(), before);
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(after.at(before + i).payload, first[i]) << i;
}

}  // namespace
}  // namespace onepen::testing
