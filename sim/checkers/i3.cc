// I3: every acknowledged append is in the stream exactly once, where its receipt says, and in the order in which it was submitted. No payload is there
// twice, acknowledged or not: every payload of a run is unique.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "sim/history.h"

namespace onepen::sim {
namespace {

void check_receipts(const Evidence& e) {
  for (const AppendSeen& seen : e.history.appends) {
    for (std::size_t i = 0; i < seen.batch.appends.size(); ++i) {
      const core::Append& append = seen.batch.appends[i];
      const Sequence sequence{seen.batch.first.value + i};
      const std::string what = fmt::format("append {} of epoch {} by {}, answered applied", sequence.value, seen.batch.epoch.value, seen.who);
      if (i >= seen.offsets.size()) {
        e.history.violated("I3", what + ", has no offset");
        continue;
      }
      const auto at = e.stream.by_offset.find(seen.offsets[i].text);
      if (at == e.stream.by_offset.end()) {
        e.history.violated("I3", fmt::format("{} at offset {}, is lost", what, seen.offsets[i].text));
        continue;
      }
      const core::Record& r = e.stream.records[at->second];
      if (r.epoch != seen.batch.epoch || r.sequence != sequence || r.payload != append.payload) {
        e.history.violated("I3", fmt::format("{} at offset {}, is not what the stream holds there (epoch {}, sequence {})", what, seen.offsets[i].text,
                                             r.epoch.value, r.sequence.value));
      }
    }
  }
}

}  // namespace

void check_i3(const Evidence& e) {
  check_receipts(e);
  for (const auto& [digest, where] : e.stream.by_digest) {
    if (where.size() > 1) {
      const core::Record& r = e.stream.records[where.back()];
      e.history.violated("I3",
                         fmt::format("one payload is in the stream {} times, last as sequence {} of epoch {}", where.size(), r.sequence.value, r.epoch.value));
    }
  }
  std::map<std::uint64_t, std::size_t> last;  // session → index of its last append in the stream
  std::vector<Submitted> in_order = e.history.submitted;
  std::sort(in_order.begin(), in_order.end(),
            [](const Submitted& a, const Submitted& b) { return std::pair(a.session, a.ticket) < std::pair(b.session, b.ticket); });
  for (const Submitted& s : in_order) {
    const auto found = e.stream.by_digest.find(s.digest.value);
    if (found == e.stream.by_digest.end()) {
      if (s.fate == FateSeen::acknowledged) e.history.violated("I3", fmt::format("ticket {} of {} was acknowledged and is lost", s.ticket, s.who));
      continue;
    }
    const std::size_t at = found->second.front();
    const auto [before, first] = last.emplace(s.session, at);
    if (!first) {
      if (at < before->second) e.history.violated("I3", fmt::format("ticket {} of {} lies before an earlier ticket", s.ticket, s.who));
      before->second = at;
    }
  }
}

}  // namespace onepen::sim
