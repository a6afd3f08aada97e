// The fence: the home's side of "exactly one writer". Every home answers every change through apply(), in the order of its stream, in the same step
// that stores the payload; on a node every voter runs it, in log order.
//
// Concept: apply(state, command) → Decision. Pure: no I/O, clock, thread or randomness; time and ids come in the command. A refused command leaves the
// state as it was, with two exceptions that never favour the caller: state time may rise, and evidence of the future marks the stream suspect.
// Payloads are opaque: only digest and size come in. A fold applies the commands of its log in order; what apply() refuses is void (rule B4).
// Commands hold views: they are read during the call and never kept. No allocation on the append path (docs/formats/fence-state.md, "Memory").
// Thread-safety: none needed; a StreamState belongs to whoever applies to it.
//
//   one stream                                     one epoch of a fence-required stream
//
//            create                                          claim (a higher epoch)
//   absent ─────────► present ──► soft_deleted        floor ───────────────────► current ──┐ append: sequence = last + 1
//     ▲                │  ▲ │         │                 ▲                        │   ▲    │ or positional: tail matches
//     ┆   admin delete │  │ └──── evidence ──► suspect  │ new incarnation:       │   └────┘
//     ┆                ▼  │ create            │ adopt   └── the floor stays, ────┤
//     └┄┄┄┄┄┄┄┄┄┄┄ deleted (the floor stays)  └► present     nobody owns it      │ claim of a higher epoch
//                                               (new incarnation, no owner)      ▼
//                                                                             closed (last sequence kept) ──► older than the table: one floor
#pragma once
#include <variant>

#include "core/fence_state.h"

namespace onepen::core {

// Makes a stream, also over a tombstone (then with the old floor, and `incarnation` must be new).
struct CreateCommand {
  Incarnation incarnation;
  StreamConfig config;
  bool closed = false;
  Position tail;  // where it begins
  std::int64_t time_ms = 0;
};

// One append of data, control or snapshot kind. Three forms:
//   plain        nothing, or producer + epoch + sequence (base protocol)
//   sequenced    producer + epoch + claim id + sequence ≥ 1 + incarnation
//   positional   producer + epoch + claim id + if_tail + commit + incarnation, no sequence
struct AppendCommand {
  RecordKind kind = RecordKind::data;
  std::string_view producer{};
  std::optional<Incarnation> incarnation{};
  std::optional<Epoch> epoch{};
  std::optional<Sequence> sequence{};
  ClaimId claim_id{};
  CommitId commit{};
  std::optional<Position> if_tail{};
  Digest digest{};
  std::uint64_t size = 0;
  Position next{};  // just after it, if it applies
  std::int64_t time_ms = 0;
  bool close = false;  // the stream's last append; on a plain stream it may be empty
  std::string_view content_type{};  // empty: not given
  std::string_view stream_seq{};    // empty: not given
  std::optional<NamespaceFence> namespace_fence{};  // control records of a move only: the state it puts in force
};

// The append that opens a higher epoch and closes the current one.
struct ClaimCommand {
  std::string_view producer = kOwnerProducer;
  std::optional<Incarnation> incarnation{};  // none: whichever is current
  Epoch epoch;
  ClaimId claim_id;
  std::optional<ClaimId> over{};      // conditional: only over this claim (nil: only if this incarnation has no owner)
  std::optional<Position> if_tail{};  // conditional: and only at this tail
  Digest digest{};                    // of its whole content, so that two requests under one claim id are told apart
  std::uint64_t size = 0;
  Position next{};
  std::int64_t time_ms = 0;
  OwnerInfo owner;
};

// Every other change by the owner (on a plain stream: by anybody; the token is then absent).
enum class Change : std::uint8_t { snapshot, trim, configure, remove, fork, report_suspect };
struct ChangeCommand {
  Change change;
  std::string_view producer{};
  std::optional<Incarnation> incarnation{};
  std::optional<Epoch> epoch{};
  ClaimId claim_id{};
  std::optional<Position> if_tail{};
  Position at{};                      // snapshot, trim: where
  std::uint64_t freed_bytes = 0;      // trim
  std::optional<StreamConfig> config{};  // configure; the kind cannot change
  bool keep_for_forks = false;        // remove: soft
  std::int64_t time_ms = 0;
};

// What an admin may do without owning: names incarnation and tail instead of a token. All but `remove` begin a new incarnation without an owner.
enum class AdminAct : std::uint8_t { remove, restore, forced_recovery, accept_loss, adopt };
struct AdminCommand {
  AdminAct act;
  Incarnation incarnation;
  Position tail;
  Incarnation next_incarnation{};  // fresh
  Position next_tail{};            // where the new history ends now
  Epoch floor{};                   // highest epoch known of the old history; the state's own floor counts too
  bool kept = false;               // the new history holds everything the old one held (also when next_tail is spelled another way)
  bool keep_for_forks = false;     // remove: soft
  std::int64_t time_ms = 0;
};

// Drops what idle plain producers left but their floors. Changes no later outcome; only memory.
struct SweepCommand {
  std::int64_t time_ms = 0;
};

using Command = std::variant<CreateCommand, AppendCommand, ClaimCommand, ChangeCommand, AdminCommand, SweepCommand>;

// Which rule decided; for messages, scenario files and tests. docs/outcomes.md explains the outcomes, not these.
enum class Why : std::uint8_t {
  none,
  malformed,
  size_limit,
  quota,
  producer_limit,
  absent,
  removed,
  no_producer,
  other_producer,
  no_claim_id,
  no_incarnation,
  other_incarnation,
  not_fenced_stream,
  suspect,
  evidence,
  epoch_old,
  epoch_jump,
  epoch_skips_start,
  other_claim,
  base_claimed,
  no_owner,
  claim_not_higher,
  same_bytes,
  no_receipt,
  other_bytes,
  gap,
  namespace_fence,
  tail_moved,
  closed,
  content_type,
  stream_seq,
  configuration,
  position,
};

// The answer. Optional details are set exactly where fence.md asks for them.
struct Decision {
  Outcome outcome = Outcome::invalid;
  Why why = Why::none;
  bool changed = false;       // the state is not what it was (state time aside)
  Incarnation incarnation;    // of the stream now
  Position tail;              // of the stream now (after an applied append: just after it)
  Epoch epoch;                // current epoch of that producer (Producer-Epoch)
  ClaimId claim_id;           // holder of that epoch
  Sequence last;              // its highest applied sequence (Producer-Seq)
  std::optional<Position> receipt{};          // applied, duplicate: just after this very append, as first answered
  Applied applied = Applied::no;              // epoch-closed: what became of this very append (Producer-Applied)
  Epoch closed_epoch;                         // applied or repeated claim, plain producer that raised its epoch
  std::optional<Sequence> closed_sequence{};  // the same; epoch-closed: last applied sequence of the request's epoch, when known
  std::optional<Sequence> expected{};         // sequence-gap; closed
  std::optional<Sequence> received{};         // sequence-gap
  bool ok() const { return outcome == Outcome::applied || outcome == Outcome::duplicate; }
  bool operator==(const Decision&) const = default;
};

[[nodiscard]] Decision apply(StreamState& state, const CreateCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const AppendCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const ClaimCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const ChangeCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const AdminCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const SweepCommand& command);
[[nodiscard]] Decision apply(StreamState& state, const Command& command);

// A fork of `source` as it is: new incarnation, no owner, the source's floor and kind, no namespace record. Check first with Change::fork.
StreamState forked(const StreamState& source, Incarnation incarnation, Position tail, std::int64_t time_ms);

// Time a proposer puts into a command: its wall clock, but never below state time and never more than 60 s ahead of state time plus what its own
// monotonic clock says has passed since it saw that state time. So one broken clock cannot expire every producer of a stream.
inline constexpr std::int64_t kMaxTimeAheadMs = 60'000;
std::int64_t proposed_time(std::int64_t state_time_ms, std::int64_t elapsed_ms, std::int64_t wall_ms);

// Room for all receipts of the owner now, so that no later append allocates (else a ring grows by doubling, at most 8 times in a stream's life).
void reserve_receipts(StreamState& state);

}  // namespace onepen::core
