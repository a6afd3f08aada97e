// A Place of the conformance suite over an object store: each home it opens stands behind a FaultStore of its own.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "home/object/object_home.h"
#include "io/system_runtime.h"
#include "tests/home/conformance.h"
#include "tests/support/fault_store.h"

namespace onepen::testing {

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

}  // namespace onepen::testing
