// The proof that a place can fence: asked of it before the first claim, and by `onepen probe`. A store that ignores "only if absent" lets two writers
// overwrite each other without a word, and says 200 to both; nothing but trying shows it.
//
// The scratch objects lie under "@probe", where no stream can (base/ids.h: '@' stands in no name), under names drawn for each run, and are erased at its end.
// Thread-safe: runs of several processes do not meet.
#pragma once
#include <string>
#include <vector>

#include "base/runtime.h"
#include "home/object/object_store.h"

namespace onepen::home {

inline constexpr int kProbeRacers = 16;

enum class ProbeDepth : std::uint8_t {
  brief,  // a directory, whose link(2) is the kernel's: two creates of one name have one winner, and what was created is read and listed at once
  full,   // a bucket: that, a stale create, an empty one, and kProbeRacers at the same moment
};

struct ProbeStep {
  std::string name, said;  // "create again", "refused: it exists"
  bool good = false;
};
struct ProbeReport {
  std::string place;             // "bucket s3://…"
  std::vector<ProbeStep> steps;  // in order, up to the first that was not good
  Result<> verdict;              // an Error: `invalid` with the evidence (it cannot fence), else what the store answered
};

// Writes: only for those who mean to write. `store` and `runtime` outlive the call.
ProbeReport run_probe(Runtime& runtime, ObjectStore& store, ProbeDepth depth);

// Asks the place to prove that it can fence, briefly. Leaves nothing behind.
Result<> probe_can_fence(Runtime& runtime, ObjectStore& store);

// The same in full, once for each bucket and way to it: "@probe/passed-…" remembers. One LIST where it is there. (docs/adr/0012-the-probe-is-remembered.md)
Result<> probe_once(Runtime& runtime, ObjectStore& store);

}  // namespace onepen::home
