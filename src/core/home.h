// The Home port: the place that keeps streams and checks their fences. An interface and its records, without I/O. Every home (object, node, postgres)
// implements it and passes the one conformance suite in tests/home/.
//
// Concept: a Home hands out Streams. A Stream is one session at one stream: it keeps what the home needs to be quick (in the object home, the fold so
// far) and answers each change with exactly one outcome of the table. Calls block; their time is bounded by the home's request time-out, after which the
// answer is `unknown` (a change that may have been applied) or `unavailable` (certainly not applied, or a read).
// Thread-safety: Home is thread-safe; a Stream is used by one thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <onepen/result.h>
#include "base/bytes.h"
#include "base/ids.h"
#include "base/runtime.h"

namespace onepen::core {

enum class RecordKind : std::uint8_t { claim = 1, data = 2, control = 3, snapshot = 4 };

// What a claim says of its maker; for people and for finding the owner, never for safety.
struct OwnerInfo {
  std::string name, host, version;
  std::int64_t pid = 0;
  std::int64_t started_ms = 0;
  std::string why;       // "open", "takeover", "self-claim", ...: shown by `onepen history`
  std::string liveness;  // name of its liveness object; empty: it keeps none
  bool operator==(const OwnerInfo&) const = default;
};

// Did *this* request's append apply? (Producer-Applied)
enum class Applied : std::uint8_t { no, yes, unknown };

// A refusal speaks of that request only (I4).
struct Refusal {
  Outcome outcome;
  std::string message;
  std::optional<Owner> current{};                  // the owner the home knows now
  Applied applied = Applied::no;                   // with epoch_closed: what became of this very append
  std::optional<Sequence> closed_sequence{};       // with epoch_closed: last applied sequence of the request's epoch
  std::optional<Sequence> expected_sequence{};     // with sequence_gap
  std::optional<Offset> tail{};                    // with base_mismatch
};
template <class T>
using Answer = tl::expected<T, Refusal>;

struct ClaimRequest {
  Epoch epoch;                          // above every epoch the claimer has seen
  ClaimId claim_id;                     // fresh for each claim; the same for every resend of it
  PutId attempt;                        // fresh for each claim; the same for every resend of it
  OwnerInfo owner;
  std::optional<ClaimId> over{};        // conditional: only if this is still the newest claim (nil: only if there is none)
  std::optional<Offset> if_tail{};      // conditional: and only if this is still the tail
  std::optional<Incarnation> incarnation{};  // the history it is meant for; none: whichever is current
  bool create = false;                  // make the stream when it is absent (first_incarnation is then its incarnation)
  Incarnation first_incarnation{};
  std::int64_t time_ms = 0;             // wall clock of the claimer, for people
};
struct ClaimReceipt {
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;           // as stored: it is ours only if it is the one we sent
  Epoch closed_epoch;         // 0: nobody owned it before
  Sequence closed_sequence;   // last applied sequence of closed_epoch
  Offset offset;              // just after the claim
  std::uint32_t requests = 0;  // requests to the place until ownership was known (bench, status)
};

struct Append {
  RecordKind kind = RecordKind::data;  // data or control
  Bytes payload;                       // opaque to the home
};
// Consecutive appends, applied all or (homes without batches) as a prefix. Resent byte-identical until decided.
struct AppendBatch {
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;
  Sequence first;      // of appends[0]; the rest follow
  PutId attempt;       // fresh for each batch; the same for every resend of it (B2)
  std::int64_t time_ms = 0;
  std::vector<Append> appends;
};
struct AppendReceipt {
  std::vector<Offset> offsets;  // offsets[i]: just after appends[i]; fewer than the appends: the rest certainly was not applied, ask again to learn why
};

// One record that counts (void ones are never shown).
struct Record {
  RecordKind kind = RecordKind::data;
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;
  Sequence sequence;
  std::int64_t time_ms = 0;
  Offset next;                        // just after it
  Bytes payload;
  OwnerInfo owner;                    // claims only
  Epoch closed_epoch;                 // claims only
  Sequence closed_sequence;           // claims only
};
struct ReadLimit {
  std::size_t records = 1024;
  std::uint64_t bytes = 8u << 20;  // soft: at least one record is returned
};
struct ReadResult {
  std::vector<Record> records;
  Offset next;              // where to go on
  bool up_to_date = false;  // nothing more was there when the home was asked, and it was asked after the call began (I8)
};

struct StreamStat {
  Incarnation incarnation;
  Offset tail;
  Epoch epoch;                    // newest claim; 0: no owner
  ClaimId claim_id;
  Sequence last_sequence;         // of that epoch
  OwnerInfo owner;
  std::string endpoint;           // of the newest owner's `ready` record; empty before it
  std::int64_t claimed_ms = 0;
  std::uint32_t claims_since_data = 0;            // changes of owner since the last data append (flapping)
  std::vector<std::string> recent_contenders;     // names of the last owners, newest last, at most 8
  bool closed = false;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual const StreamName& name() const = 0;
  virtual Answer<StreamStat> stat() = 0;  // current (I8); not_found when there is no stream
  // claim: epoch_closed names the newest owner when the slot or the base was lost; unknown: send the same request again.
  virtual Answer<ClaimReceipt> claim(const ClaimRequest&) = 0;
  virtual Answer<AppendReceipt> append(const AppendBatch&) = 0;
  virtual Answer<ReadResult> read(const Offset& from, const ReadLimit& limit) = 0;  // gone: `from` is no position of this history any more
  // True when there is more than `from`, or an error; false at the deadline. Polls or waits, as the home can.
  virtual Answer<bool> wait(const Offset& from, Instant deadline) = 0;
  // Signs of life: advice, never safety. `beat` overwrites; `pulse` reads (empty: none).
  virtual Answer<bool> beat(const std::string& liveness, ByteView content) = 0;
  virtual Answer<std::optional<Bytes>> pulse(const std::string& liveness) = 0;
};

class Home {
 public:
  virtual ~Home() = default;
  virtual std::unique_ptr<Stream> stream(const StreamName&) = 0;                  // no I/O
  virtual Result<std::vector<std::string>> list(const std::string& prefix) = 0;   // names of streams, sorted
  virtual const std::string& url() const = 0;                                     // without secrets
};

}  // namespace onepen::core
