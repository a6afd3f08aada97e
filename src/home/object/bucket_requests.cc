#include "home/object/bucket_requests.h"

#include <algorithm>
#include <charconv>

namespace onepen::home {
namespace {

using std::chrono::milliseconds;

milliseconds retry_after_of(const io::HttpAnswer& answer) {
  const auto text = answer.header("retry-after");
  std::uint32_t seconds = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || bad != std::errc{} || end != text.data() + text.size()) return milliseconds{0};
  return std::chrono::seconds(seconds);
}

// Whether this attempt is worth another one; a create is judged by what it may have done.
bool worth_another(RequestKind kind, const io::HttpFailure& failure) {
  if (failure.fault == io::HttpFault::tls || failure.fault == io::HttpFault::too_large) return false;
  return kind != RequestKind::create || !failure.may_have_arrived;
}
bool worth_another(RequestKind kind, Verdict verdict) {
  return verdict == Verdict::throttled || verdict == Verdict::conflict || (verdict == Verdict::failed && kind != RequestKind::create);
}

int most_tries(const RetryPolicy& policy, const io::HttpResult& last) {
  if (last || last.error().answer_began || last.error().fault == io::HttpFault::timed_out) return policy.tries;
  return std::min(policy.tries, last.error().may_have_arrived ? policy.tries_unanswered : policy.tries_to_connect);
}

}  // namespace

core::RequestCounts BucketMetrics::counts() const {
  core::RequestCounts out;
  for (std::size_t i = 0; i < kRequestKinds.size(); ++i) out.emplace_back(kRequestKinds[i], kinds[i].sent.load());
  return out;
}

Verdict verdict_by_status(int status) {
  if (status == 429 || status == 503) return Verdict::throttled;
  return status >= 500 ? Verdict::failed : Verdict::final;
}

// False: patience is over, or the process is being stopped (a wait then ends at once).
bool BucketRequests::wait_before_next(Told& told, Instant begun) {
  const auto doubled = policy_.first * (std::int64_t{1} << std::min(told.tries - 1, 20));
  const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(std::min(doubled, policy_.longest).count(), 0));
  const milliseconds drawn(runtime_.random_u64() % (most + 1));
  const auto pause = std::max(drawn, told.retry_after);
  const Instant now = runtime_.now();
  if (now + pause - begun > policy_.patience) return false;
  if (pause.count() == 0) return true;
  runtime_.sleep_until(now + pause);
  return runtime_.now() > now;
}

Result<Told> BucketRequests::send(RequestKind kind, const std::function<Result<io::HttpRequest>()>& make,
                                  const std::function<Verdict(const io::HttpAnswer&)>& judge) {
  auto& count = metrics_.of(kind);
  ++count.asked;
  const Instant begun = runtime_.now();
  Told told{tl::unexpected(io::HttpFailure{io::HttpFault::broken, false, "nothing was sent"})};
  for (;;) {
    auto request = make();
    if (!request && !told.may_have_landed) return tl::unexpected(request.error());
    if (!request) return told;
    ++count.sent;
    ++told.tries;
    told.last = http_.send(*request);
    told.took = std::chrono::duration_cast<milliseconds>(runtime_.now() - begun);
    told.retry_after = milliseconds{0};
    bool again = false;
    if (told.last) {
      const Verdict verdict = judge(*told.last);
      told.retry_after = retry_after_of(*told.last);
      if (verdict == Verdict::throttled) ++count.throttled;
      if (verdict == Verdict::failed) ++count.failed;
      told.may_have_landed |= verdict != Verdict::final;  // what it did is not for certain, whatever it says: radosgw answers 500 to some who lost a race
      again = worth_another(kind, verdict);
    } else {
      ++count.failed;
      told.may_have_landed |= told.last.error().may_have_arrived;
      again = worth_another(kind, told.last.error());
    }
    if (!again || told.tries >= most_tries(policy_, told.last) || !wait_before_next(told, begun)) return told;
  }
}

}  // namespace onepen::home
