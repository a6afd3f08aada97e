#include "home/object/request_crew.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "io/system_runtime.h"

namespace onepen::home {
namespace {

// Work that ends when so many are under way at a time; how many were at most.
class Gate {
 public:
  explicit Gate(std::size_t opens_at) : opens_at_(opens_at) {}
  void pass() {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++inside_);
    open_ = open_ || inside_ >= opens_at_;
    turn_.notify_all();
    turn_.wait(lock, [&] { return open_; });
    --inside_;
  }
  void await(std::size_t inside) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return inside_ >= inside; });
  }
  std::size_t most() const { return most_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  const std::size_t opens_at_;
  std::size_t inside_ = 0, most_ = 0;
  bool open_ = false;
};

class RequestCrewTest : public ::testing::Test {
 protected:
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
};

TEST_F(RequestCrewTest, SeveralAreUnderWayAndAnswersComeInTheOrderOfAsking) {
  Gate gate(3);
  RequestCrew crew(*runtime, "crew", 3);
  for (int i = 0; i < 20; ++i) {
    crew.ask([&gate, i]() -> Result<Bytes> {
      gate.pass();
      return Bytes(1, std::byte(i));
    });
  }
  EXPECT_EQ(crew.asked(), 20u);
  for (int i = 0; i < 20; ++i) {
    const auto answer = crew.take();
    ASSERT_TRUE(answer && *answer);
    EXPECT_EQ((**answer)[0], std::byte(i));
  }
  EXPECT_EQ(crew.asked(), 0u);
  EXPECT_EQ(gate.most(), 3u);
  EXPECT_FALSE(crew.take());
}

TEST_F(RequestCrewTest, AnErrorIsTheAnswerOfItsOwnWorkOnly) {
  RequestCrew crew(*runtime, "crew", 2);
  crew.ask([]() -> Result<Bytes> { return tl::unexpected(Error{Outcome::unavailable, "away", {}}); });
  crew.ask([]() -> Result<Bytes> { return Bytes{}; });
  const auto first = crew.take(), second = crew.take();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(*first);
  EXPECT_TRUE(*second);
}

TEST_F(RequestCrewTest, StoppedItWaitsForWhatHasBegunAndBeginsNothing) {
  Gate gate(2);
  int done = 0;
  RequestCrew crew(*runtime, "crew", 1);
  for (int i = 0; i < 5; ++i) {
    crew.ask([&]() -> Result<Bytes> {
      gate.pass();
      ++done;
      return Bytes{};
    });
  }
  gate.await(1);
  const auto other = runtime->spawn("other", [&] { gate.pass(); });  // lets it end
  crew.stop();
  EXPECT_GE(done, 1);
  const int before = done;
  crew.ask([&]() -> Result<Bytes> {
    ++done;
    return Bytes{};
  });
  while (crew.take()) {
  }
  EXPECT_EQ(done, before);
}

}  // namespace
}  // namespace onepen::home
