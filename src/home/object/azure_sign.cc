// Credentials of Azure Blob, and its SharedKey signature.
#include <fmt/format.h>

#include <algorithm>

#include "home/object/azure_store.h"
#include "home/object/bucket_codec.h"

namespace onepen::home {
namespace {

constexpr std::size_t kLongestAccount = 63;  // of Azure 24; servers of one's own may have longer ones

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

// "AccountName=x;AccountKey=y==;BlobEndpoint=https://…"
std::string part_of(std::string_view connection, std::string_view name) {
  while (!connection.empty()) {
    const auto one = connection.substr(0, connection.find(';'));
    connection.remove_prefix(std::min(one.size() + 1, connection.size()));
    const auto equals = one.find('=');
    if (equals != std::string_view::npos && without_space(one.substr(0, equals)) == name) return std::string(without_space(one.substr(equals + 1)));
  }
  return {};
}

tl::unexpected<Error> no_azure_keys(std::string message) { return tl::unexpected(Error{Outcome::unauthorised, std::move(message), {}}); }

tl::unexpected<Error> no_azure_account() {
  return no_azure_keys("The storage account has no name here: set AZURE_STORAGE_ACCOUNT, or write account= in the URL.");
}

// It stands in sentences and in the name of a host, and somebody may have swapped it with the key, which has 88 characters.
bool good_account(std::string_view account) {
  return account.size() <= kLongestAccount && std::all_of(account.begin(), account.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

Result<AzureKeys> take_connection(std::string_view connection, AzureKeys keys) {
  if (keys.account.empty()) keys.account = part_of(connection, "AccountName");
  keys.endpoint = part_of(connection, "BlobEndpoint");
  if (const auto suffix = part_of(connection, "EndpointSuffix"); keys.endpoint.empty() && !suffix.empty())
    keys.endpoint = fmt::format("https://{}.blob.{}", keys.account, suffix);
  keys.sas = part_of(connection, "SharedAccessSignature");
  const auto key = from_base64(part_of(connection, "AccountKey"));
  if (!key || (key->empty() && keys.sas.empty()))
    return no_azure_keys(
        "The connection string (AZURE_STORAGE_CONNECTION_STRING, or the credential of the program) has no usable AccountKey and no SharedAccessSignature.");
  keys.key = as_text(*key);
  return keys;
}

}  // namespace

Result<AzureKeys> azure_keys(const Environment& environment, const std::string& credential, const std::string& account,
                             const std::function<Result<std::string>()>& identity) {
  AzureKeys keys;
  keys.account = account.empty() ? environment("AZURE_STORAGE_ACCOUNT") : account;
  if (!good_account(keys.account))
    return no_azure_keys("AZURE_STORAGE_ACCOUNT is no name of a storage account: it has other characters than letters and digits, or too many. Is it the key?");
  std::string given = credential.empty() ? environment("ONEPEN_CREDENTIAL") : credential;
  if (given.empty()) given = environment("AZURE_STORAGE_CONNECTION_STRING");
  if (given.empty()) given = environment("AZURE_STORAGE_KEY");
  if (given.empty()) given = environment("AZURE_STORAGE_SAS_TOKEN");
  if (given.empty() && identity) {
    auto token = identity();
    if (!token)
      return no_azure_keys(
          "There are no credentials for this container. Looked at ONEPEN_CREDENTIAL, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN "
          "and the identity of this machine or pod: " +
          token.error().message);
    keys.bearer = std::move(*token);
    if (keys.account.empty()) return no_azure_account();
    return keys;
  }
  if (given.empty())
    return no_azure_keys(
        "There are no credentials for this container. Looked at ONEPEN_CREDENTIAL, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN.");
  if (given.find("AccountKey=") != std::string::npos || given.find("SharedAccessSignature=") != std::string::npos ||
      given.find("BlobEndpoint=") != std::string::npos) {
    auto taken = take_connection(given, std::move(keys));
    if (!taken) return taken;
    keys = std::move(*taken);
  } else if (given.find("sig=") != std::string::npos) {
    keys.sas = given;
  } else {
    const auto key = from_base64(given);
    if (!key || key->empty()) return no_azure_keys("The account key (AZURE_STORAGE_KEY, or the credential of the program) is not base64, as Azure shows it.");
    keys.key = as_text(*key);
  }
  if (keys.sas.starts_with('?')) keys.sas.erase(0, 1);
  if (keys.account.empty()) return no_azure_account();
  return keys;
}

std::string azure_authorization(const AzureKeys& keys, std::string_view method, std::string_view path, const Query& query,
                                const std::vector<io::HttpHeader>& headers, std::size_t body_bytes) {
  const auto header = [&](std::string_view name) {
    const auto at = std::find_if(headers.begin(), headers.end(), [&](const auto& one) { return lower_case(one.name) == name; });
    return at == headers.end() ? std::string() : at->value;
  };
  std::string text = fmt::format("{}\n\n\n{}\n\n\n\n\n{}\n{}\n\n{}\n", method, body_bytes == 0 ? "" : std::to_string(body_bytes), header("if-match"),
                                 header("if-none-match"), header("range"));
  std::vector<std::string> own;
  for (const auto& one : headers)
    if (const auto name = lower_case(one.name); name.starts_with("x-ms-")) own.push_back(fmt::format("{}:{}\n", name, without_space(one.value)));
  std::sort(own.begin(), own.end());
  for (const auto& line : own) text += line;
  text += fmt::format("/{}{}", keys.account, path);
  Query sorted = query;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, value] : sorted) text += fmt::format("\n{}:{}", lower_case(name), value);
  return fmt::format("SharedKey {}:{}", keys.account, base64(hmac_sha256(as_bytes(keys.key), text)));
}

}  // namespace onepen::home
