// Claims that nobody asked for: never one that evicts an owner who opened meanwhile.
#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

// With a home that tells the stat along with a read, and with one that does not.
class SelfClaimTest : public OwnerTest, public ::testing::WithParamInterface<bool> {
 protected:
  SelfClaimTest() {
    for (Process* process : {&a, &b, &c}) process->home.tell_along(GetParam());
  }
  // What `process` owned by, as its copy keeps it.
  static SelfClaim owned_by(const Owner& owner) {
    SelfClaim self{owner.status().token.epoch, {}};
    EXPECT_TRUE(parse(owner.status().token.claim_id, self.over));
    return self;
  }
  // a owned the stream, wrote, and was cut off from the home; it goes on without one.
  SelfClaim a_was_cut_off() {
    auto owner = a.must_open();
    EXPECT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
    const SelfClaim self = owned_by(*owner);
    a.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
    EXPECT_TRUE(owner->stop(in(1s)));
    a.home.set_hook({});
    for (const auto& record : a.home.records(app)) EXPECT_TRUE(a.fold.apply(record));  // a front folds its own commits itself
    a.fold.records.clear();
    return self;
  }
  std::string refused(const Result<std::unique_ptr<Owner>>& opened, Outcome outcome) {
    EXPECT_FALSE(opened);
    if (opened) return {};
    EXPECT_EQ(opened.error().outcome, outcome) << opened.error().message;
    return opened.error().message;
  }
};

TEST_P(SelfClaimTest, GoesOnOneEpochAboveItsOwnClaim) {
  a.options.self_claim = a_was_cut_off();
  a.claims.highest_epoch = Epoch{5};  // written ahead and never sent: no reason to leap
  auto owner = a.must_open();
  EXPECT_EQ(owner->status().token.epoch, Epoch{2});
  EXPECT_EQ(*a.claims.written.back().over, a.options.self_claim->over);
  EXPECT_EQ(a.claims.written.back().epoch, Epoch{2});
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
  std::string why;
  for (const auto& record : a.home.records(app)) why = record.kind == core::RecordKind::claim ? record.owner.why : why;
  EXPECT_EQ(why, "self-claim");
}

TEST_P(SelfClaimTest, AnOwnerThatOpenedMeanwhileIsNotEvicted) {
  a.options.self_claim = a_was_cut_off();
  auto other = b.must_open();  // and wrote nothing: any foreign claim counts
  const auto message = refused(a.open(), Outcome::epoch_closed);
  EXPECT_EQ(
      message,
      "fenced: 'app' is now written by 'b', pid 4711 on host host-b (epoch 2). Ours was epoch 1, and this process claimed nothing. Open the database again "
      "only if you mean to take it back.");
  EXPECT_EQ(a.home.calls(Call::claim), 1u) << "its first open's";
  EXPECT_TRUE(a.fold.records.empty() || a.fold.records.back().epoch == Epoch{1}) << "nothing of the other's was folded";
  EXPECT_EQ(commit(*other, "still the owner").kind, Kind::acknowledged);
}

TEST_P(SelfClaimTest, AClaimBetweenTheLookAndOursWins) {
  a.options.self_claim = a_was_cut_off();
  std::unique_ptr<Owner> other;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::claim && !other) other = b.must_open();
    return Trouble::none;
  });
  refused(a.open(), Outcome::epoch_closed);
  EXPECT_EQ(a.home.calls(Call::claim), 2u) << "never repeated above another";
  EXPECT_EQ(commit(*other, "still the owner").kind, Kind::acknowledged);
}

// The first acceptance line: a claim that was written ahead, never sent, and is sent now, after the process was away.
TEST_P(SelfClaimTest, ALateClaimDoesNotEvict) {
  a.options.self_claim = a_was_cut_off();
  a.home.set_hook([](const CallInfo& info) { return info.call == Call::claim ? Trouble::late_request : Trouble::none; });
  a.options.open_within = 1s;
  refused(a.open(), Outcome::unknown);
  auto other = b.must_open();
  EXPECT_GT(a.home.deliver_late(), 0u);
  EXPECT_EQ(commit(*other, "still the owner").kind, Kind::acknowledged);
  EXPECT_FALSE(other->status().reset);
}

TEST_P(SelfClaimTest, ItsOwnUnansweredClaimThatLandedIsNoForeignOne) {
  a.options.self_claim = a_was_cut_off();
  a.options.open_within = 1s;
  a.home.set_hook([](const CallInfo& info) { return info.call == Call::claim ? Trouble::lost_answer : Trouble::none; });
  refused(a.open(), Outcome::unknown);
  a.home.set_hook({});
  refused(a.open(), Outcome::epoch_closed);  // it does not say that it sent that one: a copied claim log has it too
  a.options.self_claim->sent = {a.claims.written.back().claim_id};
  auto owner = a.must_open();
  EXPECT_EQ(owner->status().token.epoch, Epoch{3});
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
}

TEST_P(SelfClaimTest, ItsOwnLateAppendIsReadBeforeTheClaim) {
  auto owner = a.must_open();
  a.options.self_claim = owned_by(*owner);
  a.home.set_hook([](const CallInfo& info) { return has_data(info) ? Trouble::late_request : Trouble::none; });
  ASSERT_TRUE(owner->submit(bytes("late"), in(1s)));
  EXPECT_FALSE(owner->stop(in(1s)));
  bool delivered = false;
  a.home.set_hook([&](const CallInfo& info) {  // it lands between the look and the claim
    if (info.call == Call::claim && !std::exchange(delivered, true)) a.home.deliver_late();
    return Trouble::none;
  });
  a.fold.records.clear();
  owner = a.must_open();
  EXPECT_EQ(a.fold.data(), Texts{"late"});
  EXPECT_EQ(a.home.calls(Call::claim), 3u) << "the one whose tail had moved was refused and made anew";
  EXPECT_EQ(owner->status().token.epoch, Epoch{2});
}

// A cache root copied to another machine: both hold the claim. What the other wrote under it is not ours.
TEST_P(SelfClaimTest, ACommitUnderItsOwnClaimThatIsNotItsOwnEndsIt) {
  auto owner = a.must_open();
  b.options.self_claim = owned_by(*owner);
  b.fold = a.fold;  // the copy of the copy
  ASSERT_EQ(commit(*owner, "by a").kind, Kind::acknowledged);
  b.fold.does_not_fit = [](const core::Record& record) { return as_text(record.payload) == "by a"; };
  const auto message = refused(b.open(), Outcome::epoch_closed);
  EXPECT_EQ(b.home.calls(Call::claim), 0u);
  EXPECT_NE(message.find("two processes hold one claim"), std::string::npos) << message;
  EXPECT_EQ(commit(*owner, "goes on").kind, Kind::acknowledged);
}

TEST_P(SelfClaimTest, WithoutReadingFirstItEvictsTheOwner) {  // why Guard::self_claim_reads_first stands there
  auto owner = a.must_open();
  b.options.self_claim = owned_by(*owner);
  b.fold = a.fold;
  ASSERT_EQ(commit(*owner, "by a").kind, Kind::acknowledged);
  b.fold.does_not_fit = [](const core::Record& record) { return as_text(record.payload) == "by a"; };
  set_guard(Guard::self_claim_reads_first, false);
  (void)b.open();
  set_guard(Guard::self_claim_reads_first, true);
  EXPECT_EQ(commit(*owner, "evicted").kind, Kind::refused);
}

TEST_P(SelfClaimTest, GoesOnInANewIncarnationThatKeptEverything) {
  a.options.self_claim = a_was_cut_off();
  a.home.new_history(app);
  auto owner = a.must_open();
  EXPECT_EQ(owner->status().token.epoch, Epoch{2});
  EXPECT_EQ(a.fold.started_over, 0);
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "two"}));
}

TEST_P(SelfClaimTest, IsFencedByWhoClaimedTheNewIncarnationFirst) {
  a.options.self_claim = a_was_cut_off();
  a.home.new_history(app);
  auto other = b.must_open();
  refused(a.open(), Outcome::epoch_closed);
  EXPECT_EQ(commit(*other, "two").kind, Kind::acknowledged);
}

TEST_P(SelfClaimTest, ANewIncarnationWithoutOurCommitsIsSaidToBeOne) {
  a.options.self_claim = a_was_cut_off();
  a.home.new_history(app, 2);  // claim and ready
  const auto message = refused(a.open(), Outcome::incarnation_changed);
  EXPECT_TRUE(message.starts_with("rewound: ")) << message;
  EXPECT_EQ(a.fold.started_over, 0) << "whoever opens it again decides";
}

TEST_P(SelfClaimTest, ARemovedStreamIsNotMadeAnew) {
  a.options.self_claim = a_was_cut_off();
  a.home.erase(app);
  refused(a.open(), Outcome::not_found);
  EXPECT_TRUE(a.home.records(app).empty());
}

TEST_P(SelfClaimTest, AHomeOutOfReachIsTriedAgainLater) {
  a.options.self_claim = a_was_cut_off();
  a.options.open_within = 1s;
  a.home.set_hook([](const CallInfo&) { return Trouble::unavailable; });
  refused(a.open(), Outcome::unavailable);
  a.home.set_hook({});
  EXPECT_EQ(commit(*a.must_open(), "two").kind, Kind::acknowledged);
}

INSTANTIATE_TEST_SUITE_P(StatToldAlong, SelfClaimTest, ::testing::Bool());

}  // namespace
}  // namespace onepen::owner
