// A store where requests wait for a network: objects of the log are fetched ahead, parts of a snapshot are put several at a time, and everything means what it
// means one after the other.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/home/object_home_support.h"

namespace onepen::testing {
namespace {

constexpr std::size_t kAtOnce = 4;

// Counts how many requests of a kind are under way at a time. `gather` of them wait for each other, so that a caller who asks for one at a time never goes on.
class FarStore final : public home::ObjectStore {
 public:
  explicit FarStore(std::shared_ptr<Bucket> place) : place_(std::move(place)) {}

  Result<Bytes> get(const std::string& key) override {
    if (key.find("/@log/") == std::string::npos) return place_->get(key);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(key);
      if (const auto at = std::find(failing.begin(), failing.end(), key); at != failing.end()) {
        failing.erase(at);
        return tl::unexpected(Error{Outcome::unavailable, "away", {}});
      }
    }
    meet(gather_gets, most_gets);
    return place_->get(key);
  }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return place_->get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    if (key.find("/part-") == std::string::npos) return place_->put_if_absent(key, bytes);
    if (!refused.empty() && key.ends_with(refused)) return tl::unexpected(Error{Outcome::unauthorised, "no right to put it", {}});
    meet(gather_puts, most_puts);
    return place_->put_if_absent(key, bytes);
  }
  Result<> put(const std::string& key, ByteView bytes) override { return place_->put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override {
    return place_->list(folder, after, limit);
  }
  Result<> erase(const std::string& key) override { return place_->erase(key); }
  std::size_t at_once() const override { return kAtOnce; }
  std::string describe() const override { return place_->describe(); }

  std::size_t times_asked(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count(asked_.begin(), asked_.end(), key));
  }

  std::size_t gather_gets = 0, gather_puts = 0;  // so many, once
  std::atomic<std::size_t> most_gets{0}, most_puts{0};
  std::vector<std::string> failing;  // each once
  std::string refused;               // part of a snapshot, by the end of its key

 private:
  void meet(std::size_t& gather, std::atomic<std::size_t>& most) {
    std::unique_lock lock(mutex_);
    ++inside_;
    most = std::max(most.load(), inside_);
    if (inside_ >= gather) gather = 0;
    turn_.notify_all();
    turn_.wait(lock, [&] { return gather == 0; });
    --inside_;
  }

  std::shared_ptr<Bucket> place_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::size_t inside_ = 0;
  std::vector<std::string> asked_;
};

class ObjectAhead : public ObjectHome {
 protected:
  Process far_process(FarStore*& store) {
    auto far = std::make_unique<FarStore>(bucket);
    store = far.get();
    return over(std::move(far));
  }
  static std::string payloads(const core::ReadResult& read) {
    std::string out;
    for (const auto& record : read.records) out += record.kind == core::RecordKind::data ? std::string(as_text(record.payload)) + " " : "";
    return out;
  }
  std::string all(int last) {
    std::string out;
    for (int i = 1; i <= last; ++i) out += std::to_string(i) + " ";
    return out;
  }
};

TEST_F(ObjectAhead, ALogIsFetchedSeveralObjectsAtATimeAndFoldedInOrder) {
  auto owner = process();
  filled(owner, 100);
  FarStore* store = nullptr;
  auto reader = far_process(store);
  store->gather_gets = kAtOnce;
  const auto read = reader.stream->read({}, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(payloads(*read), all(100));
  EXPECT_TRUE(read->up_to_date);
  EXPECT_EQ(store->most_gets, kAtOnce);
  for (std::uint64_t id = 1; id <= 101; ++id) EXPECT_EQ(store->times_asked(log_key(id)), 1u) << id;
}

TEST_F(ObjectAhead, WhatIsFetchedAheadOfAFullReadIsNotFetchedAgain) {
  auto owner = process();
  filled(owner, 300);
  FarStore* store = nullptr;
  auto reader = far_process(store);
  std::string seen;
  Offset at;
  for (bool end = false; !end;) {
    const auto read = reader.stream->read(at, {.records = 100});
    ASSERT_TRUE(read) << read.error().message;
    seen += payloads(*read);
    at = read->next;
    end = read->up_to_date;
  }
  EXPECT_EQ(seen, all(300));
  for (std::uint64_t id = 1; id <= 301; ++id) EXPECT_EQ(store->times_asked(log_key(id)), 1u) << id;
}

TEST_F(ObjectAhead, WhoeverReadsALittleFetchesNothingAhead) {
  auto owner = process();
  filled(owner, 50);
  FarStore* store = nullptr;
  auto reader = far_process(store);
  ASSERT_TRUE(reader.stream->read({}, {.records = 3}));
  EXPECT_EQ(store->times_asked(log_key(4)), 0u);
}

TEST_F(ObjectAhead, AFetchThatFailedIsAskedForAgainWhenItIsNeeded) {
  auto owner = process();
  filled(owner, 30);
  FarStore* store = nullptr;
  auto reader = far_process(store);
  store->failing = {log_key(9)};
  const auto read = reader.stream->read({}, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(payloads(*read), all(30));
  EXPECT_EQ(store->times_asked(log_key(9)), 2u);
}

TEST_F(ObjectAhead, AMissingAndADamagedObjectAreToldAsOneAfterTheOther) {
  for (const bool missing : {true, false}) {
    bucket = std::make_shared<Bucket>();
    auto owner = process();
    filled(owner, 30);
    if (missing) ASSERT_TRUE(bucket->erase(log_key(12)));
    else ASSERT_TRUE(bucket->put(log_key(12), as_bytes("what is this")));
    auto plain = process();
    FarStore* store = nullptr;
    auto ahead = far_process(store);
    const auto one = plain.stream->stat(), other = ahead.stream->stat();
    ASSERT_FALSE(one);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().outcome, Outcome::fence_unavailable);
    EXPECT_EQ(other.error().message, one.error().message);
    EXPECT_NE(other.error().message.find(log_key(12)), std::string::npos) << other.error().message;
    const auto shown = ahead.stream->read({}, {});  // what lies before it
    ASSERT_TRUE(shown) << shown.error().message;
    EXPECT_EQ(payloads(*shown), all(10));
  }
}

// B6: what was fetched ahead was fetched before the mark that decides about it.
TEST_F(ObjectAhead, ATrimWhileItWasFetchedAheadIsNoticed) {
  auto owner = process();
  filled(owner, 200);
  FarStore* store = nullptr;
  auto reader = far_process(store);
  auto read = reader.stream->read({}, {.records = 100});
  ASSERT_TRUE(read) << read.error().message;
  const std::string before = payloads(*read);
  ASSERT_NO_FATAL_FAILURE(static_cast<void>(snapshot(owner, "state ")));
  for (bool more = true; more;) {
    const auto tended = owner.stream->tend(request(owner, owner.stream->stat()->tail));
    ASSERT_TRUE(tended) << tended.error().message;
    more = tended->more;
  }
  ASSERT_FALSE(bucket->get(log_key(150)));
  // Either the packs go on from there, or the position is gone: never the objects that were in the reader's hands.
  read = reader.stream->read(read->next, {.records = 100});
  if (read) EXPECT_TRUE(all(200).starts_with(before + payloads(*read)));
  else EXPECT_EQ(read.error().outcome, Outcome::gone) << read.error().message;
}

TEST_F(ObjectAhead, PartsOfASnapshotAreUnderWayTogetherAndAllThereWhenItCounts) {
  FarStore* store = nullptr;
  auto owner = far_process(store);
  filled(owner, 3);
  store->gather_puts = 3;
  auto writer = owner.stream->begin_snapshot(owner.token(), owner.stream->stat()->tail);
  ASSERT_TRUE(writer) << writer.error().message;
  for (int part = 0; part < 9; ++part) {
    const auto added = (*writer)->add(as_bytes("part " + std::to_string(part)));
    ASSERT_TRUE(added) << added.error().message;
  }
  const auto info = (*writer)->finish({});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(store->most_puts, 3u);
  EXPECT_EQ(info->parts, 9u);
  auto reader = process();
  for (std::uint32_t part = 0; part < 9; ++part) {
    const auto bytes = reader.stream->snapshot_part(*info, part);
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_EQ(as_text(*bytes), "part " + std::to_string(part));
  }
}

TEST_F(ObjectAhead, APartThatCannotBePutMakesNoSnapshot) {
  FarStore* store = nullptr;
  auto owner = far_process(store);
  filled(owner, 3);
  store->refused = "/part-00001";
  auto writer = owner.stream->begin_snapshot(owner.token(), owner.stream->stat()->tail);
  ASSERT_TRUE(writer) << writer.error().message;
  for (int part = 0; part < 3; ++part) ASSERT_TRUE((*writer)->add(as_bytes("part " + std::to_string(part))));  // nobody has waited for one yet
  const auto finished = (*writer)->finish({});
  ASSERT_FALSE(finished);
  EXPECT_NE(finished.error().message.find("no right to put it"), std::string::npos) << finished.error().message;
  EXPECT_TRUE(owner.stream->snapshots()->empty());
}

}  // namespace
}  // namespace onepen::testing
