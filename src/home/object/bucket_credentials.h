// Credentials of buckets as users have them, and the other settings that stand beside them.
//
// For S3, the first that is there:
//   1. what the program gave (HomeOptions::credential), or ONEPEN_CREDENTIAL: "KEY_ID:SECRET" or "KEY_ID:SECRET:SESSION_TOKEN"
//   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   3. the profile (AWS_PROFILE, or "default") of the shared files: ~/.aws/credentials, ~/.aws/config, or where AWS_SHARED_CREDENTIALS_FILE and
//      AWS_CONFIG_FILE point
//   4. the container's endpoint: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN(_FILE)
//   5. the instance's metadata (IMDSv2), unless AWS_EC2_METADATA_DISABLED=true; AWS_EC2_METADATA_SERVICE_ENDPOINT moves it
// Environment and files are read when asked, so that keys that somebody renews there are found once the old ones are refused. Those of 4 and 5 are kept,
// refreshed some minutes before they expire, by one thread at a time, while the others go on with the old ones. No message ever holds a secret.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/runtime.h"
#include "home/object/s3_store.h"

namespace onepen::home {

inline constexpr std::chrono::minutes kRefreshEarly{5};
inline constexpr std::chrono::seconds kRefreshAgain{30};  // after one that failed while the old keys are still good

using Environment = std::function<std::string(const char* name)>;  // empty: it is not set
Environment process_environment();

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

// `credential`: as of 1, empty when the program gave none. `http` asks 4 and 5; it should be quick to give up.
std::unique_ptr<AwsKeySource> make_aws_key_source(Runtime& runtime, Environment environment, std::string credential, std::unique_ptr<io::HttpClient> http);

}  // namespace onepen::home
