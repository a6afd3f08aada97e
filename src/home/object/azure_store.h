// ObjectStore over Azure Blob Storage (homes.md, 1), with the same meaning as s3_store.h.
//
//   <endpoint>/<container>/<prefix>/<key>      endpoint: https://<account>.blob.<cloud>, or as given: a local one ends with /<account>
//
// put_if_absent is one Put Blob with `If-None-Match: *`: 201 created; 409 BlobAlreadyExists (or 412) exists; else as for S3.
// Listing has no "start after": a page holds 5,000 names, and what lies before `after` is read and left out. So the cost of a look at the tail grows with the
// objects of a log that its owner has not packed yet: one request for each 5,000. Trimming keeps that at one.
// Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "base/runtime.h"
#include "home/object/bucket_credentials.h"
#include "home/object/bucket_requests.h"
#include "home/object/object_store.h"

namespace onepen::home {

struct AzureKeys {
  std::string account, key;  // key: decoded
  std::string sas;           // a shared access signature, "sv=…&sig=…", in place of the key
  std::string endpoint;      // of the connection string; empty: none named
  std::string bearer{};      // a token of an identity, in place of key and SAS
};
// Of `credential` (an account key, a SAS token or a connection string), else ONEPEN_CREDENTIAL, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,
// AZURE_STORAGE_SAS_TOKEN, `identity` (a token; empty: none is asked); the account is `account`, or AZURE_STORAGE_ACCOUNT, or the connection string's. Errors: unauthorised (there is none: where was looked).
Result<AzureKeys> azure_keys(const Environment& environment, const std::string& credential, const std::string& account,
                             const std::function<Result<std::string>()>& identity = {});

// The Authorization header by SharedKey. `path` as it goes out, `query` decoded, `headers` all that count.
std::string azure_authorization(const AzureKeys& keys, std::string_view method, std::string_view path, const Query& query,
                                const std::vector<io::HttpHeader>& headers, std::size_t body_bytes);

struct AzurePlace {
  std::string container, prefix, endpoint;
};
struct AzureParts {
  std::unique_ptr<io::HttpClient> http;
  std::shared_ptr<BucketMetrics> metrics;  // not null
  RetryPolicy retry{};
};
// `keys` is asked for each request, so that a SAS that somebody renews in the environment is found. No request is sent yet.
std::unique_ptr<ObjectStore> make_azure_store(Runtime& runtime, AzurePlace place, std::function<Result<AzureKeys>()> keys, AzureParts parts);

}  // namespace onepen::home
