#include "home/object/bucket_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

tl::unexpected<Error> bad_url(std::string message) { return tl::unexpected(Error{Outcome::invalid, std::move(message), {}}); }

bool letters_of(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || more.find(c) != std::string_view::npos;
  });
}

bool good_prefix(std::string_view prefix) {
  for (std::size_t from = 0; from < prefix.size();) {
    const auto end = std::min(prefix.find('/', from), prefix.size());
    const auto part = prefix.substr(from, end - from);
    if (part.empty() || part == "." || part == ".." || !letters_of(part, "._-")) return false;
    from = end + 1;
  }
  return prefix.size() <= kMaxBucketPrefix;
}

std::string_view without_slashes(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  return text;
}

Result<> take_parameter(std::string_view name, std::string value, BucketUrl& out) {
  if (name == "endpoint") {
    auto endpoint = parse_endpoint(value);
    if (!endpoint) return tl::unexpected(endpoint.error());
    out.endpoint = std::move(*endpoint);
  } else if (name == "region") {
    if (value.empty() || !letters_of(value, "-")) return bad_url(fmt::format("'{}' is not the name of a region, such as eu-west-1.", value));
    out.region = std::move(value);
  } else if (name == "account") {
    if (value.empty() || !letters_of(value, "")) return bad_url(fmt::format("'{}' is not the name of a storage account.", value));
    out.account = std::move(value);
  } else if (name == "path_style") {
    if (value != "0" && value != "1") return bad_url("path_style is 1 (https://endpoint/bucket/key) or 0 (https://bucket.endpoint/key).");
    out.path_style = std::move(value);
  } else {
    return bad_url(fmt::format("'{}' is no parameter of the URL of a bucket. Known: endpoint, region, path_style (s3), account (az).", name));
  }
  return {};
}

}  // namespace

Result<std::string> parse_endpoint(std::string_view text) {
  const auto colon = text.find("://");
  const auto scheme = colon == std::string_view::npos ? std::string_view{} : text.substr(0, colon);
  if (text.find('@') != std::string_view::npos) return bad_url("An endpoint names no user: write https://host:port. Credentials never stand in a URL.");
  if (scheme != "http" && scheme != "https")
    return bad_url(fmt::format("'{}' is not an endpoint: write https://host:port (http:// for one on this machine).", text));
  auto rest = text.substr(scheme.size() + 3);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  auto authority = rest.substr(0, rest.find('/'));
  const auto path = rest.substr(authority.size());
  const std::string_view default_port = scheme == "https" ? ":443" : ":80";
  if (authority.ends_with(default_port)) authority.remove_suffix(default_port.size());
  if (authority.empty() || !letters_of(authority, ".-:[]") || !letters_of(path, "/._-"))
    return bad_url(fmt::format("'{}' is not an endpoint: write https://host:port, with neither a user nor parameters.", text));
  return fmt::format("{}://{}{}", scheme, authority, path);
}

Endpoint split_endpoint(std::string_view endpoint) {
  const auto host_at = endpoint.find("://") + 3;
  const auto slash = std::min(endpoint.find('/', host_at), endpoint.size());
  return {std::string(endpoint.substr(0, slash)), std::string(endpoint.substr(host_at, slash - host_at)), std::string(endpoint.substr(slash))};
}

Result<BucketUrl> parse_bucket_url(std::string_view url) {
  const auto colon = url.find("://");
  const auto scheme = url.substr(0, colon);
  const std::string how = fmt::format("write {}://{}/prefix", scheme, scheme == "az" ? "container" : "bucket");
  if (colon == std::string_view::npos) return bad_url(fmt::format("'{}' names no bucket: {}.", url, how));
  auto rest = url.substr(colon + 3);
  const auto question = std::min(rest.find('?'), rest.size());
  auto parameters = rest.substr(std::min(question + 1, rest.size()));
  rest = rest.substr(0, question);
  BucketUrl out;
  out.bucket = rest.substr(0, rest.find('/'));
  out.prefix = without_slashes(rest.substr(out.bucket.size()));
  if (out.bucket.size() < 3 || out.bucket.size() > 63 || !letters_of(out.bucket, ".-_") || out.bucket.front() == '.')
    return bad_url(fmt::format("'{}' names no bucket: {}. A name has 3 to 63 letters, digits, '-' and '.'.", url.substr(0, url.find('?')), how));
  if (!good_prefix(out.prefix))
    return bad_url(fmt::format("The prefix '{}' cannot be used: it is made of letters, digits, '.', '_' and '-', with single '/' between, at most {} bytes.",
                               out.prefix, kMaxBucketPrefix));
  while (!parameters.empty()) {
    const auto one = parameters.substr(0, parameters.find('&'));
    parameters = parameters.substr(std::min(one.size() + 1, parameters.size()));
    const auto equals = std::min(one.find('='), one.size());
    const auto value = percent_decoded(one.substr(std::min(equals + 1, one.size())));
    if (!value) return bad_url("The URL has a '%' that is not followed by two hexadecimal digits.");
    if (auto ok = take_parameter(one.substr(0, equals), *value, out); !ok) return tl::unexpected(ok.error());
  }
  return out;
}

std::string bucket_home_name(std::string_view scheme, const BucketUrl& url, std::string_view endpoint) {
  return fmt::format("{}://{}{}{}{}{}", scheme, url.bucket, url.prefix.empty() ? "" : "/", url.prefix, endpoint.empty() ? "" : "?endpoint=", endpoint);
}

}  // namespace onepen::home
