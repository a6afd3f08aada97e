#include "home/object/fold.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "core/fence_view.h"
#include "home/object/history_word.h"
#include "wire/ready_record.h"

namespace onepen::home {
namespace {

using core::Position;
using wire::LogObject;
using wire::ObjectKind;

// Wall clocks of makers are for people; a crazy one must not make its claim malformed.
std::int64_t tame(std::int64_t time_ms) { return std::clamp<std::int64_t>(time_ms, 0, static_cast<std::int64_t>(kMaxWireNumber)); }

tl::unexpected<FoldFault> fault(std::string what) { return tl::unexpected(FoldFault{std::move(what)}); }

}  // namespace

Offset LogFold::tail() const {
  if (state_.presence == core::Presence::absent) return {};
  return to_offset(ordinal_, state_.tail, state_.incarnation, state_.owner.live ? state_.owner.claim_id : ClaimId{});
}

const LogFold::EpochAt* LogFold::epoch_at(std::uint64_t id) const {
  auto after = epochs_.upper_bound(id);
  return after == epochs_.begin() ? nullptr : &std::prev(after)->second;
}

void LogFold::begin_epoch(std::uint64_t id, Epoch closed_epoch, Sequence closed_sequence) {
  epochs_[id] = {state_.incarnation, ordinal_, state_.owner.live ? state_.owner.claim_id : ClaimId{}, closed_epoch, closed_sequence};
}

Offset LogFold::offset_of(Position at) const {
  const auto* epoch = epoch_at(at.high);
  return epoch == nullptr ? Offset{} : to_offset(epoch->ordinal, at, epoch->incarnation, epoch->claim_id);
}

std::uint64_t LogFold::history_at() const {
  auto first = std::find_if(epochs_.begin(), epochs_.end(), [&](const auto& epoch) { return epoch.second.ordinal == ordinal_; });
  return first == epochs_.end() ? 0 : first->first;
}

bool LogFold::cut_off(Position at) const {
  if (!guard_on(Guard::b7_cut)) return false;
  return std::any_of(cuts_.begin(), cuts_.end(), [&](const Cut& cut) { return at > cut.common && at.high < cut.at; });
}

bool LogFold::leads_on(const ParsedOffset& at) const {
  const auto* epoch = epoch_at(at.at.high);
  return epoch != nullptr && at.ordinal == epoch->ordinal && at.tag == offset_tag(epoch->incarnation, epoch->claim_id) && !is_void(at.at.high) &&
         !cut_off(at.at) && state_.presence == core::Presence::present;
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
  next.log_bytes = log_bytes_;
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
    begin_epoch(o.id, d.closed_epoch, d.closed_sequence.value_or(Sequence{}));
  } else {
    // The stream's first claim makes it; so does the first after a tombstone, with a new incarnation (B7). Both or neither.
    if (o.ordinal != ordinal_ + 1) return false;
    core::StreamState made = state_;
    core::CreateCommand create;
    create.incarnation = o.incarnation;
    create.tail = Position{o.id, 0};
    create.time_ms = tame(o.time_ms);
    if (apply(made, create).outcome != Outcome::applied || apply(made, command).outcome != Outcome::applied) return false;
    if (state_.presence == core::Presence::deleted) cuts_.push_back({Position{}, o.id});  // what was removed is no part of what is made now
    state_ = std::move(made);
    ordinal_ = o.ordinal;
    content_from_ = o.id;
    begin_epoch(o.id);
  }
  endpoint_.clear();
  released_ = false;
  removed_ms_ = 0;
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
  for (const auto& a : o.appends) {
    released_ = a.kind == core::RecordKind::control && wire::decode_released(a.payload);  // whoever goes on is not gone
    if (a.kind != core::RecordKind::control) continue;
    if (auto endpoint = wire::decode_ready(a.payload)) endpoint_ = *endpoint;
  }
  return true;
}

bool LogFold::take_tombstone(const LogObject& o) {
  if (!o.claim_id.nil()) {  // by the owner, who shows its token; else by an admin
    core::ChangeCommand remove{core::Change::remove, core::kOwnerProducer, o.incarnation, o.epoch, o.claim_id};
    remove.time_ms = tame(o.time_ms);
    if (apply(state_, remove).outcome != Outcome::applied) return false;
  } else {
    core::AdminCommand c;
    c.act = core::AdminAct::remove;
    c.incarnation = o.incarnation;
    c.tail = state_.tail;
    c.time_ms = tame(o.time_ms);
    if (apply(state_, c).outcome != Outcome::applied) return false;
  }
  removed_ms_ = o.time_ms;
  endpoint_.clear();
  released_ = false;
  return true;
}

bool LogFold::take_history(const LogObject& o) {
  const HistoryWord* word = history_word(o.history.act);
  const Position end = state_.tail;
  if (word == nullptr || o.history.next_ordinal != ordinal_ + 1 || o.history.common > end) return false;
  const bool kept = o.history.common == end;
  core::AdminCommand c;
  c.act = core::act_of(word->act);
  c.incarnation = o.incarnation;
  c.tail = end;
  c.time_ms = tame(o.time_ms);
  c.next_incarnation = o.history.next;
  c.next_tail = Position{o.id, 0};
  c.floor = o.history.floor;
  c.kept = kept;
  if (apply(state_, c).outcome != Outcome::applied) return false;
  ordinal_ = o.history.next_ordinal;
  begin_epoch(o.id);
  endpoint_.clear();
  released_ = false;
  removed_ms_ = 0;
  suspect_.clear();
  if (kept) return true;
  cuts_.push_back({o.history.common, o.id});
  content_from_ = o.id;
  return true;
}

// By whoever holds what this log lacks: a claim above any known here, or the newest one with more behind it than is here.
bool LogFold::take_evidence(const LogObject& o) {
  if (state_.suspect) return false;
  core::ChangeCommand report{core::Change::report_suspect, core::kOwnerProducer, o.incarnation, o.epoch, o.claim_id};
  report.time_ms = tame(o.time_ms);
  (void)apply(state_, report);
  if (state_.suspect) suspect_ = fmt::format("{} (seen by the owner of epoch {})", o.what, o.epoch.value);
  return state_.suspect;
}

void LogFold::pass_void() { void_.insert(next_id_++); }

tl::expected<bool, FoldFault> LogFold::take(const LogObject& o, std::vector<core::Record>* out) {
  if (o.stream != name_) return fault(fmt::format("it belongs to the stream '{}'", o.stream.text()));
  if (o.id != next_id_) return fault(fmt::format("it says that it is object {}", o.id));
  const auto ordinal = ordinal_;
  bool counts = false;
  switch (o.kind) {
    case ObjectKind::claim: counts = take_claim(o); break;
    case ObjectKind::appends: counts = take_appends(o); break;
    case ObjectKind::tombstone: counts = take_tombstone(o); break;
    case ObjectKind::history: counts = take_history(o); break;
    case ObjectKind::evidence: counts = take_evidence(o); break;
  }
  ++next_id_;
  log_bytes_ = (counts ? std::max(log_bytes_, o.log_bytes) : log_bytes_) + o.size;
  if (!counts) {
    void_.insert(o.id);
    return false;
  }
  if (!o.raced && (o.prev_id != prev_id_ || o.prev_checksum != prev_checksum_) && guard_on(Guard::b4_current_only))
    return fault(fmt::format("it follows object {} with checksum {:016x}, but the log has object {} with checksum {:016x} there", o.prev_id, o.prev_checksum,
                             prev_id_, prev_checksum_));
  if (o.kind != ObjectKind::claim && o.ordinal != ordinal)  // a claim may open the next one, and is void otherwise
    return fault(fmt::format("it says that it belongs to history {} of the stream, but the log is in history {} there", o.ordinal, ordinal));
  prev_id_ = o.id;
  prev_checksum_ = o.checksum;
  if (out != nullptr) replay(o, 0, *out);
  return true;
}

tl::expected<void, FoldFault> LogFold::begin_after(const LogObject& o, const LogObject& claim) {
  if (o.stream != name_ || claim.stream != name_) return fault(fmt::format("it belongs to the stream '{}'", o.stream.text()));
  const bool history = o.kind == ObjectKind::history;
  if (!history && (claim.kind != ObjectKind::claim || (o.kind != ObjectKind::claim && o.kind != ObjectKind::appends))) return fault("no epoch begins there");
  if (!history && (claim.claim_id != o.claim_id || claim.epoch != o.epoch || claim.incarnation != o.incarnation || claim.ordinal != o.ordinal))
    return fault(fmt::format("object {} is not the claim it was made under", claim.id));
  *this = LogFold(name_);
  base_ = o.id;
  next_id_ = o.id + 1;
  prev_id_ = o.id;
  prev_checksum_ = o.checksum;
  log_bytes_ = o.log_bytes + o.size;
  claim_at_ = history ? o.claim_at : claim.id;
  ordinal_ = history ? o.history.next_ordinal : o.ordinal;
  if (history) {
    begin_history(o);
    return {};
  }
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
  begin_epoch(claim.id, claim.claim.closed_epoch, claim.claim.closed_sequence);
  p.last = Sequence{o.first.value == 0 ? 0 : o.first.value - 1};
  s.owner.receipts.clear();
  const auto tail = s.tail;
  s.tail = Position{o.id, 0};
  if (o.kind == ObjectKind::appends && !take_appends(o)) return fault("its appends do not follow one another");
  s.tail = tail;
  return {};
}

// A fold that knows of a history only how it began.
void LogFold::begin_history(const LogObject& o) {
  auto& s = state_;
  s.presence = core::Presence::present;
  s.incarnation = o.history.next;
  s.tail = Position{o.id, 0};
  s.time_ms = tame(o.time_ms);
  s.owner_producer = core::kOwnerProducer;
  s.newest_claim = o.history.newest_claim;
  s.claims_since_data = o.claims_since_data;
  s.owner.epoch = o.history.floor;
  s.owner.known_from = Epoch{o.history.floor.value + 1};
  begin_epoch(o.id);
  if (o.history.snapshot.empty()) return;
  cuts_.push_back({o.history.common, o.id});
  content_from_ = o.id;
}

void LogFold::begin_with(wire::FoldState f) {
  *this = LogFold(name_);
  state_ = std::move(f.state);
  start_ = state_.tail;
  base_ = next_id_ = f.next_id;
  prev_id_ = f.prev_id;
  prev_checksum_ = f.prev_checksum;
  claim_at_ = f.claim_at;
  ordinal_ = f.ordinal;
  content_from_ = f.content_from;
  log_bytes_ = f.log_bytes;
  endpoint_ = std::move(f.endpoint);
  released_ = f.released;
  removed_ms_ = f.removed_ms;
  suspect_ = std::move(f.suspect);
  if (state_.presence == core::Presence::present)
    begin_epoch(state_.owner.live ? claim_at_ : state_.tail.high, state_.owner.claim.closed_epoch, state_.owner.claim.closed_sequence);
}

wire::FoldState LogFold::save() const {
  wire::FoldState f{state_, next_id_, prev_id_, prev_checksum_, claim_at_, ordinal_, content_from_, log_bytes_, endpoint_, released_, removed_ms_, suspect_};
  return f;
}

void LogFold::replay(const LogObject& o, std::size_t skip, std::vector<core::Record>& out) const {
  if (o.kind == ObjectKind::claim && skip == 0) {
    core::Record r;
    r.kind = core::RecordKind::claim;
    r.incarnation = o.incarnation;
    r.epoch = o.epoch;
    r.claim_id = o.claim_id;
    r.time_ms = o.time_ms;
    r.next = to_offset(o.ordinal, Position{o.id, 1}, o.incarnation, o.claim_id);
    r.owner = o.claim.owner;
    auto closed = epochs_.find(o.id);
    r.closed_epoch = closed != epochs_.end() ? closed->second.closed_epoch : o.claim.closed_epoch;
    r.closed_sequence = closed != epochs_.end() ? closed->second.closed_sequence : o.claim.closed_sequence;
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
    r.next = to_offset(o.ordinal, Position{o.id, i + 1}, o.incarnation, o.claim_id);
    r.payload = to_bytes(o.appends[i].payload);
    out.push_back(std::move(r));
  }
}

}  // namespace onepen::home
