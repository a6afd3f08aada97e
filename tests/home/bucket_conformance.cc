// The object home in a real bucket, under the home conformance suite. ONEPEN_TEST_BUCKET is the URL of one that may be written into, and the environment has
// its credentials; tests/process/bucket_home.py starts a server and runs this. Each case has a prefix of its own.
#include <cstdlib>

#include "home/object/open_bucket.h"
#include "tests/home/object_place.h"

namespace onepen::testing {
namespace {

std::string bucket_url(std::uint64_t which) {
  const char* given = std::getenv("ONEPEN_TEST_BUCKET");
  std::string url = given == nullptr ? "" : given;
  const auto query = std::min(url.find('?'), url.size());
  return url.substr(0, query) + "/" + std::to_string(which) + url.substr(query);
}

class RealBucketPlace final : public ObjectPlace {
 public:
  RealBucketPlace() : url_(bucket_url(runtime_->random_u64())) {}

 private:
  std::shared_ptr<home::ObjectStore> make_store() override {
    auto bucket = home::open_bucket(*runtime_, url_, {}, home::process_environment());
    if (bucket) return std::move(bucket->store);
    ADD_FAILURE() << "ONEPEN_TEST_BUCKET: " << bucket.error().message;
    return std::make_shared<Bucket>();
  }
  const std::string url_;
};

INSTANTIATE_TEST_SUITE_P(real_bucket, HomeConformance, ::testing::Values(PlaceMaker{"real_bucket", [] { return std::make_unique<RealBucketPlace>(); }}),
                         place_name);

}  // namespace
}  // namespace onepen::testing
