// The end of a handle: its stream removed or another one, the front's reset, stop, a process that is stopped, a waiter that gives up.
#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using EndTexts = std::vector<std::string>;

TEST_F(OwnerTest, ARemovedStreamAndANewHistoryReset) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Fate::Kind::acknowledged);
  a.home.restore(app);
  EXPECT_EQ(commit(*owner, "two").kind, Fate::Kind::refused);
  EXPECT_EQ(owner->status().reset->kind, ResetKind::rewound);

  auto next = b.must_open();  // its fold starts from nothing; the history has the record
  EXPECT_EQ(b.fold.data(), EndTexts{"one"});
  EXPECT_GT(next->status().token.epoch, Epoch{1});
  a.home.erase(app);
  ASSERT_TRUE(runtime.wait_for([&] { return next->status().reset.has_value(); }));
  EXPECT_EQ(next->status().reset->kind, ResetKind::removed);
}

// A removal leaves a tombstone and names a floor; absence alone is a home that is not there at the moment.
TEST_F(OwnerTest, AStreamOutOfSightIsWaitedFor) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Fate::Kind::acknowledged);
  a.home.refuse_data(app, Outcome::not_found);
  const Ticket given_up = *owner->submit(bytes("two"), in(1s));
  EXPECT_EQ(owner->wait(given_up, in(5s), nullptr).kind, Fate::Kind::undecided);
  const Fate back = owner->withdraw(given_up);
  EXPECT_EQ(back.kind, Fate::Kind::refused);
  EXPECT_EQ(back.error->outcome, Outcome::unavailable) << back.error->message;
  const Ticket waits = *owner->submit(bytes("three"), in(1s));
  EXPECT_EQ(owner->wait(waits, in(5s), nullptr).kind, Fate::Kind::undecided);
  EXPECT_FALSE(owner->status().reset) << "nobody removed it";
  a.home.refuse_data(app, {});
  EXPECT_EQ(owner->wait(waits, in(30s), nullptr).kind, Fate::Kind::acknowledged);
  EXPECT_EQ(data(), (EndTexts{"one", "three"}));
}

TEST_F(OwnerTest, AFoldWhosePositionIsGoneStartsOver) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  commit(*b.must_open(), "one");
  a.home.restore(app);
  auto owner = a.must_open();  // a's position is of the old history
  EXPECT_EQ(a.fold.started_over, 1);
  EXPECT_EQ(a.fold.data(), EndTexts{"one"});
}

TEST_F(OwnerTest, StopSendsWhatIsPendingAndSaysWhatItCouldNot) {
  auto owner = a.must_open();
  ASSERT_TRUE(owner->submit(bytes("sent"), in(1s)));
  EXPECT_TRUE(owner->stop(in(5s)));
  EXPECT_TRUE(owner->stop(in(5s)));
  EXPECT_EQ(data(), EndTexts{"sent"});
  EXPECT_EQ(owner->submit(bytes("after"), in(1s)).error().outcome, Outcome::closed);

  auto next = b.must_open();
  b.home.set_hook([&](const CallInfo& info) { return info.call == Call::append ? Trouble::unavailable : Trouble::none; });
  const Ticket ticket = *next->submit(bytes("stuck"), in(1s));
  const auto stopped = next->stop(in(2s));
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().outcome, Outcome::unknown);
  EXPECT_EQ(next->wait(ticket, in(1s), nullptr).kind, Fate::Kind::undecided);
}

TEST_F(OwnerTest, TheFrontsResetIsFinalAndTold) {
  auto owner = a.must_open();
  ResetCount resets, late;
  owner->on_reset(resets.listener());
  owner->reset(ResetKind::broken, "broken: the disk failed");
  EXPECT_EQ(owner->submit(bytes("x"), in(1s)).error().message, "broken: the disk failed");
  ASSERT_TRUE(runtime.wait_for([&] { return resets.count == 1; }));
  owner->on_reset(late.listener());
  EXPECT_EQ(late.count, 1);
  EXPECT_TRUE(owner->stop(in(1s)));
  EXPECT_EQ(resets.count, 1);
}

TEST_F(OwnerTest, WhatIsQueuedWhenTheFrontResetsIsNeverSent) {
  auto owner = a.must_open();
  auto out = runtime.make_signal();
  auto resume = runtime.make_signal();
  std::atomic<bool> once = false;
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info) || once.exchange(true)) return Trouble::none;
    out->notify();
    resume->wait_until(Instant::max());
    return Trouble::none;
  });
  const Ticket first = *owner->submit(bytes("on its way"), in(1s));
  ASSERT_TRUE(out->wait_until(in(1h)));
  const Ticket second = *owner->submit(bytes("queued"), in(1s));
  owner->reset(ResetKind::broken, "broken: the disk failed");
  resume->notify();
  EXPECT_EQ(owner->wait(first, in(30s), nullptr).kind, Fate::Kind::acknowledged);
  EXPECT_EQ(owner->wait(second, in(30s), nullptr).kind, Fate::Kind::refused);
  EXPECT_TRUE(owner->stop(in(1s)));
  EXPECT_EQ(data(), EndTexts{"on its way"});
}

TEST_F(OwnerTest, WithoutFinalResetsAGivenUpHandleWrites) {  // why Guard::reset_final stands there
  auto owner = a.must_open();
  ResetCount resets;
  owner->on_reset(resets.listener());
  set_guard(Guard::reset_final, false);
  owner->reset(ResetKind::diverged, "diverged: foreign writes to the copy");
  ASSERT_TRUE(runtime.wait_for([&] { return resets.count == 1; }));
  const Fate fate = commit(*owner, "after the reset");
  set_guard(Guard::reset_final, true);
  EXPECT_EQ(fate.kind, Fate::Kind::acknowledged);
}

TEST_F(OwnerTest, EverythingEndsWhenTheProcessIsStopped) {
  auto owner = a.must_open();
  a.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
  const Ticket ticket = *owner->submit(bytes("x"), in(1s));
  runtime.stop_the_world();
  EXPECT_EQ(owner->wait(ticket, in(30s), nullptr).kind, Fate::Kind::undecided);
  EXPECT_FALSE(owner->confirm(in(30s)));
  b.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
  EXPECT_FALSE(b.open());
}

// A full disk of the home must not read like a home that is silent.
TEST_F(OwnerTest, WhoeverGivesUpWaitingIsToldTheHomesLastAnswer) {
  auto owner = a.must_open();
  a.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
  const auto ticket = owner->submit(bytes("x"), in(1s));
  ASSERT_TRUE(ticket);
  const Fate fate = owner->wait(*ticket, in(1s), nullptr);
  ASSERT_EQ(fate.kind, Fate::Kind::undecided);
  EXPECT_NE(fate.error->message.find("its last answer: the memory home is out of reach"), std::string::npos) << fate.error->message;
  const auto confirmed = owner->confirm(in(1s));
  ASSERT_FALSE(confirmed);
  EXPECT_NE(confirmed.error().message.find("its last answer: the memory home is out of reach"), std::string::npos) << confirmed.error().message;
  a.home.set_hook({});
}

}  // namespace
}  // namespace onepen::owner
