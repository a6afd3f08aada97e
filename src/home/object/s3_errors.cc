// What S3 and its like answer instead of doing what was asked. Codes are theirs; the status alone says too little (409 is "try again" here, "exists" on Azure).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "home/object/bucket_errors.h"

namespace onepen::home {
namespace {

constexpr std::array<std::string_view, 6> kThrottled{"SlowDown",   "ServiceUnavailable",  "TooManyRequests",
                                                     "Throttling", "ThrottlingException", "RequestLimitExceeded"};
constexpr std::array<std::string_view, 2> kConflict{"ConditionalRequestConflict", "OperationAborted"};
constexpr std::array<std::string_view, 4> kLostOnTheWay{"RequestTimeout", "IncompleteBody", "InternalError", "BadDigest"};
constexpr std::array<std::string_view, 5> kExpired{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "RequestExpired"};
constexpr std::array<std::string_view, 5> kWrongRegion{"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
                                                       "TemporaryRedirect", "IncorrectEndpoint"};
constexpr std::array<std::string_view, 3> kNoConditions{"NotImplemented", "MethodNotAllowed", "UnsupportedArgument"};
constexpr std::array<std::string_view, 3> kFull{"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"};

std::string_view right_for(RequestKind kind) {
  switch (kind) {
    case RequestKind::get: return "s3:GetObject";
    case RequestKind::list: return "s3:ListBucket";
    case RequestKind::create:
    case RequestKind::put: return "s3:PutObject";
    case RequestKind::erase: break;
  }
  return "s3:DeleteObject";
}

struct Sentence {
  Outcome outcome;
  std::string text;
};

Sentence denied(const BucketAsked& asked) {
  // Whoever may not list is told 403 of an object that is not there: S3 does not say which.
  const auto* also = asked.kind == RequestKind::get ? " (and s3:ListBucket, without which S3 answers so for whatever is absent)" : "";
  return {Outcome::unauthorised,
          fmt::format("the credentials {} have no right to do it. {} is needed{} on {} and everything in it; see the policies of the user and of the bucket",
                      asked.key_id, right_for(asked.kind), also, asked.bucket)};
}

Sentence wrong_region(const BucketAsked& asked, const std::string& right) {
  if (right.empty())
    return {Outcome::invalid,
            fmt::format("the bucket is not in region {}, and the store does not say where it is. Name its region: region= in the URL, or AWS_REGION",
                        asked.region)};
  return {Outcome::invalid, fmt::format("the bucket is in region {}, and was asked for in {}. Write region={} in the URL, or set AWS_REGION={}", right,
                                        asked.region, right, right)};
}

Sentence skewed(const io::HttpAnswer& answer, std::int64_t now_ms) {
  const auto words = clock_words(answer, now_ms);
  return {Outcome::unavailable, fmt::format("{}, more than it accepts. Set the clock (chronyc tracking, timedatectl)",
                                            words.empty() ? "this machine's clock and the store's differ" : words)};
}

// Of a code that S3 gave.
Sentence s3_sentence(const BucketAsked& asked, const io::HttpAnswer& answer, const BucketFault& fault) {
  const std::string_view code = fault.code;
  if (code == "NoSuchBucket")
    // Only a listing says `not-found`: whoever reads an object must never take a bucket that is gone for an object that never was.
    return {asked.kind == RequestKind::list ? Outcome::not_found : Outcome::unavailable,
            fmt::format("there is no such bucket. Check its name, the endpoint and whose account it is, or make it: aws s3api create-bucket")};
  if (code == "InvalidBucketName") return {Outcome::invalid, "that is not a name a bucket can have here"};
  if (is_one_of(code, kWrongRegion)) return wrong_region(asked, s3_region_told(answer).value_or(""));
  if (code == "RequestTimeTooSkewed") return skewed(answer, asked.now_ms);
  if (is_one_of(code, kExpired))
    return {Outcome::unauthorised,
            "the credentials have expired. Get new ones (aws sso login, or whatever gave them), or let Onepen refresh them itself: a profile or a role"};
  if (code == "InvalidAccessKeyId")
    return {Outcome::unauthorised,
            fmt::format("the store does not know the access key {}. Check AWS_ACCESS_KEY_ID or the profile, and the endpoint", asked.key_id)};
  if (code == "SignatureDoesNotMatch")
    return {Outcome::unauthorised,
            fmt::format("the secret does not belong to the access key {}. Check AWS_SECRET_ACCESS_KEY or the profile; if it is right, whether a proxy "
                        "changes requests on the way",
                        asked.key_id)};
  if (is_one_of(code, kFull)) return {Outcome::quota, "the store says that it, or the account, is full"};
  if (code == "EntityTooLarge") return {Outcome::too_large, "the store takes no object of that size"};
  if (asked.kind == RequestKind::create && is_one_of(code, kNoConditions))
    return {Outcome::invalid,
            "the store does not know If-None-Match on a PUT, so two writers would overwrite each other there. Take a newer version of it, or another store"};
  if (answer.status == 403 || answer.status == 401) return denied(asked);
  return {answer.status >= 500 ? Outcome::unavailable : Outcome::invalid, "the store refuses it"};
}

}  // namespace

Verdict s3_verdict(const io::HttpAnswer& answer) {
  if (answer.status < 300) return Verdict::final;
  const auto fault = parse_bucket_fault(answer.body);
  const std::string_view code = fault ? std::string_view(fault->code) : std::string_view{};
  if (is_one_of(code, kConflict)) return Verdict::conflict;
  if (is_one_of(code, kThrottled)) return Verdict::throttled;
  if (is_one_of(code, kLostOnTheWay)) return Verdict::failed;
  if (is_one_of(code, kNoConditions) || is_one_of(code, kFull)) return Verdict::final;  // 501 and 507 among them
  return verdict_by_status(answer.status);
}

std::optional<std::string> s3_region_told(const io::HttpAnswer& answer) {
  if (answer.status != 301 && answer.status != 307 && answer.status != 400) return std::nullopt;
  const auto fault = parse_bucket_fault(answer.body);
  if (fault && !is_one_of(fault->code, kWrongRegion)) return std::nullopt;
  std::string region(answer.header("x-amz-bucket-region"));
  if (region.empty() && fault) region = fault->region;
  // It becomes part of a host name.
  const bool plain = std::all_of(region.begin(), region.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (region.empty() || region.size() > 63 || !plain) return std::nullopt;
  return region;
}

bool s3_keys_expired(const io::HttpAnswer& answer) {
  if (answer.status != 400 && answer.status != 401 && answer.status != 403) return false;
  const auto fault = parse_bucket_fault(answer.body);
  return fault && is_one_of(fault->code, kExpired);
}

Error s3_error(const BucketAsked& asked, const Told& told) {
  if (!told.last) return no_answer_error(asked, told.last.error());
  const auto& answer = *told.last;
  const auto fault = parse_bucket_fault(answer.body);
  const Verdict verdict = s3_verdict(answer);
  if (verdict == Verdict::throttled || verdict == Verdict::failed || verdict == Verdict::conflict)
    return kept_failing_error(asked, told, fault ? std::string_view(fault->code) : std::string_view{});
  const std::string subject = asked.key.empty() ? fmt::format("{} {} at {}", doing(asked.kind), asked.bucket, asked.endpoint)
                                                : fmt::format("{} {} in {} at {}", doing(asked.kind), asked.key, asked.bucket, asked.endpoint);
  if (!fault) {
    if (const auto region = s3_region_told(answer)) {
      const auto said = wrong_region(asked, *region);
      return {said.outcome, fmt::format("{} failed: {}.", subject, said.text), {}};
    }
    return {Outcome::unavailable,
            fmt::format("{} failed: the answer ({}) is none of S3's. Is {} the endpoint of an S3 store, or does a proxy answer in its place?", subject,
                        answer.status, asked.endpoint),
            {}};
  }
  const auto said = s3_sentence(asked, answer, *fault);
  return {said.outcome,
          fmt::format("{} failed: {}. ({} {}{}{})", subject, said.text, answer.status, fault->code, fault->request_id.empty() ? "" : ", request ",
                      fault->request_id),
          {}};
}

}  // namespace onepen::home
