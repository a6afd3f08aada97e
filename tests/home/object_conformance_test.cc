// The object home on a real directory, and on a bucket in memory, under the home conformance suite.
#include <map>

#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "tests/home/conformance.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {
namespace {

class ObjectPlace : public Place {
 public:
  Runtime& runtime() override { return *runtime_; }
  std::unique_ptr<core::Home> open() override {
    auto store = std::make_unique<FaultStore>(make_store());
    auto* faults = store.get();
    auto home = home::make_object_home(*runtime_, std::move(store), {.url = "test:"});
    const std::lock_guard lock(mutex_);
    stores_[home.get()] = faults;
    return home;
  }
  void lose_next_change(core::Home& home, Lose how) override {
    store_of(home).next_creates({how == Lose::answer ? PutFault::lost_answer : how == Lose::request ? PutFault::lost_request : PutFault::late});
    if (how == Lose::answer) store_of(home).fail_gets(1);  // so that the home cannot find out by itself
  }
  void deliver_late(core::Home& home) override { store_of(home).deliver_late(); }

 protected:
  virtual std::shared_ptr<home::ObjectStore> make_store() = 0;
  std::unique_ptr<Runtime> runtime_ = io::make_system_runtime();

 private:
  FaultStore& store_of(core::Home& home) {
    const std::lock_guard lock(mutex_);
    return *stores_.at(&home);
  }
  std::mutex mutex_;
  std::map<core::Home*, FaultStore*> stores_;
};

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
