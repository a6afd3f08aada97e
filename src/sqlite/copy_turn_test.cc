#include "sqlite/copy_turn.h"

#include <gtest/gtest.h>

#include "io/system_runtime.h"

namespace onepen::sqlite {
namespace {

TEST(CopyTurn, OneAtATimeAndEverybodyComesOnce) {
  constexpr int kThreads = 4, kRounds = 500;
  const auto runtime = io::make_system_runtime();
  CopyTurn turn(*runtime);
  int inside = 0, most = 0, done = 0;  // plain: whoever has the turn is alone
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(runtime->spawn("turn", [&] {
      for (int i = 0; i < kRounds; ++i) {
        const CopyTurn::Held held(turn);
        ASSERT_TRUE(held);
        most = std::max(most, ++inside);
        ++done;
        --inside;
      }
    }));
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, kThreads * kRounds);
}

// A process that is being stopped: waits end at once, and nobody is let in beside the one who holds it.
class Stopping final : public Runtime {
 public:
  Instant now() override { return {}; }
  std::int64_t wall_ms() override { return 0; }
  std::uint64_t random_u64() override { return 4; }
  void sleep_until(Instant) override {}
  std::unique_ptr<Signal> make_signal() override {
    struct Ends final : Signal {
      void notify() override {}
      bool wait_until(Instant) override { return false; }
    };
    return std::make_unique<Ends>();
  }
  std::unique_ptr<Thread> spawn(std::string_view, std::function<void()>) override { return nullptr; }
  ProcessIdentity identity() override { return {}; }
};

TEST(CopyTurn, WhoCannotWaitGetsNothing) {
  Stopping runtime;
  CopyTurn turn(runtime);
  {
    const CopyTurn::Held first(turn);
    EXPECT_TRUE(first);
    const CopyTurn::Held second(turn);
    EXPECT_FALSE(second);
  }
  const CopyTurn::Held again(turn);
  EXPECT_TRUE(again) << "the one who went away is not waited for";
}

}  // namespace
}  // namespace onepen::sqlite
