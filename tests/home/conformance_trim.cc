// The home conformance suite: snapshots, compaction and trim.
#include "tests/home/conformance_process.h"

namespace onepen::testing {
namespace {

// --- snapshots -----------------------------------------------------------------------------------------------------------------------------------------

TEST_P(HomeConformance, a_snapshot_is_found_and_read_and_the_stream_goes_on_from_it) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  ASSERT_OK(a.append({"1", "2", "3"}));
  auto none = b.stream().newest_snapshot();
  ASSERT_OK(none);
  EXPECT_FALSE(*none);
  auto middle = a.append({"4", "5"});
  ASSERT_OK(middle);
  auto put = put_snapshot(a, {"part 0", "", "part 2"}, middle->offsets[0]);
  ASSERT_OK(put);
  EXPECT_EQ(put->offset, middle->offsets[0]);
  EXPECT_EQ(put->incarnation, a.receipt.incarnation);
  EXPECT_EQ(put->epoch, a.receipt.epoch);
  EXPECT_EQ(put->parts, 3u);
  EXPECT_EQ(put->bytes, 12u);
  EXPECT_EQ(as_text(put->about), "about");
  EXPECT_GT(put->log_bytes, 0u);
  auto found = b.stream().newest_snapshot();
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->id, put->id);
  EXPECT_EQ((*found)->log_bytes, put->log_bytes);
  auto part = b.stream().snapshot_part(**found, 2);
  ASSERT_OK(part);
  EXPECT_EQ(as_text(*part), "part 2");
  auto beyond = b.stream().snapshot_part(**found, 3);
  EXPECT_FALSE(beyond);
  EXPECT_EQ(payloads(read_all(b.stream(), (*found)->offset)), Texts{"5"}) << "from within a batch";
  ASSERT_OK(a.append({"6"}));
  auto newer = put_snapshot(a, {"newer"});
  ASSERT_OK(newer);
  EXPECT_GT(newer->log_bytes, put->log_bytes);
  Process c(*place_, "c");
  found = c.stream().newest_snapshot();
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->id, newer->id);
  EXPECT_TRUE(read_all(c.stream(), (*found)->offset).empty());
  ASSERT_OK(a.append({"7"}));
  EXPECT_EQ(payloads(read_all(c.stream(), (*found)->offset)), Texts{"7"});
  ASSERT_OK(c.claim(2));
  EXPECT_EQ(c.receipt.closed_sequence, Sequence{7}) << "a session that began with a snapshot knows the fence";
  auto all = c.stream().snapshots();
  ASSERT_OK(all);
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].id, newer->id);
  EXPECT_EQ((*all)[1].id, put->id);
}

TEST_P(HomeConformance, a_snapshot_counts_only_when_it_is_finished_and_only_an_owner_puts_one) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  ASSERT_OK(a.append({"1"}));
  auto tail = a.stream().stat()->tail;
  auto writer = a.stream().begin_snapshot(token_of(a), tail);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->add(as_bytes("half")));
  auto found = b.stream().newest_snapshot();
  ASSERT_OK(found);
  EXPECT_FALSE(*found);
  ASSERT_OK(b.claim(2));
  auto late = put_snapshot(a, {"late"}, tail);
  ASSERT_REFUSED(late, epoch_closed);
  auto nowhere = b.stream().begin_snapshot(token_of(b), Offset{"nowhere"});
  ASSERT_REFUSED(nowhere, invalid);
}

TEST_P(HomeConformance, an_owner_that_ended_in_order_says_so) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  ASSERT_OK(a.append({"1"}));
  EXPECT_FALSE(b.stream().stat()->released);
  auto last = a.batch({});
  last.appends.push_back({RecordKind::control, bytes(R"({"record":"released"})")});
  ASSERT_OK(a.send(last));
  auto stat = b.stream().stat();
  ASSERT_OK(stat);
  EXPECT_TRUE(stat->released);
  EXPECT_GT(stat->log_bytes, 0u);
  ASSERT_OK(b.claim(2));
  EXPECT_FALSE(a.stream().stat()->released) << "until somebody claims again";
}

TEST_P(HomeConformance, records_of_snapshots_are_told_from_data) {
  Process a(*place_, "a");
  ASSERT_OK(a.claim(1));
  auto batch = a.batch({"data"});
  batch.appends.push_back({RecordKind::snapshot, bytes("a snapshot was put")});
  ASSERT_OK(a.send(batch));
  auto records = read_all(a.stream());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].kind, RecordKind::snapshot);
}

// --- trim ----------------------------------------------------------------------------------------------------------------------------------------------

// Compacts and trims until there is nothing more to do.
core::Answer<core::Tended> tend_all(Process& p, std::optional<Offset> trim_to = {}, std::size_t keep_objects = 4) {
  core::TendRequest request{.token = token_of(p), .trim_to = std::move(trim_to), .keep_objects = keep_objects};
  for (int i = 0; i < 100; ++i) {
    auto tended = p.stream().tend(request);
    if (!tended || !tended->more) return tended;
  }
  ADD_FAILURE() << "tending never ends";
  return core::Tended{};
}

TEST_P(HomeConformance, tending_changes_nothing_that_is_read) {
  Process a(*place_, "a"), warm(*place_, "w"), tender(*place_, "t");
  ASSERT_OK(a.claim(1));
  Texts all;
  std::vector<Offset> offsets;
  for (int i = 0; i < 40; ++i) {
    all.push_back("p" + std::to_string(i));
    auto sent = a.append({all.back()});
    ASSERT_OK(sent);
    offsets.push_back(sent->offsets[0]);
  }
  auto begun = warm.stream().read({}, {3, 1u << 20});
  ASSERT_OK(begun);
  tender.receipt = a.receipt;
  ASSERT_OK(tend_all(tender));
  for (std::size_t i : {0u, 1u, 7u, 20u, 39u}) {
    Process fresh(*place_, "f");
    EXPECT_EQ(payloads(read_all(fresh.stream(), offsets[i])), Texts(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end())) << i;
  }
  Process fresh(*place_, "f");
  EXPECT_EQ(payloads(read_all(fresh.stream())), all);
  EXPECT_EQ(payloads(read_all(warm.stream(), begun->next)), Texts(all.begin() + 2, all.end())) << "a reader below a trim goes on";
  ASSERT_OK(a.append({"after"}));
  all.push_back("after");
  Process b(*place_, "b");
  ASSERT_OK(b.claim(2));
  EXPECT_EQ(b.receipt.closed_sequence, Sequence{41});
  auto late = a.append({"late"});
  ASSERT_REFUSED(late, epoch_closed);
  ASSERT_OK(b.append({"b"}));
  all.push_back("b");
  auto stale = tender.stream().tend({.token = token_of(a)});
  ASSERT_REFUSED(stale, epoch_closed);
  EXPECT_EQ(payloads(read_all(fresh.stream())), all);
}

TEST_P(HomeConformance, a_trimmed_log_is_gone_below_its_snapshot_and_goes_on_above) {
  Process a(*place_, "a"), warm(*place_, "w");
  ASSERT_OK(a.claim(1));
  auto first = a.append({"1"});
  ASSERT_OK(first);
  for (int i = 2; i <= 20; ++i) ASSERT_OK(a.append({std::to_string(i)}));
  auto at = warm.stream().read({}, {5, 1u << 20});
  ASSERT_OK(at);
  auto older = put_snapshot(a, {"state at 20"});
  ASSERT_OK(older);
  for (int i = 21; i <= 40; ++i) ASSERT_OK(a.append({std::to_string(i)}));
  auto newer = put_snapshot(a, {"state at 40"});
  ASSERT_OK(newer);
  for (int i = 41; i <= 60; ++i) ASSERT_OK(a.append({std::to_string(i)}));
  ASSERT_OK(tend_all(a, older->offset));
  ASSERT_OK(tend_all(a, newer->offset));
  Process cold(*place_, "c");
  auto beginning = cold.stream().read({}, {});
  ASSERT_REFUSED(beginning, gone);
  auto below = cold.stream().read(first->offsets[0], {});
  ASSERT_REFUSED(below, gone);
  auto lagging = warm.stream().read(at->next, {});
  ASSERT_REFUSED(lagging, gone);
  auto found = cold.stream().newest_snapshot();
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->id, newer->id);
  EXPECT_EQ(as_text(*cold.stream().snapshot_part(**found, 0)), "state at 40");
  EXPECT_EQ(payloads(read_all(cold.stream(), (*found)->offset)).size(), 20u);
  Process other(*place_, "o");
  EXPECT_EQ(payloads(read_all(other.stream(), newer->offset)).size(), 20u) << "a session that knows nothing, from the snapshot's offset";
  auto usage = other.stream().usage();
  ASSERT_OK(usage);
  EXPECT_EQ(usage->snapshots, 2u);
  ASSERT_OK(other.claim(2));
  EXPECT_EQ(other.receipt.closed_sequence, Sequence{60});
  ASSERT_OK(other.append({"new"}));
  Process again(*place_, "g");
  auto stat = again.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->epoch, Epoch{2});
  EXPECT_EQ(stat->last_sequence, Sequence{1});
  auto resend = a.append({"late"});
  ASSERT_REFUSED(resend, epoch_closed);
}

}  // namespace
}  // namespace onepen::testing
