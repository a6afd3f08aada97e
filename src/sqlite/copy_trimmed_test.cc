// A copy comes back to a log that was trimmed past its place: what became of its pending commits (fence.md, "Takeover", rule 4).
#include "sqlite/copy_trimmed.h"

#include <fmt/format.h>

#include "sqlite/copy_pending_support.h"
#include "sqlite/snapshot_part.h"

namespace onepen::sqlite::testing {
namespace {

constexpr ClaimId kOurClaim{0xabc, 0xdef};
constexpr Epoch kOurEpoch{7};

TEST(LandedBySequence, CountsWholeCommitsBehindTheMark) {
  struct Case {
    std::uint64_t mark;
    std::uint32_t others;
    std::uint64_t closed;
    std::vector<std::uint32_t> parts;
    std::size_t least, most;
  };
  const Case cases[] = {
      {9, 0, 9, {1, 1, 1}, 0, 0},  {9, 0, 8, {1, 1, 1}, 0, 0},  // what was closed below the mark says nothing more
      {9, 0, 10, {1, 1, 1}, 1, 1}, {9, 0, 12, {1, 1, 1}, 3, 3}, {9, 0, 14, {1, 1, 1}, 3, 3},  // `released` behind all of them
      {9, 0, 11, {3, 1}, 0, 0},    {9, 0, 12, {3, 1}, 1, 1},    {9, 0, 13, {3, 1}, 2, 2},  // a commit counts with its last part
      {9, 1, 10, {1, 1, 1}, 0, 1}, {9, 1, 9, {1, 1, 1}, 0, 0},  {9, 1, 13, {1, 1, 1}, 3, 3},
      {9, 2, 14, {4, 4}, 0, 1},    {9, 1, 14, {4, 4}, 1, 1},    {1, 0, 1, {}, 0, 0},
  };
  for (const Case& one : cases) {
    const LandedRange landed = landed_by_sequence({{one.mark}, one.others}, {one.closed}, one.parts);
    EXPECT_EQ(landed.least, one.least) << one.closed;
    EXPECT_EQ(landed.most, one.most) << one.closed;
  }
}

// Four commits that both have, sent under our epoch at sequences 2 to 5; then three of ours, of which the stream has the first ones.
struct Returning {
  TempFolder folder;
  PlainSource source{folder.path(), 1024};
  Machine m{folder.path()};
  MemoryStream stream;
  static constexpr std::size_t kShared = 4, kPending = 3;

  void make(std::size_t landed) {
    m.begin(source);
    ASSERT_TRUE(m.copy->remember_owned({kIncarnation, kOurEpoch, kOurClaim}));
    for (std::size_t i = 0; i < kShared + kPending; ++i) {
      const std::string sql = i < kShared ? life()[i] : fmt::format("INSERT INTO t(x) VALUES ('ours {}')", i);
      if (i < kShared + landed) source.exec(sql);
      m.commit(sql);
      if (i < kShared) m.acknowledge(source.commits().back());
    }
    source.claim();
  }
  void return_after_trim() {
    m.kill();
    m.acquire();
    ASSERT_EQ(m.copy->pending().size(), kPending);
    stream.tells_stat = true;
    stream.records = source.records();
    stream.oldest = source.records().back().next;
    ASSERT_LT(m.copy->position(), stream.oldest);
    ASSERT_TRUE(m.copy->gone_from(stream));
  }
  // The claim that closed our epoch, as the home keeps it for ever.
  void closed_at(std::uint64_t sequence, Epoch of = kOurEpoch, ClaimId our_claim = kOurClaim) {
    core::HistoryEvent ours, next;
    ours.incarnation = next.incarnation = kIncarnation;
    ours.epoch = of;
    ours.claim_id = our_claim;
    next.epoch = {of.value + 1};
    next.closed_epoch = of;
    next.closed_sequence = {sequence};
    stream.history = {{ours, next}};
  }
  // Somebody else claimed and wrote, the log was trimmed past our place, and we come back.
  void return_fenced_at(std::uint64_t sequence) {
    source.exec("INSERT INTO t(x) VALUES ('theirs')");
    closed_at(sequence);
    return_after_trim();
  }
  void snapshot_now() {
    const CommitState now = source.state();
    core::SnapshotInfo info;
    info.id = "snap";
    info.offset = source.records().back().next;
    info.incarnation = now.incarnation;
    info.about = encode_snapshot_about({now.ordinal, now.page_sum, now.page_count, now.page_size});
    stream.kept = {info};
  }
};

TEST(CopyTrimmed, TheClosedEpochTellsWhatLandedAndTheRestIsSaved) {
  for (const std::size_t landed : {0u, 1u, 2u}) {
    Returning r;
    r.make(landed);
    r.return_fenced_at(5 + landed);
    ASSERT_EQ(r.m.salvaged().size(), 1u);
    const SalvageEntry entry = r.m.salvaged()[0];
    EXPECT_EQ(entry.kind, "fenced");
    EXPECT_TRUE(entry.unsent_known);
    ASSERT_EQ(entry.unsent.size(), Returning::kPending - landed) << "what landed is not unsent: whoever enters it again doubles it";
    EXPECT_EQ(entry.unsent[0].ordinal, r.source.commits()[Returning::kShared + landed].state.ordinal + 1);
    EXPECT_NE(entry.why.find(fmt::format("epoch 7 was closed at sequence {}, so {} of its 3 commits landed", 5 + landed, landed)), std::string::npos)
        << entry.why;
    EXPECT_EQ(r.m.copy->state(), CommitState{});
    r.stream.oldest = {};
    read_on(*r.m.copy, r.source);
    expect_is_source(*r.m.copy, r.source);
  }
}

TEST(CopyTrimmed, WhenAllOfThemLandedNothingIsUnsentAndNothingIsDeleted) {
  Returning r;
  r.make(3);
  r.return_fenced_at(8);
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_TRUE(r.m.salvaged()[0].unsent.empty());
  EXPECT_TRUE(r.m.salvaged()[0].unsent_known);
  EXPECT_NE(r.m.salvaged()[0].why.find("so 3 of its 3 commits landed"), std::string::npos) << r.m.salvaged()[0].why;
  EXPECT_EQ(r.m.copy->state(), CommitState{});
}

TEST(CopyTrimmed, WhatTheTableDoesNotTellMayBeInTheStream) {
  const std::function<void(Returning&)> cases[] = {
      [](Returning&) {},                                                             // a home without a history
      [](Returning& r) { r.closed_at(6, {6}); },                                     // it left the table
      [](Returning& r) { r.closed_at(6, kOurEpoch, {1, 2}); },                       // somebody else's claim of that number
      [](Returning& r) { r.closed_at(6), r.stream.history->pop_back(); },            // nobody closed it: it is not over
      [](Returning& r) { r.closed_at(6), r.stream.history->front().incarnation = {9, 9}; },
  };
  for (const auto& prepare : cases) {
    Returning r;
    r.make(1);
    r.source.exec("INSERT INTO t(x) VALUES ('theirs')");
    prepare(r);
    r.return_after_trim();
    ASSERT_EQ(r.m.salvaged().size(), 1u);
    const SalvageEntry entry = r.m.salvaged()[0];
    EXPECT_FALSE(entry.unsent_known);
    EXPECT_EQ(entry.unsent.size(), 3u);
    EXPECT_NE(entry.why.find("cannot be told any more"), std::string::npos) << entry.why;
  }
}

TEST(CopyTrimmed, ARecordOfASnapshotAmongThemLeavesItOpenByOne) {
  Returning r;
  r.make(1);
  ASSERT_TRUE(r.m.copy->record_ahead());
  r.return_fenced_at(6);
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_FALSE(r.m.salvaged()[0].unsent_known);
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 3u);
  EXPECT_NE(r.m.salvaged()[0].why.find("some may be in the stream, at most 1"), std::string::npos) << r.m.salvaged()[0].why;
}

TEST(CopyTrimmed, ARecordThatLandedBeforeAnAcknowledgedCommitIsCounted) {
  Returning r;
  r.m.begin(r.source);
  ASSERT_TRUE(r.m.copy->remember_owned({kIncarnation, kOurEpoch, kOurClaim}));
  r.source.exec(life()[0]);
  r.m.commit(life()[0]);
  r.m.acknowledge(r.source.commits().back());  // sequence 2
  ASSERT_TRUE(r.m.copy->record_ahead());
  r.m.copy->record_landed(++r.m.sequence);  // 3
  r.source.exec(life()[1]);
  r.m.commit(life()[1]);
  r.m.acknowledge(r.source.commits().back());  // 4
  for (int i = 0; i < 3; ++i) r.m.commit(fmt::format("INSERT INTO t(x) VALUES ('ours {}')", i));
  r.source.claim();
  r.return_fenced_at(4);
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_TRUE(r.m.salvaged()[0].unsent_known);
  EXPECT_EQ(r.m.salvaged()[0].unsent.size(), 3u);
}

// An owner that closed in good order, with its `released` record behind its last commit; then commits of an offline opening.
TEST(CopyTrimmed, CommitsOfAnOfflineOpeningWereSentUnderNoOwnership) {
  for (const bool told : {true, false}) {
    Returning r;
    r.m.begin(r.source);
    ASSERT_TRUE(r.m.copy->remember_owned({kIncarnation, kOurEpoch, kOurClaim}));
    r.source.exec(life()[0]);
    r.m.commit(life()[0]);
    r.m.acknowledge(r.source.commits().back());  // sequence 2; `released` is 3
    if (told) {
      ASSERT_TRUE(r.m.copy->nothing_was_sent());
    }
    for (std::size_t i = 0; i < Returning::kPending; ++i) r.m.commit(fmt::format("INSERT INTO t(x) VALUES ('offline {}')", i));
    r.source.claim();
    r.return_fenced_at(3);
    ASSERT_EQ(r.m.salvaged().size(), 1u);
    EXPECT_EQ(r.m.salvaged()[0].unsent.size(), Returning::kPending - (told ? 0 : 1)) << "untold, the record is taken for the first of them";
  }
}

// A power loss took what the record speaks of: what is found is older, and the count does not belong to it.
TEST(CopyTrimmed, AMarkOfALaterStateIsNotBelieved) {
  Returning r;
  r.make(1);
  r.source.exec("INSERT INTO t(x) VALUES ('theirs')");
  r.closed_at(6);
  r.m.kill();
  auto state = StateFile::open(r.m.disk, r.m.folder() + "/state");
  ASSERT_TRUE(state && state->record());
  CopyRecord record = *state->record();
  record.next = r.source.commits()[Returning::kShared - 1].state;
  record.next_place = record.previous_place;
  record.next.page_sum ^= 1;  // not there: previous is what is found
  record.next_place->frame += 1000;
  ASSERT_TRUE(state->write(record, false));
  r.m.acquire();
  r.stream.tells_stat = true;
  r.stream.oldest = r.source.state().offset;
  ASSERT_TRUE(r.m.copy->gone_from(r.stream));
  ASSERT_EQ(r.m.salvaged().size(), 1u);
  EXPECT_FALSE(r.m.salvaged()[0].unsent_known);
}

TEST(CopyTrimmed, ASnapshotOfWhereItStandsLetsItGoOn) {
  for (const std::size_t landed : {0u, 1u, 3u}) {
    Returning r;
    r.make(landed);
    r.snapshot_now();
    r.return_after_trim();
    EXPECT_TRUE(r.m.salvaged().empty());
    EXPECT_EQ(r.m.copy->position(), r.stream.kept[0].offset);
    EXPECT_EQ(r.m.copy->state().ordinal, r.source.state().ordinal);
    EXPECT_EQ(r.m.copy->state().page_sum, r.source.state().page_sum);
    EXPECT_EQ(r.m.copy->pending().size(), Returning::kPending - landed) << "the rest can be sent: nobody wrote since";
    ASSERT_TRUE(r.m.copy->settle());
    r.m.kill();
    r.m.acquire();
    EXPECT_EQ(r.m.copy->position(), r.stream.kept[0].offset) << "written down";
    EXPECT_EQ(r.m.copy->pending().size(), Returning::kPending - landed);
  }
}

TEST(CopyTrimmed, ASnapshotOfAnotherStateOrHistoryIsNone) {
  for (const int what : {0, 1, 2, 3}) {
    Returning r;
    r.make(1);
    r.snapshot_now();
    core::SnapshotInfo& info = r.stream.kept[0];
    const CommitState now = r.source.state();
    if (what == 0) info.incarnation = {9, 9};
    if (what == 1) info.about = encode_snapshot_about({now.ordinal, now.page_sum ^ 1, now.page_count, now.page_size});
    if (what == 2) info.about = encode_snapshot_about({now.ordinal + 7, now.page_sum, now.page_count, now.page_size});
    if (what == 3) info.about = {};
    r.return_after_trim();
    EXPECT_EQ(r.m.salvaged().size(), 1u) << what;
  }
}

// ---- who reads takes no copy with unsent commits

TEST(CopyForReading, WhatNobodyHasSentIsNotShown) {
  Returning r;
  r.make(0);
  r.m.kill();
  auto copy = Copy::acquire(*r.m.runtime, r.m.disk, r.m.place, Log([](LogLevel, std::string_view) {}), CopyUse::read);
  ASSERT_TRUE(copy) << told(copy);
  EXPECT_TRUE((*copy)->folder().ends_with("/2")) << (*copy)->folder();
  EXPECT_TRUE((*copy)->pending().empty());
  read_on(**copy, r.source);
  expect_is_source(**copy, r.source);
  copy->reset();
  r.m.acquire();
  EXPECT_EQ(r.m.copy->folder(), r.m.folder()) << "who writes takes the one with unsent commits";
  r.m.kill();
  copy = Copy::acquire(*r.m.runtime, r.m.disk, r.m.place, Log([](LogLevel, std::string_view) {}), CopyUse::read);
  ASSERT_TRUE(copy) << told(copy);
  EXPECT_TRUE((*copy)->folder().ends_with("/2")) << "and no third one is made";
}

}  // namespace
}  // namespace onepen::sqlite::testing
