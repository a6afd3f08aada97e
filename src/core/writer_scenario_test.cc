// tests/scenarios/writer/*.txt: events of the owner's machine, and the effects it answers with.
//
//   claim seen=3 [over=nil|other] [tail=o9] [rate=2, of objects a second]     claim-ok [id=other] [closed=1/5]      claim-no <outcome> [owner=5]     not-written     not-found
//   queue a b !ready                            batch-ok o1 o2                        batch-no <outcome> [applied=yes|unknown] [closed=4] [expected=7] [owner=5] [floor=2]
//   stat-ok [epoch=] [last=] [id=other] [history=other]     stat-no <outcome>
//   read-ok [ours:2=text ...] [claim:5] [next=o4] [more]    read-no <outcome>
//   confirm 1 after=2    give-up unresolved    withdraw 2    wait ms=20    late-batch-ok (an answer nobody waits for)
// queue: `!` marks a control record. Claim ids are printed c<n>, attempts p<n>, by the step that drew them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/outcomes.h"
#include "core/writer.h"
#include "support/scenario.h"

namespace onepen::core {
namespace {

using testing::ScenarioStep;

constexpr Incarnation kHistory{1, 1};
constexpr ClaimId kOther{0, 999};

std::optional<Outcome> outcome_named(const std::string& text) {
  for (const OutcomeRow& row : outcome_table()) {
    if (row.word == text) return row.outcome;
  }
  return {};
}

class Machine {
 public:
  std::string operator()(const ScenarioStep& step) {
    ++steps_;
    if (step.has("rate")) writer_ = Writer(config(static_cast<double>(step.number("rate"))));
    if (step.command == "wait") now_ += std::chrono::milliseconds(step.number("ms"));
    const auto event = event_of(step);
    if (!event) return "no such command, or a word it does not know";
    const Moment moment{now_, 1'700'000'000'000, ClaimId{0, steps_}, PutId{0, steps_}, kHistory};
    return print(writer_.step(moment, *event));
  }

 private:
  static Owner owner(std::uint64_t epoch) { return Owner{Token{to_text(kHistory), Epoch{epoch}, to_text(kOther)}, "", "b", "", 4711}; }

  Refusal refusal(const ScenarioStep& step, Outcome outcome) const {
    Refusal refusal{outcome, std::string(word(outcome))};
    if (step.has("owner")) refusal.current = owner(step.number("owner"));
    if (step.has("closed")) refusal.closed_sequence = Sequence{step.number("closed")};
    if (step.has("expected")) refusal.expected_sequence = Sequence{step.number("expected")};
    if (step.has("floor")) refusal.floor = Epoch{step.number("floor")};
    if (step.get("applied") == "yes") refusal.applied = Applied::yes;
    if (step.get("applied") == "unknown") refusal.applied = Applied::unknown;
    return refusal;
  }

  ClaimId our_claim() const {
    const auto* claiming = std::get_if<Claiming>(&writer_.state());
    return claiming != nullptr ? claiming->request.claim_id : writer_.claim_id();
  }

  std::optional<Event> event_of(const ScenarioStep& step) {
    const std::string& command = step.command;
    if (command.ends_with("-no")) {
      const auto outcome = step.words.empty() ? std::nullopt : outcome_named(step.words[0]);
      if (!outcome) return {};
      const auto no = tl::unexpected(refusal(step, *outcome));
      if (command == "claim-no") return ClaimAnswered{no};
      if (command == "batch-no") return BatchAnswered{no};
      if (command == "stat-no") return StatAnswered{no};
      if (command == "read-no") return ReadAnswered{no};
      return {};
    }
    if (command == "claim") return claim(step);
    if (command == "claim-ok") return claim_ok(step);
    if (command == "not-written") return ClaimNotWritten{Error{Outcome::unavailable, "the claim log is on a full disk", {}}};
    if (command == "not-found") return ClaimNotFound{};
    if (command == "queue") return queue(step);
    if (command == "confirm") return Queued{{}, {Confirm{std::stoull(step.words.at(0)), step.number("after")}}};
    if (command == "batch-ok" || command == "late-batch-ok") {
      AppendReceipt receipt;
      for (const std::string& text : step.words) receipt.offsets.push_back(Offset{text});
      return BatchAnswered{receipt};
    }
    if (command == "stat-ok") return stat_ok(step);
    if (command == "read-ok") return read_ok(step);
    if (command == "withdraw") return Withdraw{std::stoull(step.words.at(0)), Error{Outcome::unavailable, "taken back", {}}};
    if (command == "give-up") return GiveUp{kind(step.words.at(0)), step.words.at(0) + ": says the front"};
    if (command == "wait") return Tick{};
    return {};
  }

  static ResetKind kind(const std::string& text) {
    for (const ResetKind kind : {ResetKind::diverged, ResetKind::broken, ResetKind::unresolved}) {
      if (word(kind) == text) return kind;
    }
    return ResetKind::fenced;
  }

  static Event claim(const ScenarioStep& step) {
    ClaimNow now{Epoch{step.number("seen")}};
    if (step.get("over") == "nil") now.over = ClaimId{};
    if (step.get("over") == "other") now.over = kOther;
    if (step.has("tail")) now.if_tail = Offset{step.get("tail")};
    return now;
  }

  Event claim_ok(const ScenarioStep& step) const {
    ClaimReceipt receipt{kHistory, Epoch{}, step.get("id") == "other" ? kOther : our_claim(), Epoch{}, Sequence{}, Offset{"o0"}, 1};
    if (const auto* claiming = std::get_if<Claiming>(&writer_.state())) receipt.epoch = claiming->request.epoch;
    const std::string closed = step.get("closed", "0/0");
    receipt.closed_epoch = Epoch{std::stoull(closed)};
    receipt.closed_sequence = Sequence{std::stoull(closed.substr(closed.find('/') + 1))};
    return ClaimAnswered{receipt};
  }

  Event queue(const ScenarioStep& step) {
    Queued queued;
    for (const std::string& text : step.words) {
      const bool control = text[0] == '!';
      Bytes payload = to_bytes(as_bytes(text));
      payload.resize(payload.size() + step.number("bytes"));
      queued.appends.push_back({control ? 0 : ++tickets_, control ? RecordKind::control : RecordKind::data, std::move(payload)});
    }
    return queued;
  }

  Event stat_ok(const ScenarioStep& step) const {
    StreamStat stat;
    stat.incarnation = step.get("history") == "other" ? Incarnation{2, 2} : kHistory;
    stat.epoch = Epoch{step.number("epoch", writer_.epoch().value)};
    stat.claim_id = step.get("id") == "other" || stat.epoch != writer_.epoch() ? kOther : writer_.claim_id();
    stat.last_sequence = Sequence{step.number("last", writer_.last_in_stream().value)};
    stat.owner.host = "b";
    stat.owner.pid = 4711;
    return StatAnswered{stat};
  }

  Event read_ok(const ScenarioStep& step) const {
    ReadResult result;
    result.up_to_date = true;
    result.next = Offset{step.get("next", "o9")};
    auto add = [&](const std::string& what, const std::string& text) {
      Record record;
      record.incarnation = kHistory;
      const std::uint64_t number = std::stoull(what.substr(what.find(':') + 1));
      if (what.starts_with("claim:")) {
        record.kind = RecordKind::claim;
        record.epoch = Epoch{number};
        record.claim_id = kOther;
        record.owner.host = "b";
        record.owner.pid = 4711;
      } else {
        record.kind = text[0] == '!' ? RecordKind::control : RecordKind::data;
        record.epoch = writer_.epoch();
        record.claim_id = writer_.claim_id();
        record.sequence = Sequence{number};
        record.payload = to_bytes(as_bytes(text));
        record.next = Offset{fmt::format("o{}", number)};
      }
      result.records.push_back(std::move(record));
    };
    for (const auto& [what, text] : step.args) {
      if (what.starts_with("ours:")) add(what, text);
    }
    for (const std::string& what : step.words) {
      if (what == "more") result.up_to_date = false;
      else add(what, "");
    }
    return ReadAnswered{result};
  }

  static std::string print(const AppendBatch& batch) {
    std::string appends;
    for (const Append& append : batch.appends) {
      const std::string_view text = as_text(append.payload);
      appends += (appends.empty() ? "" : ",") + std::string(text.substr(0, text.find('\0')));
    }
    return fmt::format("send batch first={} attempt=p{} {}", batch.first.value, batch.attempt.lo, appends);
  }
  static std::string print(const ClaimRequest& claim) {
    std::string over;
    if (claim.over) over = claim.over->nil() ? " over=nil" : fmt::format(" over=c{}", claim.over->lo);
    if (claim.if_tail) over += " tail=" + claim.if_tail->text;
    return fmt::format("claim epoch={} id=c{} attempt=p{}{}", claim.epoch.value, claim.claim_id.lo, claim.attempt.lo, over);
  }
  static std::string print(const Request& request) {
    if (const auto* claim = std::get_if<ClaimRequest>(&request)) return "send " + print(*claim);
    if (const auto* batch = std::get_if<std::shared_ptr<const AppendBatch>>(&request)) return print(**batch);
    if (const auto* read = std::get_if<AskRead>(&request)) return "send read from=" + read->from.text;
    return "send stat";
  }

  std::string print(const Effects& effects) const {
    std::vector<std::string> lines;
    if (effects.write_ahead) lines.push_back("write ahead " + print(*effects.write_ahead));
    if (effects.claimed) {
      const auto& claimed = *effects.claimed;
      lines.push_back(claimed ? fmt::format("claimed epoch={} closed={}/{}", claimed->epoch.value, claimed->closed_epoch.value, claimed->closed_sequence.value)
                              : fmt::format("not claimed, {}: {}", word(claimed.error().outcome), claimed.error().message));
    }
    for (const Decided& decided : effects.decided) {
      if (decided.fate.kind == Fate::Kind::acknowledged) {
        lines.push_back(fmt::format("ticket {} acknowledged at {}", decided.ticket, decided.fate.offset.text.empty() ? "?" : decided.fate.offset.text));
      } else {
        lines.push_back(fmt::format("ticket {} {}, {}", decided.ticket, decided.fate.kind == Fate::Kind::refused ? "refused" : "undecided",
                                    word(decided.fate.error->outcome)));
      }
    }
    for (const Confirmed& confirmed : effects.confirmed) {
      lines.push_back(confirmed.result ? fmt::format("confirm {} ok at {}", confirmed.id, confirmed.result->text)
                                       : fmt::format("confirm {} failed, {}", confirmed.id, word(confirmed.result.error().outcome)));
    }
    if (effects.suspect) lines.push_back("report suspect: " + *effects.suspect);
    if (effects.reset) lines.push_back("reset " + effects.reset->message);
    if (effects.request) lines.push_back(print(*effects.request));
    if (effects.wake_at) lines.push_back(fmt::format("wake in {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(*effects.wake_at - now_).count()));
    lines.push_back("-> " + state());
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  static std::string name(const Doing& doing) {
    static constexpr const char* kNames[] = {"Idle", "Sending", "Resending", "Deciding", "Checking"};
    return kNames[doing.index()];
  }
  std::string state() const {
    static constexpr const char* kNames[] = {"Opening", "Claiming", "Failed", "Owning", "Unresolved", "Finished"};
    std::string text = kNames[writer_.state().index()];
    if (const auto* owning = std::get_if<Owning>(&writer_.state())) text += " " + name(owning->doing);
    if (const auto* unresolved = std::get_if<Unresolved>(&writer_.state())) text += " " + name(unresolved->doing);
    return text;
  }

  static WriterConfig config(double rate = 0) {
    WriterConfig config;
    config.max_objects_per_second = rate;
    config.stream = "app";
    config.max_undecided = 4;
    config.max_batch_bytes = 100;
    return config;
  }

  Writer writer_{config()};
  Instant now_{std::chrono::seconds(1)};
  std::uint64_t steps_ = 0;
  Ticket tickets_ = 0;
};

class WriterScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(WriterScenario, Holds) {
  testing::run_scenario(GetParam(),
                        [] { return testing::Answer([machine = std::make_shared<Machine>()](const ScenarioStep& step) { return (*machine)(step); }); });
}

std::vector<std::string> files() {
  auto found = testing::scenario_files(std::string(ONEPEN_SOURCE_DIR) + "/tests/scenarios/writer");
  if (found.empty()) std::abort();  // a suite that runs nothing would pass
  return found;
}

INSTANTIATE_TEST_SUITE_P(Files, WriterScenario, ::testing::ValuesIn(files()), [](const auto& file) { return testing::scenario_case(file.param); });

}  // namespace
}  // namespace onepen::core
