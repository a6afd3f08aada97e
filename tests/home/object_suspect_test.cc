// Logs that lost something under a live owner, sessions that went on twice, histories that never came to count.
#include <filesystem>

#include "tests/home/object_fixture.h"
#include "wire/log_object.h"

namespace onepen::testing {
namespace {

class ObjectSuspect : public ObjectFixture {};

TEST_F(ObjectSuspect, a_session_that_went_on_twice_is_told_on_a_directory) {
  const TempFolder folder;
  auto disk = io::make_posix_disk();
  auto open = [&] { return over(home::make_file_store(*runtime, *disk, folder.path())); };
  for (const int before : {0, 3}) {
    auto a = open(), clone = open();
    claim(a, static_cast<std::uint64_t>(before) + 1);
    appends(a, 1, before);
    ASSERT_TRUE(clone.stream->stat());
    clone.receipt = a.receipt;
    clone.next = a.next;
    appends(a, 100, 120);
    ASSERT_TRUE(a.stream->tend(request(a)));  // where the clone stands, the names are free again
    auto sent = append(clone, "from the clone");
    ASSERT_FALSE(sent) << before;
    EXPECT_EQ(sent.error().outcome, Outcome::cloned) << sent.error().message;
  }
}

TEST_F(ObjectSuspect, without_the_look_before_an_append_it_is_acknowledged_where_nobody_reads_it) {
  const TempFolder folder;
  auto disk = io::make_posix_disk();
  auto a = over(home::make_file_store(*runtime, *disk, folder.path()));
  claim(a, 1);
  appends(a, 1, 5);
  ASSERT_TRUE(disk->remove(folder.path() + "/app/@log/00000000000000000/" + object_name(6)));
  set_guard(Guard::append_stands, false);
  EXPECT_TRUE(append(a, "behind the hole")) << "the rule is needed";
  set_guard(Guard::append_stands, true);
  EXPECT_NE(text(home::make_file_store(*runtime, *disk, folder.path()).release()).find("fence-unavailable"), std::string::npos);
}

TEST_F(ObjectSuspect, an_append_behind_a_hole_is_refused_and_the_stream_is_suspect) {
  const TempFolder folder;
  auto disk = io::make_posix_disk();
  auto open = [&] { return over(home::make_file_store(*runtime, *disk, folder.path())); };
  auto a = open(), b = open();
  claim(a, 1);
  appends(a, 1, 5);
  ASSERT_TRUE(disk->remove(folder.path() + "/app/@log/00000000000000000/" + object_name(6)));
  auto sent = append(a, "behind the hole");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::fence_unavailable) << sent.error().message;
  auto stat = b.stream->stat();
  ASSERT_TRUE(stat) << stat.error().message;
  EXPECT_NE(stat->suspect.find(object_name(6)), std::string::npos) << stat->suspect;
  core::HistoryRequest adopt{.act = core::HistoryAct::adopt, .incarnation = stat->incarnation, .tail = stat->tail};
  adopt.next = runtime->draw<Incarnation>();
  adopt.attempt = runtime->draw<PutId>();
  ASSERT_TRUE(b.stream->begin_history(adopt));
  claim(b, 2);
  ASSERT_TRUE(append(b, "6"));
  auto events = b.stream->events();
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 4u);
  EXPECT_EQ((*events)[1].kind, core::EventKind::evidence);
  EXPECT_EQ((*events)[2].kind, core::EventKind::adopt);
}

// A backup was put back with nobody running, and adopted: whoever had read further finds another history, and not a log that lost its end.
TEST_F(ObjectSuspect, an_offset_past_the_end_of_an_adopted_log_is_gone) {
  const TempFolder folder;
  auto disk = io::make_posix_disk();
  auto open = [&] { return over(home::make_file_store(*runtime, *disk, folder.path())); };
  auto a = open();
  claim(a, 1);
  appends(a, 1, 5);
  const auto tail = a.stream->stat()->tail;
  ASSERT_TRUE(disk->remove(folder.path() + "/app/@log/00000000000000000/" + object_name(6)));
  ASSERT_TRUE(disk->remove(folder.path() + "/app/@log/00000000000000000/" + object_name(5)));
  auto admin = open();
  const auto stat = admin.stream->stat();
  ASSERT_TRUE(stat) << stat.error().message;
  auto early = open().stream->read(tail, {});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().outcome, Outcome::fence_unavailable) << early.error().message;
  EXPECT_NE(early.error().message.find("onepen adopt app"), std::string::npos) << early.error().message;
  core::HistoryRequest adopt{.act = core::HistoryAct::adopt, .incarnation = stat->incarnation, .tail = stat->tail};
  adopt.next = runtime->draw<Incarnation>();
  adopt.attempt = runtime->draw<PutId>();
  ASSERT_TRUE(admin.stream->begin_history(adopt));
  auto warm = open();
  auto late = warm.stream->read(tail, {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::gone) << late.error().message;
  EXPECT_TRUE(warm.stream->read({}, {}));
}
TEST_F(ObjectSuspect, a_restore_that_lost_its_place_leaves_no_snapshot) {
  auto a = process(), admin = process();
  claim(a, 1);
  auto first = append(a, "1");
  ASSERT_TRUE(first);
  appends(a, 2, 3);
  auto stat = admin.stream->stat();
  ASSERT_TRUE(stat);
  core::HistoryRequest restore{.act = core::HistoryAct::restore, .incarnation = stat->incarnation, .tail = stat->tail};
  restore.next = runtime->draw<Incarnation>();
  restore.attempt = runtime->draw<PutId>();
  restore.common = first->offsets[0];
  restore.snapshot = [&](core::SnapshotWriter& writer) -> core::Answer<Bytes> {
    if (auto ok = writer.add(as_bytes("1 ")); !ok) return tl::unexpected(ok.error());
    appends(a, 4, 4);  // the owner goes on meanwhile
    return Bytes{};
  };
  auto lost = admin.stream->begin_history(restore);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().outcome, Outcome::base_mismatch) << lost.error().message;
  auto newest = process().stream->newest_snapshot();
  ASSERT_TRUE(newest);
  EXPECT_FALSE(*newest);
  EXPECT_EQ(text(), "1 2 3 4 ");
  appends(a, 5, 20);
  ASSERT_TRUE(a.stream->tend(request(a)));
  EXPECT_EQ(text(), kAll);
}

TEST_F(ObjectSuspect, a_put_back_older_log_is_told_by_the_claim_in_an_offset) {
  auto a = process(), b = process();
  claim(a, 1);
  appends(a, 1, 3);
  auto tail = a.stream->stat()->tail;
  ASSERT_TRUE(bucket->erase("app/@log/" + object_name(4)));  // an older copy of the home
  claim(b, 2);                                               // where the lost append was
  auto warm = process();
  auto read = warm.stream->read(tail, {});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::gone) << read.error().message;
}

// ---- homes that are away for a while

class ObjectAway : public ObjectFixture {
 protected:
  // A process over a directory that a test can take away.
  Process open() {
    std::shared_ptr<home::ObjectStore> place = home::make_file_store(*runtime, *disk, root);
    auto store = std::make_unique<FaultStore>(std::move(place));
    auto* faults = store.get();
    auto p = over(std::move(store));
    p.store = faults;
    return p;
  }
  void take_away() { std::filesystem::rename(root, away); }
  void bring_back() { std::filesystem::rename(away, root); }
  void trim(Process& p) {
    appends(p, 1, 10);
    auto newest = snapshot(p, kState);
    appends(p, 11, 20);
    for (bool more = true; more;) {
      auto tended = p.stream->tend(request(p, newest.offset));
      ASSERT_TRUE(tended) << tended.error().message;
      more = tended->more;
    }
  }

  const TempFolder above;
  const std::string root = above.path() + "/home", away = above.path() + "/away";
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
};

TEST_F(ObjectAway, an_owner_is_told_that_nothing_is_there_and_goes_on_when_it_is_back) {
  for (const bool trimmed : {false, true}) {
    for (const bool mount_point : {false, true}) {
      SCOPED_TRACE(std::string(trimmed ? "trimmed" : "whole") + (mount_point ? ", an empty folder in its place" : ""));
      std::filesystem::remove_all(root);
      auto a = open();
      claim(a, 1);
      if (trimmed) trim(a);
      appends(a, 21, 22);
      const auto tail = a.stream->stat()->tail;
      take_away();
      if (mount_point) std::filesystem::create_directory(root);
      for (int i = 0; i < 2; ++i) {
        auto sent = append(a, "23");
        ASSERT_FALSE(sent);
        EXPECT_EQ(sent.error().outcome, Outcome::not_found) << sent.error().message;
        EXPECT_FALSE(sent.error().floor) << "nobody removed it";
        EXPECT_NE(sent.error().message.find("Is the home mounted"), std::string::npos) << sent.error().message;
        auto stat = a.stream->stat();
        ASSERT_FALSE(stat);
        EXPECT_EQ(stat.error().outcome, Outcome::not_found) << stat.error().message;
        EXPECT_FALSE(stat.error().floor);
        auto read = a.stream->read(tail, {});
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().outcome, Outcome::not_found) << read.error().message;
      }
      auto warm = open().stream->read(tail, {});
      ASSERT_FALSE(warm);
      EXPECT_EQ(warm.error().outcome, Outcome::not_found) << warm.error().message;
      EXPECT_NE(warm.error().message.find("Is the home mounted"), std::string::npos) << warm.error().message;
      EXPECT_EQ(std::filesystem::exists(root), mount_point) << "nothing is made in its place";
      if (mount_point) {
        EXPECT_TRUE(std::filesystem::remove(root)) << "nothing is put into its place";
      }
      bring_back();
      auto sent = append(a, "23");
      ASSERT_TRUE(sent) << sent.error().message;
      auto stat = open().stream->stat();
      ASSERT_TRUE(stat);
      EXPECT_EQ(stat->suspect, "");
      EXPECT_EQ(stat->tail, sent->offsets[0]);
    }
  }
}

TEST_F(ObjectAway, an_object_out_of_sight_for_a_moment_is_no_evidence) {
  auto a = open();
  claim(a, 1);
  appends(a, 1, 5);
  take_away();
  a.store->before_list = [&](const std::string&) {
    if (std::filesystem::exists(away)) bring_back();
  };
  auto sent = append(a, "6");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unavailable) << sent.error().message;
  EXPECT_EQ(open().stream->stat()->suspect, "");
  EXPECT_TRUE(append(a, "6"));
}

TEST_F(ObjectAway, what_was_put_where_the_home_had_been_is_not_acknowledged) {
  auto a = open();
  claim(a, 1);
  appends(a, 1, 5);
  a.store->before_create = [&](const std::string&) {
    if (std::filesystem::exists(away)) return;
    take_away();
    std::filesystem::create_directory(root);  // a mount point
  };
  const auto six = batch(a, "6");
  auto sent = a.stream->append(six);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unknown) << sent.error().message;
  a.store->before_create = nullptr;
  std::filesystem::remove_all(root);
  bring_back();
  sent = a.stream->append(six);
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(text(home::make_file_store(*runtime, *disk, root).release()), "1 2 3 4 5 6 ");
}

// A place that lets nobody in while `deny` is set.
class Denying final : public home::ObjectStore {
 public:
  Denying(std::shared_ptr<Bucket> bucket, const bool& deny) : bucket_(std::move(bucket)), deny_(deny) {}
  Result<Bytes> get(const std::string& key) override { return deny_ ? Result<Bytes>(no()) : bucket_->get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t n) override {
    return deny_ ? Result<Bytes>(no()) : bucket_->get_range(key, from, n);
  }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    return deny_ ? Result<home::PutOutcome>(no()) : bucket_->put_if_absent(key, bytes);
  }
  Result<> put(const std::string& key, ByteView bytes) override { return deny_ ? Result<>(no()) : bucket_->put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t n) override {
    return deny_ ? Result<std::vector<std::string>>(no()) : bucket_->list(folder, after, n);
  }
  Result<> erase(const std::string& key) override { return deny_ ? Result<>(no()) : bucket_->erase(key); }
  std::string describe() const override { return "bucket of a test"; }

 private:
  static tl::unexpected<Error> no() { return tl::unexpected(Error{Outcome::unauthorised, "Permission denied", {}}); }
  std::shared_ptr<Bucket> bucket_;
  const bool& deny_;
};

TEST_F(ObjectAway, what_an_owner_may_not_do_any_more_comes_and_goes_and_whoever_begins_is_refused) {
  bool deny = false;
  auto a = over(std::make_unique<Denying>(bucket, deny)), b = over(std::make_unique<Denying>(bucket, deny));
  claim(a, 1);
  appends(a, 1, 2);
  deny = true;
  auto sent = append(a, "3");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().outcome, Outcome::unavailable) << sent.error().message;
  auto stat = b.stream->stat();
  ASSERT_FALSE(stat);
  EXPECT_EQ(stat.error().outcome, Outcome::unauthorised) << stat.error().message;
  deny = false;
  EXPECT_TRUE(append(a, "3"));
}

// ---- logs that lost everything, and snapshots that did not

TEST_F(ObjectSuspect, a_log_that_lost_its_objects_is_damaged_although_a_snapshot_is_there) {
  for (const bool trimmed : {false, true}) {
    SCOPED_TRACE(trimmed);
    bucket = std::make_shared<Bucket>();
    auto a = process();
    claim(a, 1);
    appends(a, 1, 10);
    auto old = snapshot(a, kState);
    if (trimmed) {
      ASSERT_TRUE(a.stream->tend(request(a, old.offset)));
    }
    appends(a, 11, 15);
    auto newest = snapshot(a, "15");
    appends(a, 16, 20);
    const auto tail = a.stream->stat()->tail;
    for (const auto& key : bucket->keys()) {
      if (key.starts_with("app/@log/")) std::ignore = bucket->erase(key);
    }
    auto cold = process();
    auto stat = cold.stream->stat();
    ASSERT_FALSE(stat) << "what was acknowledged since that snapshot is lost";
    EXPECT_EQ(stat.error().outcome, Outcome::fence_unavailable) << stat.error().message;
    EXPECT_NE(stat.error().message.find(object_name(16)), std::string::npos) << stat.error().message;  // the one the snapshot ends in
    auto read = process().stream->read(newest.offset, {});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().outcome, Outcome::fence_unavailable) << read.error().message;
    auto warm = process().stream->read(tail, {});
    ASSERT_FALSE(warm);
    EXPECT_EQ(warm.error().outcome, Outcome::fence_unavailable) << warm.error().message;
    core::ClaimRequest request;
    request.epoch = {2};
    request.claim_id = runtime->draw<ClaimId>();
    request.attempt = runtime->draw<PutId>();
    request.create = true;
    request.first_incarnation = runtime->draw<Incarnation>();
    EXPECT_FALSE(process().stream->claim(request));
  }
}

TEST_F(ObjectSuspect, a_snapshot_at_the_end_of_the_log_costs_no_further_request) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 10);
  snapshot(a, kState);
  auto cold = process();
  ASSERT_TRUE(cold.stream->stat());
  EXPECT_EQ(cold.store->requests().lists, 4u);  // marks, snapshots, the log, marks again
  EXPECT_EQ(cold.store->requests().gets, 1u);   // its head
}

TEST_F(ObjectSuspect, a_log_whose_snapshots_are_gone_says_what_makes_one) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 10);
  auto newest = snapshot(a, kState);
  appends(a, 11, 20);
  for (bool more = true; more;) {
    auto tended = a.stream->tend(request(a, newest.offset));
    ASSERT_TRUE(tended);
    more = tended->more;
  }
  auto with = process().stream->read({}, {});
  ASSERT_FALSE(with);
  EXPECT_NE(with.error().message.find("Begin again from its snapshot."), std::string::npos) << with.error().message;
  for (const auto& key : bucket->keys()) {
    if (key.starts_with("app/@snap/")) std::ignore = bucket->erase(key);
  }
  auto without = process().stream->read({}, {});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().outcome, Outcome::gone);
  EXPECT_EQ(without.error().message.find("Begin again"), std::string::npos) << without.error().message;
  EXPECT_NE(without.error().message.find("onepen snapshot app"), std::string::npos) << without.error().message;
}

// A claim that lost its place to a restore of the same moment stands between the snapshot's position and where its fold ended (simulator, sqlite seed 5714).
TEST_F(ObjectSuspect, what_lies_behind_a_snapshots_position_and_does_not_count_is_not_shown) {
  auto a = process();
  claim(a, 1);
  appends(a, 1, 3);  // objects 2 to 4
  wire::LogObject late{.kind = wire::ObjectKind::claim, .stream = StreamName::parse("app").value(), .id = 5};
  late.ordinal = 1;
  late.incarnation = a.receipt.incarnation;
  late.epoch = {1};  // not above the one that is there
  late.claim_id = runtime->draw<ClaimId>();
  late.put_id = runtime->draw<PutId>();
  late.raced = true;
  ASSERT_TRUE(bucket->put_if_absent("app/@log/" + object_name(5), wire::encode(late)));
  auto made = snapshot(a, "1 2 3 ");
  EXPECT_EQ(home::parse_offset(made.offset)->at.high, 4u) << "it goes up to the newest record";
  auto cold = process();
  auto newest = cold.stream->newest_snapshot();
  ASSERT_TRUE(newest && *newest);
  ASSERT_EQ((*newest)->offset, made.offset);
  auto read = cold.stream->read(made.offset, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->records.empty()) << "the void claim is no record";
  EXPECT_TRUE(read->up_to_date);
  appends(a, 4, 4);
  read = cold.stream->read(made.offset, {});
  ASSERT_TRUE(read);
  ASSERT_EQ(read->records.size(), 1u);
  EXPECT_EQ(as_text(read->records[0].payload), "4");
}

}  // namespace
}  // namespace onepen::testing
