// A standby over the in-memory home, in a test's own time: when it claims, upon what, and whom it asks.
#include "owner/standby.h"

#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;

class StandbyTest : public OwnerTest {
 protected:
  Standby standby(Process& process, std::chrono::nanoseconds term, bool watches = true) {
    return Standby(runtime, "app", {"'" + process.options.info.name + "' that stands ready", term, watches}, process.options.log);
  }
  // Looks until there is a chance, or until `within` is over.
  std::optional<Chance> chance_of(Standby& standby, core::Stream& stream, std::chrono::nanoseconds within) {
    for (const Instant until = in(within); runtime.now() < until; runtime.sleep_until(in(std::min<std::chrono::nanoseconds>(standby.patience(), 50ms)))) {
      if (auto chance = standby.look(stream)) return chance;
    }
    return {};
  }
  // The claim that follows.
  Result<std::unique_ptr<Owner>> claim(Process& process, const Chance& chance) {
    process.options.watched = chance.plan;
    process.options.takeover = chance.plan ? TakeoverMode::if_dead : TakeoverMode::always;
    return process.open();
  }
};

TEST_F(StandbyTest, AnIdleOwnerWithoutSignsOfLifeIsGoneAfterATerm) {
  const auto owner = b.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  auto watching = standby(a, 10s);
  const auto stream = a.home.stream(app);
  const Instant from = runtime.now();
  const auto chance = chance_of(watching, *stream, 60s);
  ASSERT_TRUE(chance);
  EXPECT_EQ(chance->why, Chance::Why::silent);
  EXPECT_GE(runtime.now() - from, 10s);
  EXPECT_LE(runtime.now() - from, 10s + 100ms);
  EXPECT_NE(chance->from.find("'b', pid 4711"), std::string::npos) << chance->from;
  auto next = claim(a, *chance);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(commit(**next, "two").kind, Kind::acknowledged);
  EXPECT_EQ(commit(*owner, "late").kind, Kind::refused);
}

// The owner lived after all: it commits between the last look and the claim.
TEST_F(StandbyTest, ItsClaimIsConditional) {
  auto owner = b.must_open();
  auto watching = standby(a, 10s);
  const auto stream = a.home.stream(app);
  auto chance = chance_of(watching, *stream, 60s);
  ASSERT_TRUE(chance);
  ASSERT_EQ(commit(*owner, "alive").kind, Kind::acknowledged);
  const auto refused = claim(a, *chance);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::held) << refused.error().message;
  watching.failed(refused.error());
  EXPECT_FALSE(chance_of(watching, *stream, 9s)) << "a term begins anew";
  EXPECT_EQ(commit(*owner, "and well").kind, Kind::acknowledged);

  chance = chance_of(watching, *stream, 60s);
  ASSERT_TRUE(chance);
  auto opened = b.must_open();  // somebody opens meanwhile
  EXPECT_EQ(claim(a, *chance).error().outcome, Outcome::held);
  EXPECT_EQ(commit(*opened, "the last to open").kind, Kind::acknowledged);

  set_guard(Guard::standby_conditional, false);
  chance = chance_of(watching, *stream, 60s);
  set_guard(Guard::standby_conditional, true);
  ASSERT_TRUE(chance);
  ASSERT_EQ(commit(*opened, "alive").kind, Kind::acknowledged);
  EXPECT_TRUE(claim(a, *chance)) << "without the rule it throws out an owner that lives";
  EXPECT_EQ(commit(*opened, "thrown out").kind, Kind::refused);
}

// Where each request is paid for: four looks and four signs in a term, and no more than the term and two looks from the owner's death.
TEST_F(StandbyTest, AtAMeteredHomeItLooksFourTimesInATerm) {
  b.options.liveness = true;
  b.options.metered = true;
  b.options.notice_within = core::kNoLook;
  b.options.term = 8s;
  auto owner = b.must_open();
  ASSERT_TRUE(runtime.wait_for([&] { return b.home.calls(Call::beat) > 0; }));
  Standby watching(runtime, "app", {"the standby", 8s, true, true}, a.options.log);
  const auto stream = a.home.stream(app);
  const auto looks = [&] { return a.home.calls(Call::stat) + a.home.calls(Call::pulse); };
  const auto before = looks();
  EXPECT_FALSE(chance_of(watching, *stream, 80s));
  EXPECT_LE(looks() - before, 3 * 41u) << "the stream, the sign of life, and whether an admin asked for a handover";
  EXPECT_GE(a.home.calls(Call::stat), 39u);
  b.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });  // cut off: no sign of life from here on
  const Instant from = runtime.now();
  const auto chance = chance_of(watching, *stream, 60s);
  ASSERT_TRUE(chance);
  EXPECT_EQ(chance->why, Chance::Why::silent);
  EXPECT_LE(runtime.now() - from, 12s + 100ms);
  EXPECT_GE(runtime.now() - from, 6s) << "a whole term after the last sign, which is a quarter of it ago at most";
}

TEST_F(StandbyTest, SignsOfLifeKeepItAway) {
  b.options.liveness = true;
  b.options.term = 40s;
  const auto owner = b.must_open();
  auto watching = standby(a, 15s);  // less patient than the owner's signs, which come every ten seconds, and told so by them
  const auto stream = a.home.stream(app);
  EXPECT_FALSE(chance_of(watching, *stream, 300s));
  EXPECT_EQ(commit(*owner, "x").kind, Kind::acknowledged);
}

TEST_F(StandbyTest, AnOwnerThatEndedIsFollowedAtOnceAndOnlyByOne) {
  {
    auto owner = b.must_open();
    ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
    ASSERT_TRUE(owner->stop(in(5s)));
  }
  auto first = standby(a, 1h), second = standby(c, 1h);
  const auto stream = a.home.stream(app), other = c.home.stream(app);
  const auto chance = chance_of(first, *stream, 1s), too = chance_of(second, *other, 1s);
  ASSERT_TRUE(chance && too);
  EXPECT_EQ(chance->why, Chance::Why::released);
  const auto next = claim(a, *chance);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(claim(c, *too).error().outcome, Outcome::held);
  EXPECT_EQ(commit(**next, "two").kind, Kind::acknowledged);
}

TEST_F(StandbyTest, AHomeOutOfReachIsNoSilence) {
  b.options.liveness = true;
  b.options.term = 10s;
  const auto owner = b.must_open();
  auto watching = standby(a, 10s);
  const auto stream = a.home.stream(app);
  EXPECT_FALSE(chance_of(watching, *stream, 3s));
  a.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
  EXPECT_FALSE(chance_of(watching, *stream, 100s));
  a.home.set_hook({});
  EXPECT_FALSE(chance_of(watching, *stream, 100s));
  EXPECT_EQ(commit(*owner, "x").kind, Kind::acknowledged);
}

TEST_F(StandbyTest, AsksTheOwnerAndClaimsAllTheSameWhenItDoesNotLetGo) {
  std::mutex mutex;
  std::vector<std::string> told;
  b.options.liveness = true;
  b.options.on_successor = [&](const std::string& who) {
    const std::lock_guard lock(mutex);
    told.push_back(who);
  };
  const auto owner = b.must_open();
  auto asking = standby(a, 30s, false);
  const auto stream = a.home.stream(app);
  EXPECT_FALSE(chance_of(asking, *stream, 100s)) << "it was not asked";
  asking.ask(in(5s));
  const Instant from = runtime.now();
  const auto chance = chance_of(asking, *stream, 60s);
  ASSERT_TRUE(chance);
  EXPECT_EQ(chance->why, Chance::Why::asked);
  EXPECT_FALSE(chance->plan) << "as any open";
  EXPECT_GE(runtime.now() - from, 5s);
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(told, std::vector<std::string>{"'a' that stands ready"});
  }
  ASSERT_TRUE(claim(a, *chance));
  EXPECT_EQ(commit(*owner, "late").kind, Kind::refused);
}

TEST_F(StandbyTest, AnOwnerThatCannotBeAskedIsNotWaitedFor) {
  const auto owner = b.must_open();
  auto asking = standby(a, 30s, false);
  const auto stream = a.home.stream(app);
  asking.ask(in(5s));
  const auto chance = asking.look(*stream);
  ASSERT_TRUE(chance);
  EXPECT_EQ(chance->why, Chance::Why::asked);
}

// An admin asks whoever stands by. A request that was there when the standby came was for others.
TEST_F(StandbyTest, ListensToAnAdminButNotToTheRequestsOfYesterday) {
  b.options.liveness = true;
  const auto owner = b.must_open();
  const std::string liveness = owner->status().token.claim_id;
  const auto stream = a.home.stream(app);
  const auto stands_ready = [&] {
    const auto ready = stream->pulse(successor_object(liveness));
    return ready && *ready && !(*ready)->empty();
  };
  ASSERT_TRUE(stream->beat(handover_object(liveness), as_bytes(std::string("yesterday"))));
  auto watching = standby(a, 30s);
  EXPECT_FALSE(chance_of(watching, *stream, 2s));
  EXPECT_FALSE(stands_ready());
  ASSERT_TRUE(stream->beat(handover_object(liveness), as_bytes(std::string("now"))));
  EXPECT_FALSE(chance_of(watching, *stream, 2s)) << "the owner has not let go";
  EXPECT_TRUE(stands_ready());
  ASSERT_TRUE(owner->stop(in(5s)));
  const auto chance = chance_of(watching, *stream, 2s);
  ASSERT_TRUE(chance);
  EXPECT_EQ(chance->why, Chance::Why::released);
}

TEST_F(StandbyTest, NoLongerStandsReadyWhenTheOwnerDidNotLetGo) {
  b.options.liveness = true;
  const auto owner = b.must_open();
  const std::string liveness = owner->status().token.claim_id;
  const auto stream = a.home.stream(app);
  auto watching = standby(a, 30s);
  EXPECT_FALSE(chance_of(watching, *stream, 1s));
  ASSERT_TRUE(stream->beat(handover_object(liveness), as_bytes(std::string("now"))));
  EXPECT_FALSE(chance_of(watching, *stream, 20s));
  const auto ready = stream->pulse(successor_object(liveness));
  ASSERT_TRUE(ready && *ready);
  EXPECT_TRUE((*ready)->empty());
  EXPECT_EQ(watching.patience(), kMostStandbyLook);
}

// Two standbys that take the stream from each other without ever committing: the fourth change waits, and says between whom.
TEST_F(StandbyTest, FlappingWaitsAndNamesBoth) {
  std::vector<std::unique_ptr<Owner>> owners;
  owners.push_back(b.must_open());
  const auto change = [&](Process& to) {
    auto watching = standby(to, 5s);
    const auto chance = chance_of(watching, *to.home.stream(app), 60s);
    ASSERT_TRUE(chance);
    auto next = claim(to, *chance);
    ASSERT_TRUE(next) << next.error().message;
    owners.push_back(std::move(*next));
  };
  change(a);
  change(b);
  change(a);
  const auto said = [](Process& process) {
    std::string all;
    for (const std::string& line : process.log()) all += line + "\n";
    return all;
  };
  const std::string words = "changed its owner 3 times without a database commit, between 'b', 'a'";
  EXPECT_EQ(said(b).find(words), std::string::npos) << said(b);
  change(b);
  EXPECT_NE(said(b).find(words), std::string::npos) << said(b);
  EXPECT_EQ(commit(*owners.back(), "x").kind, Kind::acknowledged);
}

TEST_F(StandbyTest, NobodyClaimsAStreamThatIsSuspect) {
  const auto owner = b.must_open();
  auto watching = standby(a, 5s);
  const auto stream = a.home.stream(app);
  core::OwnerToken token{{}, owner->status().token.epoch, {}};
  ASSERT_TRUE(parse(owner->status().token.incarnation, token.incarnation) && parse(owner->status().token.claim_id, token.claim_id));
  if (!stream->report_suspect(token, "it lost commits")) GTEST_FAIL() << "the home takes no evidence";
  EXPECT_FALSE(chance_of(watching, *stream, 60s));
}

}  // namespace
}  // namespace onepen::owner
