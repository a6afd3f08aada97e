// What comes from buckets and the places beside them: XML of answers, dates, sections of AWS's shared files, endpoints and the URLs of buckets. Nothing of it
// may crash, what is believed is what was there, and no endpoint or name says more than host, port and path.
#include "fuzz/fuzz_input.h"
#include "home/object/aws_sigv4.h"
#include "home/object/azure_identity.h"
#include "home/object/bucket_codec.h"
#include "home/object/bucket_credentials.h"
#include "home/object/bucket_errors.h"
#include "home/object/bucket_place.h"
#include "home/object/bucket_xml.h"

using namespace onepen;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto body = as_bytes(text);
  if (const auto fault = home::parse_bucket_fault(body)) require(!fault->code.empty(), "a fault has a code");
  if (const auto answer = home::parse_sts_answer(body))
    require(answer->code.empty() != (answer->key_id.empty() || answer->secret.empty() || answer->session_token.empty()), "keys, or a refusal");
  if (const auto answer = home::parse_azure_token(body))
    require(answer->error.empty() ? answer->seconds > 0 && answer->token.find_first_of(" \r\n") == std::string::npos && !answer->token.empty()
                                  : answer->token.empty(),
            "a token that can be a header, or an error");
  (void)home::parse_s3_page(body);
  (void)home::parse_azure_page(body);
  for (const int status : {200, 301, 400, 403, 404, 409, 503}) {
    home::Told told{io::HttpAnswer{status, {{"date", text}, {"x-amz-bucket-region", text}}, to_bytes(body)}};
    if (const auto region = home::s3_region_told(*told.last))
      require(!region->empty() && region->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos,
              "a region becomes part of a host name");
    (void)home::s3_verdict(*told.last);
    (void)home::azure_verdict(*told.last);
    require(!home::s3_error({}, told).message.empty() && !home::azure_error({}, told).message.empty(), "an error says something");
  }
  if (const auto at = home::http_date_ms(text)) require(home::http_date_ms(home::http_date(*at)) == at, "a date is itself");
  (void)home::iso_date_ms(text);
  if (const auto bytes = home::from_base64(text)) require(bytes->size() <= text.size(), "base64 grew");
  if (const auto endpoint = home::parse_endpoint(text)) {
    const auto parts = home::split_endpoint(*endpoint);
    require(parts.origin + parts.path == *endpoint && !parts.host.empty() && parts.host.find('@') == std::string::npos &&
                home::parse_endpoint(*endpoint) == *endpoint,
            "an endpoint is host and path");
  }
  if (const auto url = home::parse_bucket_url(text))
    require(("/" + url->prefix + "/").find("/../") == std::string::npos && url->prefix.find('@') == std::string::npos && url->bucket.size() >= 3,
            "a prefix stays in its bucket");
  for (const bool config : {false, true}) (void)home::parse_aws_profile(text, "default", config);
  (void)home::canonical_query({{text, text}});
  return 0;
}
