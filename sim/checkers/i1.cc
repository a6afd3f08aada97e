// I1: in the stream's order, owner epochs never decrease; and the naive rule of a fold: a claim opens a higher epoch, everything else belongs to the
// current claim and has the next sequence.
#include <fmt/format.h>

#include "sim/history.h"

namespace onepen::sim {

void check_i1(const Evidence& e) {
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;
  Sequence last;
  for (const core::Record& r : e.stream.records) {
    const std::string what = fmt::format("the record before offset {} (epoch {}, sequence {})", r.next.text, r.epoch.value, r.sequence.value);
    if (r.kind == core::RecordKind::claim) {
      if (r.epoch <= epoch && r.incarnation == incarnation) e.history.violated("I1", fmt::format("{} claims an epoch not above {}", what, epoch.value));
      incarnation = r.incarnation, epoch = r.epoch, claim_id = r.claim_id, last = r.sequence;
      continue;
    }
    if (r.epoch < epoch) e.history.violated("I1", fmt::format("{} is older than the current epoch {}", what, epoch.value));
    if (r.epoch > epoch) e.history.violated("I1", fmt::format("{} has an epoch that nobody claimed (current {})", what, epoch.value));
    if (r.claim_id != claim_id) e.history.violated("I1", fmt::format("{} belongs to another claim than the current one", what));
    if (r.sequence.value != last.value + 1) e.history.violated("I3", fmt::format("{} does not follow sequence {}", what, last.value));
    last = r.sequence;
  }
}

}  // namespace onepen::sim
