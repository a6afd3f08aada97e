// ObjectStore over S3 and what speaks like it (homes.md, 1).
//
//   https://<bucket>.s3.<region>.<cloud>/<prefix>/<key>     where no endpoint is given
//   <endpoint>/<bucket>/<prefix>/<key>                      where one is: path style, unless path_style=0
//
// put_if_absent is one PUT with `If-None-Match: *`: 200 created; 412 exists; anything that is not a refusal of S3's own for this request, and for every
// attempt before it, is `unknown` (B2, I4): the home reads the object. What an error means stands in bucket_errors.h, what is sent again in bucket_requests.h.
// A bucket in another region than was guessed is followed there once, by a request signed for it: to the same endpoint, or to the cloud's own host of that
// region, never to where an answer points. A region that the URL names is kept.
// Keys are listed in the order of S3 (a folder counts with its '/'); where a listing is cut off by `limit`, that order decides what is in it. Folders of a
// home hold names of one form each, for which both orders are the same.
// Thread-safe. Every call blocks for at most the patience of RetryPolicy and one request.
#pragma once
#include <functional>
#include <memory>

#include "base/runtime.h"
#include "home/object/aws_sigv4.h"
#include "home/object/bucket_requests.h"
#include "home/object/object_store.h"

namespace onepen::home {

// Where the keys come from. Thread-safe.
class AwsKeySource {
 public:
  virtual ~AwsKeySource() = default;
  virtual Result<AwsKeys> keys() = 0;             // errors: unauthorised (there are none: where was looked)
  virtual void refused(const AwsKeys& keys) = 0;  // the store says they have expired: the next ones are fresh
};

struct S3Place {
  std::string bucket, prefix;
  std::string endpoint;  // empty: the cloud's own
  std::string region;
  bool region_kept = false;  // the user named it in the URL
  bool path_style = false;
};

struct S3Parts {
  std::unique_ptr<AwsKeySource> keys;
  std::unique_ptr<io::HttpClient> http;
  std::shared_ptr<BucketMetrics> metrics;  // not null
  RetryPolicy retry{};
};

// `runtime` outlives the store. No request is sent yet.
std::unique_ptr<ObjectStore> make_s3_store(Runtime& runtime, S3Place place, S3Parts parts);

}  // namespace onepen::home
