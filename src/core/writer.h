// The owner's side of the fence as a pure machine: claim, append, resend until decided, notice the fence, reset. It is told what happened (an Event) and
// says what to do (Effects); it has no clock, no thread, no randomness and no I/O. src/owner runs it over any home; tests run it over text files.
//
//                 ClaimNow              receipt shows our claim id
//     Opening ──────────────▶ Claiming ────────────────────────────▶ Owning
//                              │  ▲ │                       ┌──────────┴───────────────────────────────────────┐
//                   lost to    └──┘ │ 16 lost, refused      │   Idle ──▶ Sending ──▶ Idle        (applied)      │
//                   another claim   ▼                       │    │ ▲       │ ▲                                  │
//                                 Failed                    │    ▼ │       ▼ │ (same bytes)                     │
//                                                           │ Checking   Resending    (unknown, unavailable)     │
//                                                           │            Sending ──▶ Deciding  (read the stream) │
//                                                           └──────┬──────────────────────────────┬──────────────┘
//                          newer claim, new history, gone, refused │                              │ the front gave up waiting
//                                                                  ▼         decided              ▼
//                                                              Finished ◀──────────────────── Unresolved
//
// What holds:
//  - At most one request is out; its answer is the next *Answered event. Batching, not pipelining, gives throughput (B1).
//  - A batch waits in the queue, where it grows and can be taken back, while the bound of objects a second is used up. Control records go whatever it says.
//  - A claim is written ahead and synced before it is sent; it is ours only when an answer or a read-back shows our claim id.
//  - The bytes of a batch never change between attempts: Effects hand out the same object again. `unknown` is never taken for success or failure (I4).
//  - A sequence number is used again only when the append that had it was certainly refused and no attempt of it may still land: it never was in the stream.
//  - Fates come in ticket order, but for what is taken back from behind a flight. Each comes once; only the `undecided` of a handle reset unresolved is
//    followed by what it was decided to be. When an append is refused, everything queued behind it is refused with the same error: the one behind may be the
//    next part of the same commit, and must not be applied as if nothing had happened. Whatever is queued after the refusal was told starts afresh.
//  - An append is taken back (Withdraw) only when no attempt of it is out and each was certainly refused: then it is as if it had never been queued.
//  - Finished is final (I7).
#pragma once
#include <onepen/reset.h>

#include <deque>
#include <memory>
#include <variant>

#include "core/group_commit.h"
#include "core/home.h"

namespace onepen::core {

using Ticket = std::uint64_t;  // the n-th append queued by a user, from 1; 0: nobody waits for it (control records)
using ConfirmId = std::uint64_t;  // one confirm()

struct Fate {
  enum class Kind : std::uint8_t {
    acknowledged,  // in the stream (also when the handle was fenced right after it)
    refused,  // certainly not in the stream, and never will be
    undecided,  // may be in the stream
  } kind;
  Offset offset{};  // acknowledged: just after it; empty when the home only said that it was applied and then could not be read
  std::optional<Error> error{};  // refused, undecided: why
  Sequence sequence{};  // acknowledged: its number among the appends of the handle's epoch
};

inline constexpr unsigned kMaxLostClaims = 16;  // an unconditional claim lost this often ends in claim_races
inline constexpr std::chrono::nanoseconds kFirstBackoff = std::chrono::milliseconds(20);
inline constexpr std::chrono::nanoseconds kLastBackoff = std::chrono::seconds(1);

struct WriterConfig {
  std::string stream;  // its name, for messages
  OwnerInfo info;
  bool liveness = false;  // the claim names a liveness object; with an empty info.liveness it is the claim id
  bool create = true;  // make the stream when absent
  std::size_t max_undecided = 256;  // appends in one batch
  std::uint64_t max_batch_bytes = 8u << 20;  // payload bytes in one batch, unless one append alone is larger
  std::chrono::nanoseconds notice_within = std::chrono::seconds(1);
  double max_objects_per_second = 0;  // 0: no bound
};
// notice_within of an owner that does not look while it is idle. (A time that is never reached, and far from overflowing an Instant.)
inline constexpr std::chrono::nanoseconds kNoLook = std::chrono::hours(24 * 365 * 50);

// What the world gives to one step: the time, and ids nobody drew before. At most one of each is used; the runner draws new ones for every step.
struct Moment {
  Instant now;
  std::int64_t wall_ms = 0;  // for people
  ClaimId claim_id;
  PutId attempt;
  Incarnation incarnation;
};

struct Pending {
  Ticket ticket = 0;
  RecordKind kind = RecordKind::data;
  Bytes payload;
};
struct Confirm {
  ConfirmId id = 0;
  Ticket after = 0;  // the last ticket queued before it
};

// ---- Events
struct ClaimNow {  // in Opening
  Epoch seen;  // the highest epoch seen or written ahead; the claim goes above it
  std::optional<Incarnation> incarnation{};
  std::optional<ClaimId> over{};  // conditional (ClaimRequest::over)
  std::optional<Offset> if_tail{};  // conditional (ClaimRequest::if_tail)
};
struct ClaimNotWritten {
  Error error;
};  // the claim log could not be written: nothing was sent
struct ClaimNotFound {};  // read-back: the stream up to its tail does not have the claim that was answered
struct ClaimAnswered {
  Answer<ClaimReceipt> answer;
};
struct Queued {
  std::vector<Pending> appends;
  std::vector<Confirm> confirms;
};
struct BatchAnswered {
  Answer<AppendReceipt> answer;
};
struct StatAnswered {
  Answer<StreamStat> answer;
};
struct ReadAnswered {
  Answer<ReadResult> answer;
};
struct GiveUp {  // the front resets the handle: diverged, broken, unresolved
  ResetKind kind;
  std::string message;
};
struct Withdraw {  // the front takes an append back: it, and everything queued behind it, unless an attempt of it may land
  Ticket ticket;
  Error error;  // of the refusal
};
struct Tick {};  // wake_at has come (or not yet: then nothing happens)
using Event = std::variant<ClaimNow, ClaimNotWritten, ClaimNotFound, ClaimAnswered, Queued, BatchAnswered, StatAnswered, ReadAnswered, GiveUp, Withdraw, Tick>;

// ---- Effects: carried out top to bottom, each whole before the next
struct AskStat {};  // Stream::stat
struct AskRead {
  Offset from;
};  // Stream::read
using Request = std::variant<ClaimRequest, std::shared_ptr<const AppendBatch>, AskStat, AskRead>;
struct Decided {
  Ticket ticket;
  Fate fate;
};
struct Confirmed {
  ConfirmId id;
  Result<Offset> result;
};
struct Effects {
  std::optional<ClaimRequest> write_ahead{};  // sync it to the claim log; failed → ClaimNotWritten, and the request below is not sent
  std::optional<Result<ClaimReceipt>> claimed{};  // the claim is decided: ours, or why not
  std::vector<Decided> decided{};  // wake their waiters before the next request goes out: it may take long
  std::vector<Confirmed> confirmed{};
  std::optional<std::string> suspect{};  // before the reset: Stream::report_suspect, once; what the stream lacks of ours
  std::optional<Reset> reset{};  // tell the listeners, once
  std::optional<Request> request{};  // send it; the answer is the next *Answered event
  std::optional<Instant> wake_at{};  // when no request is out: Tick then
};

// ---- States
struct Flight {  // one batch on its way
  std::shared_ptr<const AppendBatch> batch;
  std::vector<Ticket> tickets;  // of batch->appends
  unsigned failures = 0;  // attempts without a decision, for the backoff
  bool may_have_landed = false;  // some attempt was answered unknown: a later definite refusal says nothing about that one
};
struct Opening {};
struct Claiming {
  ClaimRequest request;
  unsigned lost = 0;
  unsigned failures = 0;
  bool may_have_landed = false;
  std::optional<Instant> again{};  // set: nothing is out, the same request goes out again then
  bool asking = false;  // a stat is out: who has the newest claim
};
struct Failed {
  Error error;
};
struct Idle {
  Instant look_at;
};
struct Sending {
  Flight flight;
};
struct Resending {
  Flight flight;
  Instant at;
};
struct Deciding {  // reading the stream: are the flight's appends in it?
  Flight flight;
  Refusal cause;
  std::vector<std::optional<Offset>> found;
  Offset from;
  bool other_bytes = false;  // the stream has other bytes under one of our sequences
  std::optional<Owner> newer{};  // the claim that closed our epoch, once the read came to it
  std::optional<Instant> again{};  // set: nothing is out
};
struct Checking {
  std::vector<ConfirmId> covers;
};  // a stat is out, begun after everything these confirms wait for
using Doing = std::variant<Idle, Sending, Resending, Deciding, Checking>;
struct Owning {
  Doing doing;
};
struct Finished {
  Reset reset;
  Outcome outcome;  // of every later call
};
struct Unresolved {  // reset already told; the flight goes on being sent until it is decided
  Doing doing;
  Finished then;
};
using WriterState = std::variant<Opening, Claiming, Failed, Owning, Unresolved, Finished>;

// One ownership of one stream. A value; not thread-safe. step() never fails: what goes wrong is an effect.
class Writer {
 public:
  explicit Writer(WriterConfig config) : config_(std::move(config)), rate_(config_.max_objects_per_second) {}
  Effects step(const Moment& moment, Event event);

  const WriterState& state() const { return state_; }
  Token token() const;  // nil parts before the claim
  const Incarnation& incarnation() const { return incarnation_; }
  const ClaimId& claim_id() const { return claim_id_; }
  Epoch epoch() const { return epoch_; }
  const Offset& acknowledged() const { return acknowledged_; }  // just after our newest record known to be in the stream
  Sequence last_in_stream() const { return last_; }  // its sequence
  std::size_t undecided() const;  // appends queued or in flight
  std::uint64_t queued_bytes() const { return queued_bytes_; }
  Instant next_batch() const { return rate_.next(); }  // not before then, but for a control record

 private:
  struct Step;
  void on(Step&, ClaimNow&);
  void on(Step&, ClaimNotWritten&);
  void on(Step&, ClaimNotFound&);
  void on(Step&, ClaimAnswered&);
  void on(Step&, Queued&);
  void on(Step&, BatchAnswered&);
  void on(Step&, StatAnswered&);
  void on(Step&, ReadAnswered&);
  void on(Step&, GiveUp&);
  void on(Step&, Withdraw&);
  void on(Step&, Tick&);

  std::optional<Instant> wake_at() const;
  void confirm(Step&, const std::vector<ConfirmId>&, const Result<Offset>&);
  Doing* doing();
  // writer_claim.cc
  void send_claim(Step&, Claiming&, Epoch above);
  void lost_claim(Step&, Claiming&, const std::optional<Owner>& to);
  void stat_for_claim(Step&, Claiming&, const Answer<StreamStat>&);
  void claim_again_later(Step&, Claiming&);
  void fail(Step&, Error);
  void own(Step&, const ClaimReceipt&);
  // writer_append.cc
  void pump(Step&);
  Checking covered() const;
  std::optional<Instant> held_until() const;
  void send_next_batch(Step&);
  void send(Step&, Flight);
  void resend_later(Step&, Flight);
  void applied(Step&, Flight, const AppendReceipt&);
  void landed(Step&);
  void acknowledge(Step&, Flight&, std::size_t count, const std::vector<Offset>& offsets);
  void refused(Step&, Flight, const Refusal&);
  void abandon(Step&, const Flight&, const Refusal&);
  void refused_or_unknown(Step&, Flight, const Refusal&);
  void split(Step&, Flight, bool halve);
  void decide(Step&, const Flight&, Fate::Kind, const Error&);
  void refuse_queue(Step&, const Error&, bool confirms);
  // writer_withdraw.cc
  bool withdraw_from_flight(Step&, const Withdraw&);
  // writer_decide.cc
  void closed(Step&, Flight, const Refusal&);
  void look(Step&, Flight, Refusal cause);
  void look_failed(Step&, Deciding, const Refusal&);
  void settle(Step&, Deciding);
  void check(Step&, const StreamStat&);
  // writer_reset.cc
  Finished finished(ResetKind, std::string message, Outcome, std::optional<Owner> current = {}) const;
  Finished finished_by(const Refusal&) const;
  void finish(Step&, Finished);
  void end_unresolved(Step&);
  void finish_lost(Step&, std::string what, std::optional<Owner> current);

  WriterConfig config_;
  WriteRate rate_;
  WriterState state_ = Opening{};
  Incarnation incarnation_{};
  Epoch epoch_{};
  ClaimId claim_id_{};
  ClaimRequest claim_{};  // the claim we own by
  unsigned lost_claims_ = 0;  // before it
  Sequence next_{1};
  Sequence last_{0};
  Offset acknowledged_{};
  std::deque<Pending> queue_;
  std::uint64_t queued_bytes_ = 0;
  std::deque<Confirm> confirms_;
  unsigned failed_looks_ = 0;
};

// The outcome that every later call on a handle reset in this way is answered with, when nothing more precise is known.
Outcome outcome_of(ResetKind kind);

// Nothing of the stream is there, and nobody removed it: a removal leaves a tombstone, and its answer names a floor. Whoever had begun with that stream waits, as
// for a home out of reach: its folder was moved, or is not mounted at the moment.
inline bool out_of_sight(const Refusal& refusal) { return refusal.outcome == Outcome::not_found && !refusal.floor; }

// The owner that a claim record, or a stat, names.
Owner owner_of(const Record& claim);
Owner owner_of(const StreamStat& stat);

// How every message about a lost ownership ends; a front puts what it knows of the refused write before it.
inline constexpr std::string_view kOnlyToTakeItBack = "Open the database again only if you mean to take it back.";
// "pid 4711 on host b (epoch 2)": how messages name an owner.
std::string describe(const Owner& owner);
// What a fenced handle's user reads; names both epochs, the new owner, and what is the last write of ours that is in the stream.
std::string fenced_message(std::string_view stream, Epoch ours, Sequence last_in_stream, const std::optional<Owner>& current);

}  // namespace onepen::core
