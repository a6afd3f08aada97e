// The object home on a real directory, and on a bucket in memory, under the home conformance suite; and on a real bucket, when ONEPEN_TEST_HOME_URL names
// one (s3://…, az://…; credentials as for users): each case in a prefix of its own below it, `--gtest_filter=given/*`.
#include <cstdlib>
#include <map>

#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "home/object/open_bucket.h"
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

class GivenPlace final : public ObjectPlace {
 public:
  explicit GivenPlace(const std::string& url) {
    const auto question = std::min(url.find('?'), url.size());
    url_ = url.substr(0, question) + "/" + to_text(runtime_->draw<PutId>()) + url.substr(question);
  }

 private:
  std::shared_ptr<home::ObjectStore> make_store() override {
    auto opened = home::open_bucket(*runtime_, url_, {}, home::process_environment());
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(opened->store);
  }
  std::string url_;
};
std::vector<PlaceMaker> given_places() {
  const char* url = std::getenv("ONEPEN_TEST_HOME_URL");
  if (url == nullptr || *url == '\0') return {};
  return {PlaceMaker{"given", [url = std::string(url)] { return std::make_unique<GivenPlace>(url); }}};
}

INSTANTIATE_TEST_SUITE_P(given, HomeConformance, ::testing::ValuesIn(given_places()), place_name);
INSTANTIATE_TEST_SUITE_P(directory, HomeConformance, ::testing::Values(PlaceMaker{"directory", [] { return std::make_unique<DirectoryPlace>(); }}), place_name);
INSTANTIATE_TEST_SUITE_P(bucket, HomeConformance, ::testing::Values(PlaceMaker{"bucket", [] { return std::make_unique<BucketPlace>(); }}), place_name);

}  // namespace
}  // namespace onepen::testing
