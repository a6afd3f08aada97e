// Everything that happens to a stream besides appends and claims: create, the owner's other changes, admin acts, sweep, fork.
#include <algorithm>

#include "base/guard.h"
#include "core/fence.h"
#include "core/fence_rules.h"

namespace onepen::core {
using namespace rules;

namespace {

// The stream has another history now. Epochs stay used up (I5); nobody owns it until somebody claims.
// `kept`: the new history holds everything the old one held, so what is known of its epochs stays true.
void begin_incarnation(StreamState& s, Incarnation incarnation, Position tail, Epoch floor, bool kept) {
  Producer& p = s.owner;
  if (guard_on(Guard::b7_voids_epoch)) {
    close_epoch(p, kClosedEpochsKept);
    p.live = false;
    p.claim_id = ClaimId{};
    p.last = Sequence{};
    p.claim = StoredClaim{};
  }
  p.epoch = guard_on(Guard::b7_floor_kept) ? std::max(p.epoch, floor) : Epoch{};
  if (!kept) forget(p);
  if (floor.value != 0) forget_through(p, floor);
  for (auto& [id, producer] : s.producers) forget(producer);
  if (guard_on(Guard::b7_voids_epoch)) s.incarnation = incarnation;
  s.tail = tail;
  s.start = std::min(s.start, tail);
  s.snapshot = std::min(s.snapshot, tail);
  s.owner_info = OwnerInfo{};
  s.claimed_ms = 0;
  s.suspect = false;
}

// Leaves a tombstone: what could be written again under an old token stays fenced, everything else goes.
void remove(StreamState& s, bool keep_for_forks) {
  const Epoch floor = s.owner.epoch;
  StreamState stone;
  stone.presence = keep_for_forks ? Presence::soft_deleted : Presence::deleted;
  stone.config = std::move(s.config);
  stone.incarnation = s.incarnation;
  stone.start = stone.snapshot = stone.tail = s.tail;
  stone.time_ms = s.time_ms;
  stone.owner.epoch = floor;
  forget_through(stone.owner, floor);
  s = std::move(stone);
}

void applied(const StreamState& s, Decision& d) {
  d.incarnation = s.incarnation;
  d.tail = s.tail;
  if (s.config.kind == StreamKind::fence_required) tell(s.owner, d);
  d.changed = true;
  refuse(d, Outcome::applied, Why::none);
}

bool well_formed(const StreamConfig& config) {
  return fits(config.content_type) && fits(config.max_append_bytes) && fits(config.max_stream_bytes) &&
         (config.kind == StreamKind::plain || config.kind == StreamKind::fence_required);
}

bool well_formed(const ChangeCommand& c) {
  if (!fits(c.producer) || !fits_time(c.time_ms) || !fits(c.freed_bytes)) return false;
  if (c.epoch && !fits(c.epoch->value)) return false;
  if ((c.change == Change::configure) != c.config.has_value()) return false;
  if (c.config && !well_formed(*c.config)) return false;
  return !c.producer.empty() == c.epoch.has_value() && (!c.producer.empty() || c.claim_id.nil());
}

// Steps 3 and 4 of an owner's change.
bool fence_decides(StreamState& s, const ChangeCommand& c, Decision& d) {
  if (s.config.kind != StreamKind::fence_required) {
    if (!c.claim_id.nil()) return refuse(d, Outcome::invalid, Why::not_fenced_stream);
    return other_history(s, c.incarnation, false, d);
  }
  if (unfenced(s, c.producer, c.claim_id, d) || other_history(s, c.incarnation, true, d)) return true;
  return not_current(s, Identity{*c.epoch, c.claim_id}, d);
}

// Step 7 of a snapshot or trim: monotonic, and never past what a reader could still need.
bool place_refuses(const StreamState& s, const ChangeCommand& c, Decision& d) {
  const Position upper = c.change == Change::snapshot ? s.tail : s.snapshot;
  const Position now = c.change == Change::snapshot ? s.snapshot : s.start;
  if (c.at > upper) return refuse(d, Outcome::invalid, Why::position);
  if (c.at == now || (c.change == Change::trim && c.at < now)) return refuse(d, Outcome::duplicate, Why::same_bytes);
  return c.at < now && refuse(d, Outcome::invalid, Why::position);
}

void carry_out(StreamState& s, const ChangeCommand& c, Decision& d) {
  switch (c.change) {
    case Change::snapshot: s.snapshot = c.at; break;
    case Change::trim:
      s.start = c.at;
      s.stored_bytes -= std::min(s.stored_bytes, c.freed_bytes);
      break;
    case Change::configure: s.config = *c.config; break;
    case Change::remove: remove(s, c.keep_for_forks); break;
    case Change::report_suspect: s.suspect = true; break;
    case Change::fork:
      refuse(d, Outcome::applied, Why::none);  // the source stays as it is
      return;
  }
  applied(s, d);
}

bool well_formed(const AdminCommand& c) {
  if (!fits_time(c.time_ms) || !fits(c.floor.value)) return false;
  return c.act == AdminAct::remove || (!c.next_incarnation.nil() && c.next_incarnation != c.incarnation);
}

}  // namespace

Decision apply(StreamState& s, const CreateCommand& c) {
  Decision d = about(s);
  if (c.incarnation.nil() || !well_formed(c.config) || !fits_time(c.time_ms)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  see_time(s, c.time_ms);
  if (s.presence == Presence::present) {
    const bool same = s.config == c.config && s.closed == c.closed;
    refuse(d, same ? Outcome::duplicate : Outcome::state_mismatch, same ? Why::same_bytes : Why::configuration);
    return d;
  }
  if (s.presence == Presence::soft_deleted) {
    refuse(d, Outcome::state_mismatch, Why::removed);
    return d;
  }
  if (s.presence == Presence::deleted && c.incarnation == s.incarnation) {
    refuse(d, Outcome::invalid, Why::other_incarnation);  // an incarnation is one history, never two
    return d;
  }
  s.presence = Presence::present;
  s.config = c.config;
  s.incarnation = c.incarnation;
  s.closed = c.closed;
  s.start = s.snapshot = s.tail = c.tail;
  applied(s, d);
  return d;
}

Decision apply(StreamState& s, const ChangeCommand& c) {
  Decision d = about(s);
  if (!well_formed(c)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  if (missing(s, d)) return d;
  see_time(s, c.time_ms);
  if (fence_decides(s, c, d)) return d;
  const bool fenced_by_move = c.change == Change::configure || c.change == Change::remove || c.change == Change::fork;
  if (fenced_by_move && namespace_refuses(s, d)) return d;
  if (tail_moved(s, c.if_tail, d)) return d;
  if ((c.change == Change::snapshot || c.change == Change::trim) && place_refuses(s, c, d)) return d;
  if (c.config && c.config->kind != s.config.kind) {
    refuse(d, Outcome::state_mismatch, Why::configuration);
    return d;
  }
  carry_out(s, c, d);
  return d;
}

Decision apply(StreamState& s, const AdminCommand& c) {
  Decision d = about(s);
  if (!well_formed(c)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  const bool revives = c.act == AdminAct::restore && s.presence == Presence::deleted;
  if (!revives && missing(s, d)) return d;
  see_time(s, c.time_ms);
  if (c.act != AdminAct::remove && s.incarnation == c.next_incarnation) {
    refuse(d, Outcome::duplicate, Why::same_bytes);  // its own retry
    return d;
  }
  if (c.incarnation != s.incarnation && guard_on(Guard::fence_incarnation)) {
    refuse(d, Outcome::incarnation_changed, Why::other_incarnation);
    return d;
  }
  if (s.suspect && c.act != AdminAct::adopt) {
    refuse(d, Outcome::fence_unavailable, Why::suspect);
    return d;
  }
  if ((c.act == AdminAct::remove || c.act == AdminAct::restore) && namespace_refuses(s, d)) return d;
  if (tail_moved(s, c.tail, d)) return d;
  if (c.act == AdminAct::remove) {
    remove(s, c.keep_for_forks);
  } else {
    begin_incarnation(s, c.next_incarnation, c.next_tail, c.floor, c.kept || c.next_tail == c.tail);
    s.presence = Presence::present;
  }
  applied(s, d);
  return d;
}

Decision apply(StreamState& s, const SweepCommand& c) {
  Decision d = about(s);
  if (!fits_time(c.time_ms)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  if (missing(s, d)) return d;
  see_time(s, c.time_ms);
  for (auto& [id, producer] : s.producers) {
    if (producer.live && s.time_ms - producer.last_time_ms > kProducerIdleMs) {
      forget(producer);
      d.changed = true;
    }
  }
  refuse(d, Outcome::applied, Why::none);
  return d;
}

StreamState forked(const StreamState& source, Incarnation incarnation, Position tail, std::int64_t time_ms) {
  StreamState fork;
  fork.presence = Presence::present;
  fork.config = source.config;
  fork.incarnation = incarnation;
  fork.start = std::min(source.start, tail);
  fork.snapshot = std::min(source.snapshot, tail);
  fork.tail = tail;
  fork.time_ms = std::max(source.time_ms, time_ms);
  fork.owner.epoch = source.owner.epoch;
  forget_through(fork.owner, source.owner.epoch);
  return fork;
}

std::int64_t proposed_time(std::int64_t state_time_ms, std::int64_t elapsed_ms, std::int64_t wall_ms) {
  const std::int64_t latest = state_time_ms + std::max<std::int64_t>(elapsed_ms, 0) + kMaxTimeAheadMs;
  return std::clamp(wall_ms, state_time_ms, latest);
}

}  // namespace onepen::core
