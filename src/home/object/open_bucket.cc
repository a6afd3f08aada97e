#include "home/object/open_bucket.h"

#include <fmt/format.h>

#include <algorithm>

#include "home/object/azure_identity.h"
#include "home/object/azure_store.h"
#include "home/object/bucket_place.h"
#include "home/object/s3_store.h"

namespace onepen::home {
namespace {

std::unique_ptr<io::HttpClient> bucket_http(const OpenHomeOptions& options, const Environment& environment) {
  io::HttpOptions http;
  http.silence = options.request_timeout;
  http.connect_timeout = std::min(http.connect_timeout, options.request_timeout);
  http.ca_file = options.ca_file.empty() ? ca_bundle(environment) : options.ca_file;
  return io::make_http_client(std::move(http));
}

// Of the endpoints that hand out keys: close by, and asked while somebody waits.
std::unique_ptr<io::HttpClient> metadata_http(const Environment& environment) {
  io::HttpOptions http;
  http.connect_timeout = std::chrono::seconds(1);
  http.silence = std::chrono::seconds(2);
  http.connections = 1;
  http.direct = true;
  http.ca_file = ca_bundle(environment);
  return io::make_http_client(std::move(http));
}

Result<OpenedBucket> open_s3(Runtime& runtime, const BucketUrl& url, const OpenHomeOptions& options, const Environment& environment) {
  std::string endpoint = url.endpoint;
  if (const auto set = endpoint.empty() ? aws_endpoint(environment) : std::string(); !set.empty()) {
    auto parsed = parse_endpoint(set);
    if (!parsed) return tl::unexpected(Error{Outcome::invalid, "AWS_ENDPOINT_URL, or endpoint_url of the profile: " + parsed.error().message, {}});
    endpoint = std::move(*parsed);
  }
  S3Place place{.bucket = url.bucket, .prefix = url.prefix, .endpoint = endpoint, .region = url.region, .region_kept = !url.region.empty()};
  if (place.region.empty()) place.region = aws_region(environment);
  if (place.region.empty()) place.region = kFirstRegion;
  // A certificate for *.host does not cover bucket.with.dots.host; a server of one's own is seldom reached by the name of a bucket.
  place.path_style = url.path_style.empty() ? !endpoint.empty() || url.bucket.find('.') != std::string::npos : url.path_style == "1";
  OpenedBucket out;
  out.name = bucket_home_name("s3", url, endpoint);
  out.metrics = std::make_shared<BucketMetrics>();
  out.store = make_s3_store(runtime, std::move(place),
                            {make_aws_key_source(runtime, environment, options.credential, {metadata_http(environment), bucket_http(options, environment)}),
                             bucket_http(options, environment), out.metrics});
  return out;
}

// An account that is not named at all is told by the first request: opening looks at no credentials. Only where the endpoint hangs on it, it is needed here.
Result<OpenedBucket> open_az(Runtime& runtime, const BucketUrl& url, const OpenHomeOptions& options, const Environment& environment) {
  std::string endpoint = url.endpoint;
  if (endpoint.empty()) {
    const auto found = azure_keys(environment, options.credential, url.account, [] { return Result<std::string>(std::string()); });
    if (!found) return tl::unexpected(found.error());
    auto parsed = parse_endpoint(found->endpoint.empty() ? fmt::format("https://{}.blob.core.windows.net", found->account) : found->endpoint);
    if (!parsed)
      return tl::unexpected(Error{Outcome::invalid, "The endpoint of the connection string, or the name of the account: " + parsed.error().message, {}});
    endpoint = std::move(*parsed);
  }
  std::function<Result<std::string>()> identity;
  if (trusted_address(endpoint))
    identity = [from = std::make_shared<AzureIdentity>(runtime, environment, KeyTransports{metadata_http(environment), bucket_http(options, environment)})] {
      return from->token();
    };
  auto keys = [environment, credential = options.credential, account = url.account, identity] {
    return azure_keys(environment, credential, account, identity);
  };
  OpenedBucket out;
  out.name = bucket_home_name("az", url, endpoint);
  out.metrics = std::make_shared<BucketMetrics>();
  out.store = make_azure_store(runtime, {url.bucket, url.prefix, endpoint}, std::move(keys), {bucket_http(options, environment), out.metrics});
  return out;
}

}  // namespace

bool is_bucket_url(std::string_view url) { return url.starts_with("s3://") || url.starts_with("az://"); }

Result<OpenedBucket> open_bucket(Runtime& runtime, const std::string& url, const OpenHomeOptions& options, const Environment& environment) {
  auto parsed = parse_bucket_url(url);
  if (!parsed) return tl::unexpected(parsed.error());
  return url.starts_with("az://") ? open_az(runtime, *parsed, options, environment) : open_s3(runtime, *parsed, options, environment);
}

}  // namespace onepen::home
