// For the random test of the fence: a model that is too simple to be wrong. It keeps every record for ever and finds every answer by looking through them.
#pragma once
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/fence.h"

namespace onepen::core::naive {

struct Record {
  bool claim = false;
  Incarnation incarnation;
  Epoch epoch;
  ClaimId claim_id;
  std::optional<Sequence> sequence;  // claims: 0
  CommitId commit;
  Digest digest;
  Position next;
  std::pair<Epoch, Sequence> closed;  // claims
};

struct Model {
  Incarnation incarnation{1, 1};
  Epoch floor;           // highest epoch ever
  Epoch fate_unknown;    // admin acts: nobody can say what epochs up to here applied elsewhere
  bool suspect = false;
  Position tail;
  ClaimId newest_claim;
  std::vector<Record> log;

  const Record* owner() const {
    for (auto r = log.rbegin(); r != log.rend(); ++r) {
      if (r->claim) return r->incarnation == incarnation ? &*r : nullptr;
    }
    return nullptr;
  }
  Sequence last(Epoch epoch) const {
    Sequence last;
    for (const Record& r : log) {
      if (r.epoch == epoch && r.sequence) last = std::max(last, *r.sequence);
    }
    return last;
  }
  const Record* find(Epoch epoch, ClaimId claim, std::optional<Sequence> sequence, CommitId commit) const {
    for (const Record& r : log) {
      if (r.epoch == epoch && r.claim_id == claim && r.sequence == sequence && r.commit == commit) return &r;
    }
    return nullptr;
  }
  // How many receipts of its form came after it.
  std::size_t younger(const Record& record) const {
    return static_cast<std::size_t>(
        std::count_if(log.begin(), log.end(), [&](const Record& r) { return !r.claim && r.next > record.next && r.commit.nil() == record.commit.nil(); }));
  }
  bool forgot_commits_of(Epoch epoch) const {
    return std::any_of(log.begin(), log.end(), [&](const Record& r) { return !r.commit.nil() && r.epoch >= epoch && younger(r) >= kReceiptsKept; });
  }
};

struct Expected {
  Outcome outcome;
  Applied fate = Applied::no;
  bool may_be_unknown = false;       // the fate
  bool may_lack_receipt = false;
  std::optional<Position> receipt{};
};

inline Expected closed_answer(const Model& m, Epoch epoch, ClaimId claim, std::optional<Sequence> sequence, CommitId commit, Digest digest) {
  Expected e{Outcome::epoch_closed};
  const Record* r = m.find(epoch, claim, sequence, commit);
  e.fate = r != nullptr && (r->claim || r->digest == digest) ? Applied::yes : Applied::no;
  e.may_be_unknown = epoch <= m.fate_unknown || (r != nullptr && !r->claim && m.younger(*r) >= kReceiptsKept) || (!commit.nil() && m.forgot_commits_of(epoch));
  return e;
}

inline Expected expect(const Model& m, const AppendCommand& c) {
  if (c.incarnation != m.incarnation) return {Outcome::incarnation_changed};
  if (m.suspect) return {Outcome::fence_unavailable};
  if (*c.epoch < m.floor) return closed_answer(m, *c.epoch, c.claim_id, c.sequence, c.commit, c.digest);
  if (*c.epoch > m.floor) return {Outcome::fence_unavailable};
  const Record* owner = m.owner();
  if (owner == nullptr) return {Outcome::fence_required};
  if (owner->claim_id != c.claim_id) return closed_answer(m, *c.epoch, c.claim_id, c.sequence, c.commit, c.digest);
  if (const Record* r = m.find(*c.epoch, c.claim_id, c.sequence, c.commit)) {
    const bool forgotten = m.younger(*r) >= kReceiptsKept;
    if (!c.commit.nil() && forgotten) return c.if_tail == m.tail ? Expected{Outcome::applied} : Expected{Outcome::base_mismatch};
    if (r->digest != c.digest && !forgotten) return {c.commit.nil() ? Outcome::cloned : Outcome::content_mismatch};
    return {Outcome::duplicate, Applied::no, false, forgotten, r->next};
  }
  if (c.sequence && c.sequence->value > m.last(*c.epoch).value + 1) return {Outcome::sequence_gap};
  if (c.if_tail && *c.if_tail != m.tail) return {Outcome::base_mismatch};
  return {Outcome::applied, Applied::no, false, false, c.next};
}

inline Expected expect(const Model& m, const ClaimCommand& c) {
  if (c.epoch.value == 0) return {Outcome::invalid};
  if (c.incarnation && c.incarnation != m.incarnation) return {Outcome::incarnation_changed};
  if (m.suspect) return {Outcome::fence_unavailable};
  const Record* owner = m.owner();
  if (owner != nullptr && owner->epoch == c.epoch && owner->claim_id == c.claim_id) {
    if (owner->digest != c.digest) return {Outcome::cloned};
    return {Outcome::duplicate, Applied::no, false, false, owner->next};
  }
  if (c.epoch <= m.floor) return closed_answer(m, c.epoch, c.claim_id, Sequence{0}, {}, c.digest);
  if (c.epoch.value > m.floor.value + kMaxEpochJump) return {Outcome::invalid};
  if (c.over && (c.over->nil() ? owner != nullptr : *c.over != m.newest_claim)) {
    return closed_answer(m, c.epoch, c.claim_id, Sequence{0}, {}, c.digest);
  }
  if (c.if_tail && *c.if_tail != m.tail) return {Outcome::base_mismatch};
  return {Outcome::applied, Applied::no, false, false, c.next};
}

}  // namespace onepen::core::naive
