// Taking an append back: a COMMIT on a full home disk ends with a refusal, and the handle goes on (fence.md, "In flight and unknown").
#include <algorithm>

#include "base/guard.h"
#include "core/writer_step.h"

namespace onepen::core {

void Writer::on(Step& s, Withdraw& event) {
  if (event.ticket == 0 || !std::holds_alternative<Owning>(state_)) return;  // after a reset everything queued is refused already
  // What waits in the queue was never sent, whatever becomes of the flight before it.
  const auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const Pending& p) { return p.ticket == event.ticket; });
  if (queued == queue_.end()) {
    if (!withdraw_from_flight(s, event)) return;  // out, undecided, or decided long ago: its fate stays what it is
    refuse_queue(s, event.error, false);
    pump(s);  // a confirm may have waited for it
    return;
  }
  for (auto it = queued; it != queue_.end(); ++it) {
    queued_bytes_ -= it->payload.size();
    if (it->ticket != 0) s.out.decided.push_back(Decided{it->ticket, Fate{Fate::Kind::refused, {}, event.error}});
  }
  queue_.erase(queued, queue_.end());
  pump(s);  // a confirm may have waited for it
}

// Only a flight that waits to be sent again, and each attempt of which was certainly refused: it never was in the stream, and nothing of it is on its way.
bool Writer::withdraw_from_flight(Step& s, const Withdraw& event) {
  auto* resending = std::get_if<Resending>(doing());
  if (resending == nullptr) return false;
  Flight& flight = resending->flight;
  const auto at = std::find(flight.tickets.begin(), flight.tickets.end(), event.ticket);
  if (at == flight.tickets.end()) return false;
  if (flight.may_have_landed && guard_on(Guard::withdraw_only_unsent)) return false;
  const auto keep = static_cast<std::size_t>(at - flight.tickets.begin());
  for (auto it = at; it != flight.tickets.end(); ++it) {
    if (*it != 0) s.out.decided.push_back(Decided{*it, Fate{Fate::Kind::refused, {}, event.error}});
  }
  next_ = Sequence{flight.batch->first.value + keep};  // the home still expects this very sequence
  if (keep == 0) {
    *doing() = Idle{s.at.now + config_.notice_within};
    return true;
  }
  // What stood before it is another batch now, with an attempt of its own; it goes out when the flight would have.
  auto rest = std::make_shared<AppendBatch>(*flight.batch);
  rest->appends.resize(keep);
  rest->attempt = s.at.attempt;
  flight.batch = std::move(rest);
  flight.tickets.resize(keep);
  return true;
}

}  // namespace onepen::core
