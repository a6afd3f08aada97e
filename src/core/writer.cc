#include "core/writer.h"

#include <algorithm>

#include "base/check.h"
#include "core/writer_step.h"

namespace onepen::core {

std::chrono::nanoseconds backoff(unsigned failures) {
  std::chrono::nanoseconds wait = kFirstBackoff;
  for (unsigned i = 1; i < failures && wait < kLastBackoff; ++i) wait *= 2;
  return std::min(wait, kLastBackoff);
}

Token Writer::token() const { return Token{to_text(incarnation_), epoch_, to_text(claim_id_)}; }

std::size_t Writer::undecided() const {
  std::size_t count = queue_.size();
  const auto* owning = std::get_if<Owning>(&state_);
  const auto* unresolved = std::get_if<Unresolved>(&state_);
  const Doing* doing = owning != nullptr ? &owning->doing : unresolved != nullptr ? &unresolved->doing : nullptr;
  if (doing == nullptr) return count;
  if (const auto* s = std::get_if<Sending>(doing)) count += s->flight.tickets.size();
  if (const auto* r = std::get_if<Resending>(doing)) count += r->flight.tickets.size();
  if (const auto* d = std::get_if<Deciding>(doing)) count += d->flight.tickets.size();
  return count;
}

Doing* Writer::doing() {
  if (auto* owning = std::get_if<Owning>(&state_)) return &owning->doing;
  if (auto* unresolved = std::get_if<Unresolved>(&state_)) return &unresolved->doing;
  return nullptr;
}

Effects Writer::step(const Moment& moment, Event event) {
  Step s{moment, {}};
  std::visit([&](auto& e) { on(s, e); }, event);
  s.out.wake_at = wake_at();
  return std::move(s.out);
}

std::optional<Instant> Writer::wake_at() const {
  if (const auto* claiming = std::get_if<Claiming>(&state_)) return claiming->again;
  const auto* owning = std::get_if<Owning>(&state_);
  const auto* unresolved = std::get_if<Unresolved>(&state_);
  const Doing* doing = owning != nullptr ? &owning->doing : unresolved != nullptr ? &unresolved->doing : nullptr;
  if (doing == nullptr) return {};
  if (const auto* idle = std::get_if<Idle>(doing)) return owning != nullptr ? std::min(idle->look_at, held_until().value_or(idle->look_at)) : idle->look_at;
  if (const auto* resending = std::get_if<Resending>(doing)) return resending->at;
  if (const auto* deciding = std::get_if<Deciding>(doing)) return deciding->again;
  return {};  // a request is out
}

void Writer::on(Step& s, Tick&) {
  const Instant now = s.at.now;
  if (auto* claiming = std::get_if<Claiming>(&state_)) {
    if (claiming->again && *claiming->again <= now) {
      claiming->again.reset();
      if (claiming->asking) s.out.request = AskStat{};
      else s.out.request = claiming->request;  // the same claim: same claim id, same attempt
    }
    return;
  }
  Doing* what = doing();
  if (what == nullptr) return;
  if (auto* resending = std::get_if<Resending>(what); resending != nullptr && resending->at <= now) {
    send(s, std::move(resending->flight));
  } else if (auto* deciding = std::get_if<Deciding>(what); deciding != nullptr && deciding->again && *deciding->again <= now) {
    deciding->again.reset();
    s.out.request = AskRead{deciding->from};
  } else if (auto* idle = std::get_if<Idle>(what); idle != nullptr && idle->look_at <= now) {
    *what = covered();
    s.out.request = AskStat{};
  } else if (idle != nullptr && !queue_.empty()) {
    pump(s);
  }
}

void Writer::on(Step& s, StatAnswered& event) {
  if (auto* claiming = std::get_if<Claiming>(&state_)) {
    stat_for_claim(s, *claiming, event.answer);
    return;
  }
  Doing* what = doing();
  auto* checking = what != nullptr ? std::get_if<Checking>(what) : nullptr;
  if (checking == nullptr) return;  // the handle was reset meanwhile
  const std::vector<ConfirmId> covers = std::move(checking->covers);
  if (event.answer) {
    failed_looks_ = 0;
    *what = Idle{s.at.now + config_.notice_within};
    check(s, *event.answer);
    if (std::holds_alternative<Finished>(state_)) return;
    confirm(s, covers, acknowledged_);
    pump(s);
    return;
  }
  const Refusal& refusal = event.answer.error();
  ++failed_looks_;
  *what = Idle{s.at.now + (confirms_.empty() ? config_.notice_within : backoff(failed_looks_))};
  if (out_of_sight(refusal)) {  // look again, nothing is decided by absence
    if (!queue_.empty()) pump(s);
    return;
  }
  switch (refusal.outcome) {
    case Outcome::not_found:
    case Outcome::gone:
    case Outcome::incarnation_changed: finish(s, finished_by(refusal)); return;
    case Outcome::unknown:
    case Outcome::unavailable: break;  // look again, nothing is decided by silence (I10)
    default: confirm(s, covers, tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current})); break;
  }
  if (!queue_.empty()) pump(s);
}

void Writer::confirm(Step& s, const std::vector<ConfirmId>& ids, const Result<Offset>& result) {
  for (const ConfirmId id : ids) {
    const auto at = std::find_if(confirms_.begin(), confirms_.end(), [&](const Confirm& c) { return c.id == id; });
    if (at == confirms_.end()) continue;
    confirms_.erase(at);
    s.out.confirmed.push_back(Confirmed{id, result});
  }
}

}  // namespace onepen::core
