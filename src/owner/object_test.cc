// The owner over the object home, in a bucket whose every create a test can lose, hold back or refuse: what the memory home only stands for.
#include "home/object/object_home.h"
#include "home/object/position.h"
#include "owner/owner_testing.h"
#include "tests/support/fault_store.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;
using testing::Bucket;
using testing::FaultStore;
using testing::PutFault;

class ObjectTest : public ::testing::Test {
 protected:
  struct Machine {
    Machine(ObjectTest& test, const std::string& name, std::int64_t pid) : runtime(test.runtime), options(Process::options_for(name, pid)) {
      auto faults = std::make_unique<FaultStore>(test.bucket);
      store = faults.get();
      home = home::make_object_home(test.runtime, std::move(faults), {.url = "test:"});
    }
    Result<std::unique_ptr<Owner>> open() { return Owner::open(runtime, stream(), claims, fold, options); }
    std::unique_ptr<Owner> must_open() {
      auto owner = open();
      EXPECT_TRUE(owner) << owner.error().message;
      return owner ? std::move(*owner) : nullptr;
    }
    std::unique_ptr<core::Stream> stream() { return home->stream(*StreamName::parse("app")); }
    // From now on its creates are lost on the way; those before `deliver_late` land then.
    void cut_off() { store->next_creates(std::deque<PutFault>(1000, PutFault::late)); }
    void refuse_creates() { store->next_creates(std::deque<PutFault>(1000, PutFault::refused)); }
    void heal() { store->next_creates({}); }

    ManualRuntime& runtime;
    FaultStore* store = nullptr;
    std::unique_ptr<core::Home> home;
    ListClaims claims;
    ListFold fold;
    Options options;
  };

  Instant in(std::chrono::nanoseconds time) { return runtime.now() + time; }
  static Bytes bytes(std::string_view text) { return to_bytes(as_bytes(text)); }
  Fate commit(Owner& owner, std::string_view text) {
    auto ticket = owner.submit(bytes(text), in(30s));
    if (!ticket) return Fate{Kind::refused, {}, ticket.error()};
    return owner.wait(*ticket, in(30s), nullptr);
  }
  std::vector<core::Record> records() {
    Machine reader(*this, "reader", 9);
    const auto stream = reader.stream();
    const auto read = stream->read({}, core::ReadLimit{1u << 20, 1u << 30});
    EXPECT_TRUE(read) << read.error().message;
    return read ? read->records : std::vector<core::Record>{};
  }
  Texts data() {
    Texts out;
    for (const auto& record : records()) {
      if (record.kind == core::RecordKind::data) out.emplace_back(as_text(record.payload));
    }
    return out;
  }
  // `machine` has folded everything, its own commits too, and owns by `owner`'s claim.
  SelfClaim has_everything(Machine& machine, const Owner& owner) {
    machine.fold.records.clear();
    for (const auto& record : records()) EXPECT_TRUE(machine.fold.apply(record));
    machine.fold.records.clear();
    SelfClaim self{owner.status().token.epoch, {}};
    EXPECT_TRUE(parse(owner.status().token.claim_id, self.over));
    return self;
  }
  core::HistoryRequest adopt() {
    Machine admin(*this, "admin", 8);
    const auto stat = admin.stream()->stat();
    EXPECT_TRUE(stat) << stat.error().message;
    core::HistoryRequest request{core::HistoryAct::adopt, stat->incarnation, stat->tail, runtime.draw<Incarnation>(), runtime.draw<PutId>()};
    const auto made = admin.stream()->begin_history(request);
    EXPECT_TRUE(made) << made.error().message;
    return request;
  }

  ManualRuntime runtime;
  std::shared_ptr<Bucket> bucket = std::make_shared<Bucket>();
  Machine a{*this, "a", 1001};
  Machine b{*this, "b", 4711};
};

TEST_F(ObjectTest, OnAFullPlaceACommitIsTakenBackAndTheNextOneLands) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.refuse_creates();
  const Ticket ticket = *owner->submit(bytes("does not fit"), in(1s));
  ASSERT_EQ(owner->wait(ticket, in(3s), nullptr).kind, Kind::undecided);
  ASSERT_EQ(owner->withdraw(ticket).kind, Kind::refused);
  a.heal();
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "two"}));
  EXPECT_FALSE(owner->status().reset);
}

TEST_F(ObjectTest, ACreateThatMayStillLandIsNotTakenBack) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  std::deque<PutFault> faults(1000, PutFault::refused);
  faults.front() = PutFault::late;
  a.store->next_creates(faults);
  const Ticket ticket = *owner->submit(bytes("late"), in(1s));
  ASSERT_EQ(owner->wait(ticket, in(3s), nullptr).kind, Kind::undecided);
  EXPECT_EQ(owner->withdraw(ticket).kind, Kind::undecided);
  EXPECT_EQ(a.store->deliver_late(), 1u);
  EXPECT_EQ(owner->wait(ticket, in(1h), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "late"}));
}

// --- "A written-ahead but never sent claim, a paused standby, a process back from a partition: none of them evicts an owner that opened meanwhile." --------

TEST_F(ObjectTest, AWrittenAheadButNeverSentClaimDoesNotEvict) {
  {
    auto owner = a.must_open();
    ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
    a.options.self_claim = has_everything(a, *owner);
  }
  a.store->next_creates(std::deque<PutFault>(1000, PutFault::lost_request));  // it dies before its claim leaves the machine
  a.options.open_within = 1s;
  ASSERT_FALSE(a.open());
  ASSERT_EQ(a.claims.written.size(), 2u);
  a.claims.highest_epoch = a.claims.written.back().epoch;
  a.heal();
  auto other = b.must_open();
  const auto refused = a.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::epoch_closed) << refused.error().message;
  EXPECT_EQ(commit(*other, "still the owner").kind, Kind::acknowledged);
}

TEST_F(ObjectTest, APausedStandbyDoesNotEvict) {
  auto owner = b.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  Machine c(*this, "c", 77);
  std::unique_ptr<Owner> meanwhile;
  a.options.takeover = TakeoverMode::if_dead;  // the standby: it watched a silent term, and stood still with its claim ready to be sent
  a.store->before_create = [&](const std::string&) {
    if (!meanwhile) meanwhile = c.must_open();
  };
  const auto refused = a.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::held) << refused.error().message;
  EXPECT_EQ(commit(*meanwhile, "still the owner").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "still the owner"}));
}

TEST_F(ObjectTest, AProcessBackFromAPartitionDoesNotEvict) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.options.self_claim = has_everything(a, *owner);
  a.cut_off();
  const Ticket undecided = *owner->submit(bytes("in flight"), in(1s));
  ASSERT_EQ(owner->wait(undecided, in(3s), nullptr).kind, Kind::undecided);
  EXPECT_FALSE(owner->stop(in(0s)));
  a.options.open_within = 2s;
  EXPECT_EQ(a.open().error().outcome, Outcome::unknown);  // its claim is on its way, too
  auto other = b.must_open();
  ASSERT_EQ(commit(*other, "two").kind, Kind::acknowledged);
  (void)a.store->deliver_late();  // everything that was on its way
  a.heal();
  const auto refused = a.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::epoch_closed) << refused.error().message;
  EXPECT_EQ(commit(*other, "still the owner").kind, Kind::acknowledged);
  EXPECT_EQ(data(), (Texts{"one", "two", "still the owner"}));
}

// --- incarnations and evidence ----------------------------------------------------------------------------------------------------------------------------

TEST_F(ObjectTest, ARunningOwnerGoesOnInAnAdoptedHistoryByASelfClaim) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.options.self_claim = has_everything(a, *owner);
  adopt();
  const Fate fate = commit(*owner, "two");
  ASSERT_EQ(fate.kind, Kind::refused);
  EXPECT_EQ(fate.error->outcome, Outcome::incarnation_changed);
  EXPECT_EQ(owner->status().reset->kind, ResetKind::rewound);
  owner = a.must_open();
  EXPECT_EQ(a.fold.started_over, 0);
  EXPECT_EQ(owner->status().token.epoch, Epoch{2});
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);
}

TEST_F(ObjectTest, WhoClaimedTheAdoptedHistoryFirstFencesIt) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.options.self_claim = has_everything(a, *owner);
  adopt();
  auto other = b.must_open();
  const auto refused = a.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::epoch_closed) << refused.error().message;
  EXPECT_EQ(commit(*other, "two").kind, Kind::acknowledged);
}

TEST_F(ObjectTest, AnOwnerWhoseNewestObjectIsMissingMarksTheStreamSuspect) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "kept").kind, Kind::acknowledged);
  ASSERT_EQ(commit(*owner, "lost").kind, Kind::acknowledged);
  std::string newest;
  for (const std::string& key : bucket->keys()) newest = key.find("/@log/") != std::string::npos ? key : newest;
  ASSERT_TRUE(bucket->erase(newest));
  ASSERT_FALSE(owner->confirm(in(30s)));
  ASSERT_TRUE(runtime.wait_for([&] { return owner->status().reset.has_value(); }, 10s));
  EXPECT_EQ(owner->status().reset->kind, ResetKind::diverged) << owner->status().reset->message;
  EXPECT_NE(owner->status().reset->message.find("onepen adopt"), std::string::npos) << owner->status().reset->message;
  const auto opened = b.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().outcome, Outcome::fence_unavailable) << opened.error().message;
  adopt();
  EXPECT_EQ(commit(*b.must_open(), "on what is left").kind, Kind::acknowledged);
}

TEST_F(ObjectTest, AnEndInPeaceIsSeenByTheNextOne) {
  for (int i = 0; i < 6; ++i) {
    const Instant before = runtime.now();
    ASSERT_TRUE(a.must_open()->stop(in(1s)));
    EXPECT_EQ(runtime.now(), before) << "open " << i;
  }
}

// What an open costs. The claim itself: at most 4 (engineering.md).
TEST_F(ObjectTest, RequestsOfAnOpen) {
  {
    auto owner = b.must_open();
    for (int i = 0; i < 20; ++i) ASSERT_EQ(commit(*owner, std::to_string(i)).kind, Kind::acknowledged);
  }
  Machine cold(*this, "cold", 5);
  // Confirmed: the `ready` record, which each of them sends on its own thread, is not on its way beside the next open, nor half counted.
  auto first = cold.must_open();
  ASSERT_TRUE(first->confirm(in(30s)));
  const auto of_cold = cold.store->requests_here();
  Machine warm(*this, "warm", 6);
  warm.fold = cold.fold;
  auto second = warm.must_open();
  ASSERT_TRUE(second->confirm(in(30s)));
  const auto of_warm = warm.store->requests_here();
  EXPECT_LE(first->status().claim_requests, 4u);
  EXPECT_LE(second->status().claim_requests, 4u);
  RecordProperty("cold_gets", std::to_string(of_cold.gets));
  RecordProperty("cold_lists", std::to_string(of_cold.lists));
  RecordProperty("warm_gets", std::to_string(of_warm.gets));
  RecordProperty("warm_lists", std::to_string(of_warm.lists));
  EXPECT_LE(of_warm.gets, 4u);
  EXPECT_LE(of_warm.lists, 9u);
}

// The home is away: nothing of the stream is there, and nobody removed it.
class Away {
 public:
  explicit Away(Bucket& bucket) : bucket_(bucket) {
    for (const auto& key : bucket_.keys()) {
      kept_.emplace_back(key, bucket_.get(key).value());
      EXPECT_TRUE(bucket_.erase(key));
    }
  }
  void ends() {
    for (const auto& [key, bytes] : kept_) EXPECT_TRUE(bucket_.put(key, bytes));
  }

 private:
  Bucket& bucket_;
  std::vector<std::pair<std::string, Bytes>> kept_;
};

TEST_F(ObjectTest, AnOwnerWhoseHomeIsAwayWaitsForIt) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  Away away(*bucket);
  EXPECT_EQ(owner->confirm(in(5s)).error().outcome, Outcome::unknown);  // a look: a bucket, unlike a directory, is not looked at before each append
  const Ticket ticket = *owner->submit(bytes("two"), in(1s));
  EXPECT_EQ(owner->wait(ticket, in(5s), nullptr).kind, Kind::undecided);
  EXPECT_FALSE(owner->status().reset);
  EXPECT_NE(owner->status().trouble.find("Is the home mounted"), std::string::npos) << owner->status().trouble;
  EXPECT_TRUE(bucket->keys().empty()) << "nothing is put into its place";
  away.ends();
  EXPECT_EQ(owner->wait(ticket, in(30s), nullptr).kind, Kind::acknowledged);
  EXPECT_TRUE(owner->confirm(in(30s)));
  EXPECT_EQ(data(), (Texts{"one", "two"}));
}

TEST_F(ObjectTest, ASelfClaimWaitsForAHomeThatIsAway) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.options.self_claim = has_everything(a, *owner);
  owner.reset();
  a.fold.records.clear();
  for (const auto& record : records()) EXPECT_TRUE(a.fold.apply(record));
  a.options.open_within = 1s;
  Away away(*bucket);
  const auto refused = a.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::unavailable) << refused.error().message;
  away.ends();
  EXPECT_TRUE(a.open());
}

TEST_F(ObjectTest, AFreshOpenTellsThatWhatItReadIsNotThere) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  static_cast<void>(has_everything(a, *owner));
  owner.reset();
  const Away away(*bucket);
  for (const bool create : {false, true}) {
    for (const bool offline : {false, true}) {
      a.options.create = create;
      a.options.absent_is_away = offline;
      const auto refused = a.open();
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().outcome, offline ? Outcome::unavailable : create ? Outcome::fence_unavailable : Outcome::not_found) << refused.error().message;
      EXPECT_NE(refused.error().message.find("Is the home mounted"), std::string::npos) << refused.error().message;
      EXPECT_TRUE(bucket->keys().empty()) << "nothing is made in its place";
    }
  }
}

}  // namespace
}  // namespace onepen::owner
