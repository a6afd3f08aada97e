#include "home/object/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/guard.h"
#include "home/object/position.h"
#include "wire/ready_record.h"

namespace onepen::home {
namespace {

using core::Position;
using wire::LogObject;
using wire::ObjectKind;

// Wall clocks of makers are for people; a crazy one must not make its claim malformed.
std::int64_t tame(std::int64_t time_ms) { return std::clamp<std::int64_t>(time_ms, 0, static_cast<std::int64_t>(kMaxWireNumber)); }

std::optional<core::AdminAct> act_of(const std::string& word) {
  using core::AdminAct;
  constexpr std::array<std::pair<std::string_view, AdminAct>, 4> kActs{
      {{"restore", AdminAct::restore}, {"adopt", AdminAct::adopt}, {"forced-recovery", AdminAct::forced_recovery}, {"accept-loss", AdminAct::accept_loss}}};
  for (const auto& [text, act] : kActs)
    if (text == word) return act;
  return std::nullopt;
}

tl::unexpected<FoldFault> fault(std::string what) { return tl::unexpected(FoldFault{std::move(what)}); }

}  // namespace

Offset LogFold::tail() const {
  if (state_.presence == core::Presence::absent) return {};
  return to_offset(ordinal_, state_.tail, state_.incarnation);
}

core::ClaimCommand LogFold::claim_command(const LogObject& o) const {
  core::ClaimCommand c;
  c.incarnation = o.incarnation;
  c.epoch = o.epoch;
  c.claim_id = o.claim_id;
  c.over = o.claim.over;
  c.if_tail = o.claim.if_tail;
  c.digest = wire::claim_digest(o);
  c.next = Position{o.id, 1};
  c.time_ms = tame(o.time_ms);
  c.owner = o.claim.owner;
  return c;
}

core::AppendCommand LogFold::append_command(const LogObject& o, std::size_t i) const {
  core::AppendCommand c;
  c.kind = o.appends[i].kind;
  c.producer = core::kOwnerProducer;
  c.incarnation = o.incarnation;
  c.epoch = o.epoch;
  c.sequence = Sequence{o.first.value + i};
  c.claim_id = o.claim_id;
  c.digest = o.appends[i].digest;
  c.size = o.appends[i].payload.size();
  c.next = Position{o.id, i + 1};
  c.time_ms = tame(o.time_ms);
  return c;
}

void LogFold::stamp(LogObject& next) const {
  next.stream = name_;
  next.id = next_id_;
  next.ordinal = std::max<std::uint32_t>(ordinal_, 1);
  next.incarnation = state_.incarnation;
  next.prev_id = prev_id_;
  next.prev_checksum = prev_checksum_;
  next.claim_at = claim_at_;
  next.claims_since_data = state_.claims_since_data;
  if (next.kind != ObjectKind::claim) return;
  if (state_.presence != core::Presence::present) next.ordinal = ordinal_ + 1;
  next.claim.contenders = state_.contenders;
  if (!state_.owner.live) return;
  next.claim.closed_epoch = state_.owner.epoch;
  next.claim.closed_sequence = state_.owner.last;
}

bool LogFold::take_claim(const LogObject& o) {
  auto command = claim_command(o);
  if (state_.presence == core::Presence::present) {
    if (o.ordinal != ordinal_ && guard_on(Guard::b4_current_only)) return false;
    auto d = apply(state_, command);
    if (d.outcome != Outcome::applied) return false;
    closed_by_[o.id] = {d.closed_epoch, d.closed_sequence.value_or(Sequence{})};
  } else {
    // The stream's first claim makes it; so does the first after a tombstone, with a new incarnation (B7). Both or neither.
    if (o.ordinal != ordinal_ + 1) return false;
    core::StreamState made = state_;
    core::CreateCommand create;
    create.incarnation = o.incarnation;
    create.tail = Position{o.id, 0};
    create.time_ms = tame(o.time_ms);
    if (apply(made, create).outcome != Outcome::applied || apply(made, command).outcome != Outcome::applied) return false;
    state_ = std::move(made);
    ordinal_ = o.ordinal;
    closed_by_[o.id] = {};
  }
  endpoint_.clear();
  claim_at_ = o.id;
  return true;
}

bool LogFold::take_appends(const LogObject& o) {
  for (std::size_t i = 0; i < o.appends.size(); ++i) {
    auto d = apply(state_, append_command(o, i));
    if (d.outcome == Outcome::applied) continue;
    if (guard_on(Guard::b4_current_only)) return false;
    state_.tail = Position{o.id, i + 1};  // the mutation: everything counts
  }
  for (const auto& a : o.appends)
    if (a.kind == core::RecordKind::control)
      if (auto endpoint = wire::decode_ready(a.payload)) endpoint_ = *endpoint;
  return true;
}

bool LogFold::take_change(const LogObject& o) {
  core::AdminCommand c;
  c.incarnation = o.incarnation;
  c.tail = state_.tail;
  c.time_ms = tame(o.time_ms);
  if (o.kind == ObjectKind::tombstone) {
    if (!o.claim_id.nil()) {  // by the owner, who shows its token; else by an admin
      core::ChangeCommand remove{core::Change::remove, core::kOwnerProducer, o.incarnation, o.epoch, o.claim_id};
      remove.time_ms = c.time_ms;
      return apply(state_, remove).outcome == Outcome::applied;
    }
    c.act = core::AdminAct::remove;
    return apply(state_, c).outcome == Outcome::applied;
  }
  auto act = act_of(o.history.act);
  if (!act || o.history.next_ordinal != ordinal_ + 1) return false;
  c.act = *act;
  c.next_incarnation = o.history.next;
  c.next_tail = Position{o.id, 0};
  c.floor = o.history.floor;
  if (apply(state_, c).outcome != Outcome::applied) return false;
  ordinal_ = o.history.next_ordinal;
  endpoint_.clear();
  return true;
}

tl::expected<bool, FoldFault> LogFold::take(const LogObject& o, std::vector<core::Record>* out) {
  if (o.stream != name_) return fault(fmt::format("it belongs to the stream '{}'", o.stream.text()));
  if (o.id != next_id_) return fault(fmt::format("it says that it is object {}", o.id));
  bool counts = o.kind == ObjectKind::claim ? take_claim(o) : o.kind == ObjectKind::appends ? take_appends(o) : take_change(o);
  ++next_id_;
  if (!counts) {
    void_.insert(o.id);
    return false;
  }
  if (!o.raced && (o.prev_id != prev_id_ || o.prev_checksum != prev_checksum_) && guard_on(Guard::b4_current_only))
    return fault(fmt::format("it follows object {} with checksum {:016x}, but the log has object {} with checksum {:016x} there", o.prev_id, o.prev_checksum,
                             prev_id_, prev_checksum_));
  prev_id_ = o.id;
  prev_checksum_ = o.checksum;
  if (out != nullptr) replay(o, 0, *out);
  return true;
}

tl::expected<void, FoldFault> LogFold::begin_after(const LogObject& o, const LogObject& claim) {
  if (o.stream != name_ || claim.stream != name_) return fault(fmt::format("it belongs to the stream '{}'", o.stream.text()));
  if (claim.kind != ObjectKind::claim || (o.kind != ObjectKind::claim && o.kind != ObjectKind::appends)) return fault("no epoch begins there");
  if (claim.claim_id != o.claim_id || claim.epoch != o.epoch || claim.incarnation != o.incarnation)
    return fault(fmt::format("object {} is not the claim it was made under", claim.id));
  *this = LogFold(name_);
  base_ = o.id;
  next_id_ = o.id + 1;
  prev_id_ = o.id;
  prev_checksum_ = o.checksum;
  claim_at_ = claim.id;
  ordinal_ = o.ordinal;
  auto& s = state_;
  s.presence = core::Presence::present;
  s.incarnation = o.incarnation;
  s.tail = Position{o.id, o.kind == ObjectKind::claim ? 1 : o.appends.size()};
  s.time_ms = tame(o.time_ms);
  s.owner_producer = core::kOwnerProducer;
  s.newest_claim = o.claim_id;
  s.owner_info = claim.claim.owner;
  s.claimed_ms = tame(claim.time_ms);
  s.contenders = claim.claim.contenders;
  if (s.contenders.size() == core::kMaxContenders) s.contenders.erase(s.contenders.begin());
  s.contenders.push_back(claim.claim.owner.name);
  s.claims_since_data = o.claims_since_data + (o.kind == ObjectKind::claim && claim.claim.closed_epoch.value != 0 ? 1 : 0);
  auto& p = s.owner;
  p.epoch = o.epoch;
  p.claim_id = o.claim_id;
  p.live = true;
  p.last_time_ms = s.time_ms;
  p.known_from = o.epoch;
  p.claim = {wire::claim_digest(claim), claim.claim.closed_epoch, claim.claim.closed_sequence, Position{claim.id, 1}};
  closed_by_[claim.id] = {claim.claim.closed_epoch, claim.claim.closed_sequence};
  p.last = Sequence{o.first.value == 0 ? 0 : o.first.value - 1};
  s.owner.receipts.clear();
  const auto tail = s.tail;
  s.tail = Position{o.id, 0};
  if (o.kind == ObjectKind::appends && !take_appends(o)) return fault("its appends do not follow one another");
  s.tail = tail;
  return {};
}

void LogFold::replay(const LogObject& o, std::size_t skip, std::vector<core::Record>& out) const {
  if (o.kind == ObjectKind::claim && skip == 0) {
    core::Record r;
    r.kind = core::RecordKind::claim;
    r.incarnation = o.incarnation;
    r.epoch = o.epoch;
    r.claim_id = o.claim_id;
    r.time_ms = o.time_ms;
    r.next = to_offset(o.ordinal, Position{o.id, 1}, o.incarnation);
    r.owner = o.claim.owner;
    auto closed = closed_by_.find(o.id);
    r.closed_epoch = closed != closed_by_.end() ? closed->second.first : o.claim.closed_epoch;
    r.closed_sequence = closed != closed_by_.end() ? closed->second.second : o.claim.closed_sequence;
    out.push_back(std::move(r));
  }
  for (std::size_t i = skip; i < o.appends.size(); ++i) {
    core::Record r;
    r.kind = o.appends[i].kind;
    r.incarnation = o.incarnation;
    r.epoch = o.epoch;
    r.claim_id = o.claim_id;
    r.sequence = Sequence{o.first.value + i};
    r.time_ms = o.time_ms;
    r.next = to_offset(o.ordinal, Position{o.id, i + 1}, o.incarnation);
    r.payload = to_bytes(o.appends[i].payload);
    out.push_back(std::move(r));
  }
}

}  // namespace onepen::home
