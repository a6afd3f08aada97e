// The memory home that other tests stand on, under the same suite as the real homes.
#include "io/system_runtime.h"
#include "tests/home/conformance.h"
#include "tests/support/memory_home.h"

namespace onepen::testing {
namespace {

class MemoryPlace final : public Place {
 public:
  Runtime& runtime() override { return *runtime_; }
  std::unique_ptr<core::Home> open() override { return std::make_unique<MemoryHome>(*runtime_, shared_); }
  void lose_next_change(core::Home& home, Lose how) override {
    auto trouble = how == Lose::answer ? Trouble::lost_answer : how == Lose::request ? Trouble::lost_request : Trouble::late_request;
    auto left = std::make_shared<int>(1);
    dynamic_cast<MemoryHome&>(home).set_hook([trouble, left](const CallInfo& info) {
      if ((info.call != Call::claim && info.call != Call::append) || *left == 0) return Trouble::none;
      --*left;
      return trouble;
    });
  }
  void deliver_late(core::Home& home) override { dynamic_cast<MemoryHome&>(home).deliver_late(); }

 private:
  std::unique_ptr<Runtime> runtime_ = io::make_system_runtime();
  std::shared_ptr<MemoryHome::Shared> shared_ = MemoryHome::make_shared_state();
};

INSTANTIATE_TEST_SUITE_P(memory, HomeConformance, ::testing::Values(PlaceMaker{"memory", [] { return std::make_unique<MemoryPlace>(); }}), place_name);

}  // namespace
}  // namespace onepen::testing
