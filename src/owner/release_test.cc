// The end in peace, and the end that only an owner sees coming: a home that lost what it acknowledged.
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

std::string last_payload(const MemoryHome& home, const StreamName& name) { return std::string(as_text(home.records(name).back().payload)); }

TEST_F(OwnerTest, ACleanStopSaysSo) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  EXPECT_TRUE(owner->stop(in(1s)));
  EXPECT_EQ(last_payload(a.home, app), R"({"record":"released"})");
  EXPECT_EQ(a.home.records(app).back().kind, core::RecordKind::control);
  EXPECT_TRUE(a.home.stream(app)->stat()->released);
  auto next = b.must_open();
  EXPECT_FALSE(b.home.stream(app)->stat()->released);
  EXPECT_EQ(b.fold.data(), Texts{"one"});
}

TEST_F(OwnerTest, AStopWithoutTimeAnUndecidedOneAndAResetSayNothing) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  EXPECT_TRUE(owner->stop(in(0s)));
  EXPECT_EQ(last_payload(a.home, app), "one");

  owner = a.must_open();
  a.home.set_hook([](const CallInfo& info) { return has_data(info) ? Trouble::lost_request : Trouble::none; });
  ASSERT_TRUE(owner->submit(bytes("stuck"), in(1s)));
  EXPECT_FALSE(owner->stop(in(1s)));
  a.home.set_hook({});
  EXPECT_FALSE(a.home.stream(app)->stat()->released);

  owner = a.must_open();
  ASSERT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
  owner->reset(ResetKind::broken, "broken: the disk failed");
  EXPECT_TRUE(owner->stop(in(1s)));
  EXPECT_FALSE(a.home.stream(app)->stat()->released);
}

TEST_F(OwnerTest, AHomeThatDoesNotAnswerHoldsAStopForASecondAtMost) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.home.set_hook([](const CallInfo& info) { return info.call == Call::append ? Trouble::unavailable : Trouble::none; });
  const Instant before = runtime.now();
  EXPECT_TRUE(owner->stop(in(1h))) << "everything was decided";
  EXPECT_LE(runtime.now() - before, 1s);
}

TEST_F(OwnerTest, NobodyWaitsAfterOwnersThatEndedInPeace) {
  for (int i = 0; i < 20; ++i) {
    const Instant before = runtime.now();
    auto owner = a.must_open();
    EXPECT_EQ(runtime.now(), before) << "open " << i;
    EXPECT_EQ(owner->status().notice, "");
    ASSERT_TRUE(owner->stop(in(1s)));
  }
  auto killed = a.must_open();
  ASSERT_TRUE(killed->stop(in(0s)));
  const Instant before = runtime.now();
  auto next = b.must_open();
  EXPECT_EQ(runtime.now(), before) << "one that did not is no quarrel yet";
}

TEST_F(OwnerTest, AnOpenThatHadToWaitSaysWhyAlthoughItSucceeded) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE((i % 2 == 0 ? a : b).must_open()->stop(in(0s)));
  auto owner = c.must_open();
  EXPECT_EQ(owner->status().notice,
            "'app' changed its owner 3 times without a database commit, between 'a', 'b', and the last one did not end in peace; this open waited 1000 ms. To "
            "read only, open with mode=ro: that changes no owner.");
}

TEST_F(OwnerTest, AnOwnerThatEndedInPeaceIsNoneToNeverAndIfDead) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  b.options.takeover = TakeoverMode::never;
  auto owner = b.must_open();
  EXPECT_EQ(commit(*owner, "x").kind, Kind::acknowledged);
  ASSERT_TRUE(owner->stop(in(1s)));
  c.options.takeover = TakeoverMode::if_dead;
  const Instant before = runtime.now();
  owner = c.must_open();
  EXPECT_EQ(runtime.now(), before) << "no term to watch";
  b.options.takeover = TakeoverMode::never;
  const auto held = b.open();
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().outcome, Outcome::held);
}

TEST_F(OwnerTest, NeverOverAReleasedOwnerLosesToAClaimThatCameFirst) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  std::unique_ptr<Owner> first;
  c.options.takeover = TakeoverMode::never;
  c.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim && !first) first = b.must_open();
    return Trouble::none;
  });
  EXPECT_EQ(c.open().error().outcome, Outcome::held);
  EXPECT_EQ(commit(*first, "x").kind, Kind::acknowledged);
}

// An older copy of the home put back under a live owner.
TEST_F(OwnerTest, AnOwnerThatSeesItsAcknowledgedCommitsMissingMarksTheStreamSuspect) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "kept").kind, Kind::acknowledged);
  ASSERT_EQ(commit(*owner, "lost").kind, Kind::acknowledged);
  a.home.put_back(app, 1);
  ASSERT_FALSE(owner->confirm(in(30s)));
  ASSERT_TRUE(owner->status().reset);
  EXPECT_EQ(owner->status().reset->kind, ResetKind::diverged);
  EXPECT_NE(owner->status().reset->message.find("run `onepen adopt`"), std::string::npos) << owner->status().reset->message;
  EXPECT_EQ(a.home.calls(Call::suspect), 1u);
  EXPECT_TRUE(a.home.suspect(app));
  EXPECT_EQ(b.open().error().outcome, Outcome::fence_unavailable) << "nobody builds upon it";
  a.home.new_history(app);  // adopt
  EXPECT_EQ(commit(*b.must_open(), "on what is left").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"kept", "on what is left"}));
}

TEST_F(OwnerTest, AnAppendThatComesBeforeTheLookSeesItToo) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "kept").kind, Kind::acknowledged);
  ASSERT_EQ(commit(*owner, "lost").kind, Kind::acknowledged);
  a.home.put_back(app, 1);
  const Fate fate = commit(*owner, "behind a hole");
  EXPECT_EQ(fate.kind, Kind::refused);
  EXPECT_EQ(fate.error->outcome, Outcome::cloned);
  EXPECT_TRUE(a.home.suspect(app));
  EXPECT_EQ(owner->status().reset->kind, ResetKind::diverged);
  EXPECT_EQ(data(), Texts{"kept"});
}

TEST_F(OwnerTest, WhenItCannotBeMarkedTheResetSaysSo) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "lost").kind, Kind::acknowledged);
  a.home.put_back(app, 1);
  a.home.set_hook([](const CallInfo& info) { return info.call == Call::suspect ? Trouble::unavailable : Trouble::none; });
  ASSERT_FALSE(owner->confirm(in(30s)));
  EXPECT_NE(owner->status().reset->message.find("The home could not be told: the memory home is out of reach"), std::string::npos);
}

}  // namespace
}  // namespace onepen::owner
