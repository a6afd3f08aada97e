// Opening: takeover modes, claim races, the flapping guard.
#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

TEST_F(OwnerTest, NeverOpensOnlyAStreamWithoutOwner) {
  b.options.takeover = TakeoverMode::never;
  auto first = b.must_open();
  a.options.takeover = TakeoverMode::never;
  const auto second = a.open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().outcome, Outcome::held);
  EXPECT_EQ(second.error().current->pid, 4711);
  EXPECT_EQ(a.home.calls(Call::claim), 0u);
}

TEST_F(OwnerTest, NeverLosesToAClaimThatCameFirst) {
  a.options.takeover = TakeoverMode::never;
  std::unique_ptr<Owner> first;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim && !first) first = b.must_open();
    return Trouble::none;
  });
  const auto second = a.open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().outcome, Outcome::held);
  EXPECT_EQ(a.home.calls(Call::claim), 1u) << "a conditional claim is never repeated above another";
  EXPECT_EQ(commit(*first, "x").kind, Kind::acknowledged);
}

TEST_F(OwnerTest, IfDeadIsHeldByAnAppend) {
  auto owner = b.must_open();
  a.options.takeover = TakeoverMode::if_dead;
  Result<std::unique_ptr<Owner>> opened = tl::unexpected(Error{});
  auto opening = runtime.spawn("opening", [&] { opened = a.open(); });
  runtime.sleep_until(in(20s));  // in the middle of its term
  ASSERT_EQ(commit(*owner, "alive").kind, Kind::acknowledged);
  opening.reset();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::held);
  EXPECT_NE(opened.error().message.find("'b', pid 4711 on host host-b (epoch 1)"), std::string::npos) << opened.error().message;
  EXPECT_EQ(commit(*owner, "still alive").kind, Kind::acknowledged);
}

// S08: no clock is compared with that of another machine. Whoever opens watches a term of its own, and one sign of life ends it.
TEST_F(OwnerTest, IfDeadIsHeldByALivenessObject) {
  b.options.liveness = true;
  auto owner = b.must_open();
  a.options.takeover = TakeoverMode::if_dead;
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::held);
}

// S09: an owner that ended before it did anything is taken over from after one term; nobody is told "held" for ever.
TEST_F(OwnerTest, IfDeadTakesOverAfterASilentTerm) {
  auto owner = b.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.options.takeover = TakeoverMode::if_dead;
  const Instant before = runtime.now();
  auto next = a.must_open();
  EXPECT_GE(runtime.now() - before, 30s);
  EXPECT_EQ(a.fold.data(), Texts{"one"});
  ASSERT_EQ(a.claims.written.size(), 1u);
  EXPECT_EQ(to_text(*a.claims.written[0].over), owner->status().token.claim_id);
  EXPECT_EQ(commit(*owner, "late").kind, Kind::refused);
}

TEST_F(OwnerTest, IfDeadIsHeldByAnAppendAtTheLastMoment) {
  auto owner = b.must_open();
  a.options.takeover = TakeoverMode::if_dead;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim) {
      EXPECT_EQ(commit(*owner, "just in time").kind, Kind::acknowledged);
    }
    return Trouble::none;
  });
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::held);
  EXPECT_EQ(commit(*owner, "goes on").kind, Kind::acknowledged);
}

TEST_F(OwnerTest, AHomeOutOfReachIsNotADeadOwner) {
  auto owner = b.must_open();
  a.options.takeover = TakeoverMode::if_dead;
  a.options.term = 5s;
  std::atomic<int> stats = 0;
  a.home.set_hook([&](const CallInfo& info) { return info.call != Call::stat || stats++ > 0 ? Trouble::unavailable : Trouble::none; });
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::unavailable);
  EXPECT_EQ(a.home.calls(Call::claim), 0u);
}

TEST_F(OwnerTest, AnOpenWithoutAnswerGivesUp) {
  a.home.set_hook([](const CallInfo& info) { return info.call == Call::claim ? Trouble::unavailable : Trouble::none; });
  const auto refused = a.open();
  EXPECT_EQ(refused.error().outcome, Outcome::unavailable);
  EXPECT_NE(refused.error().message.find("the home's last answer: "), std::string::npos) << refused.error().message;
  std::atomic<int> claims = 0;
  b.home.set_hook(
      [&](const CallInfo& info) { return info.call == Call::claim ? (claims++ == 0 ? Trouble::lost_request : Trouble::unavailable) : Trouble::none; });
  EXPECT_EQ(b.open().error().outcome, Outcome::unknown);
}

// The copy of a database holds its position before the first part of an unfinished commit; one of many parts is larger than a read.
class FoldOfWholeCommits : public ListFold {
 public:
  Offset position() const override { return whole_; }
  Result<> apply(const core::Record& record) override {
    const auto applied = ListFold::apply(record);
    if (record.kind != core::RecordKind::data || as_text(record.payload).ends_with("last")) whole_ = record.next;
    return applied;
  }

 private:
  Offset whole_;
};

TEST_F(OwnerTest, ACommitLargerThanOneReadIsFoldedOnce) {
  auto owner = b.must_open();
  const std::string part(1u << 20, 'p');
  constexpr std::size_t kParts = 20;
  for (std::size_t i = 0; i < kParts; ++i) ASSERT_EQ(commit(*owner, i + 1 == kParts ? part + "last" : part).kind, Kind::acknowledged);
  FoldOfWholeCommits fold;
  std::atomic<int> reads = 0;
  a.home.set_hook([&](const CallInfo& info) { return info.call == Call::read && ++reads > 1000 ? Trouble::unavailable : Trouble::none; });
  const auto opened = Owner::open(runtime, a.home.stream(app), a.claims, fold, a.options);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(fold.data().size(), kParts) << "each record once";
  EXPECT_LT(reads, 20);
}

TEST_F(OwnerTest, NotFoundWhenItMayNotBeMade) {
  a.options.create = false;
  EXPECT_EQ(a.open().error().outcome, Outcome::not_found);
}

TEST_F(OwnerTest, ALostClaimAnswerIsResentAndReadBack) {
  std::atomic<int> claims = 0;
  a.home.set_hook([&](const CallInfo& info) { return info.call == Call::claim && claims++ == 0 ? Trouble::lost_answer : Trouble::none; });
  auto owner = a.must_open();
  EXPECT_EQ(owner->status().token.epoch, Epoch{1});
  EXPECT_EQ(a.claims.written.size(), 1u);
  EXPECT_EQ(a.home.records(app)[0].claim_id, a.claims.written[0].claim_id);
}

TEST_F(OwnerTest, AnUnconditionalClaimLostToAnotherGoesAboveIt) {
  std::unique_ptr<Owner> other;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim && !other) other = b.must_open();
    return Trouble::none;
  });
  auto owner = a.must_open();
  EXPECT_EQ(owner->status().token.epoch, Epoch{2});
  EXPECT_EQ(a.claims.written.size(), 2u);
  EXPECT_NE(a.claims.written[0].claim_id, a.claims.written[1].claim_id);
}

TEST_F(OwnerTest, SixteenLostClaimsEndInClaimRaces) {
  std::unique_ptr<Owner> other;
  int lost = 0;
  b.options.calm_changes = 1000;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim) {
      ++lost;
      other = b.must_open();
    }
    return Trouble::none;
  });
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::claim_races);
  EXPECT_EQ(lost, 16);
  EXPECT_EQ(commit(*other, "x").kind, Kind::acknowledged);
}

TEST_F(OwnerTest, TwoOpensAtOnceLeaveOneOwnerAndEpochsRise) {
  for (int round = 0; round < 200; ++round) {
    std::unique_ptr<Owner> owners[2];
    Process* both[2] = {&a, &b};
    for (Process* process : both) process->options.calm_changes = 1'000'000;
    {
      auto one = runtime.spawn("a", [&] {
        if (auto o = a.open()) owners[0] = std::move(*o);
      });
      auto two = runtime.spawn("b", [&] {
        if (auto o = b.open()) owners[1] = std::move(*o);
      });
    }
    int acknowledged = 0;
    Epoch newest{};
    for (auto& owner : owners) {
      if (owner == nullptr) continue;
      newest = std::max(newest, owner->status().token.epoch);
      acknowledged += commit(*owner, "x").kind == Kind::acknowledged ? 1 : 0;
    }
    ASSERT_EQ(acknowledged, 1) << "round " << round;
    a.home.set_hook({});
    Epoch last{};
    for (const auto& record : a.home.records(app)) {
      ASSERT_GE(record.epoch, last);
      if (record.kind == core::RecordKind::claim) {
        ASSERT_GT(record.epoch, last);
      }
      last = record.epoch;
    }
    ASSERT_EQ(newest, last);
  }
}

TEST_F(OwnerTest, ATakeoverReadsOnToItsOwnClaimWhileTheOldOwnerWrites) {
  auto old = a.must_open();
  b.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim) {
      EXPECT_EQ(commit(*old, "between warm-up and claim").kind, Kind::acknowledged);
    }
    return Trouble::none;
  });
  auto fresh = b.must_open();
  EXPECT_EQ(b.fold.data(), Texts{"between warm-up and claim"});
}

TEST_F(OwnerTest, WithoutReadingTheRestATakeoverMissesAcknowledgedWrites) {  // why Guard::takeover_reads_all stands there
  auto old = a.must_open();
  b.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim) {
      EXPECT_EQ(commit(*old, "missed").kind, Kind::acknowledged);
    }
    return Trouble::none;
  });
  set_guard(Guard::takeover_reads_all, false);
  auto fresh = b.must_open();
  set_guard(Guard::takeover_reads_all, true);
  EXPECT_EQ(b.fold.data(), Texts{});
}

TEST_F(OwnerTest, AnOwnerFencedWhileItReadsTheRestDoesNotBegin) {
  std::unique_ptr<Owner> other;
  std::atomic<bool> claimed = false;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim) claimed = true;
    if (info.call == Call::read && claimed && !other) other = b.must_open();
    return Trouble::none;
  });
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::epoch_closed);
  EXPECT_EQ(opened.error().current->pid, 4711);
}

TEST_F(OwnerTest, TheFourthChangeWithoutACommitWaitsAndSaysBetweenWhom) {
  for (int i = 0; i < 4; ++i) {  // the first owner is no change
    const Instant before = runtime.now();
    Process& process = i % 2 == 0 ? a : b;
    ASSERT_TRUE(process.must_open()->stop(in(0s)));
    EXPECT_EQ(runtime.now(), before) << "change " << i;
  }
  std::string told;
  c.options.progress = [&](const Progress& progress) {
    if (progress.step == "wait") told = progress.detail;
  };
  Instant before = runtime.now();
  auto fourth = c.must_open();
  EXPECT_GE(runtime.now() - before, 1s);
  EXPECT_LT(runtime.now() - before, 2s);
  EXPECT_NE(told.find("between 'a', 'b'"), std::string::npos) << told;
  before = runtime.now();
  auto fifth = a.must_open();
  EXPECT_GE(runtime.now() - before, 2s);
  ASSERT_EQ(commit(*fifth, "a commit calms it").kind, Kind::acknowledged);
  before = runtime.now();
  auto sixth = b.must_open();
  EXPECT_LT(runtime.now() - before, 1s);
}

}  // namespace
}  // namespace onepen::owner
