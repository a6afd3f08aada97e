// What Azure Blob answers instead of doing what was asked.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "home/object/bucket_codec.h"
#include "home/object/bucket_errors.h"

namespace onepen::home {
namespace {

constexpr std::int64_t kAzureSkewMs = 15 * 60 * 1000;  // what it accepts; it calls more `AuthenticationFailed`, as it does a wrong key

constexpr std::array<std::string_view, 2> kBusy{"ServerBusy", "TooManyRequests"};
constexpr std::array<std::string_view, 3> kNotDone{"OperationTimedOut", "InternalError", "RequestBodyTimeout"};
constexpr std::array<std::string_view, 3> kNoContainer{"ContainerNotFound", "ContainerDisabled", "ContainerBeingDeleted"};
constexpr std::array<std::string_view, 3> kWrongKey{"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"};

std::string_view letter_for(RequestKind kind) {
  switch (kind) {
    case RequestKind::get: return "Read (r)";
    case RequestKind::list: return "List (l)";
    case RequestKind::create: return "Create (c)";
    case RequestKind::put: return "Write (w)";
    case RequestKind::erase: break;
  }
  return "Delete (d)";
}

std::pair<Outcome, std::string> azure_sentence(const BucketAsked& asked, const io::HttpAnswer& answer, std::string_view code) {
  if (is_one_of(code, kNoContainer))
    // As for S3: only a listing says `not-found`.
    return {asked.kind == RequestKind::list ? Outcome::not_found : Outcome::unavailable,
            "there is no such container. Check its name and the account, or make it: az storage container create"};
  if (code == "InvalidResourceName") return {Outcome::invalid, "that is not a name a container can have"};
  if (is_one_of(code, kWrongKey)) {
    const auto theirs = http_date_ms(answer.header("date"));
    if (theirs && std::abs(asked.now_ms - *theirs) > kAzureSkewMs)
      return {Outcome::unavailable, fmt::format("{}, more than it accepts. Set the clock (chronyc tracking, timedatectl)", clock_words(answer, asked.now_ms))};
    return {
        Outcome::unauthorised,
        fmt::format(
            "the key, the SAS or the identity is not one of account {}, or has expired. Check AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or the connection string",
            asked.key_id)};
  }
  if (code == "AccountIsDisabled") return {Outcome::unauthorised, fmt::format("the account {} is disabled", asked.key_id)};
  if (code == "KeyBasedAuthenticationNotPermitted")
    return {Outcome::unauthorised, fmt::format("the account {} takes no account keys. Use a SAS (AZURE_STORAGE_SAS_TOKEN), or allow them", asked.key_id)};
  if (code == "RequestBodyTooLarge") return {Outcome::too_large, "the store takes no object of that size"};
  if (answer.status == 401 || answer.status == 403)
    return {Outcome::unauthorised,
            fmt::format("the SAS, the roles of the identity, or the network rules of account {}, do not allow it. The right {} is needed on the container",
                        asked.key_id, letter_for(asked.kind))};
  return {answer.status >= 500 || answer.status == 409 || answer.status == 412 ? Outcome::unavailable : Outcome::invalid, "the store refuses it"};
}

}  // namespace

std::string azure_code(const io::HttpAnswer& answer) {
  if (const auto fault = parse_bucket_fault(answer.body)) return fault->code;
  return std::string(answer.header("x-ms-error-code"));
}

Verdict azure_verdict(const io::HttpAnswer& answer) {
  if (answer.status < 300) return Verdict::final;
  const auto code = azure_code(answer);
  if (is_one_of(code, kBusy)) return Verdict::throttled;
  if (is_one_of(code, kNotDone)) return Verdict::failed;
  return verdict_by_status(answer.status);
}

Error azure_error(const BucketAsked& asked, const Told& told) {
  if (!told.last) return no_answer_error(asked, told.last.error());
  const auto& answer = *told.last;
  const auto code = azure_code(answer);
  if (azure_verdict(answer) != Verdict::final) return kept_failing_error(asked, told, code);
  const std::string subject = fmt::format("{} {}{}{} at {}", doing(asked.kind), asked.key, asked.key.empty() ? "" : " in ", asked.bucket, asked.endpoint);
  if (code.empty())
    return {Outcome::unavailable,
            fmt::format("{} failed: the answer ({}) is none of Azure's. Is that the endpoint of a storage account, or does a proxy answer in its place?",
                        subject, answer.status),
            {}};
  auto [outcome, text] = azure_sentence(asked, answer, code);
  return {outcome, fmt::format("{} failed: {}. ({} {})", subject, text, answer.status, code), {}};
}

}  // namespace onepen::home
