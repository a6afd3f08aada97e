// What OpenOptions asks for and Status answers (include/onepen/database.h), through the public C++ API alone: each option changes what happens here.
#include <atomic>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

#include "tests/sqlite/database_options_support.h"

namespace onepen {
namespace {

using testing::Call;
using testing::CallInfo;
using testing::one;
using testing::open_with_table;
using testing::OptionsTest;
using testing::Place;
using testing::run;
using testing::Trouble;

// ---- offline

TEST_F(OptionsTest, OfflineGoesOnFromTheCopyAndGoesLiveByItself) {
  const Place at = place();
  make(at, local("a"));
  at.away();
  auto a = Database::open(at.home, "app", offline("a"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->status().role, Status::Role::offline);
  EXPECT_EQ(a->status().token.epoch, Epoch{1}) << "what this copy owned last";
  EXPECT_EQ(a->status().pending_commits, 0u);
  ASSERT_EQ(insert(*a, "offline"), SQLITE_OK);
  EXPECT_EQ(a->status().pending_commits, 1u);
  const auto nobody = a->synced(Duration(50));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().outcome, Outcome::unavailable);
  EXPECT_TRUE(has(nobody.error().message, "1 commit")) << nobody.error().message;
  EXPECT_EQ(a->status().role, Status::Role::offline) << "nothing was reset by that";
  at.back();
  until([&] { return a->status().role == Status::Role::owner; });
  ASSERT_TRUE(a->synced());
  EXPECT_EQ(a->status().pending_commits, 0u);
  EXPECT_EQ(a->status().token.epoch, Epoch{2}) << "a claim of its own, exactly one above";
  EXPECT_TRUE(a->close());
  EXPECT_EQ(seen_by_another_machine(), "first,offline");
}

TEST_F(OptionsTest, OfflineNeedsACopyAndALocalDurability) {
  const Place at = place();
  make(at, local("a"));
  at.away();
  const auto nothing_here = Database::open(at.home, "app", offline("elsewhere"));
  ASSERT_FALSE(nothing_here);
  EXPECT_EQ(nothing_here.error().outcome, Outcome::unavailable);
  EXPECT_TRUE(has(nothing_here.error().message, "no local copy")) << nothing_here.error().message;
  OpenOptions replicated = on("a"), confirmed = offline("a");
  replicated.offline = confirmed.confirm_reads = true;
  for (const OpenOptions& senseless : {replicated, confirmed}) {
    const auto opened = Database::open(at.home, "app", senseless);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().outcome, Outcome::invalid) << opened.error().message;
  }
}

// ---- confirm_reads, commit_timeout, max_pending_bytes

TEST_F(OptionsTest, ConfirmedReadsAskTheHomeAndOthersDoNot) {
  for (const bool confirmed : {true, false}) {
    const Place at = place(), other = place();
    OpenOptions options = on("a");
    options.confirm_reads = confirmed;
    options.notice_within = std::chrono::hours(1);  // it looks by itself as good as never
    auto opened = open_with_table(at.home, options);
    ASSERT_TRUE(opened);
    auto& [a, connection] = *opened;
    ASSERT_EQ(run(connection, "SELECT count(*) FROM t"), SQLITE_OK);
    auto b = Database::open(other.home, "app", on("b"));
    ASSERT_TRUE(b);
    ASSERT_EQ(insert(*b, "newer"), SQLITE_OK);
    EXPECT_EQ(run(connection, "SELECT count(*) FROM t"), confirmed ? SQLITE_AUTH : SQLITE_OK);
    EXPECT_EQ(a.status().role, confirmed ? Status::Role::reset : Status::Role::owner);
    static_cast<void>(a.close(Duration(0)));
  }
}

TEST_F(OptionsTest, CommitTimeoutEndsAnUnansweredCommitAsUnresolved) {
  const Place at = place();
  OpenOptions options = on("a");
  options.commit_timeout = Duration(50);
  auto opened = open_with_table(at.home, options);
  ASSERT_TRUE(opened);
  auto& [a, connection] = *opened;
  at.takes_nothing();
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES ('refused')"), SQLITE_AUTH) << "every answer was no: certainly not in the stream";
  EXPECT_EQ(a.status().role, Status::Role::owner) << "so the handle goes on";
  at.back();
  until([&] { return run(connection, "INSERT INTO t VALUES ('taken')") == SQLITE_OK; });
  at.memory->set_hook([](const CallInfo& call) {
    return call.call == Call::append ? Trouble::lost_answer : call.call == Call::stat || call.call == Call::read ? Trouble::unavailable : Trouble::none;
  });
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES ('landed')"), SQLITE_AUTH);
  ASSERT_TRUE(a.status().reset);
  EXPECT_EQ(a.status().reset->kind, ResetKind::unresolved);
  EXPECT_TRUE(has(a.status().reset->message, "50 ms")) << a.status().reset->message;
  at.back();
  connection.reset();
  static_cast<void>(a.close());
  EXPECT_EQ(seen_by_another_machine(), "taken,landed");
}

TEST_F(OptionsTest, WhatCommitsMayCostIsBoundedWithinReason) {
  const Place at = place();
  OpenOptions options = local("a");
  for (const double rate : {0.0, -1.0, 0.01, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    options.max_objects_per_second = rate;
    const auto refused = Database::open(at.home, "app", options);
    ASSERT_FALSE(refused) << rate;
    EXPECT_EQ(refused.error().outcome, Outcome::invalid);
    EXPECT_NE(refused.error().message.find("max_objects_per_second"), std::string::npos) << refused.error().message;
  }
  options.max_objects_per_second = 1000;
  options.max_linger = Duration(120'000);
  EXPECT_FALSE(Database::open(at.home, "app", options));
  options.max_linger = Duration(0);
  auto opened = open_with_table(at.home, options);
  ASSERT_TRUE(opened);
  auto& [a, connection] = *opened;
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES (1)"), SQLITE_OK);
  EXPECT_TRUE(a.synced());
}

TEST_F(OptionsTest, AboveMaxPendingBytesCommitIsRefusedUntilTheHomeTakesThem) {
  const Place at = place();
  OpenOptions options = local("a");
  options.max_pending_bytes = 256u << 10;
  options.commit_timeout = Duration(50);
  auto opened = open_with_table(at.home, options);
  ASSERT_TRUE(opened);
  auto& [a, connection] = *opened;
  ASSERT_TRUE(a.synced());
  at.takes_nothing();
  std::uint64_t kept = 0;
  int code = SQLITE_OK;
  for (int i = 0; i < 1000 && code == SQLITE_OK; ++i) {
    code = run(connection, "INSERT INTO t VALUES (zeroblob(5000))");
    kept += code == SQLITE_OK ? 1 : 0;
  }
  EXPECT_EQ(code, SQLITE_AUTH);
  EXPECT_GT(kept, 5u);
  EXPECT_EQ(a.status().pending_commits, kept) << "what was committed before is kept";
  EXPECT_EQ(a.status().role, Status::Role::owner);
  at.back();
  ASSERT_TRUE(a.synced());
  EXPECT_EQ(a.status().pending_commits, 0u);
  EXPECT_EQ(run(connection, "INSERT INTO t VALUES ('later')"), SQLITE_OK);
  ASSERT_TRUE(a.synced());
  EXPECT_EQ(one(connection, "SELECT count(*) FROM t"), std::to_string(kept + 1));
}

// ---- progress, takeover

TEST_F(OptionsTest, ProgressTellsTheStepsOfAnOpenOnItsThread) {
  const Place at = place();
  make(at, on("a"));
  OpenOptions options = on("b");
  std::set<std::string> steps;
  std::uint64_t bytes = 0;
  const auto opener = std::this_thread::get_id();
  options.progress = [&](const Progress& progress) {
    EXPECT_EQ(std::this_thread::get_id(), opener);
    steps.emplace(progress.step);
    bytes = std::max(bytes, progress.done_bytes);
  };
  auto b = Database::open(at.home, "app", options);
  ASSERT_TRUE(b);
  EXPECT_TRUE(steps.contains("claim"));
  EXPECT_TRUE(steps.contains("warm") || steps.contains("read"));
  EXPECT_GT(bytes, 0u) << "there was something to read";
  const auto told = steps.size();
  ASSERT_EQ(insert(*b, "later"), SQLITE_OK);
  ASSERT_TRUE(b->synced());
  EXPECT_EQ(steps.size(), told) << "of open() only";
}

TEST_F(OptionsTest, IfDeadIsRefusedByAnOwnerThatWritesMeanwhile) {
  const Place at = place(), other = place();
  make(at, on("a"));
  auto a = Database::open(at.home, "app", on("a"));
  ASSERT_TRUE(a);
  auto connection = a->connect();
  ASSERT_TRUE(connection);
  OpenOptions options = on("b");
  options.takeover = Takeover::if_dead;
  bool watched = false;
  options.progress = [&](const Progress& progress) {
    if (progress.step != "watch" || watched) return;
    watched = true;
    // On a thread of its own, as on the other machine that it stands for: the open holds what one process's openings wait for.
    std::thread([&] { EXPECT_EQ(run(*connection, "INSERT INTO t VALUES ('a lives')"), SQLITE_OK); }).join();
  };
  const auto b = Database::open(other.home, "app", options);
  ASSERT_FALSE(b);
  EXPECT_TRUE(watched);
  EXPECT_EQ(b.error().outcome, Outcome::held) << b.error().message;
  ASSERT_TRUE(b.error().current);
  EXPECT_EQ(b.error().current->name, "a");
  EXPECT_EQ(insert(*a, "goes on"), SQLITE_OK);
  EXPECT_EQ(a->status().role, Status::Role::owner);
}

TEST_F(OptionsTest, AnOwnerThatWentInPeaceIsNoneToIfDeadAndNever) {
  for (const Takeover takeover : {Takeover::if_dead, Takeover::never}) {
    const std::string name = takeover == Takeover::never ? "never" : "if-dead";
    const Place at = place();
    {
      auto a = Database::open(at.home, name, on("a"));
      ASSERT_TRUE(a);
      ASSERT_EQ(run(*a->connect(), "CREATE TABLE t(x)"), SQLITE_OK);
      ASSERT_TRUE(a->close());
    }
    OpenOptions options = on("b");
    options.takeover = takeover;
    options.progress = [](const Progress& progress) { EXPECT_NE(progress.step, "watch") << "there is nobody to watch"; };
    auto b = Database::open(at.home, name, options);
    ASSERT_TRUE(b) << name << ": " << b.error().message;
    EXPECT_EQ(insert(*b, "b"), SQLITE_OK);
    EXPECT_EQ(b->status().token.epoch, Epoch{2});
  }
}

}  // namespace
}  // namespace onepen
