// I2: once a claim is answered, no append of an older epoch is ever applied. Every answered claim lies where its receipt says, what it closed is what the
// stream holds before it, and nothing of a closed epoch lies behind it. A conditional claim lies right over its base.
#include <fmt/format.h>

#include "sim/history.h"

namespace onepen::sim {
namespace {

void check_conditions(const Evidence& e) {
  std::map<ClaimId, const ClaimSent*> conditional;
  for (const ClaimSent& sent : e.history.claims_sent) {
    if (sent.over || sent.if_tail) conditional[sent.claim_id] = &sent;
  }
  ClaimId newest;
  Offset tail;
  for (const core::Record& r : e.stream.records) {
    if (r.kind == core::RecordKind::claim) {
      const auto found = conditional.find(r.claim_id);
      if (found != conditional.end()) {
        const ClaimSent& sent = *found->second;
        if (sent.over && *sent.over != newest) {
          e.history.violated(
              "I2", fmt::format("the claim of {} for epoch {} was over {} and lies over {}", sent.who, sent.epoch.value, to_text(*sent.over), to_text(newest)));
        }
        if (sent.if_tail && *sent.if_tail != tail) {
          e.history.violated(
              "I2", fmt::format("the claim of {} for epoch {} was for tail '{}' and lies at '{}'", sent.who, sent.epoch.value, sent.if_tail->text, tail.text));
        }
      }
      newest = r.claim_id;
    }
    tail = r.next;
  }
}

}  // namespace

void check_i2(const Evidence& e) {
  const auto& records = e.stream.records;
  for (const ClaimSeen& seen : e.history.claims) {
    const core::ClaimReceipt& receipt = seen.receipt;
    const std::string what = fmt::format("the claim of {} for epoch {}, answered at offset {},", seen.who, receipt.epoch.value, receipt.offset.text);
    const auto at = e.stream.by_offset.find(receipt.offset.text);
    if (at == e.stream.by_offset.end() || records[at->second].claim_id != receipt.claim_id || records[at->second].kind != core::RecordKind::claim) {
      e.history.violated("I2", what + " is not there");
      continue;
    }
    Sequence closed;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const core::Record& r = records[i];
      if (i < at->second && r.epoch == receipt.closed_epoch) closed = r.sequence;
      if (i > at->second && r.epoch < receipt.epoch) {
        e.history.violated("I2", fmt::format("behind {} lies sequence {} of epoch {}", what, r.sequence.value, r.epoch.value));
      }
    }
    if (closed != receipt.closed_sequence) {
      e.history.violated("I2", fmt::format("{} closed epoch {} at sequence {}, but the stream holds {} of it before the claim", what,
                                           receipt.closed_epoch.value, receipt.closed_sequence.value, closed.value));
    }
  }
  check_conditions(e);
}

}  // namespace onepen::sim
