// What a restore keeps and loses, and how people write where it goes back to.
#include "apps/onepen/restore_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "wire/commit_frame.h"

namespace onepen::app {
namespace {

constexpr std::int64_t kNow = 1'796'000'000'000;

std::optional<std::int64_t> time_of(std::string_view text) {
  const auto point = read_restore_point(text, kNow);
  if (!point || point->offset) return std::nullopt;
  return point->time_ms;
}

TEST(RestorePoint, Ago) {
  EXPECT_EQ(time_of("-90s"), kNow - 90'000);
  EXPECT_EQ(time_of("-2h"), kNow - 7'200'000);
  EXPECT_EQ(time_of("-1d12h"), kNow - 129'600'000);
  for (const char* wrong : {"-", "-2", "-h", "-2w", "-2h3", "--2h", "-99999999999h", "2h"}) EXPECT_EQ(time_of(wrong), std::nullopt) << wrong;
}

TEST(RestorePoint, Calendar) {
  ASSERT_EQ(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
  tzset();
  EXPECT_EQ(time_of("2026-11-29T17:05:11Z"), 1'795'971'911'000);
  EXPECT_EQ(time_of("2026-11-29 17:05:11.25Z"), 1'795'971'911'250);
  EXPECT_EQ(time_of("2026-11-29T18:05:11+01:00"), 1'795'971'911'000);
  EXPECT_EQ(time_of("2026-11-29T14:35:11-0230"), 1'795'971'911'000);
  EXPECT_EQ(time_of("2026-11-29 18:05:11"), 1'795'971'911'000) << "no zone: the local one, in winter";
  EXPECT_EQ(time_of("2026-07-01 02:00"), time_of("2026-07-01T00:00Z")) << "and in summer";
  EXPECT_EQ(time_of("2026-11-29"), time_of("2026-11-28T23:00Z"));
  for (const char* wrong :
       {"", "yesterday", "2026-13-01", "2026-02-30", "2026-11-29 25:00", "2026-11-29 17", "2026-11-29 17:05+99:00", "2026-11-29 17:05 x", "26-1-1"})
    EXPECT_EQ(time_of(wrong), std::nullopt) << wrong;
}

TEST(RestorePoint, Offset) {
  const auto point = read_restore_point("000001.0000000000000005.00001.89abcdef", kNow);
  ASSERT_TRUE(point);
  EXPECT_EQ(point->offset, Offset{"000001.0000000000000005.00001.89abcdef"});
}

TEST(RestorePoint, TheErrorTeaches) {
  const auto point = read_restore_point("tomorrow", kNow);
  ASSERT_FALSE(point);
  EXPECT_EQ(point.error().outcome, Outcome::invalid);
  EXPECT_NE(point.error().message.find("-2h"), std::string::npos) << point.error().message;
}

class RestorePlanTest : public testing::Test {
 protected:
  core::Record record(core::RecordKind kind, std::int64_t time_ms) {
    core::Record made;
    made.kind = kind;
    made.time_ms = time_ms;
    made.next = offset(++at_);
    log_.push_back(made);
    return made;
  }
  static Offset offset(std::uint64_t n) { return {"000001.000000000000000" + std::to_string(n) + ".00001.00000000"}; }
  void claim(std::int64_t time_ms, const char* name = "a") {
    record(core::RecordKind::claim, time_ms);
    log_.back().owner.name = name;
  }
  void control(std::int64_t time_ms) { record(core::RecordKind::control, time_ms); }
  void parts(std::int64_t time_ms, int count, bool finished = true) {
    Bytes image(512);
    wire::PageCodec codec;
    std::vector<Bytes> made;
    // One page past the limit of a part begins the next one.
    const auto pages = static_cast<std::uint32_t>(static_cast<std::size_t>(count - 1) * (wire::kMaxPartImageBytes / 512) + 1);
    wire::PartEncoder encoder(codec, {++ordinal_, 512, pages, {}}, [&](Bytes part) -> Result<> {
      made.push_back(std::move(part));
      return {};
    });
    for (std::uint32_t n = 1; n <= pages; ++n) ASSERT_TRUE(encoder.add(n, image));
    ASSERT_TRUE(encoder.finish(0));
    ASSERT_EQ(made.size(), static_cast<std::size_t>(count));
    if (!finished) made.pop_back(), --ordinal_;
    for (Bytes& part : made) {
      record(core::RecordKind::data, time_ms);
      log_.back().payload = std::move(part);
    }
  }
  RestorePlan plan(const RestorePoint& point) const {
    RestorePlan made(point, Offset{});
    for (const core::Record& each : log_) made.take(each);
    return made;
  }
  RestorePlan at(std::uint64_t n) const { return plan({offset(n), 0}); }
  RestorePlan at_time(std::int64_t time_ms) const { return plan({std::nullopt, time_ms}); }

  std::vector<core::Record> log_;
  std::uint64_t at_ = 0, ordinal_ = 0;
};

TEST_F(RestorePlanTest, ByOffset) {
  claim(1);
  parts(10, 1);  // ends at 2
  parts(20, 1);  // 3
  parts(30, 1);  // 4
  EXPECT_EQ(at(3).common(), offset(3));
  EXPECT_EQ(at(3).kept().count, 2u);
  EXPECT_EQ(at(3).lost().count, 1u);
  EXPECT_FALSE(at(4).loses());
  EXPECT_EQ(at(4).common(), offset(4));
  EXPECT_EQ(at(1).kept().count, 0u);
  EXPECT_EQ(at(1).common(), offset(1));
}

TEST_F(RestorePlanTest, WhatIsNoCommitIsNoLoss) {
  claim(1);
  parts(10, 1);   // 2
  control(11);    // 3
  claim(12, "b");  // 4
  EXPECT_FALSE(at(2).loses());
  EXPECT_EQ(at(2).common(), offset(4)) << "the common part reaches to the tail: readers there go on";
  parts(20, 1);  // 5
  EXPECT_EQ(at(2).common(), offset(4)) << "and else up to the first commit that is lost";
  EXPECT_EQ(at(2).lost().owners, (std::set<std::string>{"'b', pid 0 on host "}));
}

TEST_F(RestorePlanTest, ACommitOfSeveralPartsIsOneCommit) {
  claim(1);
  parts(10, 1);  // 2
  parts(20, 3);  // 3, 4, 5
  for (const std::uint64_t n : {2u, 3u, 4u}) {
    EXPECT_EQ(at(n).common(), offset(2)) << n;
    EXPECT_EQ(at(n).lost().count, 1u) << n;
    EXPECT_GT(at(n).lost().bytes, 0u);
  }
  EXPECT_FALSE(at(5).loses());
  EXPECT_EQ(at(5).kept().count, 2u);
}

TEST_F(RestorePlanTest, VoidPartsAreNoCommit) {
  claim(1);
  parts(10, 1);         // 2
  parts(20, 3, false);  // 3, 4: the owner died
  EXPECT_FALSE(at(2).loses());
  EXPECT_EQ(at(2).common(), offset(2)) << "half a commit at the tail is not in the common part";
  claim(30, "b");  // 5
  parts(40, 1);    // 6
  EXPECT_EQ(at(2).lost().count, 1u);
  EXPECT_EQ(at(2).common(), offset(5)) << "the claim made it void";
  EXPECT_EQ(at(6).kept().count, 2u);
}

TEST_F(RestorePlanTest, ByTime) {
  claim(1);
  parts(10, 1);  // 2
  parts(30, 1);  // 3: a clock that ran ahead
  parts(20, 1);  // 4
  EXPECT_EQ(at_time(10).common(), offset(2));
  EXPECT_EQ(at_time(25).lost().count, 2u) << "what follows a commit that is lost goes with it";
  EXPECT_EQ(at_time(9).kept().count, 0u);
  EXPECT_FALSE(at_time(30).loses());
  EXPECT_EQ(at_time(9).first_ms(), 10);
}

}  // namespace
}  // namespace onepen::app
