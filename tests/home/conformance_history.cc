// The home conformance suite: new histories, removal, suspect streams.
#include "tests/home/conformance_process.h"

namespace onepen::testing {
namespace {

// --- histories -----------------------------------------------------------------------------------------------------------------------------------------

core::HistoryRequest history(Process& p, core::HistoryAct act, Runtime& runtime) {
  auto stat = p.stream().stat();
  EXPECT_TRUE(stat) << (stat ? "" : stat.error().message);
  core::HistoryRequest r;
  r.act = act;
  if (stat) r.incarnation = stat->incarnation, r.tail = stat->tail;
  r.next = runtime.draw<Incarnation>();
  r.attempt = runtime.draw<PutId>();
  r.by.name = p.who();
  r.by.why = "test";
  r.time_ms = 5000;
  return r;
}

TEST_P(HomeConformance, an_adopted_stream_keeps_everything_and_has_no_owner) {
  Process a(*place_, "a"), admin(*place_, "admin"), reader(*place_, "r");
  ASSERT_OK(a.claim(3));
  auto sent = a.append({"1", "2"});
  ASSERT_OK(sent);
  auto request = history(admin, core::HistoryAct::adopt, place_->runtime());
  auto stale = request;
  stale.tail = sent->offsets[0];
  auto moved = admin.stream().begin_history(stale);
  ASSERT_REFUSED(moved, base_mismatch);
  auto begun = admin.stream().begin_history(request);
  ASSERT_OK(begun);
  EXPECT_EQ(begun->incarnation, request.next);
  EXPECT_EQ(begun->floor, Epoch{3});
  auto again = admin.stream().begin_history(request);
  ASSERT_OK(again);
  EXPECT_EQ(again->offset, begun->offset) << "a retry gets the same answer";
  auto late = a.append({"late"});
  ASSERT_REFUSED(late, incarnation_changed);
  auto stat = reader.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->incarnation, request.next);
  EXPECT_EQ(stat->epoch, Epoch{0});
  EXPECT_EQ(stat->floor, Epoch{3});
  EXPECT_EQ(stat->newest_claim, a.receipt.claim_id);
  EXPECT_EQ(stat->tail, begun->offset);
  EXPECT_EQ(payloads(read_all(reader.stream())), (Texts{"1", "2"}));
  EXPECT_EQ(payloads(read_all(reader.stream(), sent->offsets[0])), Texts{"2"}) << "a position of the old history leads on";
  Process follower(*place_, "f");
  EXPECT_TRUE(read_all(follower.stream(), begun->offset).empty());
  auto low = reader.claim(3);
  ASSERT_REFUSED(low, epoch_closed);
  auto r = a.request(4);
  r.over = a.receipt.claim_id;
  ASSERT_OK(a.claim(r)) << "the copy that kept everything goes on by a claim over its own";
  ASSERT_OK(a.append({"3"}));
  EXPECT_EQ(payloads(read_all(follower.stream(), begun->offset)), Texts{"3"});
  EXPECT_EQ(payloads(read_all(reader.stream(), sent->offsets[1])), Texts{"3"});
}

TEST_P(HomeConformance, a_restored_stream_goes_on_from_the_common_point) {
  Process a(*place_, "a"), admin(*place_, "admin"), before(*place_, "b"), beyond(*place_, "y");
  ASSERT_OK(a.claim(1));
  auto sent = a.append({"1", "2", "3", "4"});
  ASSERT_OK(sent);
  ASSERT_OK(a.append({"5"}));
  auto seen = before.stream().read({}, {2, 1u << 20});
  ASSERT_OK(seen);
  ASSERT_EQ(read_all(beyond.stream()).size(), 6u);
  auto end = beyond.stream().stat()->tail;
  auto request = history(admin, core::HistoryAct::restore, place_->runtime());
  request.common = sent->offsets[1];
  auto bare = admin.stream().begin_history(request);
  ASSERT_REFUSED(bare, invalid);
  request.snapshot = [](core::SnapshotWriter& writer) -> core::Answer<Bytes> {
    if (auto ok = writer.add(as_bytes("state at 2")); !ok) return tl::unexpected(ok.error());
    return bytes("restored");
  };
  auto begun = admin.stream().begin_history(request);
  ASSERT_OK(begun);
  auto late = a.append({"late"});
  ASSERT_REFUSED(late, incarnation_changed);
  Process cold(*place_, "c");
  auto beginning = cold.stream().read({}, {});  // a home that keeps no state between records sends everybody to the snapshot
  if (beginning) {
    EXPECT_EQ(payloads(beginning->records), (Texts{"1", "2"}));
  } else {
    EXPECT_EQ(beginning.error().outcome, Outcome::gone) << beginning.error().message;
  }
  auto found = cold.stream().newest_snapshot();
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ(as_text((*found)->about), "restored");
  EXPECT_EQ((*found)->offset, begun->offset);
  EXPECT_EQ((*found)->incarnation, request.next);
  EXPECT_EQ(as_text(*cold.stream().snapshot_part(**found, 0)), "state at 2");
  ASSERT_OK(cold.claim(2));
  ASSERT_OK(cold.append({"new"}));
  EXPECT_EQ(payloads(read_all(cold.stream(), begun->offset)), Texts{"new"});
  EXPECT_EQ(payloads(read_all(before.stream(), seen->next)), (Texts{"2", "new"})) << "who stood before the common point goes through it";
  Process fresh(*place_, "f");
  EXPECT_EQ(payloads(read_all(fresh.stream(), sent->offsets[0])), (Texts{"2", "new"}));
  EXPECT_EQ(payloads(read_all(fresh.stream(), sent->offsets[1])), Texts{"new"}) << "the common point itself";
  Process small(*place_, "s");
  Texts one_by_one;
  for (Offset at = sent->offsets[0]; one_by_one.size() < 4;) {
    auto one = small.stream().read(at, {1, 1u << 20});
    ASSERT_OK(one);
    for (auto& text : payloads(one->records)) one_by_one.push_back(text);
    if (one->up_to_date) break;
    ASSERT_NE(one->next, at) << "a read that goes nowhere";
    at = one->next;
  }
  EXPECT_EQ(one_by_one, (Texts{"2", "new"}));
  for (const auto& cut : {sent->offsets[2], end}) {
    auto gone = beyond.stream().read(cut, {});
    ASSERT_REFUSED(gone, gone);
    Process other(*place_, "o");
    gone = other.stream().read(cut, {});
    ASSERT_REFUSED(gone, gone);
  }
}

TEST_P(HomeConformance, a_removed_stream_is_not_found_and_is_made_anew_above_its_floor) {
  Process a(*place_, "a"), admin(*place_, "admin"), reader(*place_, "r");
  ASSERT_OK(a.claim(4));
  auto sent = a.append({"old"});
  ASSERT_OK(sent);
  ASSERT_OK(put_snapshot(a, {"old state"}));
  auto stat = admin.stream().stat();
  ASSERT_OK(stat);
  core::RemoveRequest request{stat->incarnation, sent->offsets[0], place_->runtime().draw<PutId>(), {}, 7000};
  request.tail = a.receipt.offset;
  auto moved = admin.stream().remove(request);
  ASSERT_REFUSED(moved, base_mismatch);
  request.tail = stat->tail;
  ASSERT_OK(admin.stream().remove(request));
  ASSERT_OK(admin.stream().remove(request)) << "a retry";
  auto gone = reader.stream().stat();
  ASSERT_REFUSED(gone, not_found);
  EXPECT_EQ(gone.error().floor, Epoch{4});
  auto read = reader.stream().read(sent->offsets[0], {});
  ASSERT_REFUSED(read, not_found);
  auto late = a.append({"late"});
  ASSERT_REFUSED(late, not_found);
  EXPECT_TRUE(a.home().list("")->empty());
  auto low = reader.claim(4);
  EXPECT_FALSE(low) << "epochs are never used again (I5)";
  auto claim = reader.claim(5);
  ASSERT_OK(claim);
  EXPECT_NE(claim->incarnation, a.receipt.incarnation);
  ASSERT_OK(reader.append({"new"}));
  EXPECT_EQ(*a.home().list(""), Texts{"app"});
  Process cold(*place_, "c");
  EXPECT_EQ(payloads(read_all(cold.stream())), Texts{"new"});
  auto snapshot = cold.stream().newest_snapshot();
  ASSERT_OK(snapshot);
  EXPECT_FALSE(*snapshot) << "what was removed is no snapshot of what is there now";
  auto old = cold.stream().read(sent->offsets[0], {});
  ASSERT_REFUSED(old, gone);
}

// S39: adoption is an act of its own; until then every claim is refused with the reason.
TEST_P(HomeConformance, a_suspect_stream_takes_nothing_until_it_is_adopted) {
  Process a(*place_, "a"), b(*place_, "b"), admin(*place_, "admin");
  ASSERT_OK(a.claim(2));
  ASSERT_OK(a.append({"1"}));
  core::OwnerToken ahead{a.receipt.incarnation, {9}, {5, 5}};
  ASSERT_OK(a.stream().report_suspect(ahead, "commit 7 is not there"));
  auto append = a.append({"2"});
  ASSERT_REFUSED(append, fence_unavailable);
  auto claim = b.claim(10);
  ASSERT_REFUSED(claim, fence_unavailable);
  EXPECT_EQ(payloads(read_all(b.stream())), Texts{"1"}) << "it is still read";
  auto stat = b.stream().stat();
  ASSERT_OK(stat);
  auto restore = history(admin, core::HistoryAct::restore, place_->runtime());
  auto refused = admin.stream().begin_history(restore);
  ASSERT_REFUSED(refused, fence_unavailable);
  auto adopt = history(admin, core::HistoryAct::adopt, place_->runtime());
  ASSERT_OK(admin.stream().begin_history(adopt));
  ASSERT_OK(b.claim(10));
  ASSERT_OK(b.append({"2"}));
  EXPECT_EQ(payloads(read_all(b.stream())), (Texts{"1", "2"}));
}

}  // namespace
}  // namespace onepen::testing
