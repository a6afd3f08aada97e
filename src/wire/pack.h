// Packs and snapshot heads of the object home, as bytes (homes.md, B5 and B6). Pure; no I/O. docs/formats/pack.md.
//
// Concept: a pack stands for a run of consecutive objects of a log below its trim mark: there only packs count. It lists the objects that count - whole, as
// they were encoded; in place (too large to be worth copying: still under their own names, told by their checksum); or dropped (trimmed) - and ends with the
// state of the fold after the run. An id of the run that it does not list is void for ever.
// A snapshot head makes the parts beside it a snapshot: where it belongs, what each part must be, and the state of the fold there.
// The decoders trust nothing. Thread-safety: pure functions; a decoded Pack looks into the bytes it was decoded from.
#pragma once
#include <vector>

#include "core/home.h"
#include "wire/fold_state.h"
#include "wire/log_object.h"

namespace onepen::wire {

inline constexpr std::uint16_t kPackVersion = 1, kSnapshotHeadVersion = 1;
inline constexpr std::size_t kMaxPackBytes = 64u << 20;
inline constexpr std::size_t kMaxPackObjects = 1u << 20;
inline constexpr std::size_t kMaxSnapshotHeadBytes = 32u << 20;
inline constexpr std::size_t kMaxSnapshotParts = 1u << 20;

struct PackEntry {
  enum class Kind : std::uint8_t { whole = 1, in_place = 2, dropped = 3 } kind = Kind::whole;
  std::uint64_t id = 0;
  std::uint64_t checksum = 0;  // the object's own
  ByteView bytes;              // whole: the encoded object. Not owned
};
struct Pack {
  StreamName stream;
  std::uint64_t first = 0, last = 0;
  std::uint64_t log_bytes_before = 0;  // of all objects before `first`
  std::vector<PackEntry> entries{};  // by rising id
  FoldState end{};                   // after `last`
};

struct SnapshotPartSum {
  std::uint64_t size = 0, sum = 0;  // XXH3-64
  bool operator==(const SnapshotPartSum&) const = default;
};
struct SnapshotHead {
  StreamName stream;
  core::SnapshotInfo info;        // parts and bytes are those of `parts`
  core::Position at;              // of info.offset
  bool begins_history = false;    // made before the history object at at.high, which names it; without that object it is none
  std::vector<SnapshotPartSum> parts{};
  FoldState fold{};               // after the last object that lies wholly before `at`
};

Bytes encode(const Pack& pack);
tl::expected<Pack, ObjectFault> decode_pack(ByteView bytes);
Bytes encode(const SnapshotHead& head);
tl::expected<SnapshotHead, ObjectFault> decode_snapshot_head(ByteView bytes);

}  // namespace onepen::wire
