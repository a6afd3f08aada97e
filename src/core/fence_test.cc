// The fence besides its scenario files: saved bytes, memory, and what is told to core/home.h.
#include "core/fence.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/guard.h"
#include "core/fence_codec.h"
#include "core/fence_view.h"
#include "support/counting_new.h"

namespace onepen::core {
namespace {
using onepen::testing::allocations;

constexpr Incarnation kHistory{0x1111, 0x2222};
constexpr ClaimId kA{0xa, 0xa}, kB{0xb, 0xb};

StreamState made(StreamKind kind = StreamKind::fence_required) {
  StreamState state;
  EXPECT_TRUE(apply(state, CreateCommand{kHistory, {kind, {}, 0, 0}, false, {1, 0}, 5}).ok());
  return state;
}

Decision claim(StreamState& state, std::uint64_t epoch, ClaimId id, const char* name = "alpha") {
  ClaimCommand c;
  c.epoch = Epoch{epoch};
  c.claim_id = id;
  c.digest = Digest{id.lo};
  c.next = Position{state.tail.high + 1, 0};
  c.time_ms = 7;
  c.owner = OwnerInfo{name, "host1", "0.1.0", 42, 6, "open", {}};
  return apply(state, c);
}

AppendCommand next_append(const StreamState& state) {
  AppendCommand c;
  c.producer = kOwnerProducer;
  c.incarnation = state.incarnation;
  c.epoch = state.owner.epoch;
  c.claim_id = state.owner.claim_id;
  c.sequence = Sequence{state.owner.last.value + 1};
  c.digest = Digest{c.sequence->value};
  c.size = 256;
  c.next = Position{state.tail.high, state.tail.low + 1};
  c.time_ms = 8;
  return c;
}

// ---- new histories (B7)

TEST(FenceHistory, VoidsTheEpochBeforeIt) {
  const auto old_owner_after = [] {
    StreamState state = made();
    EXPECT_TRUE(claim(state, 1, kA).ok());
    AppendCommand late = next_append(state);
    AdminCommand adopt;
    adopt.act = AdminAct::adopt;
    adopt.incarnation = kHistory;
    adopt.tail = state.tail;
    adopt.next_incarnation = Incarnation{0x3333, 0x4444};
    adopt.next_tail = Position{state.tail.high + 1, 0};
    adopt.kept = true;
    adopt.time_ms = 9;
    EXPECT_TRUE(apply(state, adopt).ok());
    late.next = Position{state.tail.high + 1, 1};
    return apply(state, late).outcome;
  };
  EXPECT_EQ(old_owner_after(), Outcome::incarnation_changed);
  set_guard(Guard::b7_voids_epoch, false);
  EXPECT_EQ(old_owner_after(), Outcome::applied);
  set_guard(Guard::b7_voids_epoch, true);
}

// ---- memory

TEST(FenceMemory, AnAppendAllocatesNothingOnceRoomIsReserved) {
  StreamState state = made();
  ASSERT_TRUE(claim(state, 1, kA).ok());
  reserve_receipts(state);
  const std::size_t before = allocations();
  bool all_applied = true;
  for (int i = 0; i < 10'000; ++i) all_applied = apply(state, next_append(state)).outcome == Outcome::applied && all_applied;
  // Every kind of answer that a sequenced append can get.
  AppendCommand c = next_append(state);
  c.sequence = state.owner.last;
  c.digest = Digest{state.owner.last.value};
  const Outcome duplicate = apply(state, c).outcome;
  c.digest = Digest{0};
  const Outcome cloned = apply(state, c).outcome;
  c.sequence = Sequence{state.owner.last.value + 9};
  const Outcome gap = apply(state, c).outcome;
  c.epoch = Epoch{0};
  const Outcome closed = apply(state, c).outcome;
  c.incarnation = Incarnation{9, 9};
  const Outcome other = apply(state, c).outcome;
  const std::size_t after = allocations();
  EXPECT_EQ(after - before, 0u);
  EXPECT_TRUE(all_applied);
  EXPECT_EQ(duplicate, Outcome::duplicate);
  EXPECT_EQ(cloned, Outcome::cloned);
  EXPECT_EQ(gap, Outcome::sequence_gap);
  EXPECT_EQ(closed, Outcome::epoch_closed);
  EXPECT_EQ(other, Outcome::incarnation_changed);
}

TEST(FenceMemory, WithoutReservingReceiptsGrowEightTimesAndNeverAgain) {
  StreamState state = made();
  ASSERT_TRUE(claim(state, 1, kA).ok());
  const std::size_t before = allocations();
  for (std::size_t i = 0; i < kReceiptsKept; ++i) ASSERT_TRUE(apply(state, next_append(state)).ok());
  EXPECT_LE(allocations() - before, 8u);
  const std::size_t full = allocations();
  for (std::size_t i = 0; i < 4 * kReceiptsKept; ++i) ASSERT_TRUE(apply(state, next_append(state)).ok());
  EXPECT_EQ(allocations(), full);
  EXPECT_EQ(state.owner.receipts.size(), kReceiptsKept);
}

TEST(FenceMemory, APlainProducerThatIsKnownAllocatesNothing) {
  StreamState state = made(StreamKind::plain);
  AppendCommand c;
  c.producer = "a producer whose id is longer than any short string buffer";
  c.epoch = Epoch{3};
  c.size = 1;
  std::uint64_t sequence = 0;
  const auto send = [&] {
    c.sequence = Sequence{sequence++};
    c.next = Position{state.tail.high, state.tail.low + 1};
    return apply(state, c).outcome == Outcome::applied;
  };
  for (std::size_t i = 0; i < kReceiptsKept; ++i) ASSERT_TRUE(send());
  const std::size_t before = allocations();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(send());
  EXPECT_EQ(allocations(), before);
}

// ---- ring

TEST(Ring, KeepsTheNewestAndComparesEntriesOnly) {
  Ring<int> ring;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ring.push(i, 4), i >= 4) << i;
  ASSERT_EQ(ring.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(ring[i], static_cast<int>(i) + 6);
  Ring<int> roomy;
  roomy.reserve(100);
  for (int i = 0; i < 10; ++i) roomy.push(i, 4);
  EXPECT_TRUE(ring == roomy);
  roomy.push(7, 4);
  EXPECT_FALSE(ring == roomy);
}

// ---- bytes

// A state with something in every field.
StreamState full_state() {
  StreamState s = made();
  EXPECT_TRUE(claim(s, 3, kA).ok());
  EXPECT_TRUE(apply(s, next_append(s)).ok());
  AppendCommand positional = next_append(s);
  positional.sequence.reset();
  positional.commit = CommitId{0xc, 0xd};
  positional.if_tail = s.tail;
  EXPECT_TRUE(apply(s, positional).ok());
  EXPECT_TRUE(claim(s, 5, kB, "beta").ok());
  AppendCommand control = next_append(s);
  control.kind = RecordKind::control;
  control.namespace_fence = NamespaceFence::write_fenced;
  control.stream_seq = "0009";
  EXPECT_TRUE(apply(s, control).ok());
  s.config = StreamConfig{StreamKind::fence_required, "application/x", 1000, 100'000};
  s.snapshot = s.start = Position{1, 0};
  s.owner_info.liveness = "b";
  s.closed = s.suspect = true;
  s.owner.known_from = Epoch{1};
  s.owner.dropped_commits = Epoch{2};
  Producer plain;  // never beside an owner in practice; the format does not care
  plain.epoch = Epoch{4};
  plain.live = true;
  plain.receipts.push({Epoch{4}, Sequence{0}, Digest{1}, Position{2, 3}}, kReceiptsKept);
  s.producers.emplace("p", plain);
  s.producers.emplace("o", plain);
  return s;
}

std::string hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto b = std::to_integer<unsigned>(bytes[i]);
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
    if (i % 32 == 31) text += '\n';
  }
  return text;
}

TEST(FenceState, GoldenBytes) {
  std::ifstream in(ONEPEN_SOURCE_DIR "/src/core/testdata/fence_state_v1.hex");
  std::ostringstream golden;
  golden << in.rdbuf();
  const Bytes bytes = encode(full_state());
  EXPECT_EQ(golden.str(), hex(bytes) + "\n") << "version 1 of the format is what old files hold: a change needs a new version";
  const auto back = decode_stream_state(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == full_state());
}

TEST(FenceState, EveryCutAndEveryFlippedBitIsRefused) {
  const Bytes good = encode(full_state());
  for (std::size_t size = 0; size < good.size(); ++size) {
    ASSERT_FALSE(decode_stream_state(ByteView(good).first(size))) << size;
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const auto decoded = decode_stream_state(bad);
    ASSERT_FALSE(decoded) << bit;
    ASSERT_EQ(decoded.error().outcome, Outcome::invalid);
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_stream_state(longer));
}

TEST(FenceState, ANewerVersionIsNamed) {
  Bytes newer = encode(full_state());
  newer[4] = std::byte{2};
  const auto decoded = decode_stream_state(newer);
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().message.find("format version 2"), std::string::npos) << decoded.error().message;
}

// ---- what homes tell

TEST(FenceView, StatOwnerAndClaimReceipt) {
  StreamState s = made();
  EXPECT_FALSE(owner_of(s));
  EXPECT_EQ(stat_of(s).epoch, Epoch{0});
  const ClaimReceipt first = claim_receipt_of(claim(s, 3, kA));
  EXPECT_EQ(first.closed_epoch, Epoch{0});
  ASSERT_TRUE(apply(s, next_append(s)).ok());
  const ClaimReceipt receipt = claim_receipt_of(claim(s, 4, kB, "beta"));
  EXPECT_EQ(receipt.incarnation, kHistory);
  EXPECT_EQ(receipt.epoch, Epoch{4});
  EXPECT_EQ(receipt.claim_id, kB);
  EXPECT_EQ(receipt.closed_epoch, Epoch{3});
  EXPECT_EQ(receipt.closed_sequence, Sequence{1});
  const ClaimReceipt again = claim_receipt_of(claim(s, 4, kB, "beta"));
  EXPECT_EQ(again.claim_id, kB);
  EXPECT_EQ(again.closed_epoch, Epoch{3});
  EXPECT_EQ(again.closed_sequence, Sequence{1});

  const auto owner = owner_of(s);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->token, (Token{to_text(kHistory), Epoch{4}, to_text(kB)}));
  EXPECT_EQ(owner->name, "beta");
  EXPECT_EQ(owner->host, "host1");
  EXPECT_EQ(owner->pid, 42);
  const StreamStat stat = stat_of(s);
  EXPECT_EQ(stat.epoch, Epoch{4});
  EXPECT_EQ(stat.claim_id, kB);
  EXPECT_EQ(stat.last_sequence, Sequence{0});
  EXPECT_EQ(stat.owner.why, "open");
  EXPECT_EQ(stat.claimed_ms, 8);
  EXPECT_EQ(stat.floor, Epoch{4});
  EXPECT_EQ(stat.newest_claim, kB);
  EXPECT_EQ(stat.claims_since_data, 1u);
  EXPECT_EQ(stat.recent_contenders, (std::vector<std::string>{"alpha", "beta"}));
}

TEST(FenceView, ARefusalCarriesItsDetails) {
  StreamState s = made();
  ASSERT_TRUE(claim(s, 1, kA).ok());
  ASSERT_TRUE(apply(s, next_append(s)).ok());
  AppendCommand late = next_append(s);
  ASSERT_TRUE(claim(s, 2, kB, "beta").ok());
  late.next = Position{s.tail.high + 1, 0};
  const Refusal closed = refusal_of("app", s, apply(s, late), *late.epoch);
  EXPECT_EQ(closed.outcome, Outcome::epoch_closed);
  EXPECT_EQ(closed.applied, Applied::no);
  EXPECT_EQ(closed.closed_sequence, Sequence{1});
  ASSERT_TRUE(closed.current);
  EXPECT_EQ(closed.current->name, "beta");
  for (const char* part : {"Epoch 1", "'app'", "'beta'", "epoch 2", "sequence 1", "not applied"}) {
    EXPECT_NE(closed.message.find(part), std::string::npos) << part << " in: " << closed.message;
  }
  AppendCommand skips = next_append(s);
  skips.sequence = Sequence{5};
  const Refusal gap = refusal_of("app", s, apply(s, skips), *skips.epoch);
  EXPECT_EQ(gap.expected_sequence, Sequence{1});
  EXPECT_FALSE(gap.closed_sequence);
}

// Where DuckLake reads messages it tries again on these words: no outcome's text may have one (fence.md, "Outcomes").
TEST(FenceView, NoMessageHasAWordThatClientsRetryOn) {
  StreamState s = full_state();
  for (int outcome = 0; outcome <= static_cast<int>(Outcome::quota); ++outcome) {
    for (int why = 0; why <= static_cast<int>(Why::position); ++why) {
      Decision d;
      d.outcome = static_cast<Outcome>(outcome);
      d.why = static_cast<Why>(why);
      const std::string message = refusal_of("app", s, d, Epoch{1}).message;
      EXPECT_GT(message.size(), 20u);
      EXPECT_EQ(message.back(), '.') << message;
      for (const char* word : {"conflict", "concurrent", "unique", "primary key"}) EXPECT_EQ(message.find(word), std::string::npos) << message;
    }
  }
}

TEST(FenceView, ReadsAreRefusedFromReadFencedOn) {
  StreamState s = made();
  EXPECT_FALSE(read_refusal(s));
  s.namespace_fence = NamespaceFence::write_fenced;
  EXPECT_FALSE(read_refusal(s));
  s.namespace_fence = NamespaceFence::read_fenced;
  EXPECT_EQ(read_refusal(s), Outcome::read_fenced);
  s.namespace_fence = NamespaceFence::quarantined;
  EXPECT_EQ(read_refusal(s), Outcome::quarantined);
  s.namespace_fence = NamespaceFence::unavailable;
  EXPECT_EQ(read_refusal(s), Outcome::fence_unavailable);
}

TEST(FenceTime, AProposerNeverRunsAheadNorBack) {
  EXPECT_EQ(proposed_time(1000, 0, 500), 1000);                                // behind: state time
  EXPECT_EQ(proposed_time(1000, 0, 2000), 2000);                               // a little ahead: its clock
  EXPECT_EQ(proposed_time(1000, 0, 10'000'000), 1000 + kMaxTimeAheadMs);       // far ahead: at most 60 s
  EXPECT_EQ(proposed_time(1000, 500'000, 10'000'000), 501'000 + kMaxTimeAheadMs);  // plus what really passed
  EXPECT_EQ(proposed_time(1000, -5, 10'000'000), 1000 + kMaxTimeAheadMs);
}

}  // namespace
}  // namespace onepen::core
