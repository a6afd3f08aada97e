// Credentials of buckets as users have them, and the other settings that stand beside them.
//
// For S3, the first that is there:
//   1. what the program gave (HomeOptions::credential), or ONEPEN_CREDENTIAL: "KEY_ID:SECRET" or "KEY_ID:SECRET:SESSION_TOKEN"
//   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   3. a web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (AWS_ROLE_SESSION_NAME), as in pods of EKS: the token is shown to STS
//   4. the profile (AWS_PROFILE, or "default") of the shared files: ~/.aws/credentials, ~/.aws/config, or where AWS_SHARED_CREDENTIALS_FILE and
//      AWS_CONFIG_FILE point
//      (a profile with web_identity_token_file and role_arn: as 3)
//   5. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE)
//   6. the instance's metadata (IMDSv2), unless AWS_EC2_METADATA_DISABLED=true; AWS_EC2_METADATA_SERVICE_ENDPOINT moves it
// Environment and files are read when asked, so that keys that somebody renews there are found once the old ones are refused. Those of 3, 5 and 6 are kept,
// refreshed some minutes before they expire, by one thread at a time, while the others go on with the old ones. No message ever holds a secret.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/runtime.h"
#include "home/object/s3_store.h"

namespace onepen::home {

inline constexpr std::string_view kFirstRegion = "us-east-1";  // where nothing names one; a bucket elsewhere is followed there
inline constexpr std::chrono::minutes kRefreshEarly{5};
inline constexpr std::chrono::seconds kRefreshAgain{30};  // after one that failed while the old keys are still good

using Environment = std::function<std::string(const char* name)>;  // empty: it is not set
Environment process_environment();

std::string file_text(const std::string& path);  // of a file with settings or a token; empty: it cannot be read, or is longer than one is

using AwsProfile = std::map<std::string, std::string>;
// Reads one section of an ini file of AWS's: "[name]", or with in_config "[profile name]" (but "[default]"). Indented lines belong to nobody here.
AwsProfile parse_aws_profile(std::string_view text, std::string_view name, bool in_config);
// The profile of the environment, of both files; what both have is taken from the credentials file.
AwsProfile aws_profile(const Environment& environment);
std::string aws_profile_name(const Environment& environment);

// AWS_REGION, AWS_DEFAULT_REGION, the profile's; empty: none.
std::string aws_region(const Environment& environment);
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's; empty: none, or AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true.
std::string aws_endpoint(const Environment& environment);
// AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE; empty: the system's.
std::string ca_bundle(const Environment& environment);

// An address that somebody may have put into the environment is trusted with a token only when it is this machine's, the container agent's, or speaks TLS.
bool trusted_address(const std::string& url);

// What is shown to STS for a web identity.
struct WebIdentity {
  std::string token_file, role_arn, session_name;
};
// Of the environment, else of the profile. Errors: unauthorised (half of it is there). None: it is not configured.
Result<std::optional<WebIdentity>> web_identity(const Environment& environment, const AwsProfile& profile);
// AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL, else STS of the region (us-east-1 where none is named).
std::string sts_endpoint(const Environment& environment);

// The ways to what hands out keys.
struct KeyTransports {
  std::unique_ptr<io::HttpClient> near;  // on this machine or beside it (5, 6): never through a proxy, quick to give up
  std::unique_ptr<io::HttpClient> far;   // STS
};
// `credential`: as of 1, empty when the program gave none.
std::unique_ptr<AwsKeySource> make_aws_key_source(Runtime& runtime, Environment environment, std::string credential, KeyTransports http);

}  // namespace onepen::home
