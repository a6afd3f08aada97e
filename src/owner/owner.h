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

#include "base/log.h"
#include "base/runtime.h"
#include "core/writer.h"

namespace onepen::owner {

// What an owner's reads are folded into (the SQLite copy, a lease's state). Called by open() and by nobody afterwards.
class Fold {
 public:
  virtual ~Fold() = default;
  virtual Offset position() const = 0;                     // everything before it is folded; empty: nothing yet
  virtual Result<> apply(const core::Record& record) = 0;  // the records after position(), in order, each once: data, control and claims
  virtual Result<> start_over() = 0;                       // position() is no position of the stream any more: forget everything
  virtual Result<> settle() = 0;                           // the run of apply() is over: make it durable enough to go on from
};

// The local log of claims: an own claim is synced here before it is sent (fence.md, "Own claim").
class ClaimLog {
 public:
  virtual ~ClaimLog() = default;
  virtual Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) = 0;
  // The highest epoch written ahead here; 0: none. A claim goes above it, so that the number of one that was never answered is skipped.
  virtual Epoch highest() const { return {}; }
};

enum class TakeoverMode : std::uint8_t { always, if_dead, never };

struct Progress {
  std::string_view step;  // "warm", "claim", "read", "wait"
  std::uint64_t done_bytes = 0, total_bytes = 0;  // total 0: not known
  std::string_view detail{};
};

struct Options {
  core::OwnerInfo info;
  TakeoverMode takeover = TakeoverMode::always;
  bool create = true;                                  // make the stream when absent
  std::chrono::nanoseconds term{std::chrono::seconds(30)};          // if_dead watches this long
  std::chrono::nanoseconds notice_within{std::chrono::seconds(1)};  // an idle owner looks at the stream this often
  bool liveness = false;                               // keep a liveness object (a standby is configured)
  std::size_t max_undecided = 256;                     // appends in one batch in flight (fence.md)
  std::uint64_t max_batch_bytes = 8u << 20;
  std::uint64_t max_queue_bytes = 64u << 20;           // submit() blocks above it
  std::function<void(const Progress&)> progress{};
  Log log{};
  std::string endpoint{};                              // where this owner serves; named in its `ready` record, may stay empty
  std::chrono::nanoseconds open_within{std::chrono::seconds(30)};   // open() gives up (unavailable, unknown) when the home gives no answer this long
  // An open that would be the change of owner after this many without a database commit waits: flap_wait, doubling with each further one, at most
  // flap_wait_most. Then it goes on.
  std::uint32_t calm_changes = 3;
  std::chrono::nanoseconds flap_wait{std::chrono::seconds(1)};
  std::chrono::nanoseconds flap_wait_most{std::chrono::seconds(30)};
};

using Ticket = core::Ticket;  // the n-th append submitted to this Owner, from 1
using Fate = core::Fate;      // acknowledged, refused or undecided

struct Status {
  Token token;
  Offset acknowledged;
  std::uint64_t pending = 0;         // appends not yet decided
  std::uint32_t claim_requests = 0;  // requests to the home from the claim's first until ownership
  std::optional<Reset> reset{};
};

inline constexpr std::size_t kKeptFates = 4096;

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
  virtual Result<Ticket> submit(Bytes payload, Instant deadline) = 0;
  // Waits until the append is decided, `deadline`, or `*interrupted`. A caller that gives up on `undecided` calls reset(unresolved): the append goes on
  // being sent until the process, or stop(), ends it. Fates of the last kKeptFates decided appends are kept; asked for an older one it answers `undecided`.
  // Many threads may wait, also for the same ticket.
  virtual Fate wait(Ticket ticket, Instant deadline, const std::atomic<bool>* interrupted) = 0;
  // Everything submitted before the call is in the stream, and a read begun after the last of those acknowledgements found us still the owner.
  virtual Result<Offset> confirm(Instant deadline) = 0;
  virtual void reset(ResetKind kind, std::string message) = 0;         // from the front: diverged, broken, unresolved. The first reset wins
  virtual void on_reset(std::function<void(const Reset&)> listener) = 0;  // exactly once each; at once when already reset
  virtual Status status() const = 0;
  virtual Result<> stop(Instant flush_deadline) = 0;                   // sends what is pending until then; says what it could not. Idempotent
};

}  // namespace onepen::owner
