// The Home port: the place that keeps streams and checks their fences. An interface and its records, without I/O. Every home (object, node, postgres)
// implements it and passes the one conformance suite in tests/home/.
//
// Concept: a Home hands out Streams. A Stream is one session at one stream: it keeps what the home needs to be quick (in the object home, the fold so
// far) and answers each change with exactly one outcome of the table. Calls block; their time is bounded by the home's request time-out, after which the
// answer is `unknown` (a change that may have been applied) or `unavailable` (certainly not applied, or a read).
// Thread-safety: Home is thread-safe; a Stream is used by one thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  std::optional<Epoch> floor{};                    // with not_found: it was removed by somebody (not lost); a claim that makes it anew goes above this epoch
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
struct ClaimReceipt {
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;           // as stored: it is ours only if it is the one we sent
  Epoch closed_epoch;         // 0: nobody owned it before
  Sequence closed_sequence;   // last applied sequence of closed_epoch
  Offset offset;              // just after the claim
  std::uint32_t requests = 0;  // requests to the place until ownership was known (bench, status)
  // The claim as read() shows it, and the position before it: whoever has read up to there misses nothing else. None: read() tells.
  std::optional<Record> record{};
  Offset follows{};
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

struct ReadLimit {
  std::size_t records = 1024;
  std::uint64_t bytes = 8u << 20;  // soft: at least one record is returned
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
  Epoch floor;                    // the highest epoch ever given, also in histories before; claims go above it
  ClaimId newest_claim;           // base of conditional claims; survives a new incarnation, which has no owner (claim_id is nil then)
  bool closed = false;
  std::string suspect{};                          // why nobody may write until `adopt`: the evidence, and who saw it; empty: it is not suspect
  bool released = false;                          // the newest owner ended in an orderly way and said so: taking over from it is no quarrel
  std::uint64_t log_bytes = 0;                    // bytes of everything ever put into the log, trimmed or not; only rises (growth policy)
};

struct ReadResult {
  std::vector<Record> records;
  Offset next;              // where to go on
  bool up_to_date = false;  // nothing more was there when the home was asked, and it was asked after the call began (I8)
  std::optional<StreamStat> stat{};  // with up_to_date: what stat() would answer at that moment, where the home knows it without asking again
};

// ---- Snapshots: the state of a fold at a position, so that nobody needs the records before it. Opaque to the home but for where it belongs.
inline constexpr std::uint64_t kMaxSnapshotPart = 32u << 20;   // bytes
inline constexpr std::size_t kMaxSnapshotAbout = 64u << 10;    // bytes
struct SnapshotInfo {
  std::string id;           // the home's name for it
  Offset offset;            // just after the last record it covers: read() goes on from here
  Incarnation incarnation;
  Epoch epoch;              // of the owner who made it
  std::int64_t time_ms = 0;
  std::uint64_t bytes = 0;  // of all parts
  std::uint32_t parts = 0;
  std::uint64_t log_bytes = 0;  // StreamStat::log_bytes at its offset
  Bytes about;              // the front's own description, at most kMaxSnapshotAbout
};
// Puts one snapshot, part after part. Nothing of it counts before finish() answered; what is left of an unfinished one is swept by a later trim.
class SnapshotWriter {
 public:
  virtual ~SnapshotWriter() = default;
  virtual Answer<bool> add(ByteView part) = 0;                 // at most kMaxSnapshotPart
  virtual Answer<SnapshotInfo> finish(const Bytes& about) = 0;  // after it was read back
};

// What shows that the caller owns the stream; every change of a stream carries it.
struct OwnerToken {
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;
};
struct TendRequest {
  OwnerToken token;
  std::optional<Offset> trim_to{};      // records before it are needed by nobody: the position of the snapshot before the newest one
  std::size_t keep_snapshots = 2;       // newest ones kept
  std::size_t keep_objects = 64;        // the newest objects of a log are never compacted
};
struct Tended {
  std::uint64_t compacted = 0;  // small objects that became part of larger ones
  std::uint64_t removed = 0;    // objects deleted
  bool more = false;            // there is more to do: call again
};
struct Usage {  // what a stream takes at its home
  std::uint64_t log_bytes = 0, log_objects = 0;            // of the log as it is, compacted objects included
  std::uint64_t snapshot_bytes = 0, snapshots = 0;
  Offset oldest{};                                         // reads may begin here; empty: from the beginning
};

// ---- What an admin does to a stream without owning it: names what it saw instead of a token, so that nothing unseen is lost.
enum class HistoryAct : std::uint8_t { restore, adopt, forced_recovery, accept_loss };
struct HistoryRequest {
  HistoryAct act = HistoryAct::restore;
  Incarnation incarnation;   // as seen
  Offset tail;               // as seen; changed meanwhile → base_mismatch
  Incarnation next;          // fresh; the same for every resend
  PutId attempt;             // fresh; the same for every resend
  std::optional<Offset> common{};  // the new history is the old one up to here; none: up to the tail
  // With a common point before the tail the new history begins with a snapshot of the state there: writes its parts and answers its `about`.
  std::function<Answer<Bytes>(SnapshotWriter&)> snapshot{};
  OwnerInfo by{};            // for the audit
  std::int64_t time_ms = 0;
};
struct HistoryReceipt {
  Incarnation incarnation;
  Offset offset;  // where the new history begins; nobody owns it
  Epoch floor;    // claims go above
};
struct RemoveRequest {
  Incarnation incarnation;
  Offset tail;
  PutId attempt;
  OwnerInfo by{};
  std::int64_t time_ms = 0;
};

// What a log keeps for ever, trimmed or not (B5): who owned it, and what admins did to it. For people (`onepen history`).
enum class EventKind : std::uint8_t { claim, restore, adopt, forced_recovery, accept_loss, removed, evidence };
struct HistoryEvent {
  EventKind kind = EventKind::claim;
  Incarnation incarnation;             // that it belongs to; of those that begin a new one: the new one
  Epoch epoch;                         // claims: theirs; else the floor
  ClaimId claim_id;                    // claims only
  OwnerInfo by;                        // who did it
  std::int64_t time_ms = 0;
  Offset offset;                       // just after it
  Epoch closed_epoch;                  // claims only
  Sequence closed_sequence;            // claims only
  std::optional<Offset> common{};      // new histories: the old one counts up to here; none: all of it
  std::string what{};                  // evidence: what was seen
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual const StreamName& name() const = 0;
  // A further session at the same stream, for another thread; it may outlive this one, not the home. Null: only the home makes sessions.
  virtual std::unique_ptr<Stream> another() { return nullptr; }
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

  // The newest snapshot of the current history that is whole; none. Writes nothing.
  virtual Answer<std::optional<SnapshotInfo>> newest_snapshot() { return std::optional<SnapshotInfo>{}; }
  virtual Answer<std::vector<SnapshotInfo>> snapshots() { return std::vector<SnapshotInfo>{}; }  // all that are whole, newest first. Writes nothing
  virtual Answer<Bytes> snapshot_part(const SnapshotInfo&, std::uint32_t) { return not_kept(); }
  // `at`: a position between two records of the current history.
  virtual Answer<std::unique_ptr<SnapshotWriter>> begin_snapshot(const OwnerToken&, const Offset&) { return not_kept(); }
  // Compacts and trims a bounded amount. Safe beside every other session, also when the caller is an owner no more (homes.md, B5 and B6).
  virtual Answer<Tended> tend(const TendRequest&) { return Tended{}; }
  virtual Answer<Usage> usage() { return Usage{}; }
  virtual Answer<std::vector<HistoryEvent>> events() { return not_kept(); }  // in order, from the stream's first claim on. Writes nothing
  // A new incarnation without an owner (fence.md, "Incarnations"). base_mismatch: the tail moved; unknown: send the same request again.
  virtual Answer<HistoryReceipt> begin_history(const HistoryRequest&) { return not_kept(); }
  virtual Answer<bool> remove(const RemoveRequest&) { return not_kept(); }  // a tombstone: not_found from then on; ids and floors go on
  // The owner's copy has what the stream lacks: marks the stream suspect, so that nobody writes upon it until `adopt`.
  virtual Answer<bool> report_suspect(const OwnerToken&, std::string_view) { return not_kept(); }

 protected:
  static tl::unexpected<Refusal> not_kept() { return tl::unexpected(Refusal{Outcome::invalid, "This home does not know this operation.", {}}); }
};

// How a place wants to be asked. A look costs microseconds in a directory; in a bucket each request is paid for, and takes some ten milliseconds.
struct Pace {
  bool metered = false;  // each request is paid for: nobody asks without a reason, and what can wait goes together
  // Between two looks of a reader whether there is more: from the first, ever more rarely while nothing comes, up to the last.
  std::chrono::nanoseconds first_look{std::chrono::milliseconds(1)}, last_look{std::chrono::milliseconds(50)};
};

// Requests to the place since the home was opened, by kind ("get", "list", ...), those that were repeated included.
using RequestCounts = std::vector<std::pair<std::string, std::uint64_t>>;

class Home {
 public:
  virtual ~Home() = default;
  virtual std::unique_ptr<Stream> stream(const StreamName&) = 0;                  // no I/O
  virtual Result<std::vector<std::string>> list(const std::string& prefix) = 0;   // names of streams, sorted
  virtual const std::string& url() const = 0;                                     // without secrets
  virtual Pace pace() const = 0;
  virtual RequestCounts requests() const { return {}; }                           // of a bucket; empty: nothing that is paid for
};

}  // namespace onepen::core
