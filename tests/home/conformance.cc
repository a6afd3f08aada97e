#include "tests/home/conformance_process.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace onepen::testing {
namespace {

TEST_P(HomeConformance, what_is_not_there_is_not_found) {
  Process a(*place_, "a");
  auto stat = a.stream().stat();
  ASSERT_REFUSED(stat, not_found);
  auto read = a.stream().read({}, {});
  ASSERT_REFUSED(read, not_found);
  auto r = a.request(1);
  r.create = false;
  auto claim = a.claim(r);
  ASSERT_REFUSED(claim, not_found);
  a.receipt = {.incarnation = {1, 2}, .epoch = {1}, .claim_id = {3, 4}};
  auto append = a.append({"x"});
  ASSERT_REFUSED(append, not_found);
  EXPECT_TRUE(a.home().list("")->empty());
}

TEST_P(HomeConformance, the_first_claim_makes_the_stream) {
  Process a(*place_, "a");
  auto r = a.request(1);
  auto claim = a.claim(r);
  ASSERT_OK(claim);
  EXPECT_EQ(claim->epoch, Epoch{1});
  EXPECT_EQ(claim->claim_id, r.claim_id);
  EXPECT_EQ(claim->incarnation, r.first_incarnation);
  EXPECT_EQ(claim->closed_epoch, Epoch{0});
  auto stat = a.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->epoch, Epoch{1});
  EXPECT_EQ(stat->claim_id, r.claim_id);
  EXPECT_EQ(stat->tail, claim->offset);
  EXPECT_EQ(stat->owner, r.owner);
  EXPECT_EQ(stat->last_sequence, Sequence{0});
  EXPECT_EQ(*a.home().list(""), Texts{"app"});
}

TEST_P(HomeConformance, appends_are_read_back_in_order_from_every_offset) {
  Process a(*place_, "a"), reader(*place_, "r");
  ASSERT_OK(a.claim(1));
  std::vector<Offset> offsets{a.receipt.offset};
  Texts all;
  for (int i = 0; i < 7; ++i) {
    Texts batch;
    for (int k = 0; k <= i % 3; ++k) batch.push_back("p" + std::to_string(i) + "." + std::to_string(k));
    auto sent = a.append(batch);
    ASSERT_OK(sent);
    ASSERT_EQ(sent->offsets.size(), batch.size());
    for (auto& o : sent->offsets) {
      EXPECT_LT(offsets.back(), o);
      offsets.push_back(o);
    }
    all.insert(all.end(), batch.begin(), batch.end());
    EXPECT_EQ(payloads(read_all(reader.stream())), all) << "a read begun after the append sees it";
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(payloads(read_all(a.stream(), offsets[i])), Texts(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()));
    Process fresh(*place_, "f");
    EXPECT_EQ(payloads(read_all(fresh.stream(), offsets[i])), Texts(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()));
  }
  for (std::size_t records : {1u, 2u, 3u}) EXPECT_EQ(payloads(read_all(reader.stream(), {}, {records, 8u << 20})), all);
  auto records = read_all(reader.stream());
  EXPECT_EQ(records[0].kind, RecordKind::claim);
  EXPECT_EQ(records[0].owner.name, "a");
  EXPECT_EQ(records.back().sequence, (Sequence{all.size()}));
  EXPECT_EQ(records.back().next, offsets.back());
  EXPECT_EQ(records.back().epoch, Epoch{1});
  EXPECT_EQ(records.back().claim_id, a.receipt.claim_id);
  EXPECT_EQ(records.back().incarnation, a.receipt.incarnation);
}

TEST_P(HomeConformance, a_limit_of_bytes_still_shows_one_record) {
  Process a(*place_, "a");
  ASSERT_OK(a.claim(1));
  for (int i = 0; i < 4; ++i) ASSERT_OK(a.append({std::string(1000, static_cast<char>('a' + i))}));
  auto r = a.stream().read(a.receipt.offset, {1000, 1});
  ASSERT_OK(r);
  EXPECT_EQ(r->records.size(), 1u);
  EXPECT_FALSE(r->up_to_date);
  EXPECT_EQ(payloads(read_all(a.stream(), a.receipt.offset, {1000, 1})).size(), 4u);
}

TEST_P(HomeConformance, a_takeover_closes_the_epoch_before_it) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  ASSERT_OK(a.append({"1", "2"}));
  auto landed = a.batch({"3"});
  ASSERT_OK(a.send(landed));
  auto claim = b.claim(2);
  ASSERT_OK(claim);
  EXPECT_EQ(claim->closed_epoch, Epoch{1});
  EXPECT_EQ(claim->closed_sequence, Sequence{3});
  EXPECT_EQ(claim->incarnation, a.receipt.incarnation);

  auto late = a.append({"too late"});
  ASSERT_REFUSED(late, epoch_closed);
  EXPECT_EQ(late.error().applied, Applied::no);
  EXPECT_EQ(late.error().closed_sequence, Sequence{3});
  ASSERT_TRUE(late.error().current);
  EXPECT_EQ(late.error().current->name, "b");
  EXPECT_EQ(late.error().current->token.epoch, Epoch{2});
  auto again = a.send(landed);
  ASSERT_REFUSED(again, epoch_closed);
  EXPECT_EQ(again.error().applied, Applied::yes) << "it was in the stream before the epoch was closed";

  ASSERT_OK(b.append({"4"}));
  auto records = read_all(b.stream());
  EXPECT_EQ(payloads(records), (Texts{"1", "2", "3", "4"}));
  auto second = std::find_if(records.begin(), records.end(), [](const Record& r) { return r.kind == RecordKind::claim && r.epoch == Epoch{2}; });
  ASSERT_NE(second, records.end());
  EXPECT_EQ(second->closed_epoch, Epoch{1});
  EXPECT_EQ(second->closed_sequence, Sequence{3});
  EXPECT_EQ(second->next, claim->offset);
}

TEST_P(HomeConformance, a_claim_must_be_above_every_epoch) {
  Process a(*place_, "a"), b(*place_, "b");
  auto first = a.request(5);
  ASSERT_OK(a.claim(first));
  for (std::uint64_t epoch : {1u, 4u, 5u}) {
    auto claim = b.claim(epoch);
    ASSERT_REFUSED(claim, epoch_closed);
    ASSERT_TRUE(claim.error().current);
    EXPECT_EQ(claim.error().current->token.epoch, Epoch{5});
  }
  auto again = a.claim(first);
  ASSERT_OK(again);
  EXPECT_EQ(again->epoch, Epoch{5});
  EXPECT_EQ(again->offset, a.receipt.offset);
  EXPECT_EQ(read_all(a.stream()).size(), 1u) << "a retried claim is stored once";
  ASSERT_OK(b.claim(6));
  auto closed = a.claim(first);
  ASSERT_REFUSED(closed, epoch_closed);
}

TEST_P(HomeConformance, a_conditional_claim_counts_only_over_its_base) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto r = b.request(2);
  r.over = ClaimId{};
  auto nobody = b.claim(r);
  ASSERT_REFUSED(nobody, epoch_closed);
  r = b.request(2);
  r.over = ClaimId{7, 7};
  auto other = b.claim(r);
  ASSERT_REFUSED(other, epoch_closed);
  EXPECT_EQ(read_all(b.stream()).size(), 1u) << "nothing was stored";
  ASSERT_OK(a.append({"a"}));
  r = b.request(2);
  r.over = a.receipt.claim_id;
  r.if_tail = a.receipt.offset;
  auto moved = b.claim(r);
  ASSERT_REFUSED(moved, base_mismatch);
  ASSERT_TRUE(moved.error().tail);
  r = b.request(2);
  r.over = a.receipt.claim_id;
  r.if_tail = *moved.error().tail;
  ASSERT_OK(b.claim(r));
  auto append = a.append({"late"});
  ASSERT_REFUSED(append, epoch_closed);
}

TEST_P(HomeConformance, another_incarnation_is_refused) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto r = b.request(2);
  r.incarnation = Incarnation{9, 9};
  auto claim = b.claim(r);
  ASSERT_FALSE(claim);
  EXPECT_EQ(claim.error().outcome, Outcome::incarnation_changed) << claim.error().message;
  auto batch = a.batch({"x"});
  batch.incarnation = {9, 9};
  auto append = a.send(batch);
  ASSERT_REFUSED(append, incarnation_changed);
  ASSERT_OK(a.append({"y"}));
}

TEST_P(HomeConformance, duplicates_gaps_and_clones) {
  Process a(*place_, "a");
  ASSERT_OK(a.claim(1));
  auto first = a.batch({"1", "2"});
  auto sent = a.send(first);
  ASSERT_OK(sent);
  auto again = a.send(first);
  ASSERT_OK(again);
  EXPECT_EQ(again->offsets, sent->offsets);
  auto other = first;
  other.attempt = place_->runtime().draw<PutId>();
  other.appends[0].payload = bytes("other");
  auto cloned = a.send(other);
  ASSERT_REFUSED(cloned, cloned);
  auto gap = a.batch({"5"});
  gap.first = {5};
  auto skipped = a.send(gap);
  ASSERT_REFUSED(skipped, sequence_gap);
  EXPECT_EQ(skipped.error().expected_sequence, Sequence{3});
  a.next = {3};
  ASSERT_OK(a.append({"3"}));
  EXPECT_EQ(payloads(read_all(a.stream())), (Texts{"1", "2", "3"}));
}

TEST_P(HomeConformance, two_processes_on_one_claim_are_told) {
  Process a(*place_, "a"), clone(*place_, "clone");
  ASSERT_OK(a.claim(1));
  clone.receipt = a.receipt;
  ASSERT_OK(clone.stream().stat());
  ASSERT_OK(a.append({"from a"}));
  auto append = clone.append({"from the clone"});
  ASSERT_REFUSED(append, cloned);
  EXPECT_EQ(payloads(read_all(a.stream())), Texts{"from a"});
}

TEST_P(HomeConformance, control_records_and_stat) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto ready = a.batch({});
  ready.appends.push_back({RecordKind::control, bytes(R"({"record":"ready","endpoint":"http://a:1"})")});
  ASSERT_OK(a.send(ready));
  auto stat = b.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->endpoint, "http://a:1");
  EXPECT_EQ(stat->claims_since_data, 0u);
  ASSERT_OK(b.claim(2));
  ASSERT_OK(a.claim(3));
  stat = b.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->endpoint, "");
  EXPECT_EQ(stat->claims_since_data, 2u);
  EXPECT_EQ(stat->recent_contenders, (Texts{"a", "b", "a"}));
  ASSERT_OK(a.append({"x"}));
  stat = b.stream().stat();
  ASSERT_OK(stat);
  EXPECT_EQ(stat->claims_since_data, 0u);
  EXPECT_EQ(stat->last_sequence, Sequence{1});
  auto records = read_all(b.stream());
  EXPECT_EQ(records[1].kind, RecordKind::control);
}

TEST_P(HomeConformance, offsets_that_are_none_are_refused) {
  Process a(*place_, "a");
  ASSERT_OK(a.claim(1));
  auto read = a.stream().read(Offset{"not an offset"}, {});
  ASSERT_REFUSED(read, invalid);
}

TEST_P(HomeConformance, wait_ends_when_there_is_more) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto now = [&] { return place_->runtime().now(); };
  auto none = b.stream().wait(a.receipt.offset, now());
  ASSERT_OK(none);
  EXPECT_FALSE(*none);
  std::atomic<bool> appended{false};
  std::thread waiter([&] {
    auto more = b.stream().wait(a.receipt.offset, now() + kHang);
    EXPECT_TRUE(more && *more);
    EXPECT_TRUE(appended.load());
  });
  appended = true;
  EXPECT_TRUE(a.append({"x"}));
  waiter.join();
  auto at_once = b.stream().wait(a.receipt.offset, now());
  ASSERT_OK(at_once);
  EXPECT_TRUE(*at_once);
}

TEST_P(HomeConformance, big_batches) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  Texts batch;
  for (int i = 0; i < 256; ++i) batch.push_back(std::string(static_cast<std::size_t>(1 + i * 37), static_cast<char>('a' + i % 26)));
  ASSERT_OK(a.append(batch));
  Texts one{std::string(8u << 20, 'Z')};
  ASSERT_OK(a.append(one));
  batch.push_back(one[0]);
  EXPECT_EQ(payloads(read_all(b.stream(), {}, {100, 1u << 20})), batch);
}

TEST_P(HomeConformance, a_lost_answer_is_unknown_and_the_same_request_tells) {
  Process a(*place_, "a");
  auto r = a.request(1);
  place_->lose_next_change(a.home(), Lose::answer);
  auto claim = a.claim(r);
  if (!claim) {
    ASSERT_REFUSED(claim, unknown);
    claim = a.claim(r);
  }
  ASSERT_OK(claim);
  EXPECT_EQ(claim->claim_id, r.claim_id);
  for (auto how : {Lose::answer, Lose::request}) {
    auto batch = a.batch({how == Lose::answer ? "answer lost" : "request lost"});
    place_->lose_next_change(a.home(), how);
    auto sent = a.send(batch);
    if (!sent) {
      ASSERT_REFUSED(sent, unknown);
      sent = a.send(batch);
    }
    ASSERT_OK(sent);
  }
  EXPECT_EQ(payloads(read_all(a.stream())), (Texts{"answer lost", "request lost"}));
  EXPECT_EQ(read_all(a.stream()).size(), 3u);
}

TEST_P(HomeConformance, a_request_that_arrives_after_a_takeover_changes_nothing) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  ASSERT_OK(a.append({"1"}));
  auto batch = a.batch({"late"});
  place_->lose_next_change(a.home(), Lose::until_later);
  auto sent = a.send(batch);
  ASSERT_REFUSED(sent, unknown);
  ASSERT_OK(b.claim(2));
  ASSERT_OK(b.append({"2"}));
  place_->deliver_late(a.home());
  EXPECT_EQ(payloads(read_all(b.stream())), (Texts{"1", "2"}));
  ASSERT_OK(b.append({"3"}));
  auto again = a.send(batch);
  ASSERT_REFUSED(again, epoch_closed);
  EXPECT_EQ(again.error().applied, Applied::no);
  Process fresh(*place_, "f");
  EXPECT_EQ(payloads(read_all(fresh.stream())), (Texts{"1", "2", "3"}));
}

TEST_P(HomeConformance, a_late_request_before_the_takeover_is_part_of_the_stream) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto batch = a.batch({"late"});
  place_->lose_next_change(a.home(), Lose::until_later);
  auto sent = a.send(batch);
  ASSERT_REFUSED(sent, unknown);
  place_->deliver_late(a.home());
  auto claim = b.claim(2);
  ASSERT_OK(claim);
  EXPECT_EQ(claim->closed_sequence, Sequence{1});
  auto again = a.send(batch);  // a home may answer for the request alone, or say that its epoch is closed by now
  if (again) {
    EXPECT_EQ(again->offsets.size(), 1u);
  } else {
    EXPECT_EQ(again.error().outcome, Outcome::epoch_closed) << again.error().message;
    EXPECT_EQ(again.error().applied, Applied::yes);
  }
  auto next = a.append({"after the takeover"});
  ASSERT_REFUSED(next, epoch_closed);
  EXPECT_EQ(payloads(read_all(b.stream())), Texts{"late"});
}

TEST_P(HomeConformance, names_and_list) {
  for (auto* stream : {"app", "app/log", "app/log/x", "a.b", "z", "00000000000000000001"}) {
    Process p(*place_, "p", stream);
    ASSERT_OK(p.claim(1));
    ASSERT_OK(p.append({stream}));
  }
  auto home = place_->open();
  EXPECT_EQ(home->list("").value(), (Texts{"00000000000000000001", "a.b", "app", "app/log", "app/log/x", "z"}));
  EXPECT_EQ(home->list("app").value(), (Texts{"app", "app/log", "app/log/x"}));
  EXPECT_EQ(home->list("app/").value(), (Texts{"app/log", "app/log/x"}));
  EXPECT_EQ(home->list("a").value(), (Texts{"a.b", "app", "app/log", "app/log/x"}));
  EXPECT_TRUE(home->list("nothing").value().empty());
  for (auto* stream : {"app", "app/log", "app/log/x"}) EXPECT_EQ(payloads(read_all(*home->stream(name(stream)))), Texts{stream});
}

TEST_P(HomeConformance, signs_of_life) {
  Process a(*place_, "a"), b(*place_, "b");
  ASSERT_OK(a.claim(1));
  auto none = b.stream().pulse("owner-1");
  ASSERT_OK(none);
  EXPECT_FALSE(*none);
  ASSERT_OK(a.stream().beat("owner-1", as_bytes("1")));
  ASSERT_OK(a.stream().beat("owner-1", as_bytes("2")));
  auto pulse = b.stream().pulse("owner-1");
  ASSERT_OK(pulse);
  ASSERT_TRUE(*pulse);
  EXPECT_EQ(as_text(**pulse), "2");
  EXPECT_EQ(a.home().list("").value(), Texts{"app"});
  EXPECT_EQ(read_all(b.stream()).size(), 1u);
}

}  // namespace
}  // namespace onepen::testing
