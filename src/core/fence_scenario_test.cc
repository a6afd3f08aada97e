// Runs tests/scenarios/fence/*.txt against the fence.
//
// Commands (ids are names: claim=A, incarnation=i1, digest=d1, commit=k1; positions are numbers, the next one is taken when at= is missing):
//   create   incarnation= kind=plain|fence-required type= max-append= max-bytes= closed at= time=
//   claim    epoch= id= over=<id|none> if-tail= incarnation=<none by default> producer= digest= name= why= time= at=
//   append   [data|control|snapshot] epoch= id= seq= digest= size= producer= incarnation=<the stream's by default> if-tail= close type= stream-seq= fence= time= at= count=
//            on a plain stream id= and incarnation= are absent unless given; none= leaves a key out (none=incarnation)
//   commit   epoch= id= commit= if-tail= digest= ...          a positional append
//   change   snapshot|trim|configure|remove|fork|suspect epoch= id= at= if-tail= ...
//   admin    remove|restore|recover|accept-loss|adopt incarnation= tail= next= next-tail= floor= time=
//   sweep    time=
//   become-fork incarnation= at=      the state is now that of a fork
//   restart                           encode, decode, go on
//   show                              the state in words
//   message                           what a person reads about the last refusal
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/checksum.h"
#include "core/fence.h"
#include "core/fence_codec.h"
#include "core/fence_view.h"
#include "support/scenario.h"

namespace onepen::core {
namespace {
using onepen::testing::ScenarioStep;

std::string why_word(Why why) {
  static constexpr const char* kWords[] = {"none",
                                           "malformed",
                                           "size-limit",
                                           "quota",
                                           "producer-limit",
                                           "absent",
                                           "removed",
                                           "no-producer",
                                           "other-producer",
                                           "no-claim-id",
                                           "no-incarnation",
                                           "other-incarnation",
                                           "not-fenced-stream",
                                           "suspect",
                                           "evidence",
                                           "epoch-old",
                                           "epoch-jump",
                                           "epoch-skips-start",
                                           "other-claim",
                                           "base-claimed",
                                           "no-owner",
                                           "claim-not-higher",
                                           "same-bytes",
                                           "no-receipt",
                                           "other-bytes",
                                           "gap",
                                           "namespace-fence",
                                           "tail-moved",
                                           "closed",
                                           "content-type",
                                           "stream-seq",
                                           "configuration",
                                           "position"};
  return kWords[static_cast<std::size_t>(why)];
}

class Machine {
 public:
  std::string answer(const ScenarioStep& step) {
    const StreamState before = state_;
    const std::string text = carry_out(step);
    // A refusal changes nothing but state time and the suspect mark; and what apply() made can be saved and read back.
    if (decided_ && !last_.changed) {
      StreamState same = before;
      same.time_ms = state_.time_ms;
      EXPECT_TRUE(same == state_ || step.get("time") != "") << "line " << step.line << ": a refusal changed the state";
    }
    return text;
  }

 private:
  // ---- names
  template <class Id>
  Id id(const std::string& name) {
    if (name == "none") return Id{};
    Id value{xxh3(as_bytes(name)), 1};
    names_[{value.hi, value.lo}] = name;
    return value;
  }
  template <class Id>
  std::string name(Id value) const {
    if (value.nil()) return "none";
    const auto found = names_.find({value.hi, value.lo});
    return found == names_.end() ? "?" : found->second;
  }
  static Digest digest(const ScenarioStep& step, const std::string& otherwise) { return Digest{xxh3(as_bytes(step.get("digest", otherwise)))}; }
  Position next(const ScenarioStep& step) const {
    return step.has("at") ? Position{state_.tail.high, step.number("at")} : Position{state_.tail.high, state_.tail.low + 1};
  }
  std::int64_t time(const ScenarioStep& step) const { return static_cast<std::int64_t>(step.number("time")); }
  std::optional<Position> if_tail(const ScenarioStep& step) const {
    if (!step.has("if-tail")) return std::nullopt;
    return Position{state_.tail.high, step.number("if-tail")};
  }
  bool plain() const { return state_.config.kind == StreamKind::plain; }
  static bool leaves_out(const ScenarioStep& step, const std::string& key) { return step.get("none") == key; }
  std::optional<Incarnation> incarnation(const ScenarioStep& step) {
    if (step.has("incarnation")) return id<Incarnation>(step.get("incarnation"));
    if (plain() || leaves_out(step, "incarnation")) return std::nullopt;
    return state_.incarnation;
  }
  bool has_word(const ScenarioStep& step, const std::string& word) const { return std::find(step.words.begin(), step.words.end(), word) != step.words.end(); }

  // ---- commands
  std::string carry_out(const ScenarioStep& step) {
    decided_ = true;
    if (step.command == "create") return decide(create(step), 0);
    if (step.command == "claim") return claims(step);
    if (step.command == "append" || step.command == "commit") return appends(step);
    if (step.command == "change") return change(step);
    if (step.command == "admin") return admin(step);
    if (step.command == "sweep") return decide(SweepCommand{time(step)}, 0);
    decided_ = false;
    if (step.command == "become-fork") {
      state_ = forked(state_, id<Incarnation>(step.get("incarnation")), Position{0, step.number("at")}, time(step));
      return "ok";
    }
    if (step.command == "restart") return restart();
    if (step.command == "show") return show();
    if (step.command == "message") return refusal_of("app", state_, last_, ours_).message;
    return "there is no command " + step.command;
  }

  CreateCommand create(const ScenarioStep& step) {
    CreateCommand c;
    c.incarnation = id<Incarnation>(step.get("incarnation", "i1"));
    c.config.kind = step.get("kind") == "plain" ? StreamKind::plain : StreamKind::fence_required;
    c.config.content_type = step.get("type");
    c.config.max_append_bytes = step.number("max-append");
    c.config.max_stream_bytes = step.number("max-bytes");
    c.closed = has_word(step, "closed");
    c.tail = Position{0, step.number("at")};
    c.time_ms = time(step);
    return c;
  }

  std::string claims(const ScenarioStep& step) {
    std::string text;
    const std::uint64_t count = step.number("count", 1);
    for (std::uint64_t i = 0; i < count; ++i) {
      ClaimCommand c;
      c.producer = step.has("producer") ? std::string_view(step.args.at("producer")) : kOwnerProducer;
      if (step.has("incarnation")) c.incarnation = id<Incarnation>(step.get("incarnation"));
      c.epoch = Epoch{step.number("epoch") + i};
      c.claim_id = id<ClaimId>(count == 1 ? step.get("id") : step.get("id") + std::to_string(c.epoch.value));
      if (step.has("over")) c.over = id<ClaimId>(step.get("over"));
      c.if_tail = if_tail(step);
      c.digest = digest(step, step.get("id"));
      c.next = next(step);
      c.time_ms = time(step);
      c.owner.name = step.get("name", step.get("id"));
      c.owner.host = "h";
      c.owner.pid = 7;
      c.owner.why = step.get("why");
      text = decide(c, c.epoch.value);
    }
    return text;
  }

  std::string appends(const ScenarioStep& step) {
    const std::string producer = step.get("producer", plain() ? "" : std::string(kOwnerProducer));
    const std::string type = step.get("type"), stream_seq = step.get("stream-seq");
    std::string text;
    for (std::uint64_t i = 0; i < step.number("count", 1); ++i) {
      AppendCommand c;
      c.kind = has_word(step, "control") ? RecordKind::control : has_word(step, "snapshot") ? RecordKind::snapshot : RecordKind::data;
      if (!leaves_out(step, "producer")) c.producer = producer;
      c.incarnation = incarnation(step);
      if (step.has("epoch")) c.epoch = Epoch{step.number("epoch")};
      if (step.has("seq")) c.sequence = Sequence{step.number("seq") + i};
      if (step.has("id")) c.claim_id = id<ClaimId>(step.get("id"));
      if (step.has("commit")) c.commit = id<CommitId>(step.get("commit") + (i == 0 ? "" : std::to_string(i)));
      c.if_tail = if_tail(step);
      if (step.command == "commit" && !c.if_tail && !leaves_out(step, "if-tail")) c.if_tail = state_.tail;
      c.size = step.number("size", 1);
      c.digest = digest(step, fmt::format("{}/{}", step.number("epoch"), step.number("seq") + i));
      c.next = next(step);
      c.time_ms = time(step);
      c.close = has_word(step, "close");
      c.content_type = type;
      c.stream_seq = stream_seq;
      if (step.has("fence")) c.namespace_fence = fence_named(step.get("fence"));
      text = decide(c, step.number("epoch"));
    }
    return text;
  }

  static NamespaceFence fence_named(const std::string& word) {
    if (word == "write-fenced") return NamespaceFence::write_fenced;
    if (word == "read-fenced") return NamespaceFence::read_fenced;
    if (word == "quarantined") return NamespaceFence::quarantined;
    if (word == "unavailable") return NamespaceFence::unavailable;
    return NamespaceFence::open;
  }

  std::string change(const ScenarioStep& step) {
    static const std::map<std::string, Change> kChanges = {{"snapshot", Change::snapshot}, {"trim", Change::trim}, {"configure", Change::configure},
                                                           {"remove", Change::remove},     {"fork", Change::fork}, {"suspect", Change::report_suspect}};
    ChangeCommand c{kChanges.at(step.words.at(0))};
    const std::string producer = step.get("producer", plain() ? "" : std::string(kOwnerProducer));
    c.producer = producer;
    c.incarnation = incarnation(step);
    if (step.has("epoch")) c.epoch = Epoch{step.number("epoch")};
    if (step.has("id")) c.claim_id = id<ClaimId>(step.get("id"));
    c.if_tail = if_tail(step);
    c.at = Position{state_.tail.high, step.number("at")};
    c.freed_bytes = step.number("freed");
    if (c.change == Change::configure) c.config = create(step).config;
    c.keep_for_forks = has_word(step, "soft");
    c.time_ms = time(step);
    return decide(c, step.number("epoch"));
  }

  std::string admin(const ScenarioStep& step) {
    static const std::map<std::string, AdminAct> kActs = {{"remove", AdminAct::remove},
                                                          {"restore", AdminAct::restore},
                                                          {"recover", AdminAct::forced_recovery},
                                                          {"accept-loss", AdminAct::accept_loss},
                                                          {"adopt", AdminAct::adopt}};
    AdminCommand c{kActs.at(step.words.at(0)), id<Incarnation>(step.get("incarnation", "i1")), Position{state_.tail.high, step.number("tail")}};
    if (step.has("next")) c.next_incarnation = id<Incarnation>(step.get("next"));
    c.next_tail = Position{state_.tail.high, step.number("next-tail", step.number("tail"))};
    c.floor = Epoch{step.number("floor")};
    c.keep_for_forks = has_word(step, "soft");
    c.time_ms = time(step);
    return decide(c, 0);
  }

  std::string restart() {
    auto back = decode_stream_state(encode(state_));
    if (!back) return back.error().message;
    const bool same = *back == state_;
    state_ = std::move(*back);
    return same ? "ok" : "the state did not survive";
  }

  // ---- answers
  template <class C>
  std::string decide(const C& command, std::uint64_t ours) {
    ours_ = Epoch{ours};
    last_ = apply(state_, command);
    const Decision& d = last_;
    std::string text(word(d.outcome));
    if (d.outcome != Outcome::applied) text += fmt::format(" ({})", why_word(d.why));
    if (d.epoch.value != 0 || !d.claim_id.nil()) text += fmt::format(" epoch={} claim={} last={}", d.epoch.value, name(d.claim_id), d.last.value);
    if (d.receipt) text += fmt::format(" at={}", d.receipt->low);
    if (d.outcome == Outcome::epoch_closed) {
      text += fmt::format(" applied={}", d.applied == Applied::yes ? "true" : d.applied == Applied::no ? "false" : "unknown");
      text += d.closed_sequence ? fmt::format(" closed-seq={}", d.closed_sequence->value) : "";
    } else if (d.closed_sequence) {
      text += fmt::format(" closed={}/{}", d.closed_epoch.value, d.closed_sequence->value);
    }
    if (d.expected) text += fmt::format(" expected={}", d.expected->value);
    if (d.received) text += fmt::format(" received={}", d.received->value);
    if (d.outcome == Outcome::base_mismatch || d.outcome == Outcome::closed) text += fmt::format(" tail={}", d.tail.low);
    if (d.outcome == Outcome::incarnation_changed) text += " incarnation=" + name(d.incarnation);
    return text;
  }

  std::string show() const {
    const StreamState& s = state_;
    static constexpr const char* kPresence[] = {"absent", "present", "deleted", "soft-deleted"};
    std::string text = fmt::format("{} incarnation={} start={} snapshot={} tail={} bytes={} time={}", kPresence[static_cast<std::size_t>(s.presence)],
                                   name(s.incarnation), s.start.low, s.snapshot.low, s.tail.low, s.stored_bytes, s.time_ms);
    if (s.closed) text += " closed";
    if (s.suspect) text += " suspect";
    if (!plain()) {
      text += fmt::format("\nfloor={} {} last={} newest-claim={} closed-epochs={} receipts={} commits={} known-from={}", s.owner.epoch.value,
                          s.owner.live ? "owner=" + s.owner_info.name : "no-owner", s.owner.last.value, name(s.newest_claim), s.owner.closed.size(),
                          s.owner.receipts.size(), s.owner.commits.size(), s.owner.known_from.value);
      text += fmt::format("\nchanges-since-data={} contenders={}", s.claims_since_data, fmt::join(s.contenders, ","));
    }
    std::map<std::string, const Producer*> sorted;
    for (const auto& [key, producer] : s.producers) sorted[key] = &producer;
    for (const auto& [key, p] : sorted) {
      text += fmt::format("\nproducer {} floor={} {} last={} receipts={} closed-epochs={}", key, p->epoch.value, p->live ? "live" : "idle", p->last.value,
                          p->receipts.size(), p->closed.size());
    }
    return text;
  }

  StreamState state_;
  Decision last_;
  Epoch ours_;
  bool decided_ = false;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> names_;
};

onepen::testing::Answer make_machine() {
  auto machine = std::make_shared<Machine>();
  return [machine](const ScenarioStep& step) { return machine->answer(step); };
}

class FenceScenario : public ::testing::TestWithParam<std::string> {};
TEST_P(FenceScenario, Holds) { onepen::testing::run_scenario(GetParam(), make_machine); }

INSTANTIATE_TEST_SUITE_P(Files, FenceScenario, ::testing::ValuesIn(onepen::testing::scenario_files(ONEPEN_SOURCE_DIR "/tests/scenarios/fence")),
                         [](const auto& file) { return onepen::testing::scenario_case(file.param); });

TEST(FenceScenarios, AreThere) { EXPECT_GE(onepen::testing::scenario_files(ONEPEN_SOURCE_DIR "/tests/scenarios/fence").size(), 30u); }

}  // namespace
}  // namespace onepen::core
