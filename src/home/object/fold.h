// The fold of one stream's log (homes.md, B4): the same rule for owner, claimer, reader and every later compactor. Pure; no I/O.
//
// Concept: objects go in by rising id, none left out; each either counts, and changes the state through core/fence.h, or is void and skipped for ever.
// The fold stops at the first absent id, which is its caller's business: it is never told of anything beyond.
//
//            first object is a claim               claim with a higher epoch
//   absent ───────────────────────────► owned ───────────────────────────────► owned (by the next)
//      ▲                                 │  │ appends of the current epoch and claim with the next sequence: count; all else: void
//      │ claim (a new incarnation)       │  └ history record ► present, nobody owns it: only a claim counts
//   deleted ◄────────────────────────────┘ tombstone
//
// Evidence of the future makes a present stream suspect: then only `adopt` counts.
//
// A fold may also begin in the middle: with the state that a pack or a snapshot kept (all is known then), or after an object that is known to count (a
// position somebody was given): then it knows nothing of older closed epochs and receipts, and says `unknown` where they would decide.
// Thread-safety: none; belongs to one stream session.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/fence.h"
#include "core/home.h"
#include "home/object/position.h"
#include "wire/fold_state.h"
#include "wire/log_object.h"

namespace onepen::home {

// Why a fold cannot go on.
struct FoldFault {
  std::string what;
};

class LogFold {
 public:
  explicit LogFold(StreamName name) : name_(std::move(name)) {}

  // The next object. True: it counts; its records are added to `out` (may be null). Faults: it cannot be an object of this log.
  tl::expected<bool, FoldFault> take(const wire::LogObject& object, std::vector<core::Record>* out);
  // The next object is in no pack that covers it: void.
  void pass_void();
  // Begins just after `object`, which counts; `claim` is the object its epoch began with (itself, when it is a claim or a history).
  tl::expected<void, FoldFault> begin_after(const wire::LogObject& object, const wire::LogObject& claim);
  void begin_with(wire::FoldState state);
  wire::FoldState save() const;
  // The records of an object already taken, from index `skip` on.
  void replay(const wire::LogObject& object, std::size_t skip, std::vector<core::Record>& out) const;

  core::StreamState& state() { return state_; }
  const core::StreamState& state() const { return state_; }
  std::uint64_t base() const { return base_; }        // the first id it took
  std::uint64_t next_id() const { return next_id_; }  // the first it did not take
  void skip_to(std::uint64_t id) { next_id_ = id; }   // only with b4_stop_at_absent switched off
  bool is_void(std::uint64_t id) const { return void_.contains(id); }
  const std::string& endpoint() const { return endpoint_; }
  bool released() const { return released_; }
  std::uint64_t log_bytes() const { return log_bytes_; }
  std::int64_t removed_ms() const { return removed_ms_; }
  const std::string& suspect() const { return suspect_; }
  std::uint32_t ordinal() const { return ordinal_; }  // of the newest history; 0: none yet
  // Id of the object with which what the stream holds began: its first claim, or the history that cut the one before. 0: not known to this fold, or none.
  std::uint64_t content_from() const { return content_from_; }
  std::uint64_t history_at() const;  // id of the object with which the newest history began
  bool has_cuts() const { return !cuts_.empty(); }
  // Whether the fold knows what lies at `at` (a position of an object it took, or the one it was begun with).
  bool covers(core::Position at) const { return (at.high >= base_ && at.high < next_id_) || (start_ && at == *start_); }
  const std::optional<core::Position>& start() const { return start_; }  // begin_with: where
  Offset tail() const;
  // How a position of a folded object is spelled; whether `at` is one, and still leads to the newest history; whether a history left it behind.
  Offset offset_of(core::Position at) const;
  bool leads_on(const ParsedOffset& at) const;
  bool cut_off(core::Position at) const;

  // What the maker of the next object writes into its header.
  void stamp(wire::LogObject& next) const;
  // What `object` asks of the fence.
  core::ClaimCommand claim_command(const wire::LogObject& object) const;
  core::AppendCommand append_command(const wire::LogObject& object, std::size_t index) const;

 private:
  bool take_claim(const wire::LogObject& object);
  bool take_appends(const wire::LogObject& object);
  bool take_history(const wire::LogObject& object);
  bool take_tombstone(const wire::LogObject& object);
  bool take_evidence(const wire::LogObject& object);

  struct EpochAt {  // what objects from an id on were made under, up to the next entry
    Incarnation incarnation;
    std::uint32_t ordinal = 0;
    ClaimId claim_id;  // nil: nobody owned it yet
    Epoch closed_epoch;
    Sequence closed_sequence;
  };
  struct Cut {  // positions after `common` that lie before object `at` are no part of the stream any more
    core::Position common;
    std::uint64_t at = 0;
  };
  void begin_history(const wire::LogObject& object);
  void begin_epoch(std::uint64_t id, Epoch closed_epoch = {}, Sequence closed_sequence = {});
  const EpochAt* epoch_at(std::uint64_t id) const;

  StreamName name_;
  core::StreamState state_;
  std::uint64_t base_ = 1, next_id_ = 1;
  std::uint64_t prev_id_ = 0, prev_checksum_ = 0, claim_at_ = 0;
  std::uint32_t ordinal_ = 0;
  std::optional<core::Position> start_;
  std::uint64_t content_from_ = 0, log_bytes_ = 0;
  std::int64_t removed_ms_ = 0;
  std::string endpoint_, suspect_;
  bool released_ = false;
  std::set<std::uint64_t> void_;
  std::map<std::uint64_t, EpochAt> epochs_;  // by id of the claim or history
  std::vector<Cut> cuts_;                    // by rising id
};

}  // namespace onepen::home
