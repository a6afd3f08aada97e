// The owner over a real directory home, on real threads and a real disk: what the memory home cannot show.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "owner/claim_log.h"
#include "owner/owner_testing.h"

namespace onepen::owner {
namespace {

using Kind = Fate::Kind;

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() {
    char name[] = "/tmp/onepen-owner-XXXXXX";
    folder = mkdtemp(name);
    std::filesystem::create_directory(folder + "/home");
  }
  ~DirectoryTest() override { std::filesystem::remove_all(folder); }

  struct Opened {  // one process
    std::unique_ptr<io::Disk> disk = io::make_posix_disk();
    ListFold fold;
    std::unique_ptr<DiskClaimLog> claims;
    std::unique_ptr<core::Home> home;
    std::unique_ptr<Owner> owner;
  };
  std::unique_ptr<Opened> open(const std::string& name, std::int64_t pid) {
    auto opened = opening(name, pid, {});
    if (!opened) {
      EXPECT_EQ(opened.error().outcome, Outcome::epoch_closed) << opened.error().message;
      return nullptr;
    }
    return std::move(*opened);
  }
  // `warm`: what a process of this machine read before.
  Result<std::unique_ptr<Opened>> opening(const std::string& name, std::int64_t pid, ListFold warm) {
    auto opened = std::make_unique<Opened>();
    opened->fold = std::move(warm);
    auto home = home::open_home(*runtime, *opened->disk, "file://" + folder + "/home");
    if (!home) return tl::unexpected(home.error());
    opened->home = std::move(*home);
    auto claims = DiskClaimLog::open(*opened->disk, folder + "/claims-" + name);
    EXPECT_TRUE(claims);
    opened->claims = std::move(*claims);
    Options options;
    options.info.host = "here";
    options.info.pid = pid;
    options.calm_changes = 1'000'000;
    auto owner = Owner::open(*runtime, opened->home->stream(*StreamName::parse("app")), *opened->claims, opened->fold, options);
    if (!owner) return tl::unexpected(owner.error());
    opened->owner = std::move(*owner);
    return opened;
  }
  Fate commit(Owner& owner, std::string_view text) {
    const Instant deadline = runtime->now() + 60s;
    auto ticket = owner.submit(to_bytes(as_bytes(text)), deadline);
    if (!ticket) return Fate{Kind::refused, {}, ticket.error()};
    return owner.wait(*ticket, deadline, nullptr);
  }

  std::vector<std::filesystem::path> objects() const {  // of the log, in order
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/home/app/@log"))
      if (entry.is_regular_file()) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::string folder;
};

TEST_F(DirectoryTest, TheNewerOwnerHasEverythingAndTheOlderIsRefused) {
  auto one = open("one", 11);
  ASSERT_TRUE(one);
  ASSERT_EQ(commit(*one->owner, "from one").kind, Kind::acknowledged);
  auto two = open("two", 4711);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->fold.data(), std::vector<std::string>{"from one"});
  EXPECT_LE(two->owner->status().claim_requests, 4u);
  ASSERT_EQ(commit(*two->owner, "from two").kind, Kind::acknowledged);
  const Fate late = commit(*one->owner, "too late");
  ASSERT_EQ(late.kind, Kind::refused);
  EXPECT_EQ(
      late.error->message,
      "fenced: 'app' is now written by pid 4711 on host here (epoch 2). This handle was epoch 1; its last write in the stream is sequence 2. Open the database again "
      "only if you mean to take it back.");
  const auto confirmed = two->owner->confirm(runtime->now() + 60s);
  ASSERT_TRUE(confirmed);
  EXPECT_EQ(*confirmed, two->owner->status().acknowledged);
  EXPECT_EQ(two->claims->last()->epoch, Epoch{2});
}

// Four threads commit without a pause while another owner takes over, again and again: the claim comes through (B3: a live writer cannot starve it),
// whatever was acknowledged is in the stream once, and whatever was refused is not.
TEST_F(DirectoryTest, NothingAcknowledgedIsLostAndNothingRefusedIsThere) {
  std::mutex mutex;
  std::set<std::string> acknowledged, refused;
  for (int round = 0; round < 5; ++round) {
    auto owner = open("writer", round);
    ASSERT_TRUE(owner);
    std::vector<std::thread> threads;
    std::atomic<bool> busy = false;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0;; ++i) {
          const std::string text = std::to_string(round) + "/" + std::to_string(t) + "/" + std::to_string(i);
          const Fate fate = commit(*owner->owner, text);
          const std::lock_guard lock(mutex);
          (fate.kind == Kind::acknowledged ? acknowledged : refused).insert(text);
          ASSERT_NE(fate.kind, Kind::undecided);
          if (fate.kind == Kind::refused) return;
          if (i == 5) {
            busy = true;
            busy.notify_all();
          }
        }
      });
    }
    busy.wait(false);
    auto taker = open("taker", 1000 + round);
    if (!taker) owner->owner->reset(ResetKind::broken, "the test failed");
    EXPECT_TRUE(taker);
    for (auto& thread : threads) thread.join();
  }
  auto last = open("reader", 1);
  ASSERT_TRUE(last);
  std::map<std::string, int> times;
  for (const std::string& text : last->fold.data()) ++times[text];
  for (const std::string& text : acknowledged) EXPECT_EQ(times[text], 1) << text;
  for (const std::string& text : refused) EXPECT_EQ(times.count(text), 0u) << text;
}

// An older copy of the home was put back, or its newest object is lost: this machine's fold holds an acknowledged commit that the log lacks. A claim would
// put new commits upon a history without it, and no reader could ever fold them.
TEST_F(DirectoryTest, ALogThatEndsBeforeWhatThisMachineReadIsNotWrittenOn) {
  auto one = open("one", 11);
  ASSERT_TRUE(one);
  ASSERT_EQ(commit(*one->owner, "kept").kind, Kind::acknowledged);
  ASSERT_TRUE(one->owner->stop(runtime->now() + 5s));
  one = open("one", 11);
  ASSERT_TRUE(one);
  ASSERT_EQ(commit(*one->owner, "lost").kind, Kind::acknowledged);
  ASSERT_TRUE(one->owner->stop(runtime->now() + 5s));
  ListFold warm;
  {
    auto reader = open("reader", 12);
    ASSERT_TRUE(reader);
    warm = reader->fold;
    ASSERT_TRUE(reader->owner->stop(runtime->now() + 5s));
  }
  ASSERT_EQ(warm.data(), (std::vector<std::string>{"kept", "lost"}));
  while (objects().size() > 3) std::filesystem::remove(objects().back());
  const auto before = objects();
  const auto refused = opening("one", 11, warm);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::fence_unavailable);
  EXPECT_NE(refused.error().message.find("the home has less now"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("Nothing was claimed"), std::string::npos) << refused.error().message;
  EXPECT_EQ(objects(), before);
}

// The home is not mounted, or was emptied: no new database is made over the commits this machine knows.
TEST_F(DirectoryTest, AnEmptiedHomeIsNotANewOneToWhoeverReadIt) {
  auto one = open("one", 11);
  ASSERT_TRUE(one);
  ASSERT_EQ(commit(*one->owner, "kept").kind, Kind::acknowledged);
  ASSERT_TRUE(one->owner->stop(runtime->now() + 5s));
  auto two = open("two", 12);
  ASSERT_TRUE(two);
  const ListFold warm = two->fold;
  two.reset();
  std::filesystem::remove_all(folder + "/home");
  std::filesystem::create_directory(folder + "/home");
  const auto refused = opening("two", 12, warm);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::fence_unavailable);
  EXPECT_NE(refused.error().message.find("Is the home mounted"), std::string::npos) << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder + "/home/app/@log"));
}

}  // namespace
}  // namespace onepen::owner
