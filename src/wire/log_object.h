// One object of a stream's log in a directory or bucket, as bytes (homes.md, 1). Pure; no I/O. docs/formats/log-object.md.
//
// Concept: creating object N is the commit and the fence. Its header says which history, epoch, claim and sequences it belongs to, which object its maker
// had last folded (prev), and who it is: a random put id that is the same for every resend (B2). A claim stands alone; an appends object carries a batch.
// The decoder trusts no length, count or text: each is checked against what is there first. It tells a newer format from damage, and where damage is.
// Thread-safety: pure functions; a LogObject holds views into the bytes it was decoded from (or that its maker keeps).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "core/fence_state.h"
#include "core/home.h"

namespace onepen::wire {

inline constexpr std::uint16_t kLogObjectVersion = 1;
inline constexpr std::size_t kMaxObjectBytes = 64u << 20;     // whole object; the decoder refuses longer ones unread
inline constexpr std::size_t kMaxObjectHeaderBytes = 64u << 10;
inline constexpr std::size_t kMaxObjectAppends = 4096;
inline constexpr std::size_t kMaxOwnerTextBytes = 256;
inline constexpr std::size_t kMaxEvidenceBytes = 1024;
inline constexpr std::uint32_t kMaxOrdinal = 999'999;         // histories of one stream

enum class ObjectKind : std::uint16_t {
  claim = 1,      // opens a higher epoch
  appends = 2,    // a batch of one epoch
  tombstone = 3,  // the stream is deleted; ids go on (B7)
  history = 4,    // a new incarnation without an owner: restore, adoption, forced recovery (B7)
  evidence = 5,   // an owner holds what the log lacks: the stream is suspect from here on (fence.md, "Incarnations")
};

struct ClaimBody {
  core::OwnerInfo owner;
  std::optional<ClaimId> over{};            // the condition is part of the object, so that every fold decides it alike
  std::optional<core::Position> if_tail{};
  Epoch closed_epoch;                       // as its maker saw it; the fold's own word counts
  Sequence closed_sequence;
  std::vector<std::string> contenders{};    // names of the last owners before it, newest last, at most core::kMaxContenders
  bool operator==(const ClaimBody&) const = default;
};
struct AppendBody {
  core::RecordKind kind = core::RecordKind::data;
  Digest digest;      // of the payload
  ByteView payload;   // not owned
};
struct HistoryBody {
  Incarnation next;           // of the new history; LogObject::incarnation is the old one's
  std::uint32_t next_ordinal = 0;
  Epoch floor;                // highest epoch known of the old history
  ClaimId newest_claim;       // of the old history: base of a conditional claim in the new one
  std::string act;            // "restore", "adopt", "forced-recovery", "accept-loss"
  core::Position common;      // the new history is the old one up to here
  std::string snapshot;       // with a common point before the old tail: id of the snapshot the new history begins with; else empty
  bool operator==(const HistoryBody&) const = default;
};

struct LogObject {
  ObjectKind kind = ObjectKind::appends;
  StreamName stream;
  std::uint64_t id = 0;                 // its own: an object found under another name is damage
  Incarnation incarnation;
  std::uint32_t ordinal = 1;            // of the history, from 1
  Epoch epoch;
  ClaimId claim_id;
  PutId put_id;
  Sequence first;                       // appends: of appends[0]; claim: 0
  std::uint64_t prev_id = 0;            // the last object that counts before it, as its maker folded; 0: none, or raced
  std::uint64_t prev_checksum = 0;
  std::uint64_t claim_at = 0;           // id of the claim its epoch began with; claims: of the claim before
  std::uint32_t claims_since_data = 0;  // before it
  std::uint64_t log_bytes = 0;          // bytes of all objects before it, as its maker folded
  bool raced = false;                   // a claim put before its maker had read every id below (B3): prev is not known
  std::int64_t time_ms = 0;             // wall clock of its maker; for people
  ClaimBody claim{};                    // kind claim
  std::vector<AppendBody> appends{};    // kind appends
  HistoryBody history{};                // kind history
  core::OwnerInfo by{};                 // kinds history, tombstone: who did it, for the audit
  std::string what{};                   // kind evidence: what was seen
  std::uint64_t checksum = 0;           // own checksum; set by decode and known after encode (checksum_of)
  std::uint64_t size = 0;               // bytes of the whole object; set by decode
};

struct ObjectFault {
  enum class Kind : std::uint8_t { newer_format, damaged } kind;
  std::size_t at = 0;  // byte offset
  std::string what;    // "the object ends inside its header"
};

Bytes encode(const LogObject& object);
tl::expected<LogObject, ObjectFault> decode_log_object(ByteView bytes);
std::uint64_t checksum_of(ByteView encoded);  // own checksum of encode()'s bytes

// Digest of a claim's content apart from where it lies: the same for every resend (ClaimCommand::digest).
Digest claim_digest(const LogObject& object);

}  // namespace onepen::wire
