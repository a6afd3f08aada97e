// Which bucket a URL means. Plain values and pure functions.
//
//   s3://bucket/prefix?endpoint=https://host:port&region=eu-west-1&path_style=1
//   az://container/prefix?endpoint=https://host:port/account&account=name
//
// Everything behind '?' may be left out, and no secret ever stands there. The name of the home is what makes it one place (local copies belong to it): bucket,
// prefix and, where it is not the cloud's own, the endpoint; region and style are only how to get there.
#pragma once
#include <onepen/result.h>

#include <string>
#include <string_view>

namespace onepen::home {

inline constexpr std::size_t kMaxBucketPrefix = 512;  // bytes; with the longest name of a database a key stays below the 1,024 of S3 and Azure

struct BucketUrl {
  std::string bucket, prefix;  // prefix: without slashes at its ends; may be empty
  std::string endpoint;        // "https://host[:port][/path]", no slash at its end; empty: not given
  std::string region, account; // empty: not given
  std::string path_style;      // "0", "1"; empty: not given
};

// Errors: invalid, with a sentence that says how to write it.
Result<BucketUrl> parse_bucket_url(std::string_view url);
// An endpoint as in a URL or in the environment: http or https, a host, perhaps a port and a path. Default ports are dropped. Errors: invalid.
Result<std::string> parse_endpoint(std::string_view text);

struct Endpoint {
  std::string origin;  // "https://host:port"
  std::string host;    // "host:port", as in the Host header
  std::string path;    // "/path" or empty
};
Endpoint split_endpoint(std::string_view endpoint);

// "s3://bucket/prefix", with "?endpoint=…" when one is given that is not the cloud's own.
std::string bucket_home_name(std::string_view scheme, const BucketUrl& url, std::string_view endpoint);

}  // namespace onepen::home
