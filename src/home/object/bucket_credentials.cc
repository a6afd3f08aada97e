#include "home/object/bucket_credentials.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/mutex.h"
#include "home/object/bucket_codec.h"
#include "home/object/bucket_place.h"
#include "home/object/bucket_xml.h"

namespace onepen::home {
namespace {

constexpr std::string_view kContainerHost = "http://169.254.170.2", kMetadataHost = "http://169.254.169.254";
constexpr std::string_view kMetadataRole = "/latest/meta-data/iam/security-credentials/";

tl::unexpected<Error> no_keys(std::string message) { return tl::unexpected(Error{Outcome::unauthorised, std::move(message), {}}); }

std::int64_t early_ms() { return std::chrono::milliseconds(kRefreshEarly).count(); }

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// What both the container's and the instance's endpoint answer with.
Result<AwsKeys> keys_of_json(ByteView body, std::string_view who) {
  const auto json = nlohmann::json::parse(as_text(body), nullptr, false);
  if (!json.is_object()) return no_keys(fmt::format("{} answers with something that is no JSON object.", who));
  AwsKeys keys{text_of(json, "AccessKeyId"), text_of(json, "SecretAccessKey"), text_of(json, "Token")};
  keys.expires_ms = iso_date_ms(text_of(json, "Expiration")).value_or(0);
  if (keys.key_id.empty() || keys.secret.empty()) return no_keys(fmt::format("{} answers without keys ({}).", who, text_of(json, "Code")));
  return keys;
}

class AwsKeyChain final : public AwsKeySource {
 public:
  AwsKeyChain(Runtime& runtime, Environment environment, std::string credential, KeyTransports http)
      : runtime_(runtime), environment_(std::move(environment)), credential_(std::move(credential)), http_(std::move(http)) {}

  Result<AwsKeys> keys() override;
  void refused(const AwsKeys& keys) override;

 private:
  Result<std::optional<AwsKeys>> written_down();  // 1, 2 and 4; none: to be asked for, by 3, 5 or 6
  Result<AwsKeys> asked_for();
  Result<AwsKeys> from_sts(const WebIdentity& identity);
  Result<AwsKeys> from_container(const std::string& url);
  Result<AwsKeys> from_instance();
  Result<Bytes> ask(std::string_view method, const std::string& url, std::vector<io::HttpHeader> headers, std::string_view who);
  Result<AwsKeys> refresh(std::int64_t now_ms);

  Runtime& runtime_;
  const Environment environment_;
  const std::string credential_;
  const KeyTransports http_;
  Mutex mutex_;        // of what is kept
  Mutex one_refresh_;  // held while an endpoint is asked: whoever has no keys at all waits for this answer, for as long as http_ allows
  std::optional<AwsKeys> kept_ ONEPEN_GUARDED_BY(mutex_);
  bool refreshing_ ONEPEN_GUARDED_BY(mutex_) = false;
  std::int64_t not_before_ms_ ONEPEN_GUARDED_BY(mutex_) = 0;
};

Result<std::optional<AwsKeys>> AwsKeyChain::written_down() {
  const std::string given = credential_.empty() ? environment_("ONEPEN_CREDENTIAL") : credential_;
  if (!given.empty()) {
    const auto first = given.find(':');
    if (first == std::string::npos || first == 0 || first + 1 == given.size())
      return no_keys("ONEPEN_CREDENTIAL (or the credential of the program) is not KEY_ID:SECRET or KEY_ID:SECRET:SESSION_TOKEN.");
    const auto second = std::min(given.find(':', first + 1), given.size());
    return AwsKeys{given.substr(0, first), given.substr(first + 1, second - first - 1), given.substr(std::min(second + 1, given.size()))};
  }
  AwsKeys keys{environment_("AWS_ACCESS_KEY_ID"), environment_("AWS_SECRET_ACCESS_KEY"), environment_("AWS_SESSION_TOKEN")};
  if (!keys.key_id.empty() && !keys.secret.empty()) return keys;
  if (keys.key_id.empty() != keys.secret.empty())
    return no_keys(fmt::format("{} is set and {} is not: both belong together.", keys.secret.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                               keys.secret.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
  auto profile = aws_profile(environment_);
  // An identity of the environment goes before the profile's keys, one of the profile behind them, as its other ways do.
  if (!environment_("AWS_WEB_IDENTITY_TOKEN_FILE").empty()) return std::optional<AwsKeys>{};
  keys = {profile["aws_access_key_id"], profile["aws_secret_access_key"], profile["aws_session_token"]};
  if (!keys.key_id.empty() && !keys.secret.empty()) return keys;
  if (profile.contains("web_identity_token_file")) return std::optional<AwsKeys>{};
  for (const char* other : {"role_arn", "sso_session", "sso_start_url", "credential_process"})
    if (profile.contains(other))
      return no_keys(
          fmt::format("The profile '{}' gets its keys by {}, which Onepen does not do itself. Put them into the environment: "
                      "eval \"$(aws configure export-credentials --profile {} --format env)\"",
                      aws_profile_name(environment_), other, aws_profile_name(environment_)));
  if (!environment_("AWS_PROFILE").empty())
    return no_keys(fmt::format("The profile '{}' (AWS_PROFILE) has no keys in the shared files of AWS, or is not there.", aws_profile_name(environment_)));
  return std::optional<AwsKeys>{};
}

Result<Bytes> AwsKeyChain::ask(std::string_view method, const std::string& url, std::vector<io::HttpHeader> headers, std::string_view who) {
  io::HttpRequest request{std::string(method), url, std::move(headers)};
  auto answer = http_.near->send(request);
  if (!answer) return no_keys(fmt::format("{} does not answer ({}).", who, answer.error().message));
  if (answer->status != 200) return no_keys(fmt::format("{} answers {}.", who, answer->status));
  return std::move(answer->body);
}

// The token, and nothing else, is the proof: the request is not signed. It is read anew each time, since whoever put it there renews it.
Result<AwsKeys> AwsKeyChain::from_sts(const WebIdentity& identity) {
  const auto endpoint = sts_endpoint(environment_);
  if (!trusted_address(endpoint))
    return no_keys(
        fmt::format("STS ({}, of AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL) is neither https nor an address of this machine: it is shown no token.", endpoint));
  const auto token = file_text(identity.token_file);
  if (without_space(token).empty()) return no_keys(fmt::format("The file {} (AWS_WEB_IDENTITY_TOKEN_FILE) cannot be read, or is empty.", identity.token_file));
  const std::string form = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", identity.role_arn},
                                            {"RoleSessionName", identity.session_name},
                                            {"WebIdentityToken", std::string(without_space(token))}});
  io::HttpRequest request{"POST", endpoint + "/", {{"Content-Type", "application/x-www-form-urlencoded"}}};
  request.body = as_bytes(form);
  const std::string what =
      fmt::format("Taking the role {} by the token of {} (AWS_WEB_IDENTITY_TOKEN_FILE) at {} failed", identity.role_arn, identity.token_file, endpoint);
  auto answer = http_.far->send(request);
  if (!answer) return no_keys(fmt::format("{}: no answer ({}).", what, answer.error().message));
  const auto said = parse_sts_answer(answer->body);
  if (!said) return no_keys(fmt::format("{}: the answer ({}) is none of STS's.", what, answer->status));
  if (!said->code.empty())
    return no_keys(fmt::format("{}: {} ({}). Check the trust policy of the role, and that the token is not an old one.", what, said->message, said->code));
  return AwsKeys{said->key_id, said->secret, said->session_token, iso_date_ms(said->expiration).value_or(0)};
}

Result<AwsKeys> AwsKeyChain::from_container(const std::string& url) {
  if (!trusted_address(url)) return no_keys("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine: it is not asked.");
  std::string token = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto path = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !path.empty()) {
    const auto text = file_text(path);
    token = without_space(text);
    if (token.empty()) return no_keys(fmt::format("The file {} (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE) cannot be read, or is empty.", path));
  }
  std::vector<io::HttpHeader> headers;
  if (!token.empty()) headers.push_back({"Authorization", token});
  constexpr std::string_view kWho = "The container's credentials endpoint";
  auto body = ask("GET", url, std::move(headers), kWho);
  if (!body) return tl::unexpected(body.error());
  return keys_of_json(*body, kWho);
}

Result<AwsKeys> AwsKeyChain::from_instance() {
  std::string host = environment_("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  while (host.ends_with('/')) host.pop_back();
  if (host.empty()) host = kMetadataHost;
  constexpr std::string_view kWho = "The instance's metadata endpoint";
  auto token = ask("PUT", host + "/latest/api/token", {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}}, kWho);
  if (!token) return tl::unexpected(token.error());
  const io::HttpHeader shown{"X-aws-ec2-metadata-token", std::string(without_space(as_text(*token)))};
  auto role = ask("GET", host + std::string(kMetadataRole), {shown}, "The list of the instance's roles");
  if (!role) return tl::unexpected(role.error());
  const auto name = without_space(as_text(*role).substr(0, as_text(*role).find('\n')));
  if (name.empty()) return no_keys("The instance has no role.");
  auto body = ask("GET", host + std::string(kMetadataRole) + uri_encoded(name, Slashes::encoded), {shown}, kWho);
  if (!body) return tl::unexpected(body.error());
  return keys_of_json(*body, kWho);
}

Result<AwsKeys> AwsKeyChain::asked_for() {
  const auto identity = web_identity(environment_, aws_profile(environment_));
  if (!identity) return tl::unexpected(identity.error());
  if (*identity) return from_sts(**identity);
  if (const auto relative = environment_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !relative.empty())
    return from_container(std::string(kContainerHost) + (relative.starts_with('/') ? "" : "/") + relative);
  if (const auto full = environment_("AWS_CONTAINER_CREDENTIALS_FULL_URI"); !full.empty()) return from_container(full);
  const std::string looked = "There are no credentials for this bucket. Looked at ONEPEN_CREDENTIAL, AWS_ACCESS_KEY_ID, the profile '" +
                             aws_profile_name(environment_) + "' of ~/.aws, the container's endpoint and the instance's metadata: ";
  if (environment_("AWS_EC2_METADATA_DISABLED") == "true") return no_keys(looked + "which is switched off (AWS_EC2_METADATA_DISABLED).");
  auto keys = from_instance();
  if (!keys) return no_keys(looked + keys.error().message);
  return keys;
}

// One thread at a time; the others take what it got.
Result<AwsKeys> AwsKeyChain::refresh(std::int64_t now_ms) {
  const Lock one(one_refresh_);
  {
    const Lock lock(mutex_);
    if (kept_ && (kept_->expires_ms == 0 || kept_->expires_ms - early_ms() > now_ms || not_before_ms_ > now_ms)) return *kept_;
    refreshing_ = true;
  }
  auto fresh = asked_for();
  const Lock lock(mutex_);
  refreshing_ = false;
  if (fresh) {
    kept_ = *fresh;
    not_before_ms_ = 0;
    return fresh;
  }
  if (!kept_ || kept_->expires_ms <= now_ms) return fresh;
  not_before_ms_ = now_ms + std::chrono::milliseconds(kRefreshAgain).count();
  return *kept_;
}

Result<AwsKeys> AwsKeyChain::keys() {
  auto written = written_down();
  if (!written) return tl::unexpected(written.error());
  if (*written) return std::move(**written);
  const auto now_ms = runtime_.wall_ms();
  {
    const Lock lock(mutex_);
    const bool good = kept_ && (kept_->expires_ms == 0 || kept_->expires_ms > now_ms);
    const bool wanted = !good || (kept_->expires_ms != 0 && kept_->expires_ms - early_ms() <= now_ms);
    if (good && (!wanted || refreshing_ || not_before_ms_ > now_ms)) return *kept_;
  }
  return refresh(now_ms);
}

void AwsKeyChain::refused(const AwsKeys& keys) {
  const Lock lock(mutex_);
  if (kept_ && *kept_ == keys) kept_.reset();
}

}  // namespace

std::unique_ptr<AwsKeySource> make_aws_key_source(Runtime& runtime, Environment environment, std::string credential, KeyTransports http) {
  return std::make_unique<AwsKeyChain>(runtime, std::move(environment), std::move(credential), std::move(http));
}

}  // namespace onepen::home
