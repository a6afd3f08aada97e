// What is the object home's own: the rules B2, B3, B6 under interleavings (S23-S26 of the fault scenarios), damage, what is asked of the place, and how
// much. Deterministic: one thread, a bucket in memory, hooks for what others do in between.
#include <gtest/gtest.h>

#include "home/object/object_home.h"
#include "home/object/open_home.h"
#include "home/object/position.h"
#include "io/mounts.h"
#include "io/system_runtime.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_folder.h"
#include "wire/log_object.h"

namespace onepen::testing {
namespace {

using core::RecordKind;
using home::object_name;

std::string log_key(std::uint64_t id) { return "app/@log/" + object_name(id); }

class ObjectHome : public ::testing::Test {
 protected:
  struct Process {
    FaultStore* store;
    std::unique_ptr<core::Home> home;
    std::unique_ptr<core::Stream> stream;
    core::ClaimReceipt receipt{};
    Sequence next{1};
  };
  Process process() {
    auto store = std::make_unique<FaultStore>(bucket);
    auto* faults = store.get();
    auto home = home::make_object_home(*runtime, std::move(store), {.url = "test:"});
    auto stream = home->stream(StreamName::parse("app").value());
    return {faults, std::move(home), std::move(stream)};
  }
  core::ClaimRequest request(std::uint64_t epoch, std::string who = "p") {
    core::ClaimRequest r;
    r.epoch = {epoch};
    r.claim_id = runtime->draw<ClaimId>();
    r.attempt = runtime->draw<PutId>();
    r.owner.name = std::move(who);
    r.create = true;
    r.first_incarnation = runtime->draw<Incarnation>();
    return r;
  }
  core::Answer<core::ClaimReceipt> claim(Process& p, std::uint64_t epoch) {
    auto answer = p.stream->claim(request(epoch));
    if (answer) p.receipt = *answer, p.next = {1};
    return answer;
  }
  core::AppendBatch batch(const Process& p, std::string_view payload) {
    core::AppendBatch b{p.receipt.incarnation, p.receipt.epoch, p.receipt.claim_id, p.next, runtime->draw<PutId>(), 0, {}};
    b.appends.push_back({RecordKind::data, to_bytes(as_bytes(payload))});
    return b;
  }
  core::Answer<core::AppendReceipt> send(Process& p, const core::AppendBatch& b) {
    auto answer = p.stream->append(b);
    if (answer) ++p.next.value;
    return answer;
  }
  core::Answer<core::AppendReceipt> append(Process& p, std::string_view payload) { return send(p, batch(p, payload)); }
  std::string text(Process p) {  // the payloads of the stream, by a process that knows nothing
    std::string out;
    Offset at;
    for (;;) {
      auto r = p.stream->read(at, {});
      if (!r) return out + "!" + std::string(word(r.error().outcome));
      for (auto& record : r->records)
        if (record.kind == RecordKind::data) out += std::string(as_text(record.payload)) + " ";
      at = r->next;
      if (r->up_to_date) return out;
    }
  }
  void filled(Process& p, int appends) {
    ASSERT_TRUE(claim(p, 1));
    for (int i = 1; i <= appends; ++i) ASSERT_TRUE(append(p, std::to_string(i)));
  }

  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::shared_ptr<Bucket> bucket = std::make_shared<Bucket>();
};

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
  auto r = request(1);
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
  EXPECT_EQ(owned.error().outcome, Outcome::gone) << owned.error().message;
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

// --- damage ----------------------------------------------------------------------------------------------------------------------------------------------

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
  auto more = warm.stream->read(r->next, {});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().outcome, Outcome::fence_unavailable);
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
  auto read = warm.stream->read(tail, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::fence_unavailable) << read.error().message;
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
  auto read = idle.stream->read(seen->tail, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::fence_unavailable) << read.error().message;
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
  auto read = old_copy.stream->read(tail, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::gone) << read.error().message;
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
  EXPECT_EQ(b.store->requests().all(), 4u) << "LIST, GET, PUT, mark";
  EXPECT_EQ(owned->requests, 4u);
  b.store->forget_requests();
  ASSERT_TRUE(append(b, "x"));
  EXPECT_EQ(b.store->requests().all(), 1u) << "an append is one create";
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

// --- places ------------------------------------------------------------------------------------------------------------------------------------------------

class IgnoresConditions final : public home::ObjectStore {  // like the bucket servers that answer 200 to every create
 public:
  Result<Bytes> get(const std::string& key) override { return inner_.get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return inner_.get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    (void)inner_.put(key, bytes);
    return home::PutOutcome::created;
  }
  Result<> put(const std::string& key, ByteView bytes) override { return inner_.put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& f, const std::string& a, std::size_t n) override { return inner_.list(f, a, n); }
  Result<> erase(const std::string& key) override { return inner_.erase(key); }
  std::string describe() const override { return "bucket that ignores conditions"; }

 private:
  Bucket inner_;
};

TEST_F(ObjectHome, the_probe_refuses_a_place_that_ignores_conditions_and_leaves_nothing_in_a_good_one) {
  IgnoresConditions bad;
  auto refused = home::probe_can_fence(*runtime, bad);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("created twice"), std::string::npos) << refused.error().message;
  ASSERT_TRUE(home::probe_can_fence(*runtime, *bucket));
  EXPECT_TRUE(bucket->keys().empty());
}

TEST(Places, a_chroot_whose_mounts_say_nothing_is_judged_by_the_filesystem_itself) {
  EXPECT_EQ(io::local_filesystem_by_magic(0xef53), "ext4");
  EXPECT_EQ(io::local_filesystem_by_magic(static_cast<std::int32_t>(0x9123683e)), "btrfs");  // as a 32-bit kernel widens it
  EXPECT_EQ(io::local_filesystem_by_magic(0x6969), "") << "nfs";
  EXPECT_EQ(io::local_filesystem_by_magic(0x65735546), "") << "fuse";
  const TempFolder folder;
  EXPECT_TRUE(io::mount_of(io::mountinfo_for(folder.path()), folder.path()));
}

TEST(Places, network_filesystems_are_refused_unless_they_do_not_cache_lookups) {
  constexpr std::string_view kMounts =
      "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "40 22 0:40 / /mnt/nfs rw,relatime shared:1 - nfs4 server:/x rw,vers=4.2,lookupcache=all\n"
      "41 22 0:41 / /mnt/nfs/none rw,relatime - nfs4 server:/y rw,vers=4.2,lookupcache=none\n"
      "42 22 0:42 / /mnt/with\\040space rw - cifs //s/share rw\n"
      "43 22 0:43 / /mnt/fuse rw - fuse.sshfs user@s:/ rw\n"
      "44 22 0:44 / /mnt/nfsish rw - xfs /dev/sdb rw\n";
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/srv/onepen"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfs/none/home"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfsish"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfs-is-only-a-prefix"));
  auto cached = home::judge_filesystem(kMounts, "/mnt/nfs/home");
  ASSERT_FALSE(cached);
  EXPECT_EQ(cached.error().outcome, Outcome::invalid);
  EXPECT_NE(cached.error().message.find("lookupcache=all"), std::string::npos) << "with the evidence: " << cached.error().message;
  EXPECT_FALSE(home::judge_filesystem(kMounts, "/mnt/with space/x"));
  EXPECT_FALSE(home::judge_filesystem(kMounts, "/mnt/fuse/x"));
  EXPECT_FALSE(home::judge_filesystem("", "/srv"));
}

TEST(Places, urls) {
  EXPECT_EQ(home::path_of_file_url("file:///srv/onepen/").value(), "/srv/onepen");
  EXPECT_EQ(home::path_of_file_url("file:///with%20space").value(), "/with space");
  for (auto* bad : {"file:relative", "file://host/dir", "file:///a/../b", "file:///a?b=c", "file:///%zz", "/plain", "s3://b/p"})
    EXPECT_FALSE(home::path_of_file_url(bad)) << bad;
}

}  // namespace
}  // namespace onepen::testing
