// Reading on before the look: each record once, from the newest snapshot, and again from the beginning when the fold moved aside what it had.
#include "owner/catch_up.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

// Every call of the process's home until the claim, in order.
struct Calls {
  explicit Calls(Process& process) {
    process.home.set_hook([this](const CallInfo& info) {
      const std::lock_guard lock(mutex);
      if (!claimed) before_claim.push_back(info.call);
      claimed = claimed || info.call == Call::claim;
      return Trouble::none;
    });
  }
  std::mutex mutex;
  bool claimed = false;
  std::vector<Call> before_claim;
};

TEST_F(OwnerTest, AColdOpenReadsBeforeItLooksAndEachRecordOnce) {
  auto old = a.must_open();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(commit(*old, std::to_string(i)).kind, Kind::acknowledged);
  Calls calls(b);
  auto fresh = b.must_open();
  EXPECT_EQ(calls.before_claim, (std::vector<Call>{Call::snapshot, Call::read, Call::stat, Call::claim}));
  EXPECT_EQ(b.fold.data(), (Texts{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(b.fold.begun, 1);
}

TEST_F(OwnerTest, AColdOpenBeginsWithTheNewestSnapshot) {
  auto old = a.must_open();
  ASSERT_EQ(commit(*old, "before").kind, Kind::acknowledged);
  snapshot_and_trim(a, *old, "one commit");
  ASSERT_EQ(commit(*old, "after").kind, Kind::acknowledged);
  auto fresh = b.must_open();
  EXPECT_EQ(b.fold.from_snapshot, "one commit");
  EXPECT_EQ(b.fold.data(), Texts{"after"});
}

TEST_F(OwnerTest, AWarmOpenDoesNotAskForASnapshot) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  Calls calls(a);
  auto again = a.must_open();
  EXPECT_EQ(calls.before_claim, (std::vector<Call>{Call::read, Call::stat, Call::claim}));
}

TEST_F(OwnerTest, AHomeThatTellsTheStatAlongIsNotAskedForIt) {
  auto old = a.must_open();
  ASSERT_EQ(commit(*old, "one").kind, Kind::acknowledged);
  Calls calls(b);
  b.home.tell_along(true);
  auto fresh = b.must_open();
  EXPECT_EQ(calls.before_claim, (std::vector<Call>{Call::snapshot, Call::read, Call::claim}));
  EXPECT_EQ(fresh->status().token.epoch, Epoch{2});
  EXPECT_EQ(b.fold.data(), Texts{"one"});
}

TEST_F(OwnerTest, APositionThatWasTrimmedBeginsAnewWithTheSnapshot) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  auto other = b.must_open();
  ASSERT_EQ(commit(*other, "before").kind, Kind::acknowledged);
  snapshot_and_trim(b, *other, "one commit");
  ASSERT_EQ(commit(*other, "after").kind, Kind::acknowledged);
  auto again = a.must_open();
  EXPECT_EQ(a.fold.started_over, 1);
  EXPECT_EQ(a.fold.from_snapshot, "one commit");
  EXPECT_EQ(a.fold.data(), Texts{"after"});
}

TEST_F(OwnerTest, AFoldThatMovesItsOwnAsideIsReadOnFromItsNewPosition) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  commit(*b.must_open(), "another's commit");
  a.fold.does_not_fit = [&](const core::Record& record) { return as_text(record.payload) == "another's commit" && a.fold.moved_aside == 0; };
  auto again = a.must_open();
  EXPECT_EQ(a.fold.moved_aside, 1u);
  EXPECT_EQ(a.fold.started_over, 0);
  EXPECT_EQ(a.fold.data(), Texts{"another's commit"});
  EXPECT_EQ(commit(*again, "goes on").kind, Kind::acknowledged);
}

// The commit that does not fit lands between the warm-up and the claim: our own claim is then read twice, and must be found the second time.
TEST_F(OwnerTest, AFoldThatBeginsAnewBehindTheClaimFindsItAgain) {
  ASSERT_TRUE(a.must_open()->stop(in(1s)));
  auto other = b.must_open();
  a.fold.does_not_fit = [&](const core::Record& record) {
    return record.kind == core::RecordKind::claim && record.epoch == Epoch{3} && a.fold.moved_aside == 0;
  };
  auto again = a.must_open();
  EXPECT_EQ(a.fold.moved_aside, 1u);
  EXPECT_EQ(again->status().token.epoch, Epoch{3});
  EXPECT_EQ(a.fold.records.back().epoch, Epoch{3});
}

TEST_F(OwnerTest, AFoldThatNeverFitsEndsTheOpen) {
  ASSERT_EQ(commit(*b.must_open(), "x").kind, Kind::acknowledged);
  a.fold.does_not_fit = [](const core::Record& record) { return record.kind == core::RecordKind::data; };
  const auto opened = a.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::state_mismatch);
  EXPECT_EQ(a.fold.moved_aside, kMaxFoldRestarts + 1u);
  EXPECT_EQ(a.home.calls(Call::claim), 0u);
}

// Removed by an admin is not lost: the copy begins anew, and the epochs go on above the floor.
TEST_F(OwnerTest, ARemovedStreamIsMadeAnewAlsoByAWarmCopy) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(commit(*a.must_open(), "x").kind, Kind::acknowledged);
  a.home.erase(app);
  auto again = a.must_open();
  EXPECT_EQ(again->status().token.epoch, Epoch{4});
  EXPECT_EQ(a.fold.started_over, 1);
  a.home.erase(app);
  EXPECT_EQ(b.must_open()->status().token.epoch, Epoch{5});
  EXPECT_EQ(b.claims.written.size(), 1u) << "the floor is known: no claim is lost to it";
}

TEST_F(OwnerTest, InANewIncarnationTheClaimGoesAboveEveryEpochOfTheOldOnes) {
  for (int i = 0; i < 30; ++i) ASSERT_EQ(commit(*a.must_open(), "x").kind, Kind::acknowledged);
  a.home.new_history(app);
  EXPECT_EQ(b.must_open()->status().token.epoch, Epoch{31});
  EXPECT_EQ(b.claims.written.size(), 1u);
}

}  // namespace
}  // namespace onepen::owner
