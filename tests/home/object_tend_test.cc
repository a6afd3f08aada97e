// Compaction, trim, snapshots and histories of the object home where they can go wrong: killed between any two requests, two caretakers, stalled writers
// whose PUT arrives below the mark, garbage under the right name. Deterministic: a bucket in memory.
#include "tests/home/object_fixture.h"
#include "wire/pack.h"

namespace onepen::testing {
namespace {

using Texts = std::vector<std::string>;
class ObjectTend : public ObjectFixture {};

// The process dies at its n-th write: that one and everything after it fails.
class DyingStore final : public home::ObjectStore {
 public:
  DyingStore(std::shared_ptr<home::ObjectStore> place, std::uint64_t writes) : place_(std::move(place)), left_(writes) {}
  Result<Bytes> get(const std::string& key) override { return dead_ ? dead() : place_->get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t n) override { return dead_ ? dead() : place_->get_range(key, from, n); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    if (!alive()) return dead();
    return place_->put_if_absent(key, bytes);
  }
  Result<> put(const std::string& key, ByteView bytes) override {
    if (!alive()) return dead();
    return place_->put(key, bytes);
  }
  Result<Texts> list(const std::string& folder, const std::string& after, std::size_t limit) override {
    if (dead_) return dead();
    return place_->list(folder, after, limit);
  }
  Result<> erase(const std::string& key) override {
    if (!alive()) return dead();
    return place_->erase(key);
  }
  std::string describe() const override { return "a process that dies"; }

 private:
  static tl::unexpected<Error> dead() { return tl::unexpected(Error{Outcome::unavailable, "the process is dead", {}}); }
  bool alive() {
    if (left_ == 0) dead_ = true;
    if (!dead_) --left_;
    return !dead_;
  }
  std::shared_ptr<home::ObjectStore> place_;
  std::uint64_t left_;
  bool dead_ = false;
};

TEST_F(ObjectTend, killed_at_any_write_the_log_is_whole_and_the_next_one_finishes) {
  for (const bool trimming : {false, true}) {
    std::uint64_t writes = 0;
    for (bool done = false; !done; ++writes) {
      ASSERT_LT(writes, 200u);
      bucket = std::make_shared<Bucket>();
      auto a = process();
      claim(a, 1);
      appends(a, 1, 10);
      auto older = snapshot(a, kState);
      appends(a, 11, 20);
      if (trimming) (void)snapshot(a, kAll);
      auto trim_to = trimming ? std::optional<Offset>(older.offset) : std::nullopt;
      {
        auto mortal = over(std::make_unique<DyingStore>(bucket, writes));
        mortal.receipt = a.receipt;
        auto tended = mortal.stream->tend(request(mortal, trim_to));
        done = tended && !tended->more;
        while (tended && tended->more) tended = mortal.stream->tend(request(mortal, trim_to)), done = tended && !tended->more;
      }
      EXPECT_EQ(text(), kAll) << "killed at write " << writes;
      auto next = process();
      claim(next, 2);
      ASSERT_TRUE(append(next, "21"));
      for (;;) {
        auto tended = next.stream->tend(request(next, trim_to));
        ASSERT_TRUE(tended) << tended.error().message;
        if (!tended->more) break;
      }
      EXPECT_EQ(text(), kAll + "21 ") << "killed at write " << writes;
      EXPECT_LE(objects(), 6u) << "nothing is left behind: two claims, the newest objects";
    }
    EXPECT_GT(writes, 10u);
  }
}

TEST_F(ObjectTend, without_the_mark_first_a_caretaker_that_dies_leaves_a_hole) {
  set_guard(Guard::b5_mark_first, false);
  std::string worst;
  for (std::uint64_t writes = 0; writes < 30; ++writes) {
    bucket = std::make_shared<Bucket>();
    auto a = process();
    claim(a, 1);
    appends(a, 1, 20);
    auto mortal = over(std::make_unique<DyingStore>(bucket, writes));
    mortal.receipt = a.receipt;
    (void)mortal.stream->tend(request(mortal));
    if (auto shown = text(); shown != kAll) worst = shown;
  }
  set_guard(Guard::b5_mark_first, true);
  EXPECT_NE(worst.find("fence-unavailable"), std::string::npos) << "the rule is needed";
}

TEST_F(ObjectTend, a_put_of_a_stalled_owner_that_lands_below_the_mark_changes_nothing) {
  auto a = process(), b = process(), reader = process();
  claim(a, 1);
  appends(a, 1, 3);
  auto at = reader.stream->read({}, {});
  ASSERT_TRUE(at);
  a.store->next_creates({PutFault::late});
  auto stalled = batch(a, "stalled");
  ASSERT_FALSE(a.stream->append(stalled));
  claim(b, 2);  // at the very id
  appends(b, 4, 12);
  ASSERT_TRUE(b.stream->tend(request(b)));
  EXPECT_EQ(a.store->deliver_late(), 0u) << "the claim that fenced it stays for ever (B5)";
  auto late = a.stream->append(stalled);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::epoch_closed);
  EXPECT_EQ(text(), "1 2 3 4 5 6 7 8 9 10 11 12 ");
  // What is created under the name of a deleted object is never looked at.
  for (std::uint64_t id = 2; id <= 4; ++id) ASSERT_TRUE(bucket->put("app/@log/" + object_name(id), as_bytes("garbage")));
  EXPECT_EQ(text(), "1 2 3 4 5 6 7 8 9 10 11 12 ");
  auto more = reader.stream->read(at->next, {});
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->records.size(), 10u);
}

TEST_F(ObjectTend, two_caretakers_at_once_do_the_same) {
  auto a = process(), one = process(), two = process();
  claim(a, 1);
  appends(a, 1, 20);
  one.receipt = two.receipt = a.receipt;
  int held = 0;
  one.store->before_create = [&](const std::string&) {
    one.store->before_create = nullptr;
    ++held;
    ASSERT_TRUE(two.stream->tend(request(two)));
    appends(a, 21, 30);
    ASSERT_TRUE(two.stream->tend(request(two)));
  };
  auto tended = one.stream->tend(request(one));
  ASSERT_TRUE(tended) << tended.error().message;
  EXPECT_EQ(held, 1);
  EXPECT_EQ(text(), kAll + "21 22 23 24 25 26 27 28 29 30 ");
  for (auto* p : {&one, &two}) ASSERT_TRUE(p->stream->tend(request(*p)));
  EXPECT_EQ(text(), kAll + "21 22 23 24 25 26 27 28 29 30 ");
}

TEST_F(ObjectTend, garbage_under_the_name_of_a_pack_or_head_is_refused_and_named) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 10);
  auto info = snapshot(a, kState);
  appends(a, 11, 20);
  ASSERT_TRUE(a.stream->tend(request(a)));
  for (const auto& key : bucket->keys()) {
    const bool pack = key.starts_with("app/@pack/"), head = key.ends_with("/head");
    if (!pack && !head) continue;
    const auto right = bucket->get(key).value();
    for (int kind = 0; kind < 3; ++kind) {
      auto wrong = right;
      if (kind == 0) wrong.resize(wrong.size() / 2);
      if (kind == 1) wrong[wrong.size() / 2] ^= std::byte{1};
      if (kind == 2) wrong[4] = std::byte{2};  // a newer format
      ASSERT_TRUE(bucket->put(key, wrong));
      auto p = process();
      auto answer = pack ? core::Answer<bool>(p.stream->read({}, {}).map([](auto&&) { return true; }))
                         : core::Answer<bool>(p.stream->newest_snapshot().map([](auto&&) { return true; }));
      ASSERT_FALSE(answer) << key << " " << kind;
      EXPECT_EQ(answer.error().outcome, kind == 2 ? Outcome::invalid : Outcome::fence_unavailable) << answer.error().message;
      EXPECT_NE(answer.error().message.find(key), std::string::npos) << answer.error().message;
    }
    ASSERT_TRUE(bucket->put(key, right));
  }
  const auto part = "app/@snap/" + info.id + "/part-00000";
  ASSERT_TRUE(bucket->put(part, as_bytes("other")));
  auto p = process();
  auto read = p.stream->snapshot_part(info, 0);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
  ASSERT_TRUE(bucket->erase(part));
  read = p.stream->snapshot_part(info, 0);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("missing"), std::string::npos) << read.error().message;
}

TEST_F(ObjectTend, large_objects_stay_in_place_until_they_are_trimmed) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 3);
  const std::string large(300'000, 'x');
  ASSERT_TRUE(append(a, large));
  appends(a, 5, 10);
  ASSERT_TRUE(a.stream->tend(request(a)));
  EXPECT_TRUE(bucket->get("app/@log/" + object_name(5))) << "not worth a copy";
  EXPECT_FALSE(bucket->get("app/@log/" + object_name(4)));
  EXPECT_EQ(text(), "1 2 3 " + large + " 5 6 7 8 9 10 ");
  auto object = bucket->get("app/@log/" + object_name(5)).value();
  ASSERT_TRUE(bucket->put("app/@log/" + object_name(5), as_bytes("another one")));
  EXPECT_NE(text().find("!fence-unavailable"), std::string::npos);
  ASSERT_TRUE(bucket->put("app/@log/" + object_name(5), object));
  appends(a, 11, 20);
  auto info = snapshot(a, "S ");
  appends(a, 21, 25);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(a.stream->tend(request(a, info.offset)));
  EXPECT_FALSE(bucket->get("app/@log/" + object_name(5)));
  EXPECT_EQ(text(), "S 21 22 23 24 25 ");
}

TEST_F(ObjectTend, reading_through_packs_and_snapshots_writes_nothing) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 10);
  auto info = snapshot(a, kState);
  appends(a, 11, 20);
  ASSERT_TRUE(a.stream->tend(request(a)));
  auto r = process();
  ASSERT_TRUE(r.stream->stat());
  ASSERT_TRUE(r.stream->newest_snapshot());
  ASSERT_TRUE(r.stream->snapshots());
  ASSERT_TRUE(r.stream->snapshot_part(info, 0));
  ASSERT_TRUE(r.stream->usage());
  ASSERT_TRUE(r.stream->events());
  ASSERT_TRUE(r.stream->read({}, {}));
  ASSERT_TRUE(r.stream->read(info.offset, {}));
  EXPECT_EQ(r.store->requests().writes(), 0u);
}

// S27: what a fenced owner left of a snapshot is swept once a newer one is whole; nothing of the owner that lives is, finished or not.
TEST_F(ObjectTend, unfinished_parts_of_a_fenced_owner_are_swept_and_those_of_the_owner_stay) {
  const auto files = [&](const std::string& id) {
    const auto keys = bucket->keys();
    return std::count_if(keys.begin(), keys.end(), [&](const auto& key) { return key.starts_with("app/@snap/" + id); });
  };
  const auto folders = [&] {
    Texts names;
    for (const auto& key : bucket->keys()) {
      if (!key.starts_with("app/@snap/")) continue;
      const auto id = key.substr(10, key.find('/', 10) - 10);
      if (names.empty() || names.back() != id) names.push_back(id);
    }
    return names;
  };
  auto a = process(), b = process();
  claim(a, 1);
  appends(a, 1, 10);
  auto of_a = a.stream->begin_snapshot(a.token(), a.stream->stat()->tail);
  ASSERT_TRUE(of_a);
  for (const char* part : {"one", "two"}) ASSERT_TRUE((*of_a)->add(as_bytes(part)));
  ASSERT_EQ(folders().size(), 1u);
  const auto left_by_a = folders().front();

  claim(b, 2);
  appends(b, 11, 15);
  ASSERT_TRUE(b.stream->tend(request(b)));
  EXPECT_EQ(files(left_by_a), 2) << "no newer one is whole: it could be the one being made";
  const auto whole = snapshot(b, kState + "11 12 13 14 15 ");
  appends(b, 16, 20);
  auto of_b = b.stream->begin_snapshot(b.token(), b.stream->stat()->tail);
  ASSERT_TRUE(of_b);
  ASSERT_TRUE((*of_b)->add(as_bytes(kAll)));
  const auto being_made = folders().back();
  ASSERT_NE(being_made, whole.id);
  ASSERT_TRUE(b.stream->tend(request(b)));
  EXPECT_EQ(files(left_by_a), 0);
  EXPECT_EQ(files(whole.id), 2) << "a part and the head";
  EXPECT_EQ(files(being_made), 1);
  EXPECT_EQ(text(), kAll);

  // A does not know yet that it was fenced: what it still puts is of no consequence, and swept again.
  static_cast<void>((*of_a)->add(as_bytes("three")));
  const auto late = (*of_a)->finish({});
  ASSERT_FALSE(late) << "two of its parts were swept";
  EXPECT_EQ(late.error().outcome, Outcome::unavailable);
  EXPECT_EQ(b.stream->snapshots()->size(), 1u) << "none that lacks a part is shown";
  EXPECT_EQ((*b.stream->newest_snapshot())->id, whole.id);
  EXPECT_EQ(text(), kAll);
  const auto finished = (*of_b)->finish({});
  ASSERT_TRUE(finished) << finished.error().message;
  ASSERT_TRUE(b.stream->tend(request(b)));
  EXPECT_EQ(folders(), Texts{finished->id});
  EXPECT_EQ(text(), kAll);
}

TEST_F(ObjectTend, signs_of_life_of_earlier_owners_are_swept_and_those_of_the_owner_stay) {
  const auto lives = [&] {
    auto names = bucket->list("app/@alive", "", 100);
    return names ? *names : Texts{"?"};
  };
  auto a = process(), b = process();
  const auto claim_with_life = [&](Process& p, std::uint64_t epoch, const std::string& life) {
    auto request = claim_request(epoch);
    request.owner.liveness = life;
    auto claimed = p.stream->claim(request);
    ASSERT_TRUE(claimed) << claimed.error().message;
    p.receipt = *claimed;
    p.next = {1};
    for (const auto& name : {life, life + ".successor", life + ".handover"}) ASSERT_TRUE(p.stream->beat(name, as_bytes("1")));
  };
  claim_with_life(a, 1, "1a");
  appends(a, 1, 3);
  claim_with_life(b, 2, "1ab");
  appends(b, 4, 6);
  ASSERT_EQ(lives().size(), 6u);
  EXPECT_FALSE(a.stream->tend(request(a))) << "who was fenced sweeps nothing";
  ASSERT_EQ(lives().size(), 6u);
  ASSERT_TRUE(b.stream->tend(request(b)));
  EXPECT_EQ(lives(), (Texts{"1ab", "1ab.handover", "1ab.successor"}));

  auto c = process();
  claim(c, 3);  // one that keeps none
  appends(c, 7, 8);
  ASSERT_TRUE(c.stream->tend(request(c)));
  EXPECT_EQ(lives(), Texts{});
}

// A batch that is full ends in the middle of what is packed, and says nothing about the log folder behind it.
TEST_F(ObjectTend, what_is_packed_is_read_in_batches_from_anywhere) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 10);
  (void)snapshot(a, kState);
  appends(a, 11, 40);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(a.stream->tend(request(a)));
  const auto all = process().stream->read({}, {});
  ASSERT_TRUE(all);
  for (const bool fresh : {true, false}) {  // a session of its own for each read, or one that goes on
    for (std::size_t begin = 0; begin < all->records.size(); ++begin) {
      auto one = process();
      Offset from = begin == 0 ? Offset{} : all->records[begin - 1].next;
      for (std::size_t at = begin; at < all->records.size();) {
        auto next = process();
        const auto some = (fresh ? next : one).stream->read(from, {3, 8u << 20});
        ASSERT_TRUE(some) << "from record " << at << ": " << some.error().message;
        ASSERT_FALSE(some->records.empty()) << at;
        for (const auto& record : some->records) ASSERT_EQ(record.next, all->records[at++].next);
        from = some->next;
      }
    }
  }
}

TEST_F(ObjectTend, a_cold_start_reads_a_state_and_not_the_log) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 200);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(a.stream->tend(request(a)));
  auto cold = process();
  auto stat = cold.stream->stat();
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->last_sequence, Sequence{200});
  EXPECT_LE(cold.store->requests().all(), 10u);
  cold.store->forget_requests();
  claim(cold, 2);
  EXPECT_EQ(cold.receipt.requests, 2u) << "PUT, mark: the LIST was the look's";
}

}  // namespace
}  // namespace onepen::testing
