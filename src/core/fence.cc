#include "core/fence.h"

#include <algorithm>
#include <limits>

#include "core/fence_rules.h"

namespace onepen::core {
using namespace rules;

namespace {

bool has_producer(const AppendCommand& c) { return !c.producer.empty(); }
bool positional(const AppendCommand& c) { return !c.commit.nil(); }

// Step 1. Which form an append has is decided here, before anything is known of the stream.
bool well_formed(const AppendCommand& c) {
  if (!fits(c.producer) || !fits(c.content_type) || !fits(c.stream_seq) || !fits(c.size) || !fits_time(c.time_ms)) return false;
  if (c.kind != RecordKind::data && c.kind != RecordKind::control && c.kind != RecordKind::snapshot) return false;
  if (c.epoch && !fits(c.epoch->value)) return false;
  if (c.sequence && !fits(c.sequence->value)) return false;
  if (c.claim_id.nil() && c.size == 0 && !c.close) return false;  // base protocol: an empty body says nothing unless it closes
  if (c.namespace_fence && (c.kind != RecordKind::control || c.claim_id.nil())) return false;
  if (!has_producer(c)) return !c.epoch && !c.sequence && c.claim_id.nil() && !positional(c);
  if (positional(c)) return c.epoch && !c.sequence && !c.claim_id.nil() && c.if_tail;
  if (!c.epoch || !c.sequence) return false;
  return c.claim_id.nil() || c.sequence->value > 0;  // sequence 0 is the claim
}

bool well_formed(const ClaimCommand& c) {
  const OwnerInfo& o = c.owner;
  for (const std::string* text : {&o.name, &o.host, &o.version, &o.why, &o.liveness}) {
    if (!fits(*text)) return false;
  }
  return !c.producer.empty() && fits(c.producer) && c.epoch.value > 0 && fits(c.epoch.value) && !c.claim_id.nil() && fits(c.size) && fits_time(c.time_ms);
}

// Step 4 of a sequenced append: what its sequence says inside an epoch that is its own.
bool sequence_decides(const Producer& p, const AppendCommand& c, bool digest_counts, Decision& d) {
  const Sequence sequence = *c.sequence;
  const Sequence last = view_of(p, *c.epoch).last;
  if (sequence <= last && guard_on(Guard::fence_duplicate)) {
    const Receipt* receipt = find_receipt(p, *c.epoch, sequence);
    if (receipt == nullptr) return refuse(d, Outcome::duplicate, Why::no_receipt);
    if (digest_counts && receipt->digest != c.digest) return refuse(d, Outcome::cloned, Why::other_bytes);
    d.receipt = receipt->next;
    return refuse(d, Outcome::duplicate, Why::same_bytes);
  }
  if (sequence.value > last.value + 1 && guard_on(Guard::fence_sequence)) {
    d.expected = Sequence{last.value + 1};
    d.received = sequence;
    return refuse(d, Outcome::sequence_gap, Why::gap);
  }
  return false;
}

bool commit_decides(const Producer& p, const AppendCommand& c, Decision& d) {
  const PositionalReceipt* receipt = guard_on(Guard::fence_duplicate) ? find_commit(p, *c.epoch, c.commit) : nullptr;
  if (receipt == nullptr) return false;
  // Many callers share an epoch here, so other bytes under one commit id are that caller's mistake, not a second process on the claim.
  if (receipt->digest != c.digest) return refuse(d, Outcome::content_mismatch, Why::other_bytes);
  d.receipt = receipt->next;
  return refuse(d, Outcome::duplicate, Why::same_bytes);
}

bool unknown_producer_decides(const AppendCommand& c, Decision& d) {
  if (c.sequence->value == 0) return false;
  d.expected = Sequence{0};
  d.received = *c.sequence;
  return refuse(d, Outcome::sequence_gap, Why::gap);
}

// Step 4 for plain producers: the table of the base protocol (durable-streams.md, 8), plus the floor after idle expiry.
bool plain_producer_decides(const StreamState& s, Producer* p, const AppendCommand& c, Decision& d) {
  if (p == nullptr) {
    if (unknown_producer_decides(c, d)) return true;
    return s.producers.size() >= kMaxPlainProducers && refuse(d, Outcome::quota, Why::producer_limit);
  }
  if (p->live && s.time_ms - p->last_time_ms > kProducerIdleMs) forget(*p);
  tell(*p, d);
  const Identity identity{*c.epoch, {}, c.sequence, {}, c.digest};
  if (*c.epoch < p->epoch && guard_on(Guard::fence_epoch)) return epoch_closed(*p, identity, Why::epoch_old, d);
  if (!p->live) {
    if (unknown_producer_decides(c, d)) return true;
    return *c.epoch == p->epoch && epoch_closed(*p, identity, Why::epoch_old, d);
  }
  if (*c.epoch > p->epoch) return c.sequence->value != 0 && refuse(d, Outcome::invalid, Why::epoch_skips_start);
  return sequence_decides(*p, c, false, d);
}

bool limits_refuse(const StreamState& s, const AppendCommand& c, Decision& d) {
  const StreamConfig& config = s.config;
  if (config.max_stream_bytes != 0 && (s.stored_bytes > config.max_stream_bytes || c.size > config.max_stream_bytes - s.stored_bytes)) {
    return refuse(d, Outcome::quota, Why::quota);
  }
  return config.max_append_bytes != 0 && c.size > config.max_append_bytes && refuse(d, Outcome::too_large, Why::size_limit);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_type(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

// What a producer should send next in the request's epoch; told with `closed`, or the official client sends again for ever.
std::optional<Sequence> next_sequence(const Producer* p, const AppendCommand& c) {
  if (!c.sequence) return std::nullopt;
  if (p == nullptr || !p->live || *c.epoch != p->epoch) return Sequence{0};
  return Sequence{p->last.value + 1};
}

// Step 7, up to applying.
bool state_refuses(const StreamState& s, const Producer* p, const AppendCommand& c, Decision& d) {
  if (s.closed) {
    if (c.close && c.size == 0 && !has_producer(c)) return refuse(d, Outcome::duplicate, Why::same_bytes);
    d.expected = next_sequence(p, c);
    return refuse(d, Outcome::closed, Why::closed);
  }
  if (!c.content_type.empty() && !s.config.content_type.empty() && !same_type(c.content_type, s.config.content_type)) {
    d.expected = next_sequence(p, c);
    return refuse(d, Outcome::state_mismatch, Why::content_type);
  }
  if (!c.stream_seq.empty() && !s.stream_seq.empty() && c.stream_seq <= s.stream_seq) {
    d.expected = next_sequence(p, c);
    return refuse(d, Outcome::state_mismatch, Why::stream_seq);
  }
  const bool moves = c.next > s.tail || (c.next == s.tail && c.size == 0);
  return !moves && refuse(d, Outcome::invalid, Why::position);
}

void store_bytes(StreamState& s, std::uint64_t size) {
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - s.stored_bytes;
  s.stored_bytes += std::min(room, size);
}

// The row of a closed epoch follows an append only when a guard is off: then the mutation must be a real one.
void count(Producer& p, Epoch epoch, Sequence sequence) {
  if (epoch == p.epoch) {
    p.last = std::max(p.last, sequence);
    return;
  }
  for (std::size_t i = p.closed.size(); i-- > 0;) {
    if (p.closed[i].epoch == epoch) p.closed[i].last = std::max(p.closed[i].last, sequence);
  }
}

void store_receipt(Producer& p, const AppendCommand& c, std::int64_t now_ms) {
  p.last_time_ms = now_ms;
  if (positional(c)) {
    const Epoch oldest = p.commits.empty() ? Epoch{} : p.commits[0].epoch;
    if (p.commits.push({*c.epoch, c.commit, c.digest, c.next}, kReceiptsKept)) p.dropped_commits = std::max(p.dropped_commits, oldest);
    return;
  }
  count(p, *c.epoch, *c.sequence);
  p.receipts.push({*c.epoch, *c.sequence, c.digest, c.next}, kReceiptsKept);
}

// A plain producer's first append, or the one that raises its epoch.
void open_plain_epoch(Producer& p, const AppendCommand& c, Decision& d) {
  StoredClaim opened{c.digest, {}, {}, c.next};
  if (p.live) {
    opened.closed_epoch = p.epoch;
    opened.closed_sequence = p.last;
    d.closed_epoch = p.epoch;
    d.closed_sequence = p.last;
  }
  close_epoch(p, kClosedEpochsKeptPlain);
  p.epoch = *c.epoch;
  p.last = Sequence{0};
  p.claim = opened;
  p.live = true;
}

void store(StreamState& s, Producer* p, const AppendCommand& c, Decision& d) {
  if (has_producer(c)) {
    if (p == nullptr) p = &s.producers.emplace(c.producer, Producer{}).first->second;
    if (c.claim_id.nil() && (!p->live || *c.epoch > p->epoch)) open_plain_epoch(*p, c, d);
    store_receipt(*p, c, s.time_ms);
    tell(*p, d);
  }
  s.tail = c.next;
  store_bytes(s, c.size);
  if (!c.stream_seq.empty()) s.stream_seq.assign(c.stream_seq);
  if (c.namespace_fence) s.namespace_fence = *c.namespace_fence;
  if (c.kind == RecordKind::data) s.claims_since_data = 0;
  s.closed = s.closed || c.close;
  d.tail = s.tail;
  d.receipt = c.next;
  d.changed = true;
  refuse(d, Outcome::applied, Why::none);
}

// Steps 3 and 4; finds the producer whose state the append changes.
bool fence_decides(StreamState& s, const AppendCommand& c, Producer*& p, Decision& d) {
  if (s.config.kind == StreamKind::fence_required) {
    if (unfenced(s, c.producer, c.claim_id, d) || other_history(s, c.incarnation, true, d)) return true;
    p = &s.owner;
    if (not_current(s, Identity{*c.epoch, c.claim_id, c.sequence, c.commit, c.digest}, d)) return true;
    return positional(c) ? commit_decides(s.owner, c, d) : sequence_decides(s.owner, c, true, d);
  }
  if (!c.claim_id.nil()) return refuse(d, Outcome::invalid, Why::not_fenced_stream);
  if (other_history(s, c.incarnation, false, d)) return true;
  if (!has_producer(c)) return false;
  const auto found = s.producers.find(c.producer);
  p = found == s.producers.end() ? nullptr : &found->second;
  return plain_producer_decides(s, p, c, d);
}

// Step 4 of a claim.
bool claim_decides(const StreamState& s, const ClaimCommand& c, Decision& d) {
  const Producer& owner = s.owner;
  if (c.epoch == owner.epoch && owner.live && c.claim_id == owner.claim_id) {
    // Its own retry comes before every condition: what was answered once is answered again.
    if (owner.claim.digest != c.digest) return refuse(d, Outcome::cloned, Why::other_bytes);
    d.receipt = owner.claim.next;
    d.closed_epoch = owner.claim.closed_epoch;
    d.closed_sequence = owner.claim.closed_sequence;
    return refuse(d, Outcome::duplicate, Why::same_bytes);
  }
  if (c.epoch <= owner.epoch && guard_on(Guard::claim_rises)) {
    const Identity identity{c.epoch, c.claim_id, Sequence{0}, {}, c.digest};
    return epoch_closed(owner, identity, Why::claim_not_higher, d);
  }
  if (c.epoch.value > owner.epoch.value + kMaxEpochJump) return refuse(d, Outcome::invalid, Why::epoch_jump);
  if (c.over && guard_on(Guard::claim_conditional)) {
    // In a new incarnation nobody owns the stream; the newest claim of the history before is still a base, for the copy that kept everything.
    const bool base_holds = c.over->nil() ? !owner.live : *c.over == s.newest_claim;
    if (!base_holds) return epoch_closed(owner, Identity{c.epoch, c.claim_id, Sequence{0}, {}, c.digest}, Why::base_claimed, d);
  }
  return false;
}

void store_claim(StreamState& s, const ClaimCommand& c, Decision& d) {
  Producer& p = s.owner;
  StoredClaim claim{c.digest, {}, {}, c.next};
  if (p.live) {
    claim.closed_epoch = p.epoch;
    claim.closed_sequence = p.last;
    ++s.claims_since_data;
  }
  close_epoch(p, kClosedEpochsKept);
  p.epoch = c.epoch;
  p.claim_id = c.claim_id;
  p.last = Sequence{0};
  p.live = true;
  p.last_time_ms = s.time_ms;
  p.claim = claim;
  if (s.owner_producer.empty()) s.owner_producer = c.producer;
  s.newest_claim = c.claim_id;
  s.owner_info = c.owner;
  s.claimed_ms = s.time_ms;
  if (s.contenders.size() == kMaxContenders) s.contenders.erase(s.contenders.begin());
  s.contenders.push_back(c.owner.name);
  s.tail = c.next;
  store_bytes(s, c.size);
  tell(p, d);
  d.tail = s.tail;
  d.receipt = c.next;
  d.closed_epoch = claim.closed_epoch;
  d.closed_sequence = claim.closed_sequence;
  d.changed = true;
  refuse(d, Outcome::applied, Why::none);
}

}  // namespace

Decision apply(StreamState& s, const AppendCommand& c) {
  Decision d = about(s);
  if (!well_formed(c)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  if (missing(s, d)) return d;
  see_time(s, c.time_ms);
  Producer* producer = nullptr;
  if (fence_decides(s, c, producer, d)) return d;
  if ((c.kind == RecordKind::data || c.close) && namespace_refuses(s, d)) return d;
  if (c.kind == RecordKind::data && limits_refuse(s, c, d)) return d;
  if (tail_moved(s, c.if_tail, d)) return d;
  if (state_refuses(s, producer, c, d)) return d;
  store(s, producer, c, d);
  return d;
}

Decision apply(StreamState& s, const ClaimCommand& c) {
  Decision d = about(s);
  if (!well_formed(c)) {
    refuse(d, Outcome::invalid, Why::malformed);
    return d;
  }
  if (missing(s, d)) return d;
  see_time(s, c.time_ms);
  if (s.config.kind != StreamKind::fence_required) {
    refuse(d, Outcome::invalid, Why::not_fenced_stream);
    return d;
  }
  if (unfenced(s, c.producer, c.claim_id, d) || other_history(s, c.incarnation, false, d) || claim_decides(s, c, d)) return d;
  if (guard_on(Guard::claim_tail) && tail_moved(s, c.if_tail, d)) return d;
  if (s.closed) {
    refuse(d, Outcome::closed, Why::closed);
    return d;
  }
  if (c.next < s.tail || (c.next == s.tail && c.size > 0)) {
    refuse(d, Outcome::invalid, Why::position);
    return d;
  }
  store_claim(s, c, d);
  return d;
}

Decision apply(StreamState& state, const Command& command) {
  return std::visit([&state](const auto& c) { return apply(state, c); }, command);
}

void reserve_receipts(StreamState& state) {
  state.owner.receipts.reserve(kReceiptsKept);
  state.owner.commits.reserve(kReceiptsKept);
}

}  // namespace onepen::core
