// What a home knows of one stream: the state of the fence (fence.md, "State of one stream").
//
// Concept: StreamState is a value. It is compared, copied and serialised (core/fence_codec.h) like a number, and changed only by apply() (core/fence.h).
// Nothing in it is ever collected, expired or evicted before what it fences is provably gone (I6): the epoch floor and the closed epochs outlive idle
// expiry, trim, delete and restore (I5).
// Thread-safety: a plain value.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/home.h"
#include "core/ring.h"

namespace onepen::core {

// A place in a stream, as its home counts: (object id, index after the append) in the object home, (ordinal of the history, byte offset) on a node.
// The fence only compares positions; the public Offset is the home's spelling of one.
struct Position {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const Position&) const = default;
};

using CommitId = Id128<struct CommitIdTag>;  // identity of a positional append

// Limits of the fence; each is documented in docs/formats/fence-state.md.
inline constexpr std::size_t kMaxIdBytes = 256;             // producer ids, content types, Stream-Seq, every text of an owner record
inline constexpr std::size_t kReceiptsKept = 1024;          // per producer, sequenced and positional each
inline constexpr std::size_t kClosedEpochsKept = 65'536;    // fence-required streams
inline constexpr std::size_t kClosedEpochsKeptPlain = 64;   // each plain producer
inline constexpr std::uint64_t kMaxEpochJump = 1u << 20;    // a claim may skip so many epochs (S28: nobody burns the counter in one step)
inline constexpr std::size_t kMaxContenders = 8;
inline constexpr std::size_t kMaxPlainProducers = 1u << 20;  // per stream; more are refused, none is evicted (I6)
inline constexpr std::int64_t kProducerIdleMs = std::int64_t{7} * 24 * 3600 * 1000;  // plain producers only
inline constexpr std::string_view kOwnerProducer = "onepen";  // the producer id of homes that have no other word for it

enum class StreamKind : std::uint8_t {
  plain = 0,           // base protocol: producers are optional, several may write
  fence_required = 1,  // every database, gate and lease: nothing changes it without a claim
};

enum class Presence : std::uint8_t {
  absent = 0,        // never made
  present = 1,
  deleted = 2,       // removed (or expired) for good; the floor stays, so a stream made again cannot reissue an epoch (I5)
  soft_deleted = 3,  // removed, but forks still read from it
};

// The namespace fence as the checks need it (server.md, "Namespace moves"); the move's own record lives in the payloads.
enum class NamespaceFence : std::uint8_t { open = 0, write_fenced = 1, read_fenced = 2, quarantined = 3, unavailable = 4 };

// The stored answer to a sequenced append.
struct Receipt {
  Epoch epoch;
  Sequence sequence;
  Digest digest;
  Position next;  // just after it
  bool operator==(const Receipt&) const = default;
};
// The stored answer to a positional append.
struct PositionalReceipt {
  Epoch epoch;
  CommitId commit;
  Digest digest;
  Position next;
  bool operator==(const PositionalReceipt&) const = default;
};
// An epoch that is over, and how far it came.
struct ClosedEpoch {
  Epoch epoch;
  ClaimId claim_id;  // nil: a plain producer's
  Sequence last;
  bool operator==(const ClosedEpoch&) const = default;
};
// The stored answer to the newest claim: a retry gets it as long as that epoch is current.
struct StoredClaim {
  Digest digest;
  Epoch closed_epoch;        // 0: nobody owned this incarnation before
  Sequence closed_sequence;  // last applied sequence of closed_epoch
  Position next;
  bool operator==(const StoredClaim&) const = default;
};

// What one producer did. What every append looks at comes first: a busy home has more streams than a processor's cache has room for.
struct Producer {
  Epoch epoch;                    // the floor: highest epoch ever seen of it; never falls (I1, I5)
  ClaimId claim_id;               // who holds that epoch; nil for plain producers
  Sequence last;                  // last applied sequence of `epoch`
  std::int64_t last_time_ms = 0;  // state time of its last applied append
  Ring<Receipt> receipts;         // in stream order, so ascending by (epoch, sequence)
  bool live = false;              // false: only the floor is known (idle expiry; a new incarnation has no owner)

  StoredClaim claim;              // of the newest claim (or, plain, of the append that raised the epoch)
  Epoch known_from;               // an epoch from here on without a row in `closed` was skipped: nothing applied under it; below, nobody can say
  Epoch dropped_commits;          // newest epoch of which a positional receipt was dropped
  Ring<ClosedEpoch> closed;               // ascending
  Ring<PositionalReceipt> commits;        // in stream order
  bool operator==(const Producer&) const = default;
};

struct StreamConfig {
  StreamKind kind = StreamKind::fence_required;
  std::string content_type;           // empty: any
  std::uint64_t max_append_bytes = 0;  // 0: no limit
  std::uint64_t max_stream_bytes = 0;  // quota of the bytes between start and tail; 0: none
  bool operator==(const StreamConfig&) const = default;
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

struct StreamState {
  // what every append looks at
  Presence presence = Presence::absent;
  bool closed = false;
  bool suspect = false;            // evidence of the future was seen: nothing changes until adopt
  NamespaceFence namespace_fence = NamespaceFence::open;
  std::uint32_t claims_since_data = 0;  // changes of owner since the last data append (flapping)
  std::int64_t time_ms = 0;        // state time: the highest time any command brought
  Incarnation incarnation;
  Position tail;
  std::uint64_t stored_bytes = 0;  // appended and not trimmed, as far as the home told
  Producer owner;                  // fence-required streams. owner.live: somebody owns this incarnation
  std::string owner_producer;      // fixed by the first claim
  StreamConfig config;

  Position start;     // reads below are gone (trim)
  Position snapshot;  // newest snapshot
  std::string stream_seq;          // last Stream-Seq
  ClaimId newest_claim;            // base of conditional claims; survives a new incarnation, nil before the first claim
  OwnerInfo owner_info;            // of the newest claim
  std::int64_t claimed_ms = 0;     // state time of it
  std::vector<std::string> contenders;  // names of the last owners, newest last, at most kMaxContenders

  // plain streams
  std::unordered_map<std::string, Producer, TextHash, std::equal_to<>> producers;

  bool operator==(const StreamState&) const = default;
};

}  // namespace onepen::core
