// The judge: folds the raw objects of the log by a rule of its own, written from homes.md B4 alone (no code of the home or the fence, no guard), and
// compares with what the home showed. A claim opens a higher epoch; data counts only with the current history, epoch, claim and next sequence; the fold
// stops at the first absent id; nothing may lie behind a hole.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "sim/history.h"
#include "wire/log_object.h"

namespace onepen::sim {
namespace {

struct Line {
  core::RecordKind kind;
  Epoch epoch;
  ClaimId claim_id;
  Sequence sequence;
  std::uint64_t digest;
  bool operator==(const Line&) const = default;
};

class Judge {
 public:
  void take(const wire::LogObject& o) {
    if (o.kind == wire::ObjectKind::claim) return claim(o);
    if (o.kind != wire::ObjectKind::appends) return;
    if (o.incarnation != incarnation_ || o.epoch != epoch_ || o.claim_id != claim_id_ || o.first.value != last_ + 1) return;
    for (const wire::AppendBody& a : o.appends) lines.push_back(Line{a.kind, epoch_, claim_id_, Sequence{++last_}, a.digest.value});
    tail_ = core::Position{o.id, o.appends.size()};
  }
  std::vector<Line> lines;

 private:
  void claim(const wire::LogObject& o) {
    const bool first = epoch_.value == 0;
    if (!first && (o.incarnation != incarnation_ || o.epoch <= epoch_)) return;
    if (o.claim.over && *o.claim.over != claim_id_) return;
    if (o.claim.if_tail && *o.claim.if_tail != tail_) return;
    incarnation_ = o.incarnation, epoch_ = o.epoch, claim_id_ = o.claim_id, last_ = 0;
    lines.push_back(Line{core::RecordKind::claim, epoch_, claim_id_, Sequence{0}, 0});
    tail_ = core::Position{o.id, 1};
  }
  Incarnation incarnation_;
  Epoch epoch_;
  ClaimId claim_id_;
  std::uint64_t last_ = 0;
  core::Position tail_;
};

}  // namespace

void check_judge(const Evidence& e) {
  Judge judge;
  std::uint64_t next = 1;
  for (const auto& [id, bytes] : e.stream.objects) {
    if (id != next++) {
      e.history.violated("B4", fmt::format("the log has object {} and lacks object {}", id, next - 1));
      return;
    }
    const auto object = wire::decode_log_object(bytes);
    if (!object) {
      e.history.violated("B4", fmt::format("object {} of the log is damaged: {}", id, object.error().what));
      return;
    }
    const std::size_t before = judge.lines.size();
    judge.take(*object);
    if (judge.lines.size() == before) e.history.sometimes.reached(Sometime::void_object);
    if (object->raced) e.history.sometimes.reached(Sometime::raced_claim);
  }
  for (std::size_t i = 0; i < std::max(judge.lines.size(), e.stream.records.size()); ++i) {
    std::optional<Line> shown;
    if (i < e.stream.records.size()) {
      const core::Record& r = e.stream.records[i];
      shown = Line{r.kind, r.epoch, r.claim_id, r.sequence, r.kind == core::RecordKind::claim ? 0 : digest_of(r.payload).value};
    }
    if (i < judge.lines.size() && shown && *shown == judge.lines[i]) continue;
    e.history.violated(
        "B4", fmt::format("record {} of the stream is not what the raw objects say ({} shown, {} counted)", i, e.stream.records.size(), judge.lines.size()));
    return;
  }
}

}  // namespace onepen::sim
