// I9: every fold that was shown is a prefix of the final one, and every record that was read is where it was read.
#include <fmt/format.h>

#include "sim/history.h"

namespace onepen::sim {

void check_i9(const Evidence& e) {
  for (const FoldSeen& fold : e.history.folds) {
    if (fold.count >= e.stream.sums.size()) {
      e.history.violated("I9", fmt::format("{} showed {} records, the stream has {}", fold.who, fold.count, e.stream.records.size()));
    } else if (fold.sum != e.stream.sums[fold.count]) {
      e.history.violated("I9", fmt::format("{} showed {} records that are not the first {} of the stream", fold.who, fold.count, fold.count));
    }
  }
  // An owner begins only with everything up to its own claim (fence.md, "Takeover").
  std::map<ClaimId, std::size_t> claims;
  for (std::size_t i = 0; i < e.stream.records.size(); ++i) {
    if (e.stream.records[i].kind == core::RecordKind::claim) claims[e.stream.records[i].claim_id] = i;
  }
  for (const FoldSeen& fold : e.history.folds) {
    if (!fold.owner) continue;
    const auto at = claims.find(*fold.owner);
    if (at == claims.end()) {
      e.history.violated("I5", fmt::format("{} began to own by the claim {}, which is not in the stream", fold.who, to_text(*fold.owner)));
    } else if (fold.count <= at->second) {
      e.history.violated("I9", fmt::format("{} began to own with {} records folded, but its claim is record {}", fold.who, fold.count, at->second + 1));
    }
  }
  for (const auto& [offset, id] : e.history.records) {
    const auto at = e.stream.by_offset.find(offset);
    const std::string& text = e.history.records_text[offset];
    if (at == e.stream.by_offset.end()) {
      e.history.violated("I9", fmt::format("{}, read before offset {}, is not in the stream", text, offset));
    } else if (identity(e.stream.records[at->second]) != id) {
      e.history.violated("I9", fmt::format("{}, read before offset {}, is another record in the end", text, offset));
    }
  }
}

}  // namespace onepen::sim
