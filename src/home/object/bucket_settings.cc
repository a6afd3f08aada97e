// The settings beside the credentials: environment and shared files.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "home/object/bucket_codec.h"
#include "home/object/bucket_credentials.h"
#include "home/object/bucket_place.h"

namespace onepen::home {
namespace {

constexpr std::size_t kMaxSettingsFile = 1u << 20;

std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = environment(name); !value.empty()) return value;
  return {};
}

std::string shared_file(const Environment& environment, const char* moved_by, const char* below_home) {
  if (auto path = environment(moved_by); !path.empty()) return path;
  const auto home = environment("HOME");
  return home.empty() ? std::string() : home + below_home;
}

std::string of_profile(const Environment& environment, const char* key) {
  const auto profile = aws_profile(environment);
  const auto at = profile.find(key);
  return at == profile.end() ? std::string() : at->second;
}

}  // namespace

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() > kMaxSettingsFile) text.clear();
  return text;
}

bool trusted_address(const std::string& url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const auto host = split_endpoint(url).host;
  const auto name = host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return name == "localhost" || name.starts_with("127.") || name == "[::1]" || name == "169.254.170.2" || name == "169.254.170.23" || name == "[fd00:ec2::23]";
}

Environment process_environment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

AwsProfile parse_aws_profile(std::string_view text, std::string_view name, bool in_config) {
  AwsProfile out;
  bool here = false;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto plain = without_space(line);
    if (plain.empty() || plain.front() == '#' || plain.front() == ';' || line.front() == ' ' || line.front() == '\t') continue;
    if (plain.front() == '[') {
      auto section = without_space(plain.substr(1, plain.find(']') - 1));
      if (in_config && section != "default") {
        constexpr std::string_view kWord = "profile";
        section = section.starts_with(kWord) ? without_space(section.substr(kWord.size())) : std::string_view{};
      }
      here = !section.empty() && section == name;
      continue;
    }
    const auto equals = plain.find('=');
    if (!here || equals == std::string_view::npos) continue;
    out[std::string(without_space(plain.substr(0, equals)))] = std::string(without_space(plain.substr(equals + 1)));
  }
  return out;
}

std::string aws_profile_name(const Environment& environment) {
  const auto name = first_of(environment, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  return name.empty() ? "default" : name;
}

AwsProfile aws_profile(const Environment& environment) {
  const auto name = aws_profile_name(environment);
  auto out = parse_aws_profile(file_text(shared_file(environment, "AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials")), name, false);
  out.merge(parse_aws_profile(file_text(shared_file(environment, "AWS_CONFIG_FILE", "/.aws/config")), name, true));
  return out;
}

std::string aws_region(const Environment& environment) {
  const auto region = first_of(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  return region.empty() ? of_profile(environment, "region") : region;
}

std::string aws_endpoint(const Environment& environment) {
  if (environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true") return {};
  const auto endpoint = first_of(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  return endpoint.empty() ? of_profile(environment, "endpoint_url") : endpoint;
}

Result<std::optional<WebIdentity>> web_identity(const Environment& environment, const AwsProfile& profile) {
  const auto of = [](const AwsProfile& one, const char* key) {
    const auto at = one.find(key);
    return at == one.end() ? std::string() : at->second;
  };
  WebIdentity out{environment("AWS_WEB_IDENTITY_TOKEN_FILE"), environment("AWS_ROLE_ARN"), environment("AWS_ROLE_SESSION_NAME")};
  if (out.token_file.empty()) out = {of(profile, "web_identity_token_file"), of(profile, "role_arn"), of(profile, "role_session_name")};
  if (out.token_file.empty()) return std::optional<WebIdentity>{};
  if (out.role_arn.empty())
    return tl::unexpected(Error{Outcome::unauthorised, "AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not: both belong together.", {}});
  if (out.session_name.empty()) out.session_name = "onepen";
  return std::optional<WebIdentity>(std::move(out));
}

std::string sts_endpoint(const Environment& environment) {
  if (environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") != "true") {
    auto set = first_of(environment, {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
    if (set.empty()) set = of_profile(environment, "endpoint_url");
    while (set.ends_with('/')) set.pop_back();
    if (!set.empty()) return set;
  }
  const auto region = aws_region(environment);
  return "https://sts." + (region.empty() ? std::string(kFirstRegion) : region) + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
}

std::string ca_bundle(const Environment& environment) {
  const auto bundle = first_of(environment, {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  return bundle.empty() ? of_profile(environment, "ca_bundle") : bundle;
}

}  // namespace onepen::home
