// Owning: two owners of one stream in one process, on the memory home over the real fence.
#include "base/guard.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;
using Texts = std::vector<std::string>;

TEST_F(OwnerTest, FirstOpenMakesTheStreamAndItsClaimIsWrittenAhead) {
  auto owner = a.must_open();
  ASSERT_EQ(a.claims.written.size(), 1u);
  EXPECT_EQ(to_text(a.claims.written[0].claim_id), owner->status().token.claim_id);
  EXPECT_EQ(owner->status().token.epoch, Epoch{1});
  EXPECT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  EXPECT_EQ(data(), Texts{"one"});
  const auto records = a.home.records(app);
  ASSERT_EQ(records.size(), 3u);  // claim, ready, data
  EXPECT_EQ(records[1].sequence, kReadySequence);
  EXPECT_EQ(as_text(records[1].payload), R"({"record":"ready","endpoint":"at-a"})");
  EXPECT_EQ(records[2].sequence, Sequence{2});
  EXPECT_EQ(owner->status().acknowledged, records[2].next);
}

TEST_F(OwnerTest, AClaimThatCannotBeWrittenAheadIsNotSent) {
  a.claims.fails = true;
  auto owner = a.open();
  ASSERT_FALSE(owner);
  EXPECT_EQ(owner.error().message, "the disk is full");
  EXPECT_EQ(a.home.calls(Call::claim), 0u);
}

TEST_F(OwnerTest, TheNumberOfAClaimOnlyWrittenAheadIsSkipped) {
  a.claims.highest_epoch = Epoch{5};
  EXPECT_EQ(a.must_open()->status().token.epoch, Epoch{6});
}

TEST_F(OwnerTest, TakeoverReadsEverythingAndTheOldOwnerIsRefusedWithBothEpochs) {
  auto old = a.must_open();
  ResetCount resets;
  old->on_reset(resets.listener());
  ASSERT_EQ(commit(*old, "one").kind, Kind::acknowledged);
  auto fresh = b.must_open();
  EXPECT_EQ(b.fold.data(), Texts{"one"});
  EXPECT_TRUE(b.fold.settled);
  EXPECT_EQ(commit(*fresh, "two").kind, Kind::acknowledged);

  const Fate late = commit(*old, "too late");
  ASSERT_EQ(late.kind, Kind::refused);
  EXPECT_EQ(late.error->outcome, Outcome::epoch_closed);
  EXPECT_EQ(
      late.error->message,
      "fenced: 'app' is now written by 'b', pid 4711 on host host-b (epoch 2). This handle was epoch 1; its last write in the stream is sequence 2. Open the "
      "database again only if you mean to take it back.");
  ASSERT_TRUE(late.error->current);
  EXPECT_EQ(late.error->current->pid, 4711);
  EXPECT_EQ(data(), (Texts{"one", "two"}));
  ASSERT_TRUE(old->status().reset);
  EXPECT_EQ(old->status().reset->kind, ResetKind::fenced);
  EXPECT_EQ(old->status().reset->ours, Epoch{1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(old->submit(bytes("again"), in(1s)).error().outcome, Outcome::epoch_closed);
  EXPECT_EQ(old->confirm(in(1s)).error().outcome, Outcome::epoch_closed);
  EXPECT_TRUE(old->stop(in(1s)));
  EXPECT_EQ(resets.count, 1);
}

TEST_F(OwnerTest, OneLogLineForEachChangeOfOwnerNamesBothSides) {
  auto old = a.must_open();
  commit(*old, "one");
  auto fresh = b.must_open();
  ASSERT_TRUE(runtime.wait_for([&] { return a.log().size() == 2; }));
  EXPECT_EQ(
      b.log(),
      Texts{
          "'app' is now written by 'b', pid 4711 on host host-b (epoch 2); taken from 'a', pid 1001 on host host-a (epoch 1), closed at sequence 2; 1 request to the home "
          "from the claim's first until ownership"});
  EXPECT_TRUE(a.log()[1].starts_with("fenced: 'app' is now written by 'b', pid 4711 on host host-b (epoch 2). This handle was epoch 1"));
}

// S16: the loss is noticed while idle, not at the next write.
TEST_F(OwnerTest, AnIdleOwnerNoticesWithinItsInterval) {
  a.options.notice_within = 700ms;
  auto old = a.must_open();
  ASSERT_TRUE(runtime.wait_for([&] { return a.home.records(app).size() == 2; }));
  const Instant before = runtime.now();
  auto fresh = b.must_open();
  ASSERT_TRUE(runtime.wait_for([&] { return old->status().reset.has_value(); }));
  EXPECT_LE(runtime.now() - before, 701ms);  // the test's own time: no machine is too slow for it
}

// Where each request is paid for, an idle owner without `term` asks for nothing, ever; one with it gives its signs of life, and looks for whoever stands ready as often.
TEST_F(OwnerTest, AtAMeteredHomeAnIdleOwnerAsksForNothing) {
  a.options.metered = true;
  a.options.notice_within = core::kNoLook;
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  const auto all = [&] {
    std::uint64_t calls = 0;
    for (const Call call : {Call::stat, Call::claim, Call::append, Call::read, Call::wait, Call::beat, Call::pulse}) calls += a.home.calls(call);
    return calls;
  };
  const auto before = all();
  runtime.sleep_until(in(24h));
  EXPECT_EQ(all(), before);
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);

  b.options.metered = true;
  b.options.notice_within = core::kNoLook;
  b.options.liveness = true;
  b.options.term = 20s;
  b.options.on_successor = [](const std::string&) {};
  auto beating = b.must_open();
  ASSERT_EQ(commit(*beating, "three").kind, Kind::acknowledged);
  const auto stats = b.home.calls(Call::stat), reads = b.home.calls(Call::read);
  ASSERT_TRUE(runtime.wait_for([&] { return b.home.calls(Call::beat) >= 40; }));
  EXPECT_LE(b.home.calls(Call::pulse), b.home.calls(Call::beat));
  EXPECT_GE(b.home.calls(Call::pulse) + 1, b.home.calls(Call::beat)) << "who stands ready is noticed with the next sign of life";
  EXPECT_EQ(b.home.calls(Call::stat), stats);
  EXPECT_EQ(b.home.calls(Call::read), reads);
}

// It gave no sign of life for half a term, so somebody may have taken over: it looks by itself, though it is idle and looks for nothing else.
TEST_F(OwnerTest, AnIdleOwnerThatWasSilentLooksWhetherItStillOwns) {
  a.options.metered = true;
  a.options.notice_within = core::kNoLook;
  a.options.liveness = true;
  a.options.term = 20s;
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  const auto resume = runtime.make_signal();
  std::atomic<bool> held{false};
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::beat && !held.exchange(true)) resume->wait_until(Instant::max());  // the process stands still here
    return Trouble::none;
  });
  ASSERT_TRUE(runtime.wait_for([&] { return held.load(); }));
  auto fresh = b.must_open();
  runtime.sleep_until(in(30s));
  resume->notify();
  ASSERT_TRUE(runtime.wait_for([&] { return owner->status().reset.has_value(); }));
  EXPECT_EQ(owner->status().reset->kind, ResetKind::fenced);
}

// What is submitted with `more` is one batch: nothing of it goes before the last, or before somebody waits.
TEST_F(OwnerTest, WhatIsSubmittedTogetherIsOneBatch) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "behind the ready record").kind, Kind::acknowledged);
  std::vector<std::size_t> batches;
  a.home.set_hook([&](const CallInfo& info) {
    if (has_data(info)) batches.push_back(info.batch->appends.size());
    return Trouble::none;
  });
  const std::size_t rounds = 20;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(owner->submit(bytes("first"), in(1s), core::RecordKind::data, More::yes));
      runtime.sleep_until(in(1ms));  // time passes only when the owner's thread waits, too: it had the time to send it
    }
    const Ticket last = *owner->submit(bytes("last"), in(1s), core::RecordKind::data, round % 2 == 0 ? More::no : More::yes);
    EXPECT_EQ(owner->wait(last, in(30s), nullptr).kind, Kind::acknowledged);
  }
  EXPECT_EQ(batches, std::vector<std::size_t>(rounds, 5));
}

TEST_F(OwnerTest, ABatchThatIsFullGoesAndAConfirmTakesAlongWhatItComesAfter) {
  a.options.max_undecided = 3;
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "0").kind, Kind::acknowledged);  // behind the ready record
  const Ticket first = *owner->submit(bytes("1"), in(1s), core::RecordKind::data, More::yes);
  for (const char* text : {"2", "3"}) ASSERT_TRUE(owner->submit(bytes(text), in(1s), core::RecordKind::data, More::yes));
  ASSERT_TRUE(runtime.wait_for([&] { return data().size() == 4; })) << "a full batch waits for nobody";
  ASSERT_TRUE(owner->submit(bytes("4"), in(1s), core::RecordKind::data, More::yes));
  EXPECT_EQ(owner->wait(first, Instant::min(), nullptr).kind, Kind::acknowledged) << "and to ask what is there moves nothing";
  EXPECT_EQ(data(), (Texts{"0", "1", "2", "3"}));
  const auto confirmed = owner->confirm(in(30s));
  ASSERT_TRUE(confirmed) << confirmed.error().message;
  EXPECT_EQ(data(), (Texts{"0", "1", "2", "3", "4"})) << "confirmed is everything that was submitted before";
  ASSERT_TRUE(owner->submit(bytes("5"), in(1s), core::RecordKind::data, More::yes));
  EXPECT_TRUE(owner->stop(in(30s))) << "the end takes along what still waited for more";
  EXPECT_EQ(data().back(), "5");
}

// S12: the home itself checks the token of each append, whatever the old owner can still reach.
TEST_F(OwnerTest, APausedOwnerThatWakesInMidCommitIsRefused) {
  auto old = a.must_open();
  ASSERT_EQ(commit(*old, "one").kind, Kind::acknowledged);
  auto paused = runtime.make_signal();
  auto resume = runtime.make_signal();
  std::atomic<bool> held = false;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call == Call::append && !held.exchange(true)) {
      paused->notify();
      resume->wait_until(Instant::max());
    }
    return Trouble::none;
  });
  const Ticket ticket = *old->submit(bytes("paused"), in(1s));
  ASSERT_TRUE(paused->wait_until(in(1h)));
  auto fresh = b.must_open();
  ASSERT_EQ(commit(*fresh, "two").kind, Kind::acknowledged);
  resume->notify();
  EXPECT_EQ(old->wait(ticket, in(30s), nullptr).kind, Kind::refused);
  EXPECT_EQ(data(), (Texts{"one", "two"}));
}

TEST_F(OwnerTest, WhatTheFencedOwnerStillGotInIsAcknowledgedBeforeTheReset) {
  auto old = a.must_open();
  std::unique_ptr<Owner> fresh;
  std::atomic<int> appends = 0;
  a.home.set_hook([&](const CallInfo& info) {  // the append lands, its answer is lost, and b takes over before it is sent again
    if (!has_data(info)) return Trouble::none;
    if (appends++ == 0) return Trouble::lost_answer;
    if (appends == 2) fresh = b.must_open();
    return Trouble::none;
  });
  const Fate fate = commit(*old, "in time");
  EXPECT_EQ(fate.kind, Kind::acknowledged);
  EXPECT_FALSE(fate.offset.text.empty());
  EXPECT_TRUE(runtime.wait_for([&] { return old->status().reset.has_value(); }));
  EXPECT_EQ(b.fold.data(), Texts{"in time"});
}

TEST_F(OwnerTest, ALostAnswerIsResentWithTheSameBytesUntilDecided) {
  auto owner = a.must_open();
  std::mutex mutex;
  std::vector<core::AppendBatch> sent;
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info)) return Trouble::none;
    const std::lock_guard lock(mutex);
    sent.push_back(*info.batch);
    return sent.size() == 1 ? Trouble::lost_request : sent.size() == 2 ? Trouble::lost_answer : sent.size() == 3 ? Trouble::unavailable : Trouble::none;
  });
  EXPECT_EQ(commit(*owner, "once").kind, Kind::acknowledged);
  ASSERT_EQ(sent.size(), 4u);
  for (const auto& batch : sent) {
    EXPECT_EQ(batch.attempt, sent[0].attempt);
    EXPECT_EQ(batch.first, sent[0].first);
    EXPECT_EQ(batch.time_ms, sent[0].time_ms);
    EXPECT_EQ(batch.appends[0].payload, sent[0].appends[0].payload);
  }
  EXPECT_EQ(data(), Texts{"once"});
}

TEST_F(OwnerTest, WhatQueuesWhileOneIsOutGoesTogether) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "first").kind, Kind::acknowledged);
  auto out = runtime.make_signal();
  auto resume = runtime.make_signal();
  std::atomic<int> appends = 0;
  std::atomic<std::size_t> second = 0;
  a.home.set_hook([&](const CallInfo& info) {
    if (info.call != Call::append) return Trouble::none;
    if (appends++ == 0) {
      out->notify();
      resume->wait_until(Instant::max());
    } else {
      second = info.batch->appends.size();
    }
    return Trouble::none;
  });
  ASSERT_TRUE(owner->submit(bytes("0"), in(1s)));
  ASSERT_TRUE(out->wait_until(in(1h)));
  Ticket last = 0;
  for (int i = 1; i <= 9; ++i) last = *owner->submit(bytes(std::to_string(i)), in(1s));
  resume->notify();
  EXPECT_EQ(owner->wait(last, in(30s), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(second, 9u);
  EXPECT_EQ(appends, 2);
}

TEST_F(OwnerTest, AFullQueueHoldsSubmitBackUntilItsDeadline) {
  a.options.max_queue_bytes = 10;
  auto owner = a.must_open();
  std::atomic<bool> out_of_reach = true;
  a.home.set_hook([&](const CallInfo& info) { return info.call == Call::append && out_of_reach ? Trouble::unavailable : Trouble::none; });
  const Ticket first = *owner->submit(bytes("0123456789"), in(1s));
  Result<Ticket> next = 0;
  for (int i = 0; i < 3 && next; ++i) next = owner->submit(bytes("0123456789"), in(5s));
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().outcome, Outcome::unavailable);
  out_of_reach = false;
  EXPECT_EQ(owner->wait(first, in(30s), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(commit(*owner, "fits again").kind, Kind::acknowledged);
}

TEST_F(OwnerTest, ARefusedPartTakesTheRestOfItsCommitWithIt) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  a.home.refuse_data(app, Outcome::write_fenced);
  const Ticket part = *owner->submit(bytes("part 1"), in(1s));
  ASSERT_TRUE(runtime.wait_for([&] { return owner->status().pending == 0; }));
  a.home.refuse_data(app, {});
  // Part 2 comes after the refusal, before anybody was told: it must not be appended behind a missing part 1.
  const auto second = owner->submit(bytes("part 2"), in(1s));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().outcome, Outcome::write_fenced);
  EXPECT_EQ(owner->wait(part, in(1s), nullptr).error->outcome, Outcome::write_fenced);
  EXPECT_EQ(commit(*owner, "two").kind, Kind::acknowledged);  // the handle stays usable, with the sequence that was never used
  EXPECT_EQ(data(), (Texts{"one", "two"}));
  EXPECT_FALSE(owner->status().reset);
}

TEST_F(OwnerTest, WithdrawnRightsResetTheHandle) {
  auto owner = a.must_open();
  a.home.refuse_data(app, Outcome::unauthorised);
  const Fate fate = commit(*owner, "x");
  EXPECT_EQ(fate.kind, Kind::refused);
  EXPECT_EQ(fate.error->outcome, Outcome::unauthorised);
  EXPECT_EQ(owner->status().reset->kind, ResetKind::refused);
}

TEST_F(OwnerTest, ADefiniteRefusalAfterALostAnswerDecidesNothing) {
  auto owner = a.must_open();
  std::atomic<int> appends = 0;
  a.home.set_hook([&](const CallInfo& info) {
    if (!has_data(info)) return Trouble::none;
    return appends++ == 0 ? Trouble::late_request : Trouble::none;
  });
  a.home.refuse_data(app, Outcome::write_fenced);
  const Ticket ticket = *owner->submit(bytes("late"), in(1s));
  const Fate fate = owner->wait(ticket, in(5s), nullptr);
  EXPECT_EQ(fate.kind, Kind::undecided);
  a.home.refuse_data(app, {});
  EXPECT_EQ(a.home.deliver_late(), 1u);
  EXPECT_EQ(owner->wait(ticket, in(5s), nullptr).kind, Kind::acknowledged);
  EXPECT_EQ(data(), Texts{"late"});
}

TEST_F(OwnerTest, AWaiterThatGivesUpLeavesTheAppendOnItsWay) {
  auto owner = a.must_open();
  ASSERT_TRUE(runtime.wait_for([&] { return a.home.records(app).size() == 2; }));  // else the append waits behind `ready`, and is refused unsent
  ResetCount resets;
  owner->on_reset(resets.listener());
  std::atomic<bool> out_of_reach = true;
  a.home.set_hook([&](const CallInfo& info) { return info.call == Call::append && out_of_reach ? Trouble::lost_request : Trouble::none; });
  const Ticket ticket = *owner->submit(bytes("maybe"), in(1s));
  std::atomic<bool> interrupted = true;
  EXPECT_EQ(owner->wait(ticket, in(30s), &interrupted).kind, Kind::undecided);
  EXPECT_EQ(owner->wait(ticket, in(3s), nullptr).kind, Kind::undecided);
  owner->reset(ResetKind::unresolved, "unresolved: a commit of 'app' may be in the stream");
  owner->reset(ResetKind::broken, "the second reset");
  EXPECT_EQ(owner->status().reset->kind, ResetKind::unresolved);
  EXPECT_EQ(owner->submit(bytes("more"), in(1s)).error().outcome, Outcome::unknown);
  out_of_reach = false;
  EXPECT_TRUE(runtime.wait_for([&] { return data() == Texts{"maybe"}; }));
  EXPECT_TRUE(runtime.wait_for([&] { return owner->wait(ticket, in(1s), nullptr).kind == Kind::acknowledged; }));
  EXPECT_TRUE(runtime.wait_for([&] { return resets.count == 1; }));  // an answer that came with the reset is handed out first
}

TEST_F(OwnerTest, ConfirmIsARoundTripBegunAfterTheLastAcknowledgement) {
  auto owner = a.must_open();
  ASSERT_TRUE(owner->submit(bytes("one"), in(1s)));
  const auto stats = a.home.calls(Call::stat);
  const auto offset = owner->confirm(in(30s));
  ASSERT_TRUE(offset);
  EXPECT_EQ(*offset, a.home.records(app).back().next);
  EXPECT_GT(a.home.calls(Call::stat), stats);
  auto fresh = b.must_open();
  const auto late = owner->confirm(in(30s));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().outcome, Outcome::epoch_closed);
}

TEST_F(OwnerTest, ConfirmWaitsForAHomeOutOfReachAndThenSaysUnknown) {
  auto owner = a.must_open();
  ASSERT_EQ(commit(*owner, "one").kind, Kind::acknowledged);
  std::atomic<bool> out_of_reach = true;
  a.home.set_hook([&](const CallInfo&) { return out_of_reach ? Trouble::unavailable : Trouble::none; });
  EXPECT_EQ(owner->confirm(in(5s)).error().outcome, Outcome::unknown);
  out_of_reach = false;
  EXPECT_TRUE(owner->confirm(in(5s)));
}

TEST_F(OwnerTest, ALivenessObjectIsKeptWhileOwning) {
  a.options.liveness = true;
  a.options.term = 8s;
  auto owner = a.must_open();
  const auto beats = a.home.calls(Call::beat);
  ASSERT_TRUE(runtime.wait_for([&] { return a.home.calls(Call::beat) >= beats + 3; }, 8s));
  EXPECT_EQ(a.home.records(app)[0].owner.liveness, owner->status().token.claim_id);
}

}  // namespace
}  // namespace onepen::owner
