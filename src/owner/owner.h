// Runs core's writer over any home: the one implementation of owning a stream, used by sqlite, leases, gate and namespaces.
//
// Concept: open() warms the fold up, claims, reads the rest and returns an Owner, whose own thread then sends what is submitted, resends what is
// undecided (byte-identical, until decided), and looks at the stream when idle so that a fence is noticed within `notice_within`.
// When the stream says that somebody newer owns it, the Owner resets: once, for good.
// Thread-safety: all public functions may be called from any thread. Callbacks run on the Owner's thread and must not call back into it.
#pragma once
#include <onepen/reset.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/runtime.h"
#include "core/writer.h"

namespace onepen::owner {

// What an owner's reads are folded into (the SQLite copy, a lease's state). Called by open() and by nobody afterwards.
class Fold {
 public:
  virtual ~Fold() = default;
  virtual Offset position() const = 0;                     // everything before it is folded; empty: nothing yet
  // position() is empty: begins with the stream's newest snapshot, when it has one; then position() is that snapshot's offset. Errors: what the home
  // refused; state_mismatch (the snapshot does not fit its own checksum).
  virtual Result<> begin(core::Stream& stream) {
    (void)stream;
    return {};
  }
  // The records after position(), in order, each once: data, control and claims. A fold that finds that it holds what the stream cannot be continued with
  // (commits of its own that never landed) moves that aside and begins empty: restarts() has risen then, and the caller reads on from position().
  virtual Result<> apply(const core::Record& record) = 0;
  virtual std::uint64_t restarts() const { return 0; }
  virtual Result<> start_over() = 0;                       // position() is no position of the stream any more: forget everything
  // The same, when the home answered `gone`: a fold that keeps what it has to forget may ask the stream whether its position was merely trimmed from the log.
  virtual Result<> gone_from(core::Stream& stream) {
    (void)stream;
    return start_over();
  }
  virtual Result<> settle() = 0;  // the run of apply() is over: make it durable enough to go on from
};

// The local log of claims: an own claim is synced here before it is sent (fence.md, "Own claim").
class ClaimLog {
 public:
  virtual ~ClaimLog() = default;
  virtual Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) = 0;
  // The highest epoch written ahead here; 0: none. A claim goes above it, so that the number of one that was never answered is skipped.
  virtual Epoch highest() const { return {}; }
};

// A claim that nobody asked for (going live after an offline opening, going on in a new incarnation): exactly one above our own, and only over our own
// claim, so that a process back from a partition never throws out an owner that opened meanwhile (fence.md, "The claim"). The stream is read first: a
// claim or a commit by somebody else ends the open with epoch_closed, before anything is claimed.
//
// Errors of such an open: epoch_closed (fenced; names the owner), incarnation_changed (another history, which lacks what our copy has), not_found and gone
// (the stream is not there any more), unavailable and unknown (try again, later; after unknown with the claim that was sent added to `sent`).
struct SelfClaim {
  Epoch own;
  ClaimId over;
  // Claims over `over` that this very process wrote ahead and sent in an open before, and that nobody answered. One of them as the newest claim is our own by
  // read-back. Never one that was only found in the claim log: a copied cache root has the same log.
  std::vector<ClaimId> sent{};
};

// An owner that ended in peace (its `released` record is there) is no owner to if_dead and never: they claim over it at once, conditionally.
enum class TakeoverMode : std::uint8_t { always, if_dead, never };

// What a claim must be conditional on; nothing: unconditional.
struct ClaimPlan {
  std::optional<ClaimId> over{};
  std::optional<Offset> if_tail{};
};

struct Progress {
  std::string_view step;  // "warm", "claim", "read", "wait"
  std::uint64_t done_bytes = 0, total_bytes = 0;  // total 0: not known
  std::string_view detail{};
};

struct Options {
  core::OwnerInfo info;
  TakeoverMode takeover = TakeoverMode::always;
  bool create = true;  // make the stream when absent
  bool absent_is_away = false;  // a stream that this machine has read, and of which nothing is there, is told as `unavailable`: it can go on without the home
  // Whoever opens has watched the owner itself (a standby): the claim lands only upon what it saw. Then if_dead and never do not look once more.
  std::optional<ClaimPlan> watched{};
  std::optional<SelfClaim> self_claim{};  // then `takeover`, `create` and the flapping guard play no part
  std::chrono::nanoseconds term{std::chrono::seconds(30)};  // if_dead watches this long; with `liveness` an owner gives four signs of life in it
  std::chrono::nanoseconds notice_within{std::chrono::seconds(1)};  // an idle owner looks at the stream this often; core::kNoLook: never
  bool metered = false;  // each request to the home is paid for (core::Pace): nothing is asked but at the pace of the signs of life
  double max_objects_per_second = 0;  // of appends: above it they wait and go together; 0: no bound
  bool liveness = false;  // keep a liveness object (a standby is configured)
  // With `liveness`: a standby stands ready to take over (names itself). Called on the owner's thread, once for each that does; the owner may hand over to it, and
  // need not. Looked for every `notice_within`, at a metered home with each sign of life. successor_object().
  std::function<void(const std::string& successor)> on_successor{};
  std::size_t max_undecided = 256;  // appends in one batch in flight (fence.md)
  std::uint64_t max_batch_bytes = 8u << 20;
  std::uint64_t max_queue_bytes = 64u << 20;  // submit() blocks above it
  std::function<void(const Progress&)> progress{};
  Log log{};
  const std::atomic<bool>* interrupted = nullptr;  // true: open() ends soon (unavailable), where it waits; outlives it
  std::string endpoint{};  // where this owner serves; named in its `ready` record, may stay empty
  std::chrono::nanoseconds open_within{std::chrono::seconds(30)};  // open() gives up (unavailable, unknown) when the home gives no answer this long
  // An open that would be the change of owner after this many without a database commit waits: flap_wait, doubling with each further one, at most
  // flap_wait_most, and says so (progress, log, Status::notice). Then it goes on. It does not wait after an owner that ended in peace.
  std::uint32_t calm_changes = 3;
  std::chrono::nanoseconds flap_wait{std::chrono::seconds(1)};
  std::chrono::nanoseconds flap_wait_most{std::chrono::seconds(30)};
};

using Ticket = core::Ticket;  // the n-th append submitted to this Owner, from 1
using Fate = core::Fate;  // acknowledged, refused or undecided

struct Status {
  Token token;
  Offset acknowledged;
  std::uint64_t pending = 0;  // appends not yet decided
  std::uint32_t claim_requests = 0;  // requests to the home from the claim's first until ownership
  std::optional<Reset> reset{};
  std::string trouble{};  // the home's last words when it does not take what is pending ("No space left on device"); empty when it does, or was not asked
  std::string notice{};  // what whoever opened it should be told although it succeeded: that the open had to wait, and why; often empty
};

// More follows at once: an append is kept until a batch is full, one without more comes, or somebody waits.
enum class More : std::uint8_t { no, yes };

// For whoever collects appends before it submits them.
struct Pacing {
  Instant next_batch;  // the home is not asked for another one before (max_objects_per_second)
  std::chrono::nanoseconds append_took{0};  // the newest one; 0: there was none
  bool metered = false;  // Options::metered
};

inline constexpr std::chrono::milliseconds kMostTerm{std::chrono::hours(24)};
inline constexpr int kSignsInATerm = 4;  // of life, and looks of a standby at a metered home
// What an owner's liveness object says: how often it was written, and the owner's term, so that a watcher with a shorter one of its own waits as long.
std::string sign_of_life(std::uint64_t number, std::chrono::nanoseconds term);
std::chrono::nanoseconds term_told(ByteView sign);  // 0: none was told
// Liveness objects beside the owner's own (Stream::beat, pulse): who stands ready to take over from it, and that an admin asked for that. Empty content: nobody.
std::string successor_object(const std::string& liveness);
std::string handover_object(const std::string& liveness);
inline constexpr std::size_t kMostSuccessorBytes = 512;  // of their content: text for people

inline constexpr std::size_t kKeptFates = 4096;
// Every owner's first append behind its claim (which is sequence 0) is its `ready` record: what is submitted comes after it.
inline constexpr Sequence kReadySequence{1};

class Owner {
 public:
  // Opens for writing. Errors: held, claim_races, not_found (create = false), unavailable, unknown, invalid, gone, whatever the fold answered.
  // `runtime`, `claims` and `fold` outlive the Owner.
  static Result<std::unique_ptr<Owner>> open(Runtime& runtime, std::unique_ptr<core::Stream> stream, ClaimLog& claims, Fold& fold, Options options);
  virtual ~Owner() = default;  // stop(0)

  // Queues one data append. Blocks only while max_queue_bytes are waiting, until `deadline`. Errors: the reset's outcome; unavailable at the deadline;
  // the refusal of an earlier append that nobody was told of yet (see below).
  //
  // A commit of several parts submits them in order and waits for the last. When one is refused (write_fenced, too_large, ...), everything queued behind
  // it is refused with the same error, and so is the next submit() until a wait() or a submit() has told somebody: no later part of the same commit is
  // ever appended behind a refused one. A commit whose submit() fails is given up by its front; the parts before it stay without their last one, void.
  // kind: data, or a control or snapshot record.
  virtual Result<Ticket> submit(Bytes payload, Instant deadline, core::RecordKind kind = core::RecordKind::data, More more = More::no) = 0;
  // Waits until the append is decided, `deadline`, or `*interrupted`. A caller that gives up on `undecided` calls reset(unresolved): the append goes on
  // being sent until the process, or stop(), ends it. Fates of the last kKeptFates decided appends are kept; asked for an older one it answers `undecided`.
  // Many threads may wait, also for the same ticket.
  virtual Fate wait(Ticket ticket, Instant deadline, const std::atomic<bool>* interrupted) = 0;
  // Gives up on an append: when certainly no attempt of it has landed or still may (every answer was a definite refusal: a full disk, nobody there), it and
  // everything queued behind it is refused (unavailable, with the home's last words) and the handle goes on. Else `undecided`, and it goes on being sent.
  virtual Fate withdraw(Ticket ticket) = 0;
  // Everything submitted before the call is in the stream, and a read begun after the last of those acknowledgements found us still the owner.
  virtual Result<Offset> confirm(Instant deadline) = 0;
  virtual void reset(ResetKind kind, std::string message) = 0;  // from the front: diverged, broken, unresolved. The first reset wins
  virtual void on_reset(std::function<void(const Reset&)> listener) = 0;  // exactly once each; at once when already reset
  virtual Status status() const = 0;
  virtual Pacing pacing() const = 0;
  // Sends what is pending until then; says what it could not. When everything was decided and we own the stream still, a `released` record tells the next
  // one to open that this owner went in peace; it may take a second, never longer than the deadline, and a deadline that has passed leaves it out. Idempotent.
  virtual Result<> stop(Instant flush_deadline) = 0;
};

}  // namespace onepen::owner
