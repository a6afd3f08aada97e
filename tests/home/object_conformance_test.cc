// The object home on a real directory, and on a bucket in memory, under the home conformance suite.
#include "home/object/file_store.h"
#include "io/posix_disk.h"
#include "tests/home/object_place.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {
namespace {

class DirectoryPlace final : public ObjectPlace {
  std::shared_ptr<home::ObjectStore> make_store() override { return home::make_file_store(*runtime_, *disk_, folder_.path()); }
  TempFolder folder_;
  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
};

class BucketPlace final : public ObjectPlace {
  std::shared_ptr<home::ObjectStore> make_store() override { return bucket_; }
  std::shared_ptr<Bucket> bucket_ = std::make_shared<Bucket>();
};

INSTANTIATE_TEST_SUITE_P(directory, HomeConformance, ::testing::Values(PlaceMaker{"directory", [] { return std::make_unique<DirectoryPlace>(); }}), place_name);
INSTANTIATE_TEST_SUITE_P(bucket, HomeConformance, ::testing::Values(PlaceMaker{"bucket", [] { return std::make_unique<BucketPlace>(); }}), place_name);

}  // namespace
}  // namespace onepen::testing
