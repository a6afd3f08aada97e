#include "sqlite/caretaker.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sqlite/caretaker_testing.h"

namespace onepen::sqlite::testing {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

TEST_F(Caretaking, AsksForNothingBeforeTheFirstCommit) {
  start();
  EXPECT_EQ(seat.sessions, 0);
  commit(100);
  EXPECT_EQ(seat.sessions, 1);
  EXPECT_EQ(log.stats, 1u);
  for (int i = 0; i < 100; ++i) commit(100);
  EXPECT_EQ(log.stats, 1u) << "and for nothing more until there is something to do";
}

TEST_F(Caretaking, ASnapshotWhenTheLogIsLongerThanEightMebibytes) {
  start();
  for (int i = 0; i < 8; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 0u);
  EXPECT_EQ(caretaker->status().log_bytes, 8 * kMiB);
  EXPECT_EQ(caretaker->status().next_snapshot_at, kLeastSnapshotAfter);
  commit(1);
  EXPECT_EQ(snapshots_made(), 1u);
  ASSERT_EQ(seat.records.size(), 1u);
  const auto record = nlohmann::json::parse(seat.records[0]);
  EXPECT_EQ(record["kind"], "snapshot");
  EXPECT_EQ(record["at"], offset_of(9).text);
  EXPECT_EQ(record["id"], "snap-1");
  EXPECT_EQ(record["commits"], 9);
  EXPECT_GT(record["bytes"], 3 * 65536);
  const GrowthStatus status = caretaker->status();
  EXPECT_LT(status.log_bytes, 1000u);  // the record
  ASSERT_TRUE(status.newest);
  EXPECT_EQ(status.newest->id, "snap-1");
  EXPECT_EQ(status.trouble, "");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("snapshot snap-1 of commit 9"), std::string::npos) << lines[0];
}

TEST_F(Caretaking, ALargerDatabaseHasALongerLog) {
  seat.pages = 1600;  // 100 MiB
  start();
  for (int i = 0; i < 100; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 0u);
  EXPECT_EQ(caretaker->status().next_snapshot_at, 100 * kMiB);
  commit(kMiB);
  EXPECT_EQ(snapshots_made(), 1u);
}

TEST_F(Caretaking, SnapshotAfterIsObeyed) {
  start({.snapshot_after = 3 * kMiB});
  for (int i = 0; i < 3; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 0u);
  commit(kMiB);
  EXPECT_EQ(snapshots_made(), 1u);
}

// What docs/formats/snapshot.md promises: the log since the snapshot before the newest one, and two snapshots.
TEST_F(Caretaking, TrimsToTheSnapshotBeforeAndStaysBounded) {
  start();
  std::uint64_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    commit(kMiB / 2 + static_cast<std::uint64_t>(i % 7) * 1000);
    most = std::max(most, log.kept());
    EXPECT_LE(kept_snapshots(), 2u);
  }
  EXPECT_GT(snapshots_made(), 50u);
  EXPECT_EQ(seat.records.size(), snapshots_made());
  EXPECT_LE(most, 2 * (kLeastSnapshotAfter + kMiB)) << "two rounds, each at most one commit beyond the limit";
  EXPECT_GT(most, kLeastSnapshotAfter);
  // The first one trims nothing; each later one to the position of the one before it.
  std::vector<Offset> trims;
  for (const auto& request : log.tended) {
    if (request.trim_to) trims.push_back(*request.trim_to);
  }
  ASSERT_EQ(trims.size(), seat.records.size() - 1);
  for (std::size_t i = 0; i < trims.size(); ++i) EXPECT_EQ(trims[i].text, nlohmann::json::parse(seat.records[i])["at"].get<std::string>()) << i;
  EXPECT_EQ(seat.sessions, 1);
}

TEST_F(Caretaking, TheNextOwnerGoesOnWhereTheLastOneStopped) {
  start();
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 5; ++i) commit(kMiB);
    caretaker.reset();
    start();
  }
  EXPECT_GT(snapshots_made(), 10u);
  EXPECT_LE(log.kept(), 2 * (kLeastSnapshotAfter + kMiB));
  EXPECT_EQ(kept_snapshots(), 2u);
}

TEST_F(Caretaking, TendsEveryThousandObjectsUntilNothingIsLeft) {
  start();
  commit(10);
  EXPECT_TRUE(log.tended.empty()) << "a short log is left alone";
  log.tend_calls_left = 3;
  for (std::uint32_t i = 0; i < kTendObjects; ++i) commit(10);
  EXPECT_EQ(log.tended.size(), 4u);
  EXPECT_FALSE(log.tended[0].trim_to);
  log.tend_calls_left = 0;
  for (std::uint32_t i = 0; i < kTendObjects; ++i) commit(10);
  EXPECT_EQ(log.tended.size(), 5u);
}

TEST_F(Caretaking, TroubleIsToldTriedAgainAndHurtsNobody) {
  start();
  seat.refuse_pin = Error{Outcome::unavailable, "no pin to be had", std::nullopt};
  for (int i = 0; i < 9; ++i) commit(kMiB);
  EXPECT_EQ(caretaker->status().trouble, "no pin to be had");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no pin to be had. Next attempt in 1 s"), std::string::npos) << lines[0];
  const auto stats = log.stats;
  for (int i = 0; i < 100; ++i) commit(kMiB);
  EXPECT_EQ(log.stats, stats) << "it rests";
  runtime.sleep_until(runtime.now() + std::chrono::seconds(20));
  EXPECT_EQ(lines.size(), 5u) << "after 1, 2, 4 and 8 seconds";
  runtime.sleep_until(runtime.now() + std::chrono::hours(24));
  EXPECT_GT(lines.size(), 1400u);
  EXPECT_LT(lines.size(), 1500u) << "every minute in the end";
  EXPECT_EQ(snapshots_made(), 0u);
  seat.refuse_pin.reset();
  runtime.sleep_until(runtime.now() + std::chrono::minutes(11));
  EXPECT_EQ(snapshots_made(), 1u) << "without another commit";
  EXPECT_EQ(caretaker->status().trouble, "");
}

TEST_F(Caretaking, WhenTheHomeIsAwayNothingIsMade) {
  start();
  log.refuse = core::Refusal{Outcome::unavailable, "nobody there", {}};
  for (int i = 0; i < 20; ++i) commit(kMiB);
  EXPECT_EQ(caretaker->status().trouble, "nobody there");
  EXPECT_EQ(snapshots_made(), 0u);
  log.refuse.reset();
  runtime.sleep_until(runtime.now() + std::chrono::minutes(1));
  EXPECT_EQ(snapshots_made(), 1u);
  EXPECT_EQ(seat.sessions, static_cast<int>(lines.size())) << "a session that failed is not used again";
}

TEST_F(Caretaking, ADamagedCopyMakesNoSnapshot) {
  start();
  seat.damaged_page = 2;
  for (int i = 0; i < 9; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 0u);
  EXPECT_NE(caretaker->status().trouble.find("no snapshot was made"), std::string::npos) << caretaker->status().trouble;
  EXPECT_TRUE(seat.records.empty());
}

// It was written, but what the home gives back is not it: nothing is recorded and nothing trimmed, and the next one is made anew.
TEST_F(Caretaking, ASnapshotThatDoesNotReadBackTrimsNothing) {
  start();
  for (int i = 0; i < 9; ++i) commit(kMiB);
  ASSERT_EQ(seat.records.size(), 1u);
  log.snapshots->absent = {0};
  const auto tended = log.tended.size();
  for (int i = 0; i < 9; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 2u);
  EXPECT_EQ(seat.records.size(), 1u);
  EXPECT_EQ(log.tended.size(), tended);
  EXPECT_NE(caretaker->status().trouble.find("snapshot snap-2 of the stream cannot be used: part 0 of 1"), std::string::npos) << caretaker->status().trouble;
  log.snapshots->absent.clear();
  auto made = caretaker->snapshot_now();
  ASSERT_TRUE(made) << said(made);
  EXPECT_EQ(made->id, "snap-3") << "at the same commit";
  EXPECT_EQ(log.trimmed_bytes, 0u) << "the unfit one is no snapshot to trim to";
  EXPECT_EQ(log.tended.back().keep_snapshots, 3u) << "the one before the unfit one stays: it is the second that can be begun with";
  for (int i = 0; i < 9; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 4u);
  ASSERT_TRUE(log.tended.back().trim_to);
  EXPECT_EQ(*log.tended.back().trim_to, made->offset);
  EXPECT_EQ(log.tended.back().keep_snapshots, 2u) << "the newest two are good";
}

TEST_F(Caretaking, ARecordThatIsRefusedTrimsNothing) {
  start();
  for (int i = 0; i < 9; ++i) commit(kMiB);
  seat.refuse_append = Error{Outcome::unavailable, "the database is being closed", std::nullopt};
  const auto tended = log.tended.size();
  for (int i = 0; i < 9; ++i) commit(kMiB);
  EXPECT_EQ(snapshots_made(), 2u);
  EXPECT_EQ(log.tended.size(), tended);
  seat.refuse_append.reset();
  for (int i = 0; i < 9; ++i) commit(kMiB);
  runtime.sleep_until(runtime.now() + std::chrono::minutes(1));
  EXPECT_EQ(log.trimmed_bytes, 17 * kMiB + seat.records[0].size()) << "to the one whose record failed: it is one";
}

TEST_F(Caretaking, WhoDoesNotOwnDoesNothing) {
  log.owned = false;
  start();
  for (int i = 0; i < 20; ++i) commit(kMiB);
  EXPECT_EQ(seat.sessions, 0);
  auto made = caretaker->snapshot_now();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().outcome, Outcome::not_owner);
  EXPECT_EQ(caretaker->status().trouble, "");
  runtime.sleep_until(runtime.now() + std::chrono::hours(1));
  EXPECT_TRUE(lines.empty());
}

TEST_F(Caretaking, SnapshotNow) {
  start();
  commit(10);
  auto made = caretaker->snapshot_now();
  ASSERT_TRUE(made) << said(made);
  EXPECT_EQ(made->offset, offset_of(1));
  auto again = caretaker->snapshot_now();
  ASSERT_TRUE(again) << said(again);
  EXPECT_EQ(again->id, made->id) << "nothing was committed since";
  commit(10);
  again = caretaker->snapshot_now();
  ASSERT_TRUE(again) << said(again);
  EXPECT_EQ(again->offset, offset_of(2));
  EXPECT_EQ(log.tended.back().trim_to, made->offset);
  seat.pages = 0;
  commit(10);
  again = caretaker->snapshot_now();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().outcome, Outcome::invalid);
}

TEST_F(Caretaking, StopEndsARunningSnapshot) {
  seat.pages = 4000;
  start();
  bool reached = false;
  std::mutex mutex;
  seat.on_read = [&](std::uint32_t page) {
    if (page < 300) return;
    const std::lock_guard lock(mutex);
    if (!std::exchange(reached, true)) runtime.sleep_until(runtime.now() + std::chrono::seconds(5));  // stop() is called now
  };
  commit(10);
  auto stopper = runtime.spawn("stopper", [&] {
    runtime.sleep_until(runtime.now() + std::chrono::seconds(1));
    caretaker->stop();
  });
  auto made = caretaker->snapshot_now();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().outcome, Outcome::unavailable) << said(made);
  stopper.reset();
  EXPECT_EQ(snapshots_made(), 0u);
  caretaker->stop();
  EXPECT_FALSE(caretaker->snapshot_now());
  EXPECT_EQ(caretaker->status().trouble, "");
  EXPECT_TRUE(lines.empty());
}

TEST_F(Caretaking, EndsWhenTheProcessIsStopped) {
  start();
  commit(10);
  runtime.stop_the_world();
  EXPECT_FALSE(caretaker->snapshot_now());
  caretaker.reset();
}

}  // namespace
}  // namespace onepen::sqlite::testing
