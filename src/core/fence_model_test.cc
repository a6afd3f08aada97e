// Random commands against a model that is too simple to be wrong (fence_model_testing.h).
// Checked after each step: the outcome, the fate told with epoch-closed, the receipt; and on what was applied I1, I2, I3 and I5, whatever the model says.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/guard.h"
#include "core/fence.h"
#include "core/fence_codec.h"
#include "core/fence_model_testing.h"

namespace onepen::core {
namespace {

struct Op {
  int kind = 0, epoch = 0, who = 0, sequence = 0, bytes = 0, more = 0;
};
void showValue(const Op& op, std::ostream& out) {
  out << "{" << op.kind << "," << op.epoch << "," << op.who << "," << op.sequence << "," << op.bytes << "," << op.more << "}";
}

using naive::Expected;
using naive::Model;
using naive::Record;

std::map<std::string, int> reached;  // how often each answer came, over all runs

class Duel {
 public:
  Duel() { RC_ASSERT(apply(state_, CreateCommand{model_.incarnation, {}, false, {}, 0}).outcome == Outcome::applied); }

  void step(const Op& op) {
    switch (op.kind) {
      case 0:
      case 1:
      case 2: append(op); break;
      case 3: burst(op); break;
      case 4: positional(op); break;
      case 5: claim(op); break;
      case 6: admin(op); break;
      default: restart(); break;
    }
    if (++steps_ % 4 == 0) check_history();
  }

 private:
  // Epochs around the floor, claim ids of everybody who ever claimed and one stranger.
  Epoch epoch_of(int choice) const {
    const std::uint64_t floor = model_.floor.value;
    if (choice < 6) return {floor};
    if (choice < 9) return {floor > static_cast<std::uint64_t>(choice - 5) ? floor - static_cast<std::uint64_t>(choice - 5) : 1};
    return {floor + (choice == 11 ? 3 : 1)};
  }
  ClaimId claim_of(Epoch epoch, int choice) const {
    if (choice < 8) {
      for (const Record& r : model_.log) {
        if (r.claim && r.epoch == epoch) return r.claim_id;
      }
    }
    return ClaimId{77, static_cast<std::uint64_t>(choice)};
  }
  Position next() const { return {0, model_.tail.low + 1}; }

  AppendCommand base(const Op& op) const {
    AppendCommand c;
    c.producer = kOwnerProducer;
    c.incarnation = op.more == 0 ? Incarnation{9, 9} : model_.incarnation;
    // A far future epoch would end most runs at once: it is taken rarely.
    c.epoch = op.epoch >= 9 && op.more != 1 ? model_.floor : epoch_of(op.epoch);
    c.claim_id = claim_of(*c.epoch, op.who);
    c.digest = Digest{static_cast<std::uint64_t>(op.bytes < 6 ? 0 : op.bytes)};
    c.size = 1;
    c.next = next();
    return c;
  }
  void append(const Op& op) {
    AppendCommand c = base(op);
    const std::uint64_t last = model_.last(*c.epoch).value;
    const std::uint64_t back = static_cast<std::uint64_t>(op.sequence) - 6;  // of 7 to 9: one of the last
    c.sequence = Sequence{op.sequence < 7     ? last + 1
                          : op.sequence == 10 ? 1
                          : op.sequence == 11 ? last + 3
                                              : std::max<std::uint64_t>(1, last - std::min(last, back))};
    c.digest.value += c.sequence->value * 100;
    send(c);
  }
  void burst(const Op& op) {
    const Record* owner = model_.owner();
    if (owner == nullptr || op.more > 1) return append(op);
    for (int i = 0; i < 100 * op.sequence; ++i) {
      AppendCommand c = base(Op{});
      c.incarnation = model_.incarnation;
      c.epoch = model_.floor;
      c.claim_id = model_.owner() ? model_.owner()->claim_id : ClaimId{};
      c.sequence = Sequence{model_.last(*c.epoch).value + 1};
      c.digest = Digest{c.sequence->value * 100};
      send(c);
    }
  }
  void positional(const Op& op) {
    AppendCommand c = base(op);
    c.commit = CommitId{5, static_cast<std::uint64_t>(op.sequence) + (op.more > 6 ? model_.log.size() : 0) + 1};
    c.if_tail = op.more == 2 ? Position{} : model_.tail;
    send(c);
  }
  void send(const AppendCommand& c) {
    const Expected e = expect(model_, c);
    const Decision d = apply(state_, c);
    compare(e, d);
    if (e.outcome == Outcome::fence_unavailable && c.incarnation == model_.incarnation) model_.suspect = true;
    if (d.outcome != Outcome::applied) return;
    model_.log.push_back({false, model_.incarnation, *c.epoch, c.claim_id, c.sequence, c.commit, c.digest, c.next, {}});
    model_.tail = c.next;
  }
  void claim(const Op& op) {
    ClaimCommand c;
    c.epoch = op.bytes > 10 ? Epoch{model_.floor.value + kMaxEpochJump + 1} : Epoch{epoch_of(op.sequence).value + (op.sequence < 4 ? 1u : 0u)};
    c.claim_id = op.who < 4 ? claim_of(c.epoch, 0) : ClaimId{3, ++drawn_};
    if (op.more < 3) c.over = op.more == 0 ? ClaimId{} : op.more == 1 ? model_.newest_claim : claim_of(epoch_of(op.epoch), 0);
    if (op.bytes == 9) c.if_tail = Position{};
    if (op.bytes == 8) c.incarnation = Incarnation{9, 9};
    c.digest = Digest{c.claim_id.lo + (op.bytes == 7 ? 1u : 0u)};
    c.next = next();
    const Expected e = expect(model_, c);
    const Record* closes = model_.owner();
    const std::pair<Epoch, Sequence> closed = closes ? std::pair(closes->epoch, model_.last(closes->epoch)) : std::pair<Epoch, Sequence>{};
    const Decision d = apply(state_, c);
    compare(e, d);
    if (d.outcome == Outcome::duplicate) RC_ASSERT(std::pair(d.closed_epoch, *d.closed_sequence) == closes->closed);
    if (d.outcome != Outcome::applied) return;
    RC_ASSERT(std::pair(d.closed_epoch, *d.closed_sequence) == closed);
    model_.log.push_back({true, model_.incarnation, c.epoch, c.claim_id, Sequence{0}, {}, c.digest, c.next, closed});
    model_.tail = c.next;
    model_.floor = c.epoch;
    model_.newest_claim = c.claim_id;
  }
  void admin(const Op& op) {
    if (!model_.suspect && op.more > 3) return;
    AdminCommand c{op.sequence < 3 && !model_.suspect ? AdminAct::restore : AdminAct::adopt, model_.incarnation, model_.tail};
    c.next_incarnation = Incarnation{2, ++drawn_};
    c.next_tail = c.act == AdminAct::restore && model_.tail.low > 2 ? Position{0, model_.tail.low - 2} : model_.tail;
    c.floor = Epoch{model_.floor.value + (op.bytes == 1 ? 2u : 0u)};
    RC_ASSERT(apply(state_, c).outcome == Outcome::applied);
    std::erase_if(model_.log, [&](const Record& r) { return r.next > c.next_tail; });
    model_.fate_unknown = std::max(model_.fate_unknown, c.floor);
    model_.floor = c.floor;
    model_.incarnation = c.next_incarnation;
    model_.tail = c.next_tail;
    model_.suspect = false;
  }
  void restart() {
    const Bytes bytes = encode(state_);
    auto back = decode_stream_state(bytes);
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == state_);
    RC_ASSERT(encode(*back) == bytes);
    state_ = std::move(*back);
  }
  void compare(const Expected& e, const Decision& d) const {
    RC_ASSERT(d.outcome == e.outcome);
    ++reached[std::string(word(d.outcome)) + (d.outcome != Outcome::epoch_closed ? d.outcome == Outcome::duplicate && !d.receipt ? " without receipt" : ""
                                              : d.applied == Applied::yes        ? " true"
                                              : d.applied == Applied::no         ? " false"
                                                                                 : " unknown")];
    RC_ASSERT(d.tail == state_.tail);
    if (e.outcome == Outcome::epoch_closed) RC_ASSERT(d.applied == e.fate || (d.applied == Applied::unknown && e.may_be_unknown));
    if (e.receipt && !e.may_lack_receipt) RC_ASSERT(d.receipt == e.receipt);  // the same answer for ever
    if (e.may_lack_receipt) RC_ASSERT(!d.receipt);
  }
  // I1, I2, I3, I5 of what was applied, without asking the model's rules.
  void check_history() const {
    Epoch epoch;
    Position before;
    std::map<std::uint64_t, ClaimId> holder;
    std::set<std::tuple<Epoch, std::optional<Sequence>, CommitId>> seen;
    for (const Record& r : model_.log) {
      RC_ASSERT(r.epoch >= epoch);              // I1, and I2: a claim is a record, nothing older comes after it
      RC_ASSERT(r.next > before);
      RC_ASSERT(seen.emplace(r.epoch, r.sequence, r.commit).second || !r.commit.nil());  // I3: never twice
      const auto [at, fresh] = holder.emplace(r.epoch.value, r.claim_id);
      RC_ASSERT(at->second == r.claim_id);      // I5: one claim id per epoch, over all incarnations
      RC_ASSERT(fresh == r.claim);              // an epoch begins with its claim
      epoch = r.epoch;
      before = r.next;
    }
    RC_ASSERT(state_.tail == model_.tail);
    RC_ASSERT(state_.owner.epoch == model_.floor);
    RC_ASSERT(state_.suspect == model_.suspect);
  }

  StreamState state_;
  Model model_;
  std::uint64_t drawn_ = 0, steps_ = 0;
};

rc::Gen<Op> ops() {
  const auto small = [](int below) { return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, below)); };
  return rc::gen::build<Op>(rc::gen::set(&Op::kind, small(8)), rc::gen::set(&Op::epoch, small(12)), rc::gen::set(&Op::who, small(10)),
                            rc::gen::set(&Op::sequence, small(12)), rc::gen::set(&Op::bytes, small(12)), rc::gen::set(&Op::more, small(10)));
}

TEST(FenceModel, EveryAnswerIsTheNaiveModelsAnswer) {
  EXPECT_TRUE(rc::check("random commands, one fence-required stream", [] {
    const auto script = *rc::gen::container<std::vector<Op>>(static_cast<std::size_t>(*rc::gen::inRange(1, 200)), ops());
    Duel duel;
    for (const Op& op : script) duel.step(op);
  }));
}

// A fixed run of random scripts; also the mutation check: the same scripts must find a difference when any one guard is off.
bool holds_for(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  try {
    Duel duel;
    for (int i = 0; i < 200; ++i) duel.step(Op{below(8), below(12), below(10), below(12), below(12), below(10)});
  } catch (const rc::detail::CaseResult&) {
    return false;
  }
  return true;
}
constexpr unsigned kScripts = 150;

TEST(FenceModel, ThirtyThousandStepsReachEveryAnswer) {
  reached.clear();
  for (unsigned seed = 1; seed <= kScripts; ++seed) ASSERT_TRUE(holds_for(seed)) << "script " << seed;
  for (const char* answer : {"applied", "duplicate", "duplicate without receipt", "epoch-closed true", "epoch-closed false", "epoch-closed unknown", "cloned",
                             "fence-required", "sequence-gap", "incarnation-changed", "base-mismatch", "fence-unavailable", "invalid", "content-mismatch"}) {
    EXPECT_GT(reached[answer], 0) << answer;
  }
}

class FenceModelMutation : public ::testing::TestWithParam<Guard> {};
TEST_P(FenceModelMutation, IsFound) {
  set_guard(GetParam(), false);
  unsigned seed = 1;
  while (seed <= kScripts && holds_for(seed)) ++seed;
  set_guard(GetParam(), true);
  EXPECT_LE(seed, kScripts) << "no script notices that " << guard_name(GetParam()) << " is off";
}
INSTANTIATE_TEST_SUITE_P(EveryGuard, FenceModelMutation,
                         ::testing::Values(Guard::fence_epoch, Guard::fence_claim_id, Guard::fence_sequence, Guard::fence_duplicate, Guard::fence_incarnation,
                                           Guard::claim_conditional, Guard::claim_rises),
                         [](const auto& tested) { return std::string(guard_name(tested.param)); });

// ---- plain producers: the table of the base protocol, row by row, with every append kept
struct PlainAppend {
  Epoch epoch;
  Sequence sequence;
  Position next;
  std::int64_t time_ms;
};

struct PlainExpected {
  Outcome outcome;
  std::optional<Sequence> expected{};
  std::optional<Position> receipt{};
};

PlainExpected expect_plain(const std::vector<PlainAppend>& mine, std::int64_t now, Epoch epoch, Sequence sequence) {
  const PlainExpected gap_from_start{Outcome::sequence_gap, Sequence{0}};
  if (mine.empty()) return sequence.value == 0 ? PlainExpected{Outcome::applied} : gap_from_start;
  const PlainAppend& newest = mine.back();
  if (epoch < newest.epoch) return {Outcome::epoch_closed};
  if (now - newest.time_ms > kProducerIdleMs) {
    if (sequence.value != 0) return gap_from_start;
    return {epoch == newest.epoch ? Outcome::epoch_closed : Outcome::applied};
  }
  if (epoch > newest.epoch) return {sequence.value == 0 ? Outcome::applied : Outcome::invalid};
  for (const PlainAppend& a : mine) {
    if (a.epoch == epoch && a.sequence == sequence) return {Outcome::duplicate, {}, a.next};
  }
  if (sequence.value == newest.sequence.value + 1) return {Outcome::applied};
  return {Outcome::sequence_gap, Sequence{newest.sequence.value + 1}};
}

TEST(FenceModel, PlainProducersFollowTheBaseProtocol) {
  EXPECT_TRUE(rc::check("random appends of three plain producers", [] {
    const auto script = *rc::gen::container<std::vector<Op>>(static_cast<std::size_t>(*rc::gen::inRange(1, 300)), ops());
    StreamState state;
    RC_ASSERT(apply(state, CreateCommand{{1, 1}, {StreamKind::plain, {}, 0, 0}, false, {}, 0}).ok());
    std::map<std::string, std::vector<PlainAppend>> all;
    std::int64_t now = 0;
    for (const Op& op : script) {
      now += op.more == 0 ? kProducerIdleMs / 2 + 1 : 1;
      if (op.kind == 7) RC_ASSERT(apply(state, SweepCommand{now}).ok());
      const std::string producer(1, static_cast<char>('p' + op.who % 3));
      std::vector<PlainAppend>& mine = all[producer];
      AppendCommand c;
      c.producer = producer;
      const std::uint64_t epoch = mine.empty() ? 0 : mine.back().epoch.value, last = mine.empty() ? 0 : mine.back().sequence.value;
      c.epoch = Epoch{op.epoch < 8 ? epoch : op.epoch < 10 ? epoch + 1 : epoch - std::min<std::uint64_t>(epoch, 1)};
      c.sequence = Sequence{op.sequence < 6 ? last + 1 : op.sequence < 8 ? 0 : op.sequence < 10 ? last : last + 2};
      c.size = 1;
      c.digest = Digest{static_cast<std::uint64_t>(op.bytes)};
      c.next = Position{0, state.tail.low + 1};
      c.time_ms = now;
      const PlainExpected e = expect_plain(mine, now, *c.epoch, *c.sequence);
      const Decision d = apply(state, c);
      RC_ASSERT(d.outcome == e.outcome);
      RC_ASSERT(d.expected == e.expected);
      if (d.outcome == Outcome::duplicate) RC_ASSERT(d.receipt == e.receipt && d.last == mine.back().sequence);
      if (d.outcome == Outcome::epoch_closed) RC_ASSERT(d.epoch == mine.back().epoch);
      if (d.outcome == Outcome::applied) mine.push_back({*c.epoch, *c.sequence, c.next, now});
      if (op.kind == 6) {
        auto back = decode_stream_state(encode(state));
        RC_ASSERT(back.has_value() && *back == state);
        state = std::move(*back);
      }
    }
  }));
}

}  // namespace
}  // namespace onepen::core
