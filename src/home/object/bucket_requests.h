// Requests to a bucket, of whatever protocol: when one is sent again, how long it is waited before, and what was sent. Thread-safe.
//
//   ask ──► sent ──► answered: final ──────────────────────────────────────────────► told
//            ▲          │ throttled (429, 503), failed (5xx), no answer
//            │          ▼
//            └── wait: full jitter, at least Retry-After ── patience is over ──────► told, with how often it was tried
//
// What reads, overwrites or deletes is sent again after whatever may pass. A create is not: "no answer" and a 5xx are told at once, because the object itself
// says what became of it, and only the home can read that (object_change.cc: B2, I4). It is sent again, byte-identical, where it certainly was not carried
// out or the store asks for it: never connected, throttled, 409 ConditionalRequestConflict. Whatever follows then, `may_have_landed` stays true once an attempt
// was not refused for certain: a refusal of attempt 2 says nothing about attempt 1.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include <onepen/result.h>
#include "base/runtime.h"
#include "core/home.h"
#include "io/http.h"

namespace onepen::home {

enum class RequestKind : std::uint8_t { get, list, create, put, erase };
inline constexpr std::array<std::string_view, 5> kRequestKinds{"get", "list", "create", "put", "erase"};

// Of one reader or writer of many objects (ObjectStore::at_once). Half of the connections that io::HttpOptions allows, so that a commit finds a free one.
inline constexpr std::size_t kBucketAtOnce = 8;

// What was asked of a store since it was made, by kind. Thread-safe.
struct BucketMetrics {
  struct Kind {
    std::atomic<std::uint64_t> asked{0};  // calls of the store; a listing counts once for each page
    std::atomic<std::uint64_t> sent{0};  // requests, those that were repeated included
    std::atomic<std::uint64_t> throttled{0};  // answers that said: slower
    std::atomic<std::uint64_t> failed{0};  // 5xx, or no answer
  };
  std::array<Kind, kRequestKinds.size()> kinds;
  Kind& of(RequestKind kind) { return kinds[static_cast<std::size_t>(kind)]; }
  const Kind& of(RequestKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  std::uint64_t sent() const {
    std::uint64_t all = 0;
    for (const auto& kind : kinds) all += kind.sent;
    return all;
  }
  core::RequestCounts counts() const;
};

struct RetryPolicy {
  std::chrono::milliseconds first{100}, longest{5'000};  // the wait before try n is drawn from 0 … min(longest, first · 2^n)
  std::chrono::milliseconds patience{20'000};  // after that nothing is begun any more
  int tries = 10;
  int tries_to_connect = 3;  // where nobody answers at all, the caller waits better than we do
  int tries_unanswered = 5;  // connected, and each time it ended without a byte of an answer: what listens there may be no HTTP server
};

enum class Verdict : std::uint8_t {
  final,  // whatever it says
  failed,  // the server could not: a 5xx, or what counts as one
  throttled,  // it did nothing and wants to be asked later
  conflict,  // it did nothing, because somebody else did at the same moment
};

struct Told {
  io::HttpResult last;
  bool may_have_landed = false;  // an attempt before the last one, or the last one, was not refused for certain
  int tries = 0;
  std::chrono::milliseconds took{0};
  std::chrono::milliseconds retry_after{0};  // what the store asked for last
};

class BucketRequests {
 public:
  // They outlive it.
  BucketRequests(Runtime& runtime, io::HttpClient& http, BucketMetrics& metrics, RetryPolicy policy)
      : runtime_(runtime), http_(http), metrics_(metrics), policy_(policy) {}

  // `make` is asked before every try: signatures grow old. Its error ends it, unless an attempt may have landed: then that is told.
  Result<Told> send(RequestKind kind, const std::function<Result<io::HttpRequest>()>& make, const std::function<Verdict(const io::HttpAnswer&)>& judge);

  Runtime& runtime() { return runtime_; }

 private:
  bool wait_before_next(Told& told, Instant begun);

  Runtime& runtime_;
  io::HttpClient& http_;
  BucketMetrics& metrics_;
  const RetryPolicy policy_;
};

// 429 and 503, and every other 5xx.
Verdict verdict_by_status(int status);

}  // namespace onepen::home
