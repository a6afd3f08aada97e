#include "owner/life_watch.h"

#include <gtest/gtest.h>

#include "base/guard.h"

namespace onepen::owner {
namespace {

using namespace std::chrono_literals;

struct Watching {
  LifeWatch watch{1s};
  Instant now{};
  LifeWatch::Sight sight{ClaimId{}, Offset{"7"}, Bytes{std::byte{1}}};
  bool look(std::chrono::nanoseconds later) {
    now += later;
    return watch.saw(now, sight);
  }
};

TEST(LifeWatchTest, SilenceOfAWholeTermIsTakenForDeath) {
  Watching w;
  EXPECT_TRUE(w.look(0s)) << "the first look is a beginning";
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(w.look(10ms));
  EXPECT_FALSE(w.watch.gone());
  EXPECT_FALSE(w.look(10ms));
  EXPECT_TRUE(w.watch.gone());
}

TEST(LifeWatchTest, EachSignOfLifeBeginsTheTermAnew) {
  for (int sign = 0; sign < 4; ++sign) {
    Watching w;
    w.look(0s);
    for (int i = 0; i < 90; ++i) w.look(10ms);
    if (sign == 0) w.sight.tail = Offset{"8"};
    if (sign == 1) w.sight.pulse = Bytes{std::byte{2}};
    if (sign == 2) w.sight.pulse.reset();
    if (sign == 3) w.sight.claim.lo = 1;
    EXPECT_TRUE(w.look(10ms)) << sign;
    EXPECT_EQ(w.watch.silence(), 0ns);
    for (int i = 0; i < 99; ++i) w.look(10ms);
    EXPECT_FALSE(w.watch.gone()) << sign;
    w.look(10ms);
    EXPECT_TRUE(w.watch.gone()) << sign;
  }
}

// A watcher that stood still for a day, or whose home was out of reach for one, has not watched for a day.
TEST(LifeWatchTest, TimeInWhichNobodyLookedIsNoSilence) {
  Watching w;
  w.look(0s);
  w.look(10ms);
  w.look(24h);
  EXPECT_FALSE(w.watch.gone());
  EXPECT_EQ(w.watch.silence(), 260ms) << "a quarter of the term, and what was watched before";
  set_guard(Guard::silence_was_watched, false);
  w.look(24h);
  set_guard(Guard::silence_was_watched, true);
  EXPECT_TRUE(w.watch.gone()) << "without the rule it takes the database from an owner that lives";
}

// Its signs come four times in its own term: a watcher that is less patient would take them for silence.
TEST(LifeWatchTest, AnOwnerWithALongerTermIsGivenIt) {
  Watching w;
  const auto say = [&](const std::string& text) { w.sight.pulse = Bytes(as_bytes(text).begin(), as_bytes(text).end()); };
  say(sign_of_life(7, 3s));
  w.look(0s);
  for (int i = 0; i < 299; ++i) w.look(10ms);
  EXPECT_FALSE(w.watch.gone());
  w.look(10ms);
  EXPECT_TRUE(w.watch.gone());
  EXPECT_EQ(term_told(as_bytes(sign_of_life(1, 1500ms))), 1500ms);
  EXPECT_EQ(term_told(as_bytes(std::string("1 99999999999999"))), kMostTerm) << "no object keeps a standby waiting for ever";
  for (const std::string text : {"", "7", "7 ", "7 x", "7 -3", "7 30 4"}) EXPECT_EQ(term_told(as_bytes(text)), 0ns) << text;
}

TEST(LifeWatchTest, ItCanBeginAgain) {
  Watching w;
  w.look(0s);
  for (int i = 0; i < 200; ++i) w.look(10ms);
  ASSERT_TRUE(w.watch.gone());
  w.watch.begin_again();
  EXPECT_FALSE(w.watch.gone());
  EXPECT_TRUE(w.look(10ms));
}

}  // namespace
}  // namespace onepen::owner
