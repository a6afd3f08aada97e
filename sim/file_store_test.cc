// The real FileStore on a simulated disk: a folder of the log made by a process that died before it synced the folder's own name.
#include "home/object/file_store.h"

#include <gtest/gtest.h>

#include "sim/disk.h"

namespace onepen::sim {
namespace {

TEST(FileStoreOnSimDisk, AcknowledgedObjectOutlivesTheMakerOfItsFolder) {
  int acknowledged = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    StackPool stacks;
    World world(seed, stacks, false);
    SimFs fs(world, "home"), local(world, "local");
    world.strike = [&](Process& p) { world.kill(p, "test"); };
    Process& maker = world.start(
        1, "maker", [&](Process& p) { static_cast<void>(SimDisk(world, p, local, fs, "/home").make_folders("/home/data/db/@log/00000000000000000")); });
    maker.strike_in = 2 + seed % 12;
    world.run([&] { return maker.ended(); });
    bool created = false;
    Process& writer = world.start(1, "writer", [&](Process& p) {
      SimDisk disk(world, p, local, fs, "/home");
      const auto put = home::make_file_store(*p.runtime, disk, "/home/data")->put_if_absent("db/@log/00000000000000000001", as_bytes("x"));
      created = put && *put == home::PutOutcome::created;
    });
    world.run([&] { return writer.ended(); });
    fs.power_loss(kEverybody);
    Bytes out;
    if (!created) continue;
    ++acknowledged;
    EXPECT_EQ(fs.read("/home/data/db/@log/00000000000000000/00000000000000000001", 0, 10, out), 0) << "seed " << seed;
    EXPECT_EQ(as_text(out), "x");
  }
  EXPECT_GT(acknowledged, 150);
}

}  // namespace
}  // namespace onepen::sim
