// I4: what was refused for certain is nowhere; undecided may be either, and both must be seen over a sweep.
#include <fmt/format.h>

#include "base/checksum.h"
#include "sim/history.h"

namespace onepen::sim {

void check_i4(const Evidence& e) {
  for (const Submitted& s : e.history.submitted) {
    const bool there = e.stream.by_digest.count(s.digest.value) != 0;
    if (s.fate == FateSeen::refused) {
      e.history.sometimes.reached(Sometime::refused_for_certain);
      if (there) e.history.violated("I4", fmt::format("ticket {} of {} was refused for certain and is in the stream", s.ticket, s.who));
    }
    if (s.fate == FateSeen::undecided) e.history.sometimes.reached(there ? Sometime::undecided_landed : Sometime::undecided_never_landed);
  }
  std::set<std::uint64_t> applied;  // the fencer sends what was applied a second time, as another object: that one may be refused
  for (const AppendSeen& seen : e.history.appends) {
    for (const core::Append& append : seen.batch.appends) applied.insert(digest_of(append.payload).value);
  }
  for (const std::uint64_t digest : e.history.refused_first) {
    if (applied.count(digest) == 0 && e.stream.by_digest.count(digest) != 0)
      e.history.violated("I4", "an append that was sent once and refused for certain is in the stream");
  }
  for (const std::uint64_t digest : e.history.illegal) {
    if (e.stream.by_digest.count(digest) != 0) {
      const core::Record& r = e.stream.records[e.stream.by_digest.at(digest).front()];
      e.history.violated("I4", fmt::format("an append that breaks the rules is in the stream as sequence {} of epoch {}", r.sequence.value, r.epoch.value));
    }
  }
}

}  // namespace onepen::sim
