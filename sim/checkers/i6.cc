// I6: fence state is never collected: every claim that anybody was answered or read is still in the stream.
#include <fmt/format.h>

#include "sim/history.h"

namespace onepen::sim {

void check_i6(const Evidence& e) {
  std::set<ClaimId> there;
  for (const core::Record& r : e.stream.records) {
    if (r.kind == core::RecordKind::claim) there.insert(r.claim_id);
  }
  for (const ClaimId& id : e.history.claims_read) {
    if (there.count(id) == 0) e.history.violated("I6", fmt::format("the claim {} was read and is gone", to_text(id)));
  }
  for (const ClaimSeen& seen : e.history.claims) {
    if (there.count(seen.receipt.claim_id) == 0) {
      e.history.violated("I6", fmt::format("the claim {} of {} was answered and is gone", to_text(seen.receipt.claim_id), seen.who));
    }
  }
}

}  // namespace onepen::sim
