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
// A fold may also begin in the middle, after an object that is known to count (a position somebody was given): then it knows nothing of older closed
// epochs and receipts, and says `unknown` where they would decide.
// Thread-safety: none; belongs to one stream session.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "core/fence.h"
#include "core/home.h"
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
  // Begins just after `object`, which counts; `claim` is the object its epoch began with (itself, when it is a claim).
  tl::expected<void, FoldFault> begin_after(const wire::LogObject& object, const wire::LogObject& claim);
  // The records of an object already taken, from index `skip` on.
  void replay(const wire::LogObject& object, std::size_t skip, std::vector<core::Record>& out) const;

  core::StreamState& state() { return state_; }
  const core::StreamState& state() const { return state_; }
  std::uint64_t base() const { return base_; }        // the first id it took
  std::uint64_t next_id() const { return next_id_; }  // the first it did not take
  void skip_to(std::uint64_t id) { next_id_ = id; }   // only with b4_stop_at_absent switched off
  bool is_void(std::uint64_t id) const { return void_.contains(id); }
  const std::string& endpoint() const { return endpoint_; }
  std::uint32_t ordinal() const { return ordinal_; }  // of the newest history; 0: none yet
  Offset tail() const;

  // What the maker of the next object writes into its header.
  void stamp(wire::LogObject& next) const;
  // What `object` asks of the fence.
  core::ClaimCommand claim_command(const wire::LogObject& object) const;
  core::AppendCommand append_command(const wire::LogObject& object, std::size_t index) const;

 private:
  bool take_claim(const wire::LogObject& object);
  bool take_appends(const wire::LogObject& object);
  bool take_change(const wire::LogObject& object);
  bool misplaced(const wire::LogObject& object) const;

  StreamName name_;
  core::StreamState state_;
  std::uint64_t base_ = 1, next_id_ = 1;
  std::uint64_t prev_id_ = 0, prev_checksum_ = 0, claim_at_ = 0;
  std::uint32_t ordinal_ = 0;
  std::string endpoint_;
  std::set<std::uint64_t> void_;
  std::map<std::uint64_t, std::pair<Epoch, Sequence>> closed_by_;  // claim's object id → what it closed
};

}  // namespace onepen::home
