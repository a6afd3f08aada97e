// A bucket's store from its URL, the environment and what the program gave. bucket_place.h has the URL, bucket_credentials.h where credentials come from.
#pragma once
#include <memory>
#include <string>

#include "home/object/bucket_credentials.h"
#include "home/object/bucket_requests.h"
#include "home/object/object_store.h"
#include "home/object/open_home.h"

namespace onepen::home {

inline constexpr std::chrono::milliseconds kBucketPollMin{100}, kBucketPollMax{2'000};  // each look of a reader is a LIST that is paid for

struct OpenedBucket {
  std::unique_ptr<ObjectStore> store;
  std::string name;  // of the home
  std::shared_ptr<BucketMetrics> metrics;
};

bool is_bucket_url(std::string_view url);
// No request is sent. `runtime` outlives the store. Errors: invalid (the URL, an endpoint of the environment), unauthorised (credentials that are none).
Result<OpenedBucket> open_bucket(Runtime& runtime, const std::string& url, const OpenHomeOptions& options, const Environment& environment);

}  // namespace onepen::home
