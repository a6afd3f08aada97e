#include "home/object/azure_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "home/object/aws_sigv4.h"
#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

constexpr std::string_view kStorage = "https://storage.azure.com/";
constexpr std::string_view kAuthority = "https://login.microsoftonline.com", kMachine = "http://169.254.169.254";
constexpr std::int64_t kMaxTokenSeconds = 7 * 86'400;  // what says more is not believed

tl::unexpected<Error> no_identity(std::string message) { return tl::unexpected(Error{Outcome::unauthorised, std::move(message), {}}); }

std::string word_of(const nlohmann::json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::string without_end(std::string host) {
  while (host.ends_with('/')) host.pop_back();
  return host;
}

Result<AzureToken> taken(const io::HttpResult& answer, const std::string& who) {
  if (!answer) return no_identity(fmt::format("{} does not answer ({}).", who, answer.error().message));
  auto said = parse_azure_token(answer->body);
  if (!said) return no_identity(fmt::format("{} answers {} without a token.", who, answer->status));
  if (!said->error.empty())
    return no_identity(fmt::format("{} refuses: {} ({}).", who, said->description.substr(0, said->description.find_first_of("\r\n")), said->error));
  return std::move(*said);
}

}  // namespace

std::optional<AzureToken> parse_azure_token(ByteView body) {
  const auto json = nlohmann::json::parse(as_text(body), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  AzureToken out{.token = word_of(json, "access_token"), .error = word_of(json, "error"), .description = word_of(json, "error_description")};
  if (!out.error.empty()) {
    out.token.clear();
    return out;
  }
  const auto at = json.find("expires_in");  // a number, or the text of one
  const std::string text = at == json.end() ? "" : at->is_string() ? at->get<std::string>() : at->dump();
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), out.seconds);
  const bool plain = std::all_of(out.token.begin(), out.token.end(), [](char c) { return c > ' ' && c < 0x7f; });  // it becomes a header
  if (out.token.empty() || !plain || bad != std::errc{} || end != text.data() + text.size() || out.seconds <= 0 || out.seconds > kMaxTokenSeconds)
    return std::nullopt;
  return out;
}

Result<AzureToken> AzureIdentity::of_pod(const std::string& file) {
  const auto client = environment_("AZURE_CLIENT_ID"), tenant = environment_("AZURE_TENANT_ID");
  if (client.empty() || tenant.empty())
    return no_identity("AZURE_FEDERATED_TOKEN_FILE is set, and AZURE_CLIENT_ID or AZURE_TENANT_ID is not: the three belong together.");
  auto authority = without_end(environment_("AZURE_AUTHORITY_HOST"));
  if (authority.empty()) authority = kAuthority;
  if (!trusted_address(authority)) return no_identity("AZURE_AUTHORITY_HOST is neither https nor an address of this machine: it is shown no token.");
  const auto text = file_text(file);
  const auto proof = without_space(text);
  if (proof.empty()) return no_identity(fmt::format("The file {} (AZURE_FEDERATED_TOKEN_FILE) cannot be read, or is empty.", file));
  const std::string form = canonical_query({{"client_id", client},
                                            {"scope", std::string(kStorage) + ".default"},
                                            {"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
                                            {"client_assertion", std::string(proof)},
                                            {"grant_type", "client_credentials"}});
  io::HttpRequest request{"POST",
                          fmt::format("{}/{}/oauth2/v2.0/token", authority, uri_encoded(tenant, Slashes::encoded)),
                          {{"Content-Type", "application/x-www-form-urlencoded"}}};
  request.body = as_bytes(form);
  return taken(http_.far->send(request), fmt::format("{}, asked for client {} by the token of {} (AZURE_FEDERATED_TOKEN_FILE),", authority, client, file));
}

Result<AzureToken> AzureIdentity::of_machine() {
  auto host = without_end(environment_("AZURE_POD_IDENTITY_AUTHORITY_HOST"));
  if (host.empty()) host = kMachine;
  Query query{{"api-version", "2018-02-01"}, {"resource", std::string(kStorage)}};
  if (const auto client = environment_("AZURE_CLIENT_ID"); !client.empty()) query.emplace_back("client_id", client);
  const io::HttpRequest request{"GET", fmt::format("{}/metadata/identity/oauth2/token?{}", host, canonical_query(query)), {{"Metadata", "true"}}};
  return taken(http_.near->send(request), "The machine's metadata endpoint");
}

Result<AzureToken> AzureIdentity::ask() {
  const auto file = environment_("AZURE_FEDERATED_TOKEN_FILE");
  return file.empty() ? of_machine() : of_pod(file);
}

Result<std::string> AzureIdentity::token() {
  const Lock lock(mutex_);
  const auto now_ms = runtime_.wall_ms();
  if (!token_.empty() && (expires_ms_ - std::chrono::milliseconds(kRefreshEarly).count() > now_ms || (expires_ms_ > now_ms && not_before_ms_ > now_ms)))
    return token_;
  auto fresh = ask();
  if (fresh) {
    token_ = fresh->token;
    expires_ms_ = now_ms + fresh->seconds * 1000;
    return token_;
  }
  not_before_ms_ = now_ms + std::chrono::milliseconds(kRefreshAgain).count();
  if (token_.empty() || expires_ms_ <= now_ms) return tl::unexpected(fresh.error());
  return token_;
}

}  // namespace onepen::home
