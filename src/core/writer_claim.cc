// Claiming: until an answer, or a read-back, shows our claim id.
#include <algorithm>

#include "base/check.h"
#include "base/guard.h"
#include "core/writer_step.h"

namespace onepen::core {

void Writer::on(Step& s, ClaimNow& event) {
  ONEPEN_CHECK(std::holds_alternative<Opening>(state_), "a writer claims once");
  Claiming claiming;
  claiming.request.over = event.over;
  claiming.request.if_tail = event.if_tail;
  claiming.request.incarnation = event.incarnation;
  auto& placed = state_.emplace<Claiming>(std::move(claiming));
  send_claim(s, placed, event.seen);
}

// A new claim: new id, new attempt, written ahead before it goes out.
void Writer::send_claim(Step& s, Claiming& claiming, Epoch above) {
  if (above.value >= kMaxWireNumber) {
    fail(s, Error{Outcome::invalid, "the epochs of '" + config_.stream + "' are used up (2^53 - 1): no claim can be above them", {}});
    return;
  }
  ClaimRequest& request = claiming.request;
  request.epoch = Epoch{above.value + 1};
  request.claim_id = s.at.claim_id;
  request.attempt = s.at.attempt;
  request.owner = config_.info;
  if (config_.liveness && request.owner.liveness.empty()) request.owner.liveness = to_text(request.claim_id);
  request.create = config_.create;
  request.first_incarnation = s.at.incarnation;
  request.time_ms = s.at.wall_ms;
  claiming.failures = 0;
  claiming.may_have_landed = false;
  claiming.again.reset();
  claiming.asking = false;
  if (guard_on(Guard::claim_written_ahead)) s.out.write_ahead = request;
  s.out.request = request;
}

void Writer::on(Step& s, ClaimNotWritten& event) {
  if (std::holds_alternative<Claiming>(state_)) fail(s, std::move(event.error));
}

void Writer::on(Step& s, ClaimAnswered& event) {
  auto* claiming = std::get_if<Claiming>(&state_);
  if (claiming == nullptr) return;
  if (event.answer) {
    const ClaimReceipt& receipt = *event.answer;
    // A success proves nothing: two claimers of one epoch may both be answered. Only the id does (fence.md, "Own claim").
    if (receipt.claim_id == claiming->request.claim_id || !guard_on(Guard::claim_read_back)) own(s, receipt);
    else lost_claim(s, *claiming, Owner{Token{to_text(receipt.incarnation), receipt.epoch, to_text(receipt.claim_id)}, {}, {}, {}, 0});
    return;
  }
  const Refusal& refusal = event.answer.error();
  if (out_of_sight(refusal) && claiming->request.over) {  // over a claim that was seen there
    claim_again_later(s, *claiming);
    return;
  }
  switch (refusal.outcome) {
    case Outcome::epoch_closed:
      if (claiming->request.over || claiming->request.if_tail) fail(s, error_of(refusal));  // a conditional claim is never repeated above another
      else lost_claim(s, *claiming, refusal.current);
      return;
    case Outcome::unavailable: claim_again_later(s, *claiming); return;
    case Outcome::unknown:
    case Outcome::duplicate:  // a duplicate without its receipt does not show whose
    case Outcome::not_owner:
      claiming->may_have_landed = true;
      claim_again_later(s, *claiming);
      return;
    default: fail(s, error_of(refusal)); return;
  }
}

void Writer::claim_again_later(Step& s, Claiming& claiming) {
  ++claiming.failures;
  claiming.again = s.at.now + backoff(claiming.failures);
}

void Writer::lost_claim(Step& s, Claiming& claiming, const std::optional<Owner>& to) {
  if (claiming.request.over || claiming.request.if_tail) {  // a conditional claim is never repeated above another
    fail(s, Error{Outcome::epoch_closed,
                  "the conditional claim of '" + config_.stream + "' (epoch " + std::to_string(claiming.request.epoch.value) + ") was lost to another claim" +
                      (to ? ", by " + describe(*to) : "") + ". Open it again only if you mean to take it over.",
                  to});
    return;
  }
  ++claiming.lost;
  if (claiming.lost >= kMaxLostClaims) {
    fail(s, Error{Outcome::claim_races,
                  "claim-races: the claim of '" + config_.stream + "' was lost " + std::to_string(kMaxLostClaims) + " times in a row to other claims" +
                      (to ? ", last to " + describe(*to) : "") + ". Several processes keep opening it; let one of them, or open it again later.",
                  to});
    return;
  }
  if (!to) {
    claiming.asking = true;
    s.out.request = AskStat{};
    return;
  }
  send_claim(s, claiming, std::max(to->token.epoch, claiming.request.epoch));
}

void Writer::stat_for_claim(Step& s, Claiming& claiming, const Answer<StreamStat>& answer) {
  if (!claiming.asking) return;
  if (answer) {
    send_claim(s, claiming, std::max({answer->epoch, answer->floor, claiming.request.epoch}));
    return;
  }
  if (answer.error().outcome == Outcome::not_found && answer.error().floor && config_.create) {  // removed meanwhile: the claim makes it anew
    send_claim(s, claiming, std::max(*answer.error().floor, claiming.request.epoch));
    return;
  }
  switch (answer.error().outcome) {
    case Outcome::unknown:
    case Outcome::unavailable: claim_again_later(s, claiming); return;
    default: fail(s, error_of(answer.error())); return;
  }
}

void Writer::fail(Step& s, Error error) {
  s.out.claimed = tl::unexpected(error);
  s.out.write_ahead.reset();
  s.out.request.reset();
  state_ = Failed{std::move(error)};
}

void Writer::own(Step& s, const ClaimReceipt& receipt) {
  const auto& claiming = std::get<Claiming>(state_);
  lost_claims_ = claiming.lost;
  claim_ = claiming.request;
  incarnation_ = receipt.incarnation;
  epoch_ = receipt.epoch;
  claim_id_ = claiming.request.claim_id;
  acknowledged_ = receipt.offset;
  next_ = Sequence{1};
  last_ = Sequence{0};
  s.out.claimed = receipt;
  state_ = Owning{Idle{s.at.now + config_.notice_within}};
}

// The home answered with our claim id, and the stream does not show it: the answer was no proof. Claim again above it, as after any lost claim.
void Writer::on(Step& s, ClaimNotFound&) {
  if (!std::holds_alternative<Owning>(state_)) return;
  Claiming claiming;
  claiming.request = claim_;
  claiming.lost = lost_claims_;
  auto& placed = state_.emplace<Claiming>(std::move(claiming));
  if (claim_.over || claim_.if_tail) {
    fail(s, Error{Outcome::unknown, "the claim of '" + config_.stream + "' was answered, but the stream does not show it. Open it again.", {}});
    return;
  }
  lost_claim(s, placed, Owner{Token{to_text(incarnation_), epoch_, {}}, {}, {}, {}, 0});
}

}  // namespace onepen::core
