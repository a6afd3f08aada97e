// Taking appends back, records of other kinds, and the end in peace.
#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

class FullDiskTest : public OwnerTest {
 protected:
  // The home's disk is full while `full`.
  void fill(Process& process) {
    full = true;
    process.home.set_hook([this](const CallInfo& info) { return info.call == Call::append && full ? Trouble::unavailable : Trouble::none; });
  }
  std::atomic<bool> full = false;
};

TEST_F(FullDiskTest, ACommitThatCertainlyDidNotLandIsTakenBackAndTheHandleGoesOn) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  fill(a);
  const Ticket part = *owner->submit(bytes("part 1"), in(1s));
  const Ticket last = *owner->submit(bytes("part 2"), in(1s));
  ASSERT_EQ(owner->wait(last, in(5s), nullptr).kind, Kind::undecided);
  const Fate fate = owner->withdraw(part);
  ASSERT_EQ(fate.kind, Kind::refused);
  EXPECT_EQ(fate.error->outcome, Outcome::unavailable);
  EXPECT_NE(fate.error->message.find("its last answer: the memory home is out of reach"), std::string::npos) << fate.error->message;
  EXPECT_NE(fate.error->message.find("it is not in the stream"), std::string::npos) << fate.error->message;
  EXPECT_EQ(owner->wait(last, in(0s), nullptr).kind, Kind::refused);
  full = false;
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged) << "the refusal was told: the next one is another's";
  EXPECT_EQ(data(), (Texts{"one", "two"}));
  EXPECT_FALSE(owner->status().reset);
}

TEST_F(FullDiskTest, OnlyTheRestOfACommitIsTakenBackWhenItsLastPartIs) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  fill(a);
  ASSERT_TRUE(owner->submit(bytes("part 1"), in(1s)));
  const Ticket last = *owner->submit(bytes("part 2"), in(1s));
  ASSERT_EQ(owner->wait(last, in(5s), nullptr).kind, Kind::undecided);
  EXPECT_EQ(owner->withdraw(last).kind, Kind::refused);
  full = false;
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "part 1", "two"})) << "void: its commit has no last part";
}

TEST_F(FullDiskTest, WhatMayHaveLandedIsNotTakenBack) {
  auto owner = a.must_open();
  std::atomic<int> appends = 0;
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info)) return Trouble::none;
    return ++appends == 1 ? Trouble::late_request : appends < 20 ? Trouble::unavailable : Trouble::none;
  });
  const Ticket ticket = *owner->submit(bytes("perhaps"), in(1s));
  ASSERT_EQ(owner->wait(ticket, in(3s), nullptr).kind, Kind::undecided);
  EXPECT_EQ(owner->withdraw(ticket).kind, Kind::undecided);
  a.home.deliver_late();
  EXPECT_EQ(owner->wait(ticket, in(1h), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(data(), Texts{"perhaps"});
}

TEST_F(FullDiskTest, WithoutTheGuardATakenBackAppendLandsLater) {  // why Guard::withdraw_only_unsent stands there
  auto owner = a.must_open();
  std::atomic<int> appends = 0;
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info)) return Trouble::none;
    return ++appends == 1 ? Trouble::late_request : Trouble::unavailable;
  });
  const Ticket ticket = *owner->submit(bytes("perhaps"), in(1s));
  ASSERT_EQ(owner->wait(ticket, in(3s), nullptr).kind, Kind::undecided);
  set_guard(Guard::withdraw_only_unsent, false);
  const Fate fate = owner->withdraw(ticket);
  set_guard(Guard::withdraw_only_unsent, true);
  EXPECT_EQ(fate.kind, Kind::refused);
  a.home.deliver_late();
  EXPECT_EQ(data(), Texts{"perhaps"}) << "refused, and in the stream";
}

TEST_F(FullDiskTest, AWithdrawalWaitsForTheRequestThatIsOut) {
  auto owner = a.must_open();
  auto out = runtime.make_signal();
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info)) return Trouble::none;
    out->notify();
    runtime.sleep_until(runtime.now() + 500ms);
    return Trouble::unavailable;
  });
  const Ticket ticket = *owner->submit(bytes("slowly refused"), in(1s));
  ASSERT_TRUE(out->wait_until(in(1h)));
  EXPECT_EQ(owner->withdraw(ticket).kind, Kind::refused);
}

TEST_F(FullDiskTest, OfWhatIsDecidedAWithdrawalTellsTheFate) {
  auto owner = a.must_open();
  const Ticket ticket = *owner->submit(bytes("one"), in(1s));
  ASSERT_EQ(owner->wait(ticket, in(30s), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(owner->withdraw(ticket).kind, Kind::acknowledged);
  owner->reset(ResetKind::broken, "broken: the disk failed");
  EXPECT_EQ(owner->withdraw(ticket).kind, Kind::acknowledged);
  EXPECT_TRUE(owner->stop(in(1s)));
  EXPECT_EQ(owner->withdraw(ticket + 1).kind, Kind::undecided) << "never submitted";
}

TEST_F(OwnerTest, RecordsOfOtherKindsGoInOrderWithData) {
  auto owner = a.must_open();
  ASSERT_TRUE(owner->submit(bytes("one"), in(1s)));
  ASSERT_TRUE(owner->submit(bytes("a note"), in(1s), core::RecordKind::control));
  ASSERT_TRUE(owner->submit(bytes("two"), in(1s)));
  const Ticket last = *owner->submit(bytes("a snapshot"), in(1s), core::RecordKind::snapshot);
  ASSERT_EQ(owner->wait(last, in(30s), nullptr).kind, Kind::acknowledged);
  Texts kinds;
  for (const auto& record : a.home.records(app)) kinds.push_back(std::to_string(static_cast<int>(record.kind)) + " " + std::string(as_text(record.payload)));
  EXPECT_EQ(Texts(kinds.begin() + 2, kinds.end()), (Texts{"2 one", "3 a note", "2 two", "4 a snapshot"}));
  EXPECT_EQ(owner->submit(bytes("x"), in(1s), core::RecordKind::claim).error().outcome, Outcome::invalid);
}

}  // namespace
}  // namespace onepen::owner
