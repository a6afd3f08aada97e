#include "owner/carry.h"

#include "base/failpoint.h"

namespace onepen::owner {
namespace {

core::Refusal failpoint_refusal(Outcome outcome) { return core::Refusal{outcome, "a failpoint of the test build stands here"}; }

core::Answer<core::ClaimReceipt> claim(core::Stream& stream, const core::ClaimRequest& request) {
  if (ONEPEN_FAILPOINT("owner.before_claim")) return tl::unexpected(failpoint_refusal(Outcome::unavailable));
  auto answer = stream.claim(request);
  if (ONEPEN_FAILPOINT("owner.after_claim")) return tl::unexpected(failpoint_refusal(Outcome::unknown));
  return answer;
}

core::Answer<core::AppendReceipt> append(core::Stream& stream, const core::AppendBatch& batch) {
  if (batch.appends.front().kind == core::RecordKind::control && ONEPEN_FAILPOINT("owner.before_ready")) {
    return tl::unexpected(failpoint_refusal(Outcome::unavailable));
  }
  if (ONEPEN_FAILPOINT("owner.before_append")) return tl::unexpected(failpoint_refusal(Outcome::unavailable));
  auto answer = stream.append(batch);
  if (ONEPEN_FAILPOINT("owner.after_append")) return tl::unexpected(failpoint_refusal(Outcome::unknown));
  return answer;
}

}  // namespace

core::Moment draw_moment(Runtime& runtime) {
  core::Moment moment;
  moment.now = runtime.now();
  moment.wall_ms = runtime.wall_ms();
  moment.claim_id = runtime.draw<ClaimId>();
  moment.attempt = runtime.draw<PutId>();
  moment.incarnation = runtime.draw<Incarnation>();
  return moment;
}

core::Event carry_out(core::Stream& stream, const core::Request& request) {
  struct Carry {
    core::Stream& to;
    core::Event operator()(const core::ClaimRequest& r) const { return core::ClaimAnswered{claim(to, r)}; }
    core::Event operator()(const std::shared_ptr<const core::AppendBatch>& r) const { return core::BatchAnswered{append(to, *r)}; }
    core::Event operator()(const core::AskStat&) const { return core::StatAnswered{to.stat()}; }
    core::Event operator()(const core::AskRead& r) const { return core::ReadAnswered{to.read(r.from, kReadLimit)}; }
  };
  return std::visit(Carry{stream}, request);
}

bool pause_until(Runtime& runtime, Instant deadline) {
  const Instant before = runtime.now();
  if (before >= deadline) return true;
  runtime.sleep_until(deadline);
  return runtime.now() != before;
}

}  // namespace onepen::owner
