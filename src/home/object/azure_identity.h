// The identity that Azure gives a workload, as a token for Blob Storage: in a pod the federated token that AZURE_FEDERATED_TOKEN_FILE names (with AZURE_CLIENT_ID and
// AZURE_TENANT_ID; AZURE_AUTHORITY_HOST moves the place it is shown to), else the managed identity of the machine, by its metadata endpoint (AZURE_CLIENT_ID chooses one
// of several; AZURE_POD_IDENTITY_AUTHORITY_HOST moves it). A token is kept and refreshed some minutes before it expires. Thread-safe. No message ever holds a token.
#pragma once
#include <optional>
#include <string>

#include "base/mutex.h"
#include "home/object/bucket_credentials.h"

namespace onepen::home {

struct AzureToken {  // an answer: a token and how long it holds; or an error's code and words
  std::string token;
  std::int64_t seconds = 0;
  std::string error, description;
};
std::optional<AzureToken> parse_azure_token(ByteView body);

class AzureIdentity {
 public:
  AzureIdentity(Runtime& runtime, Environment environment, KeyTransports http)
      : runtime_(runtime), environment_(std::move(environment)), http_(std::move(http)) {}

  // Errors: unauthorised (there is no identity, or it is not taken: what was asked).
  Result<std::string> token();

 private:
  Result<AzureToken> ask();
  Result<AzureToken> of_pod(const std::string& file);
  Result<AzureToken> of_machine();

  Runtime& runtime_;
  const Environment environment_;
  const KeyTransports http_;
  Mutex mutex_;  // held while a token is asked for: whoever needs one waits for that answer, for as long as http_ allows
  std::string token_ ONEPEN_GUARDED_BY(mutex_);
  std::int64_t expires_ms_ ONEPEN_GUARDED_BY(mutex_) = 0;
  std::int64_t not_before_ms_ ONEPEN_GUARDED_BY(mutex_) = 0;
};

}  // namespace onepen::home
