// I5: a pair (incarnation, epoch) belongs to one claim id for ever. Most of it is checked as things are seen (History::saw_epoch); here the final stream,
// and that no claim reached the home that its process had not written ahead.
#include <fmt/format.h>

#include "sim/history.h"

namespace onepen::sim {

void check_i5(const Evidence& e) {
  for (const core::Record& r : e.stream.records) {
    e.history.saw_epoch("the final reader", r.incarnation, r.epoch, r.claim_id);
    if (r.kind == core::RecordKind::claim && e.history.written_ahead.count(r.claim_id) == 0) {
      e.history.violated("I5", fmt::format("the claim of epoch {} ({}) was never written ahead", r.epoch.value, to_text(r.claim_id)));
    }
  }
}

}  // namespace onepen::sim
