// Damage to the objects of a log, and logs that were put back: it stops readers and claimers, is named, and nothing behind it is shown.
#include "tests/home/object_home_support.h"
#include "wire/log_object.h"

namespace onepen::testing {
namespace {

using core::RecordKind;

TEST_F(ObjectHome, damage_stops_readers_and_claimers_and_names_the_object) {
  struct Case {
    const char* what;
    std::function<void(Bytes&)> damage;
    Outcome outcome;
    const char* says;
  };
  const std::vector<Case> cases{
      {"truncated", [](Bytes& b) { b.resize(b.size() / 2); }, Outcome::fence_unavailable, "ends"},
      {"empty", [](Bytes& b) { b.clear(); }, Outcome::fence_unavailable, "ends"},
      {"flipped", [](Bytes& b) { b[b.size() - 12] ^= std::byte{4}; }, Outcome::fence_unavailable, "checksum"},
      {"newer", [](Bytes& b) { b[4] = std::byte{9}; }, Outcome::invalid, "newer"},
  };
  for (const auto& c : cases) {
    bucket = std::make_shared<Bucket>();
    auto a = process();
    filled(a, 3);
    auto bytes = bucket->get(log_key(3)).value();
    c.damage(bytes);
    ASSERT_TRUE(bucket->put(log_key(3), bytes));
    auto before = bucket->keys();
    EXPECT_EQ(text(process()), "1 !" + std::string(word(c.outcome))) << c.what << ": what lies before is shown, nothing after";
    auto b = process();
    auto owned = claim(b, 2);
    ASSERT_FALSE(owned) << c.what;
    EXPECT_EQ(owned.error().outcome, c.outcome) << c.what;
    EXPECT_NE(owned.error().message.find(object_name(3)), std::string::npos) << owned.error().message;
    EXPECT_NE(owned.error().message.find(c.says), std::string::npos) << owned.error().message;
    EXPECT_EQ(bucket->keys(), before) << c.what << ": nothing was built over it";
  }
}

TEST_F(ObjectHome, an_object_missing_in_the_middle_is_never_the_tail) {
  auto a = process(), warm = process(), b = process();
  filled(a, 3);
  auto r = warm.stream->read({}, {2, 1000});
  ASSERT_TRUE(r);
  ASSERT_TRUE(bucket->erase(log_key(3)));
  EXPECT_EQ(text(process()), "1 !fence-unavailable");
  expect_no_read(warm, r->next, Outcome::fence_unavailable);
  auto owned = claim(b, 2);
  ASSERT_FALSE(owned);
  EXPECT_NE(owned.error().message.find("missing"), std::string::npos) << owned.error().message;
  EXPECT_FALSE(bucket->get(log_key(3)));
}

TEST_F(ObjectHome, an_object_of_another_place_or_history_is_damage) {
  auto a = process();
  filled(a, 3);
  auto third = bucket->get(log_key(3)).value();
  ASSERT_TRUE(bucket->put(log_key(4), third));  // renumbered
  EXPECT_EQ(text(process()), "1 2 !fence-unavailable");
}

TEST_F(ObjectHome, an_older_copy_put_back_is_noticed_by_a_warm_one) {
  auto a = process();
  filled(a, 3);
  auto tail = a.stream->stat()->tail;
  ASSERT_TRUE(bucket->erase(log_key(4)));
  auto warm = process();
  expect_no_read(warm, tail, Outcome::fence_unavailable);
}

// The owner itself: its newest object is gone. It learns so from its next look, not from readers that cannot fold what it wrote behind the hole.
TEST_F(ObjectHome, a_log_that_lost_its_end_is_noticed_by_the_one_who_wrote_it) {
  auto a = process(), idle = process();
  filled(a, 3);
  ASSERT_TRUE(a.stream->stat());
  const auto seen = idle.stream->stat();
  ASSERT_TRUE(seen);
  ASSERT_TRUE(bucket->erase(log_key(4)));
  auto stat = a.stream->stat();
  ASSERT_TRUE(stat) << stat.error().message;
  EXPECT_EQ(stat->last_sequence, Sequence{2}) << "what is there, so that the owner sees its acknowledged write missing";
  EXPECT_EQ(stat->claim_id, a.receipt.claim_id);
  expect_no_read(idle, seen->tail, Outcome::fence_unavailable);
}

TEST_F(ObjectHome, a_hole_behind_what_was_folded_is_damage) {
  auto a = process(), b = process();
  filled(a, 3);
  ASSERT_TRUE(b.stream->stat());
  ASSERT_TRUE(append(a, "4"));
  ASSERT_TRUE(bucket->erase(log_key(4)));
  auto stat = b.stream->stat();
  ASSERT_FALSE(stat);
  EXPECT_EQ(stat.error().outcome, Outcome::fence_unavailable);
  EXPECT_NE(stat.error().message.find("missing"), std::string::npos) << stat.error().message;
}

TEST_F(ObjectHome, an_offset_of_a_stream_made_anew_is_gone) {
  auto a = process();
  filled(a, 3);
  auto tail = a.stream->stat()->tail;
  for (const auto& key : bucket->keys()) ASSERT_TRUE(bucket->erase(key));
  auto b = process();
  filled(b, 5);
  auto old_copy = process();
  expect_no_read(old_copy, tail, Outcome::gone);
}

}  // namespace
}  // namespace onepen::testing
