// What is the object home's own: the rules B2, B3, B6 under interleavings (S23-S26 of the fault scenarios), and how much is asked of
// the place. Deterministic: one thread, a bucket in memory, hooks for what others do in between.
#include <gtest/gtest.h>

#include "tests/home/object_home_support.h"
#include "wire/log_object.h"

namespace onepen::testing {
namespace {

using core::RecordKind;

// --- S26, B2: the answer was lost -----------------------------------------------------------------------------------------------------------------------

TEST_F(ObjectHome, s26_exists_after_a_lost_answer_is_success_when_the_put_id_is_ours) {
  auto a = process();
  filled(a, 1);
  for (auto fault : {PutFault::lost_answer, PutFault::sent_twice}) {
    a.store->next_creates({fault});
    auto sent = append(a, "once");
    ASSERT_TRUE(sent) << sent.error().message;
  }
  EXPECT_EQ(text(process()), "1 once once ");
}

TEST_F(ObjectHome, s26_exists_after_a_lost_request_is_fenced_when_the_object_is_anothers_claim) {
  auto a = process(), b = process();
  filled(a, 1);
  a.store->next_creates({PutFault::lost_request});
  auto pending = batch(a, "lost");
  auto sent = send(a, pending);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unknown);
  ASSERT_TRUE(claim(b, 2));
  sent = send(a, pending);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::epoch_closed);
  EXPECT_EQ(sent.error().applied, core::Applied::no);
  EXPECT_EQ(text(process()), "1 ");
}

TEST_F(ObjectHome, s26_exists_and_unreadable_is_unknown_neither_fenced_nor_failed) {
  auto a = process();
  filled(a, 1);
  a.store->next_creates({PutFault::sent_twice});
  a.store->fail_gets(1);
  auto pending = batch(a, "x");
  auto sent = send(a, pending);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unknown);
  ASSERT_TRUE(send(a, pending));
  EXPECT_EQ(text(process()), "1 x ");
}

TEST_F(ObjectHome, a_definite_refusal_of_a_later_attempt_says_nothing_of_an_earlier_one) {
  auto a = process();
  filled(a, 1);
  a.store->next_creates({PutFault::late, PutFault::refused});
  auto pending = batch(a, "x");
  for (int i = 0; i < 2; ++i) {
    auto sent = send(a, pending);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().outcome, Outcome::unknown) << "I4";
  }
  EXPECT_EQ(a.store->deliver_late(), 1u);
  ASSERT_TRUE(send(a, pending));
  EXPECT_EQ(text(process()), "1 x ");
}

TEST_F(ObjectHome, b1_nothing_else_is_sent_while_a_create_is_undecided) {
  auto a = process();
  filled(a, 1);
  a.store->next_creates({PutFault::late});
  auto pending = batch(a, "x");
  ASSERT_FALSE(send(a, pending));
  a.store->forget_requests();
  auto other = append(a, "y");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().outcome, Outcome::unavailable);
  EXPECT_EQ(a.store->requests().creates, 0u);
}

TEST_F(ObjectHome, a_refused_create_is_certainly_not_in_the_stream) {
  auto a = process();
  filled(a, 1);
  a.store->next_creates({PutFault::refused});
  auto sent = append(a, "x");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unavailable);
  ASSERT_TRUE(append(a, "y"));
  EXPECT_EQ(text(process()), "1 y ");
}

TEST_F(ObjectHome, a_claim_whose_answer_was_lost_is_found_again) {
  auto a = process();
  a.store->next_creates({PutFault::lost_answer});
  a.store->fail_gets(1);
  auto r = claim_request(1);
  auto answer = a.stream->claim(r);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome, Outcome::unknown);
  answer = a.stream->claim(r);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(bucket->keys().size(), 1u);
}

// --- S24, B3: the claim's id is found first, and everything below it was read ---------------------------------------------------------------------------

TEST_F(ObjectHome, s24_an_append_between_the_list_and_the_claim_is_part_of_what_the_claim_closes) {
  auto a = process(), b = process();
  filled(a, 1);
  bool once = true;
  b.store->before_create = [&](const std::string&) {
    if (std::exchange(once, false)) {
      ASSERT_TRUE(append(a, "in between"));
    }
  };
  auto owned = claim(b, 2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->closed_sequence, Sequence{2});
  auto late = append(a, "late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::epoch_closed);
  EXPECT_EQ(text(process()), "1 in between ");
}

TEST_F(ObjectHome, b3_a_busy_writer_cannot_starve_a_claimer) {
  auto a = process(), b = process();
  filled(a, 1);
  int appended = 0;
  // Whenever the claimer has read an object, the writer makes the next one: reading before each try would never end.
  b.store->after_get = [&](const std::string&) {
    if (append(a, "busy")) ++appended;
  };
  auto owned = claim(b, 2);
  b.store->after_get = nullptr;
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_GT(appended, 3) << "the race was reached";
  EXPECT_LT(b.store->requests().all(), 200u) << "contended cost is bounded";
  EXPECT_EQ(owned->closed_sequence.value, a.next.value - 1) << "it owns only once every id below is read";
  auto late = append(a, "late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::epoch_closed);
}

TEST_F(ObjectHome, a_listing_that_misses_an_object_is_no_hole) {
  auto a = process(), b = process();
  filled(a, 3);
  auto hidden = bucket->get(log_key(3)).value();
  ASSERT_TRUE(bucket->erase(log_key(3)));
  b.store->after_get = [&](const std::string& key) {
    if (key == log_key(2)) {
      ASSERT_TRUE(bucket->put(log_key(3), hidden));
    }
  };
  EXPECT_EQ(text(std::move(b)), "1 2 3 ");
}

// --- S23, S25, B6: the mark ------------------------------------------------------------------------------------------------------------------------------

TEST_F(ObjectHome, s25_a_claim_below_the_mark_is_void) {
  auto a = process(), b = process();
  filled(a, 3);
  b.store->before_create = [&](const std::string&) {  // the owner goes on, trims, and the claimer's id is free again
    b.store->before_create = nullptr;
    ASSERT_TRUE(append(a, "4"));
    ASSERT_TRUE(append(a, "5"));
    ASSERT_TRUE(bucket->put("app/@mark/" + object_name(6), as_bytes("")));
    for (std::uint64_t id = 2; id < 6; ++id) ASSERT_TRUE(bucket->erase(log_key(id)));
  };
  auto owned = claim(b, 2);
  ASSERT_FALSE(owned);
  EXPECT_EQ(owned.error().outcome, Outcome::fence_unavailable) << "a mark without packs: " << owned.error().message;
  EXPECT_NE(owned.error().message.find("trimmed up to object"), std::string::npos) << owned.error().message;
}

TEST_F(ObjectHome, s23_a_stalled_reader_and_a_stalled_copy_are_sent_to_the_snapshot) {
  auto a = process(), reader = process();
  filled(a, 2);
  auto r = reader.stream->read({}, {});
  ASSERT_TRUE(r && r->up_to_date);
  ASSERT_TRUE(append(a, "3"));
  ASSERT_TRUE(append(a, "4"));
  ASSERT_TRUE(bucket->put("app/@mark/" + object_name(5), as_bytes("")));
  ASSERT_TRUE(bucket->put("app/@mark/" + object_name(2), as_bytes("")));  // an older one: the highest wins
  for (std::uint64_t id = 2; id < 5; ++id) ASSERT_TRUE(bucket->erase(log_key(id)));
  ASSERT_TRUE(bucket->put(log_key(4), as_bytes("what a stalled writer put into the empty place")));
  auto more = reader.stream->read(r->next, {});
  ASSERT_FALSE(more);
  EXPECT_TRUE(more.error().outcome == Outcome::gone || more.error().outcome == Outcome::fence_unavailable) << more.error().message;
}

// --- B7: tombstones and new histories ---------------------------------------------------------------------------------------------------------------------

TEST_F(ObjectHome, b7_after_a_new_history_only_a_claim_counts_and_epochs_go_on) {
  auto a = process();
  filled(a, 1);
  auto last = wire::decode_log_object(*std::make_unique<Bytes>(bucket->get(log_key(2)).value()));
  ASSERT_TRUE(last);
  wire::LogObject history{.kind = wire::ObjectKind::history,
                          .stream = StreamName::parse("app").value(),
                          .id = 3,
                          .incarnation = a.receipt.incarnation,
                          .put_id = {1, 1},
                          .prev_id = 2,
                          .prev_checksum = last->checksum,
                          .claim_at = 1};
  history.history = {.next = {5, 5}, .next_ordinal = 2, .floor = {9}, .act = "adopt"};
  ASSERT_TRUE(bucket->put_if_absent(log_key(3), wire::encode(history)));
  auto late = append(a, "late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::incarnation_changed) << late.error().message;
  auto b = process();
  auto low = claim(b, 9);
  ASSERT_FALSE(low) << "the floor holds (I5)";
  auto owned = claim(b, 10);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->incarnation, (Incarnation{5, 5}));
  EXPECT_EQ(owned->closed_epoch, Epoch{0}) << "nobody owned the new history before";
  ASSERT_TRUE(append(b, "new"));
}

TEST_F(ObjectHome, b7_a_tombstone_ends_the_stream_and_ids_go_on) {
  auto a = process();
  filled(a, 1);
  auto last = wire::decode_log_object(*std::make_unique<Bytes>(bucket->get(log_key(2)).value()));
  wire::LogObject stone{.kind = wire::ObjectKind::tombstone,
                        .stream = StreamName::parse("app").value(),
                        .id = 3,
                        .incarnation = a.receipt.incarnation,
                        .put_id = {1, 1},
                        .prev_id = 2,
                        .prev_checksum = last->checksum,
                        .claim_at = 1};
  ASSERT_TRUE(bucket->put_if_absent(log_key(3), wire::encode(stone)));
  auto late = append(a, "late");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::not_found);
  auto b = process();
  auto low = claim(b, 1);
  EXPECT_FALSE(low) << "epoch 1 is used up (I5)";
  auto owned = claim(b, 2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_NE(owned->incarnation, a.receipt.incarnation);
  EXPECT_TRUE(bucket->get(log_key(4)));
}

// --- what is asked, and how much ---------------------------------------------------------------------------------------------------------------------------

TEST_F(ObjectHome, reading_writes_nothing) {
  auto a = process();
  filled(a, 3);
  auto r = process();
  ASSERT_TRUE(r.stream->stat());
  ASSERT_TRUE(r.stream->read({}, {}));
  ASSERT_TRUE(r.stream->wait({}, runtime->now()));
  ASSERT_TRUE(r.stream->pulse("nobody"));
  ASSERT_TRUE(r.home->list(""));
  EXPECT_EQ(text(process()), "1 2 3 ");
  EXPECT_EQ(r.store->requests().writes(), 0u);
  EXPECT_GT(r.store->requests().all(), 4u);
}

TEST_F(ObjectHome, a_takeover_with_a_warm_copy_costs_four_requests_however_long_the_log) {
  auto a = process();
  filled(a, 300);
  auto tail = a.stream->stat()->tail;
  auto b = process();
  auto warm = b.stream->read(tail, {});  // warm up: from the copy's own position
  ASSERT_TRUE(warm && warm->up_to_date);
  EXPECT_LE(b.store->requests().all(), 6u) << "warming does not read the log again";
  ASSERT_TRUE(append(a, "one more"));
  b.store->forget_requests();
  auto owned = claim(b, 2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->closed_sequence, Sequence{301});
  EXPECT_EQ(b.store->requests().all(), 4u) << "PUT, GET, PUT, mark";
  EXPECT_EQ(owned->requests, 4u);
  b.store->forget_requests();
  ASSERT_TRUE(append(b, "x"));
  EXPECT_EQ(b.store->requests().all(), 1u) << "an append is one create";
}

TEST_F(ObjectHome, a_claim_right_after_reading_to_the_tail_is_put_and_mark_and_is_told_along) {
  auto a = process();
  filled(a, 30);
  auto b = process();
  const auto warm = b.stream->read(a.stream->stat()->tail, {});
  ASSERT_TRUE(warm && warm->up_to_date);
  ASSERT_TRUE(warm->stat) << "the look comes with the read";
  EXPECT_EQ(warm->stat->last_sequence, Sequence{30});
  b.store->forget_requests();
  const auto owned = claim(b, 2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(b.store->requests().creates, 1u);
  EXPECT_EQ(b.store->requests().all(), 2u);
  ASSERT_TRUE(owned->record);
  EXPECT_EQ(owned->follows, warm->next);
  const auto shown = process().stream->read(owned->follows, {});
  ASSERT_TRUE(shown && shown->records.size() == 1) << "nothing else lies behind it";
  const auto& record = shown->records[0];
  EXPECT_EQ(record.next, owned->record->next);
  EXPECT_EQ(record.claim_id, owned->record->claim_id);
  EXPECT_EQ(record.closed_sequence, owned->record->closed_sequence);
  EXPECT_EQ(record.owner, owned->record->owner);
  // What it read once does not save the LIST for ever.
  b.store->forget_requests();
  auto again = claim(b, 3);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_GE(b.store->requests().lists, 2u);
}

TEST_F(ObjectHome, a_claim_that_loses_its_name_to_many_lists_them) {
  auto a = process();
  filled(a, 3);
  auto b = process();
  ASSERT_TRUE(b.stream->read(a.stream->stat()->tail, {}));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(append(a, "since"));
  b.store->forget_requests();
  const auto owned = claim(b, 2);
  ASSERT_TRUE(owned) << owned.error().message;
  EXPECT_EQ(owned->closed_sequence, Sequence{43});
  EXPECT_LE(b.store->requests().creates, 3u);
  EXPECT_LE(b.store->requests().all(), 40u + 6u) << "one GET each; two names lost, LIST, PUT, mark";
}

TEST_F(ObjectHome, a_fold_begun_in_the_middle_knows_the_owner) {
  auto a = process(), b = process();
  filled(a, 2);
  ASSERT_TRUE(claim(b, 2));
  ASSERT_TRUE(append(b, "3"));
  auto whole = process();
  auto expected = whole.stream->stat();
  ASSERT_TRUE(expected);
  auto middle = process();
  ASSERT_TRUE(middle.stream->read(expected->tail, {}));
  auto stat = middle.stream->stat();
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->tail, expected->tail);
  EXPECT_EQ(stat->owner, expected->owner);
  EXPECT_EQ(stat->epoch, expected->epoch);
  EXPECT_EQ(stat->last_sequence, expected->last_sequence);
  EXPECT_EQ(stat->recent_contenders, expected->recent_contenders);
  EXPECT_EQ(stat->claims_since_data, expected->claims_since_data);
}

}  // namespace
}  // namespace onepen::testing
