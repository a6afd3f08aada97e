// Bytes become events for the owner's machine: answers that fit what was asked, and ones that do not, in any order. Whatever they are: no crash, and what
// fence.md promises whoever waits. Every ticket has one fate, in order; one request is out at a time; a batch never changes; a reset comes once and is final.
#include <map>
#include <set>
#include <utility>

#include "base/outcomes.h"
#include "core/writer.h"
#include "fuzz/fuzz_input.h"

using namespace onepen;
using namespace onepen::core;
using fuzz::require;

namespace {

constexpr Incarnation kHistory{1, 1};

class Harness {
 public:
  Harness()
      : writer_([] {
          WriterConfig config;
          config.stream = "app";
          config.max_undecided = 4;
          config.max_batch_bytes = 64;
          return config;
        }()) {}

  void draw(fuzz::Source& in) {
    const auto what = in.below(16);
    switch (what) {
      case 0: return claim(in);
      case 1:
      case 2: return queue(in);
      case 3: return step(Tick{}, in.byte());
      case 4: return in.byte() % 4 == 0 ? step(GiveUp{static_cast<ResetKind>(in.below(7)), "the front"}) : answer(in);
      case 5: return step(Withdraw{in.below(4) + acknowledged_, Error{Outcome::unavailable, "back", {}}});
      case 6: return step(Queued{{}, {Confirm{++confirms_, in.below(4) + acknowledged_}}});
      case 7:
        return tickets_ == 0 && confirms_ == 0 && out_ == 0 ? step(ClaimNotFound{}) : answer(in);  // the read-back of an open, before anybody has a handle
      default: return answer(in);
    }
  }

 private:
  void claim(fuzz::Source& in) {
    if (!std::holds_alternative<Opening>(writer_.state())) return;
    ClaimNow now{Epoch{in.byte() == 0xff ? kMaxWireNumber : in.below(8)}};
    if (in.flag()) now.over = ClaimId{0, in.below(3)};
    if (in.flag()) now.if_tail = Offset{"o1"};
    step(now);
    if (in.byte() == 1) step(ClaimNotWritten{Error{Outcome::unavailable, "disk", {}}});
  }

  void queue(fuzz::Source& in) {
    if (std::holds_alternative<Opening>(writer_.state()) || std::holds_alternative<Claiming>(writer_.state()) ||
        std::holds_alternative<Failed>(writer_.state()))
      return;  // nobody has a handle yet
    Queued queued;
    for (std::uint32_t i = 0; i < 1 + in.below(5); ++i) {
      const bool control = in.byte() % 8 == 0;
      queued.appends.push_back({control ? 0 : ++tickets_, control ? RecordKind::control : RecordKind::data, Bytes(1 + in.below(40), std::byte{in.byte()})});
    }
    step(std::move(queued));
  }

  // The answer to what is out; to a handle that was reset meanwhile it comes late.
  void answer(fuzz::Source& in) {
    switch (std::exchange(out_, 0)) {
      case 1: return claim_answer(in);
      case 2: return batch_answer(in);
      case 3: return stat_answer(in);
      case 4: return read_answer(in);
      default: return;
    }
  }

  Refusal refusal(fuzz::Source& in) {
    const auto outcomes = outcome_table();
    Refusal r{outcomes[in.below(static_cast<std::uint32_t>(outcomes.size()))].outcome, in.flag() ? "" : "says the home"};
    if (in.flag()) r.current = Owner{Token{to_text(kHistory), Epoch{in.below(9)}, ""}, "", "b", "", 2};
    r.applied = static_cast<Applied>(in.below(3));
    if (in.flag()) r.closed_sequence = Sequence{in.below(9)};
    if (in.flag()) r.expected_sequence = Sequence{in.below(9)};
    if (in.flag()) r.floor = Epoch{in.below(9)};
    return r;
  }

  void claim_answer(fuzz::Source& in) {
    if (in.flag()) return step(ClaimAnswered{tl::unexpected(refusal(in))});
    ClaimReceipt receipt{kHistory, Epoch{in.below(9)}, in.flag() ? claim_id_ : ClaimId{9, 9}, Epoch{in.below(9)}, Sequence{in.below(9)}, Offset{"o0"}, 1};
    step(ClaimAnswered{receipt});
  }
  void batch_answer(fuzz::Source& in) {
    if (in.flag()) return step(BatchAnswered{tl::unexpected(refusal(in))});
    AppendReceipt receipt;
    for (std::uint32_t i = 0; i < in.below(7); ++i) receipt.offsets.push_back(Offset{"o" + std::to_string(++offsets_)});
    step(BatchAnswered{receipt});
  }
  void stat_answer(fuzz::Source& in) {
    if (in.flag()) return step(StatAnswered{tl::unexpected(refusal(in))});
    StreamStat stat;
    stat.incarnation = in.byte() % 8 == 0 ? Incarnation{2, 2} : kHistory;
    stat.epoch = in.flag() ? writer_.epoch() : Epoch{in.below(9)};
    stat.claim_id = in.flag() ? writer_.claim_id() : ClaimId{9, 9};
    stat.last_sequence = in.flag() ? writer_.last_in_stream() : Sequence{in.below(9)};
    step(StatAnswered{stat});
  }
  void read_answer(fuzz::Source& in) {
    if (in.byte() % 4 == 0) return step(ReadAnswered{tl::unexpected(refusal(in))});
    ReadResult result;
    result.up_to_date = in.flag();
    result.next = Offset{"o" + std::to_string(++offsets_)};
    for (std::uint32_t i = 0; i < in.below(5); ++i) {
      Record record;
      record.incarnation = kHistory;
      record.kind = static_cast<RecordKind>(1 + in.below(4));
      record.epoch = in.flag() ? writer_.epoch() : Epoch{in.below(9)};
      record.claim_id = writer_.claim_id();
      record.sequence = Sequence{in.below(9)};
      if (batch_ && !batch_->appends.empty() && in.flag()) {
        const auto at = in.below(static_cast<std::uint32_t>(batch_->appends.size()));
        record.sequence = Sequence{batch_->first.value + at};
        record.kind = batch_->appends[at].kind;
        record.payload = batch_->appends[at].payload;
      }
      record.next = Offset{"o" + std::to_string(++offsets_)};
      result.records.push_back(std::move(record));
    }
    step(ReadAnswered{result});
  }

  void step(Event event, std::uint32_t later_ms = 0) {
    now_ += std::chrono::milliseconds(later_ms);
    ++steps_;
    const Moment moment{now_, 1'700'000'000'000, ClaimId{0, steps_}, PutId{0, steps_}, kHistory};
    const std::size_t kind = event.index();
    const bool finished_before = std::holds_alternative<Finished>(writer_.state());
    const Effects effects = writer_.step(moment, std::move(event));
    if (std::getenv("ONEPEN_FUZZ_TELL") != nullptr)  // to understand a finding
      std::fprintf(stderr, "step %llu: event %zu, state %zu, %zu decided, %llu queued so far, %zu undecided\n", static_cast<unsigned long long>(steps_), kind,
                   writer_.state().index(), effects.decided.size(), static_cast<unsigned long long>(tickets_), writer_.undecided());
    for (const Decided& decided : effects.decided) {
      require(decided.ticket >= 1 && decided.ticket <= tickets_, "a fate of an append that nobody queued");
      const auto before = fates_.find(decided.ticket);
      require(before == fates_.end() || (reset_ && before->second == Fate::Kind::undecided), "a fate comes once, or after `undecided`");
      fates_[decided.ticket] = decided.fate.kind;
      require((decided.fate.kind == Fate::Kind::acknowledged) != decided.fate.error.has_value(), "a fate that is no acknowledgement says why");
      if (decided.fate.kind != Fate::Kind::acknowledged) continue;
      require(decided.ticket > acknowledged_, "appends are acknowledged in order");
      require(!finished_before, "nothing is acknowledged by a handle that is over");
      acknowledged_ = decided.ticket;
    }
    if (effects.reset) {
      require(!reset_, "a handle resets once (I7)");
      reset_ = true;
      require(!effects.reset->message.empty(), "a reset says why");
    }
    if (reset_) require(std::holds_alternative<Finished>(writer_.state()) || std::holds_alternative<Unresolved>(writer_.state()), "a reset is final (I7)");
    if (std::holds_alternative<Finished>(writer_.state()))
      require(fates_.size() == tickets_ && writer_.undecided() == 0, "a handle that is over leaves nobody waiting");
    for (const Confirmed& confirmed : effects.confirmed) require(told_.insert(confirmed.id).second, "a confirm is answered once");
    if (effects.request) ask(*effects.request);
    require(!effects.request || !finished_before, "a handle that is over asks nothing");
  }

  void ask(const Request& request) {
    out_ = 0;
    if (const auto* claim = std::get_if<ClaimRequest>(&request)) {
      require(claim->epoch.value > 0 && claim->epoch.value <= kMaxWireNumber && !claim->claim_id.nil(), "a claim that no home would take");
      require(claim->epoch >= highest_claim_, "the epochs of our claims never fall");
      if (claim->epoch == highest_claim_) require(claim->claim_id == claim_id_, "one epoch is claimed with one claim id (I5)");
      highest_claim_ = claim->epoch;
      claim_id_ = claim->claim_id;
      out_ = 1;
    } else if (const auto* batch = std::get_if<std::shared_ptr<const AppendBatch>>(&request)) {
      batch_ = *batch;
      require(!batch_->appends.empty() && batch_->appends.size() <= 4 && batch_->first.value > 0, "a batch within its limits");
      const auto seen = batches_.emplace(batch_->attempt, batch_);
      require(seen.first->second == batch_, "one attempt is one batch, bytes unchanged (B2)");
      out_ = 2;
    } else {
      out_ = std::holds_alternative<AskRead>(request) ? 4 : 3;
    }
  }

  Writer writer_;
  Instant now_{std::chrono::seconds(1)};
  std::uint64_t steps_ = 0, offsets_ = 0;
  Ticket tickets_ = 0, acknowledged_ = 0;
  std::map<Ticket, Fate::Kind> fates_;
  ConfirmId confirms_ = 0;
  std::set<ConfirmId> told_;
  ClaimId claim_id_{};
  Epoch highest_claim_{};
  std::shared_ptr<const AppendBatch> batch_;
  std::map<PutId, std::shared_ptr<const AppendBatch>> batches_;
  int out_ = 0;  // what the request out asks: 1 claim, 2 batch, 3 stat, 4 read
  bool reset_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source in(fuzz::view(data, size));
  Harness harness;
  while (!in.empty()) harness.draw(in);
  return 0;
}
