// The two bounds of group commit, on a clock of the test's own.
#include "core/group_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace onepen::core {
namespace {

using namespace std::chrono_literals;

Instant at(std::chrono::nanoseconds time) { return Instant(1h) + time; }

// Writes whenever it may, from `from` on; the times.
std::vector<Instant> writes(WriteRate& rate, Instant from, std::chrono::nanoseconds during) {
  std::vector<Instant> out;
  for (Instant now = from; now < from + during; now = std::max(now, rate.next())) {
    out.push_back(now);
    rate.wrote(now);
  }
  return out;
}

TEST(WriteRate, WithoutABoundItNeverWaits) {
  WriteRate rate(0);
  for (int i = 0; i < 1000; ++i) rate.wrote(at(0s));
  EXPECT_LE(rate.next(), at(0s));
}

TEST(WriteRate, AfterARestASecondsWorthGoesAtOnceAndThenOneAfterTheOther) {
  WriteRate rate(10);
  EXPECT_LE(rate.next(), at(0s)) << "the first never waits";
  const auto times = writes(rate, at(0s), 10s);
  EXPECT_EQ(std::count(times.begin(), times.end(), at(0s)), 10);
  for (std::size_t i = 10; i < times.size(); ++i) EXPECT_EQ(times[i] - times[i - 1], 100ms) << i;
  EXPECT_EQ(times.size(), 109u);
  EXPECT_EQ(std::ranges::count(writes(rate, at(1h), 1s), at(1h)), 10) << "an hour of rest is no more than a second's";
}

TEST(WriteRate, NoTimeSeesMoreThanItsShareAndASecondsWorth) {
  for (const double per_second : {0.1, 0.5, 1.0, 3.0, 7.5, 40.0}) {
    WriteRate rate(per_second);
    std::vector<Instant> times = writes(rate, at(0s), 60s);
    for (const Instant more : writes(rate, at(90s), 60s)) times.push_back(more);
    for (std::size_t i = 0; i < times.size(); ++i) {
      for (std::size_t j = i; j < times.size(); ++j) {
        const double seconds = std::chrono::duration<double>(times[j] - times[i]).count();
        ASSERT_LE(static_cast<double>(j - i + 1), std::max(1.0, per_second) + per_second * seconds + 1e-3) << per_second << " a second, " << seconds << " s";
      }
    }
  }
}

TEST(WriteRate, LessThanOneASecond) {
  WriteRate rate(0.5);
  const auto times = writes(rate, at(0s), 9s);
  ASSERT_EQ(times.size(), 5u);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_EQ(times[i] - times[i - 1], 2s);
}

// The linger after each of so many answers.
std::vector<std::chrono::nanoseconds> lingers(Linger& linger, int answers, std::size_t company, std::chrono::nanoseconds took) {
  std::vector<std::chrono::nanoseconds> seen;
  for (int i = 0; i < answers; ++i) {
    linger.answered(at(0s), company, took);
    seen.push_back(linger.now());
  }
  return seen;
}

TEST(Linger, TheFirstCommitOfAnIdleLogGoesAtOnce) {
  Linger linger(250ms);
  EXPECT_LE(linger.send_at({1, 100}), at(0s));
  linger.answered(at(0s), 1, 30ms);
  linger.answered(at(100ms), 200, 30ms);
  EXPECT_GT(linger.send_at({1, 100}), at(100ms)) << "under load it waits for company";
  EXPECT_LE(linger.send_at({1, 100}), at(1s)) << "an idle log has waited long enough, whatever the load was before";
}

TEST(Linger, UnderLoadItBeginsWithTheTimeOfACreateAndDoublesUpToItsBound) {
  Linger linger(250ms);
  EXPECT_EQ(lingers(linger, 5, 50, 30ms), (std::vector<std::chrono::nanoseconds>{30ms, 60ms, 120ms, 240ms, 250ms}));
  EXPECT_EQ(linger.send_at({1, 1}), at(250ms));
}

TEST(Linger, WithoutCompanyItFallsBackToTheTimeOfACreate) {
  Linger linger(250ms);
  for (int i = 0; i < 5; ++i) linger.answered(at(0s), 50, 30ms);
  for (int i = 0; i < 10; ++i) linger.answered(at(0s), 1, 30ms);
  EXPECT_EQ(linger.now(), 30ms) << "one create is in flight or being filled: half of the creates that single commits would make";
}

// The directory: a create takes less than a millisecond, so the linger begins at one, and ends there where a batch of one came.
TEST(Linger, InADirectoryItGoesFromOneMillisecondToTwenty) {
  Linger linger(20ms);
  EXPECT_EQ(lingers(linger, 6, 2, 300us), (std::vector<std::chrono::nanoseconds>{1ms, 2ms, 4ms, 8ms, 16ms, 20ms}));
  for (int i = 0; i < 10; ++i) linger.answered(at(0s), 1, 300us);
  EXPECT_EQ(linger.now(), 300us);
}

TEST(Linger, AFullBatchDoesNotWait) {
  Linger linger(250ms);
  linger.answered(at(0s), 50, 30ms);
  EXPECT_EQ(linger.send_at({kFullBatchCommits - 1, kFullBatchBytes - 1}), at(30ms));
  EXPECT_LE(linger.send_at({kFullBatchCommits, 1}), at(0s));
  EXPECT_LE(linger.send_at({1, kFullBatchBytes}), at(0s));
}

TEST(Linger, ABoundOfZeroNeverWaits) {
  Linger linger(0ms);
  for (int i = 0; i < 5; ++i) linger.answered(at(0s), 50, 30ms);
  EXPECT_LE(linger.send_at({1, 1}), at(0s));
}

// One create that stood still for a minute does not decide how long the next commits wait: the bound does.
TEST(Linger, ASlowCreateCountsUpToTheBound) {
  Linger linger(250ms);
  linger.answered(at(0s), 1, 1min);
  EXPECT_EQ(linger.now(), 250ms);
  for (int i = 0; i < 60; ++i) linger.answered(at(0s), 1, 30ms);
  EXPECT_LT(linger.now(), 31ms);
}

}  // namespace
}  // namespace onepen::core
