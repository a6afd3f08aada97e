#include "home/object/bucket_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

constexpr std::size_t kLongestKeyId = 32;  // ids of the stores at hand have 16 to 32 characters, their secrets 40 and more

std::string what_was_asked(const BucketAsked& asked) {
  const std::string where = fmt::format("{} at {}", asked.bucket, asked.endpoint);
  return asked.key.empty() ? fmt::format("{} {}", doing(asked.kind), where) : fmt::format("{} {} in {}", doing(asked.kind), asked.key, where);
}

}  // namespace

std::string_view doing(RequestKind kind) {
  switch (kind) {
    case RequestKind::get: return "Reading";
    case RequestKind::list: return "Listing";
    case RequestKind::create: return "Creating";
    case RequestKind::put: return "Writing";
    case RequestKind::erase: break;
  }
  return "Deleting";
}

Error no_answer_error(const BucketAsked& asked, const io::HttpFailure& failure) {
  const auto say = [&](std::string_view what, std::string_view then) {
    return Error{Outcome::unavailable, fmt::format("{} failed: {} ({}). {}", what_was_asked(asked), what, failure.message, then), {}};
  };
  switch (failure.fault) {
    case io::HttpFault::name_not_resolved:
      return say("the name of the endpoint could not be resolved", "Check the endpoint, and this machine's DNS (a proxy is named by https_proxy).");
    case io::HttpFault::not_connected:
      return say("nobody answers at the endpoint", "Check that it is the right one and can be reached from here (a proxy is named by https_proxy).");
    case io::HttpFault::tls:
      return say("no trusted TLS connection could be made",
                 "Certificates are always verified. Check that the endpoint is the right host and speaks TLS, and this machine's clock; for a certificate of "
                 "your own authority name its bundle in AWS_CA_BUNDLE or SSL_CERT_FILE.");
    case io::HttpFault::timed_out: return say("the endpoint took too long", "It is asked again when the home is used again.");
    case io::HttpFault::too_large: return say("the answer is longer than anything Onepen keeps there", "Is this object Onepen's?");
    case io::HttpFault::broken:
      if (!failure.answer_began && asked.endpoint.starts_with("http://"))
        return say("the connection ended without an answer",
                   "Is that the port of a store? One that speaks TLS is written https://. It is asked again when the home is used again.");
      break;
  }
  return say("the connection broke before a whole answer came", "It is asked again when the home is used again.");
}

Error kept_failing_error(const BucketAsked& asked, const Told& told, std::string_view code) {
  const int status = told.last ? told.last->status : 0;
  const bool slower = status == 429 || status == 503;
  const std::string answers = fmt::format("asked {} {} in {:.1f} s, last answered {}{}{}", told.tries, told.tries == 1 ? "time" : "times",
                                          static_cast<double>(told.took.count()) / 1000, status, code.empty() ? "" : " ", code);
  if (slower)
    return {Outcome::unavailable,
            fmt::format("{} failed: the store throttles its clients ({}). Onepen goes on by itself as soon as it is let; if this lasts, have fewer clients or "
                        "databases in one bucket, or ask for a higher request rate.",
                        what_was_asked(asked), answers),
            {}};
  return {
      Outcome::unavailable, fmt::format("{} failed: the store has a fault of its own ({}). See its health page or log.", what_was_asked(asked), answers), {}};
}

std::string shown_key_id(std::string_view id) {
  if (id.size() <= kLongestKeyId && std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != '+' && c != '='; }))
    return std::string(id);
  return fmt::format("({} characters, which are no key id: are id and secret swapped?)", id.size());
}

std::string clock_words(const io::HttpAnswer& answer, std::int64_t now_ms) {
  const auto theirs = http_date_ms(answer.header("date"));
  if (!theirs) return {};
  const std::int64_t seconds = (now_ms - *theirs) / 1000, size = std::abs(seconds);
  const std::string by = size < 120 ? fmt::format("{} s", size) : size < 7200 ? fmt::format("{} min", size / 60) : fmt::format("{} h", size / 3600);
  return fmt::format("this machine's clock is {} {} the store's", by, seconds < 0 ? "behind" : "ahead of");
}

}  // namespace onepen::home
