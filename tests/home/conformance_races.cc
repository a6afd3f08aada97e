// The home conformance suite: many processes at once, on real threads.
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/home/conformance_process.h"

namespace onepen::testing {
namespace {

// Everybody opens at the same moment: one owner each time, epochs rise, nobody is told twice that an epoch is theirs.
TEST_P(HomeConformance, races_of_claims_have_one_owner_each) {
  constexpr int kThreads = 6, kRounds = 8;
  std::mutex mutex;
  std::map<std::uint64_t, std::string> owners;  // by epoch
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Process p(*place_, "t" + std::to_string(t));
      for (int round = 0; round < kRounds; ++round) {
        auto stat = p.stream().stat();
        auto claim = p.claim(stat ? stat->epoch.value + 1 : 1);
        if (!claim) {
          EXPECT_EQ(claim.error().outcome, Outcome::epoch_closed) << claim.error().message;
          continue;
        }
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(owners.emplace(claim->epoch.value, p.who()).second) << "epoch " << claim->epoch.value << " has two owners";
      }
    });
  for (auto& t : threads) t.join();
  Process reader(*place_, "r");
  std::map<std::uint64_t, std::string> stored;
  std::uint64_t before = 0;
  for (const auto& r : read_all(reader.stream())) {
    EXPECT_GT(r.epoch.value, before);
    before = r.epoch.value;
    stored[r.epoch.value] = r.owner.name;
  }
  EXPECT_EQ(stored, owners);
  EXPECT_GE(owners.size(), static_cast<std::size_t>(kRounds)) << "somebody wins each round";
}

// Writers append as fast as they can and take the stream from each other: what was acknowledged is there exactly once, in order; what was refused is nowhere.
TEST_P(HomeConformance, takeovers_under_load_lose_nothing) {
  constexpr int kThreads = 3, kClaims = 6, kAppends = 12;
  std::mutex mutex;
  std::multiset<std::string> acknowledged, refused;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Process p(*place_, "t" + std::to_string(t));
      for (int c = 0; c < kClaims; ++c) {
        auto stat = p.stream().stat();
        if (!p.claim(stat ? stat->epoch.value + 1 : 1)) continue;
        for (int i = 0; i < kAppends; ++i) {
          Texts batch{p.who() + "." + std::to_string(c) + "." + std::to_string(i)};
          if (i % 3 == 0) batch.push_back(batch[0] + "b");
          auto sent = p.append(batch);
          const std::lock_guard lock(mutex);
          (sent ? acknowledged : refused).insert(batch.begin(), batch.end());
          if (sent) continue;
          EXPECT_EQ(sent.error().outcome, Outcome::epoch_closed) << sent.error().message;
          EXPECT_EQ(sent.error().applied, Applied::no);
          break;
        }
      }
    });
  for (auto& t : threads) t.join();
  Process reader(*place_, "r");
  auto records = read_all(reader.stream());
  std::uint64_t epoch = 0, sequence = 0;
  for (const auto& r : records) {
    if (r.kind == RecordKind::claim) {
      EXPECT_GT(r.epoch.value, epoch);
      epoch = r.epoch.value;
      sequence = 0;
    } else {
      EXPECT_EQ(r.epoch.value, epoch) << "I1, I2";
      EXPECT_EQ(r.sequence.value, ++sequence);
    }
  }
  auto stored = payloads(records);
  EXPECT_EQ(std::multiset<std::string>(stored.begin(), stored.end()), acknowledged);
  EXPECT_GE(epoch, 2u) << "the stream changed hands";
}

}  // namespace
}  // namespace onepen::testing
