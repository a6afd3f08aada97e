// What the simulated disk and bucket lose, and what they never lose.
#include "sim/disk.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>

#include "sim/store.h"

namespace onepen::sim {
namespace {

constexpr std::uint32_t kMe = 1, kOther = 2;

struct Bench {
  StackPool stacks;
  World world;
  SimFs fs;
  explicit Bench(std::uint64_t seed) : world(seed, stacks, false), fs(world, "fs") {}
  std::string text(const std::string& path) {
    Bytes out;
    const int code = fs.read(path, 0, 1000, out);
    return code == 0 ? std::string(as_text(out)) : std::string(code == ENOENT ? "(none)" : "(error)");
  }
};

TEST(SimFs, SyncedBytesUnderASyncedNameSurvive) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Bench b(seed);
    ASSERT_EQ(b.fs.create("/f", as_bytes("whole"), kMe), 0);
    ASSERT_EQ(b.fs.sync_file("/f"), 0);
    ASSERT_EQ(b.fs.sync_folder("/"), 0);
    b.fs.power_loss(kEverybody);
    ASSERT_EQ(b.text("/f"), "whole");
  }
}

TEST(SimFs, UnsyncedBytesAndNamesMayBeKeptLostOrTorn) {
  std::set<std::string> names, bytes;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Bench b(seed);
    ASSERT_EQ(b.fs.create("/n", as_bytes("x"), kMe), 0);  // name unsynced
    ASSERT_EQ(b.fs.sync_file("/n"), 0);
    ASSERT_EQ(b.fs.create("/d/../b", {}, kMe), ENOENT);
    b.fs.power_loss(kEverybody);
    names.insert(b.text("/n"));
    Bench c(seed);
    ASSERT_EQ(c.fs.create("/b", as_bytes("abcd"), kMe), 0);
    ASSERT_EQ(c.fs.sync_folder("/"), 0);  // bytes unsynced
    c.fs.power_loss(kEverybody);
    bytes.insert(c.text("/b"));
  }
  EXPECT_EQ(names, (std::set<std::string>{"(none)", "x"}));
  EXPECT_TRUE(bytes.count("") && bytes.count("abcd") && bytes.count("ab") && bytes.count(std::string(4, '\0')));
}

TEST(SimFs, FailedSyncDropsBytesForGood) {
  Bench b(1);
  ASSERT_EQ(b.fs.create("/f", as_bytes("x"), kMe), 0);
  ASSERT_EQ(b.fs.sync_folder("/"), 0);
  ASSERT_EQ(b.fs.drop_unsynced("/f"), 0);
  ASSERT_EQ(b.fs.sync_file("/f"), 0);  // says yes
  EXPECT_EQ(b.text("/f"), "x");
  b.fs.power_loss(kEverybody);
  EXPECT_EQ(b.text("/f"), "");
}

TEST(SimFs, ACutIsKeptOrLostLikeAWrite) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Bench b(seed);
    ASSERT_EQ(b.fs.create("/f", as_bytes("abcd"), kMe), 0);
    ASSERT_EQ(b.fs.sync_file("/f"), 0);
    ASSERT_EQ(b.fs.sync_folder("/"), 0);
    ASSERT_EQ(b.fs.cut(b.fs.find_id("/f"), 1, kMe), 0);
    ASSERT_EQ(b.text("/f"), "a");
    b.fs.power_loss(kEverybody);
    seen.insert(b.text("/f"));
    ASSERT_EQ(b.fs.cut(b.fs.find_id("/f"), 3, kMe), 0);
    ASSERT_EQ(b.fs.sync_file("/f"), 0);
    b.fs.power_loss(kEverybody);
    ASSERT_EQ(b.text("/f").size(), 3u);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"a", "abcd"}));
}

TEST(SimDisk, AnOpenFileIsItsInodeAndItsLockEndsWithTheProcess) {
  Bench b(1);
  SimFs home(b.world, "home");
  int done = 0;
  Process& first = b.world.start(1, "first", [&](Process& p) {
    SimDisk disk(b.world, p, b.fs, home, "/home");
    ASSERT_TRUE(disk.create("/f", as_bytes("old"), true));
    auto file = disk.open("/f", io::OpenMode::write);
    ASSERT_TRUE(file && *(*file)->lock(false));
    auto other = disk.open("/f", io::OpenMode::write);
    ASSERT_TRUE(other && !*(*other)->lock(false));  // as flock: by open file
    const auto before = disk.identity("/f");
    ASSERT_TRUE(disk.remove("/f") && disk.create("/f", as_bytes("new file"), true));
    ASSERT_TRUE((*file)->write_at(1, as_bytes("LD")) && (*file)->sync());
    std::array<std::byte, 8> bytes{};
    ASSERT_EQ(*(*file)->read_at(0, bytes), 3u);
    EXPECT_EQ(as_text(ByteView(bytes).first(3)), "oLD");
    EXPECT_FALSE(*before == *disk.identity("/f"));
    EXPECT_EQ(*disk.size("/f"), 8u);
    EXPECT_EQ(disk.open("/none", io::OpenMode::read).error().code, ENOENT);
    auto held = disk.open("/f", io::OpenMode::create);
    ASSERT_TRUE(held && *(*held)->lock(true));
    ++done;
    p.runtime->sleep_until(p.runtime->now() + std::chrono::seconds(10));
  });
  Process& second = b.world.start(1, "second", [&](Process& p) {
    p.runtime->sleep_until(p.runtime->now() + std::chrono::seconds(1));
    SimDisk disk(b.world, p, b.fs, home, "/home");
    auto file = disk.open("/f", io::OpenMode::write);
    ASSERT_TRUE(file && !*(*file)->lock(false));
    b.world.kill(first, "test");
    ASSERT_TRUE(*(*file)->lock(true));
    ++done;
  });
  b.world.run([&] { return first.ended() && second.ended(); });
  EXPECT_EQ(done, 2);
}

TEST(SimFs, OnlyTheMachineWithoutPowerLoses) {
  std::set<std::string> mine;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Bench b(seed);
    ASSERT_EQ(b.fs.create("/m", as_bytes("x"), kMe), 0);
    ASSERT_EQ(b.fs.create("/o", as_bytes("y"), kOther), 0);
    ASSERT_EQ(b.fs.sync_file("/m"), 0);
    b.fs.power_loss(kMe);
    mine.insert(b.text("/m"));
    ASSERT_EQ(b.text("/o"), "y");
  }
  EXPECT_EQ(mine.size(), 2u);
}

TEST(SimFs, RenameIsKeptOrLostWhole) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Bench b(seed);
    ASSERT_EQ(b.fs.make_folder("/a", kMe), 0);
    ASSERT_EQ(b.fs.make_folder("/b", kMe), 0);
    ASSERT_EQ(b.fs.create("/a/f", as_bytes("x"), kMe), 0);
    ASSERT_EQ(b.fs.sync_file("/a/f"), 0);
    ASSERT_EQ(b.fs.sync_folder("/"), 0);
    ASSERT_EQ(b.fs.sync_folder("/a"), 0);
    ASSERT_EQ(b.fs.rename("/a/f", "/b/f", kMe), 0);
    b.fs.power_loss(kEverybody);
    seen.insert(b.text("/a/f") + b.text("/b/f"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"x(none)", "(none)x"}));
}

TEST(SimFs, LinkRefusesATakenNameAndListsInOrder) {
  Bench b(1);
  ASSERT_EQ(b.fs.create("/1", as_bytes("one"), kMe), 0);
  ASSERT_EQ(b.fs.create("/2", as_bytes("two"), kMe), 0);
  EXPECT_EQ(b.fs.link("/1", "/2", kMe), EEXIST);
  EXPECT_EQ(b.text("/2"), "two");
  EXPECT_EQ(b.fs.link("/1", "/3", kMe), 0);
  std::vector<std::string> names;
  ASSERT_EQ(b.fs.list("/", "1", 10, names), 0);
  EXPECT_EQ(names, (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(b.fs.list("/none", "", 10, names), ENOENT);
}

TEST(SimStore, LatePutLandsAfterItsSenderDied) {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    StackPool stacks;
    World world(seed, stacks, false);
    Bucket bucket(world);
    bucket.faults.late = 1000;
    Process& p = world.start(1, "p", [&](Process& self) {
      SimStore store(bucket, self);
      auto put = store.put_if_absent("log/1", as_bytes("x"));
      ASSERT_TRUE(put.has_value());
      EXPECT_EQ(*put, home::PutOutcome::unknown);
    });
    world.at(10 * kMilli, [&] { world.kill(p, "test"); });
    ASSERT_TRUE(world.run([&] { return p.ended(); }));
    const bool before = bucket.objects.count("log/1") != 0;
    world.run([&] { return bucket.on_their_way == 0; });
    if (!before && bucket.objects.count("log/1") != 0) ++late;
  }
  EXPECT_GT(late, 5);
  EXPECT_LT(late, 40);
}

TEST(SimStore, AnswersOfAQuietBucketAreExact) {
  StackPool stacks;
  World world(7, stacks, false);
  Bucket bucket(world);
  world.start(1, "p", [&](Process& self) {
    SimStore store(bucket, self);
    EXPECT_EQ(store.put_if_absent("a/2", as_bytes("x")), home::PutOutcome::created);
    EXPECT_EQ(store.put_if_absent("a/2", as_bytes("y")), home::PutOutcome::exists);
    EXPECT_EQ(as_text(store.get("a/2").value()), "x");
    EXPECT_EQ(store.get("a/3").error().outcome, Outcome::not_found);
    ASSERT_TRUE(store.put("a/1", as_bytes("z")).has_value());
    EXPECT_EQ(store.list("a", "", 10).value(), (std::vector<std::string>{"1", "2"}));
    EXPECT_EQ(store.list("a", "1", 10).value(), (std::vector<std::string>{"2"}));
    EXPECT_TRUE(store.list("b", "", 10).value().empty());
  });
  ASSERT_TRUE(world.run([&] { return world.processes().front()->ended(); })) << world.failure();
}

}  // namespace
}  // namespace onepen::sim
