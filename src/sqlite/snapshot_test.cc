#include "sqlite/snapshot.h"

#include <gtest/gtest.h>

#include "base/guard.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "sqlite/snapshot_load.h"
#include "sqlite/snapshot_part.h"
#include "sqlite/snapshot_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::KeptSnapshots;
using testing::KeptWriter;
using testing::MemoryPin;
using testing::page_of_noise;
using testing::page_of_text;
using testing::said;
using testing::ScratchFolder;
using testing::SnapshotStream;
using testing::whole_file;
using testing::write_file;

class Snapshots : public ::testing::Test {
 protected:
  Result<core::SnapshotInfo> write(PinnedCopy& pin, const std::atomic<bool>* stop = nullptr) {
    KeptWriter writer(home, pin.state().offset);
    return write_snapshot(pin, writer, {}, stop);
  }
  Result<CommitState> load(const core::SnapshotInfo& info, bool second_session = true, SnapshotLoad options = {}) {
    options.sync = sync;
    SnapshotStream stream(home);
    SnapshotSource source{stream};
    if (second_session) source.another = [this] { return std::make_unique<SnapshotStream>(home); };
    return load_snapshot(*runtime, *disk, source, info, path, table, options);
  }
  Result<CommitState> check(const core::SnapshotInfo& info) {
    SnapshotStream stream(home);
    return check_snapshot(*runtime, {stream}, info);
  }
  // Refused, and nothing is left of it.
  void expect_refused(const core::SnapshotInfo& info, Outcome outcome, const std::string& says) {
    for (const bool second_session : {true, false}) {
      auto loaded = load(info, second_session);
      ASSERT_FALSE(loaded);
      EXPECT_EQ(loaded.error().outcome, outcome) << said(loaded);
      EXPECT_NE(loaded.error().message.find(says), std::string::npos) << loaded.error().message;
      EXPECT_FALSE(std::filesystem::exists(path));
      EXPECT_EQ(table.page_count(), 0u);
    }
    auto checked = check(info);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().outcome, outcome) << said(checked);
  }
  // Five parts, the last one short.
  static std::map<std::uint32_t, Bytes> many_pages() {
    static const auto kPages = [] {
      std::map<std::uint32_t, Bytes> pages;
      for (std::uint32_t n = 1; n <= 4 * 128 + 10; ++n) pages[n] = page_of_text(65536, n);
      return pages;
    }();
    return kPages;
  }

  std::shared_ptr<KeptSnapshots> home = std::make_shared<KeptSnapshots>();
  ScratchFolder folder;
  std::string path = folder / "db";
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  PageTable table;
  bool sync = false;  // a sync of what other tests write at the same time takes seconds
};

TEST_F(Snapshots, RoundTripForEveryPageSize) {
  for (std::uint32_t page_size = 512; page_size <= 65536; page_size *= 2) {
    std::map<std::uint32_t, Bytes> pages;
    std::string want;
    const std::uint32_t count = (12u << 20) / page_size + 3;  // two parts
    for (std::uint32_t n = 1; n <= count; ++n) {
      if (n % 7 == 0) want.append(page_size, '\0');
      else want += as_text(pages[n] = page_of_text(page_size, n));
    }
    want.append(2 * std::size_t{page_size}, '\0');  // the file is as long as the database, also when its end is zeros
    MemoryPin pin(page_size, count + 2, pages);
    auto info = write(pin);
    ASSERT_TRUE(info) << said(info);
    EXPECT_EQ(info->parts, 2u);
    for (const bool second_session : {true, false}) {
      write_file(path, "what was there before");
      auto state = load(*info, second_session);
      ASSERT_TRUE(state) << said(state);
      EXPECT_EQ(*state, pin.state());
      EXPECT_TRUE(whole_file(path) == want);
      EXPECT_EQ(table.sum(), pin.state().page_sum);
      EXPECT_EQ(table.page_count(), count + 2);
      EXPECT_EQ(table.hash(1), page_hash_of(1, pages[1]));
    }
    auto checked = check(*info);
    ASSERT_TRUE(checked) << said(checked);
    EXPECT_EQ(*checked, pin.state());
  }
}

TEST_F(Snapshots, OfADatabaseWithoutCommits) {
  write_file(path, "what was there before");
  auto pin = pin_file(*disk, folder / "absent", CommitState{Offset{"3"}, Incarnation{1, 2}});
  ASSERT_TRUE(pin) << said(pin);
  auto info = write(**pin);
  ASSERT_TRUE(info) << said(info);
  EXPECT_EQ(info->parts, 0u);
  auto state = load(*info);
  ASSERT_TRUE(state) << said(state);
  EXPECT_EQ(*state, (CommitState{Offset{"3"}, Incarnation{1, 2}}));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(check(*info));
}

TEST_F(Snapshots, OfADatabaseOfZeros) {
  MemoryPin pin(4096, 100, {});
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  EXPECT_EQ(info->parts, 0u);
  auto state = load(*info);
  ASSERT_TRUE(state) << said(state);
  EXPECT_EQ(std::filesystem::file_size(path), 409'600u);
  EXPECT_EQ(table.sum(), pin.state().page_sum);
}

// A file beyond 2^30 bytes with a hole in it: the page that holds that byte belongs to SQLite's locks, and its bytes to nobody.
TEST_F(Snapshots, AcrossTheLockBytePage) {
  const std::uint32_t page_size = 65536, lock_page = lock_byte_page(page_size), count = lock_page + 3;
  std::map<std::uint32_t, Bytes> pages{
      {1, page_of_text(page_size, 1)}, {lock_page - 1, page_of_text(page_size, 2)}, {lock_page + 1, page_of_text(page_size, 3)}};
  CommitState state = MemoryPin(page_size, count, pages).state();
  const std::string source = folder / "source";
  auto file = disk->open(source, io::OpenMode::create);
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->cut(std::uint64_t{count} * page_size));
  pages[lock_page] = page_of_noise(page_size, 9);
  for (const auto& [number, image] : pages) ASSERT_TRUE((*file)->write_at((std::uint64_t{number} - 1) * page_size, image));
  auto pin = pin_file(*disk, source, state);
  ASSERT_TRUE(pin) << said(pin);
  auto info = write(**pin);
  ASSERT_TRUE(info) << said(info);
  EXPECT_EQ(info->parts, 1u);
  auto loaded = load(*info);
  ASSERT_TRUE(loaded) << said(loaded);
  EXPECT_EQ(*loaded, state);
  auto read = disk->open(path, io::OpenMode::read);
  ASSERT_TRUE(read);
  Bytes image(page_size);
  ASSERT_TRUE((*read)->read_at(std::uint64_t{lock_page} * page_size, image));
  EXPECT_EQ(image, pages[lock_page + 1]);
  ASSERT_TRUE((*read)->read_at((std::uint64_t{lock_page} - 1) * page_size, image));
  EXPECT_EQ(image, Bytes(page_size));
}

TEST_F(Snapshots, WhatIsNotTheCommitDoesNotCount) {
  MemoryPin pin(65536, 522, many_pages());
  pin.damaged_page = 200;
  auto info = write(pin);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().outcome, Outcome::state_mismatch) << said(info);
  EXPECT_TRUE(home->kept.empty());
}

TEST_F(Snapshots, StopsInTheMiddle) {
  MemoryPin pin(65536, 522, many_pages());
  std::atomic<bool> stop{false};
  pin.on_read = [&](std::uint32_t page) { stop = page >= 200; };
  auto info = write(pin, &stop);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().outcome, Outcome::unavailable) << said(info);
  pin.on_read = [&](std::uint32_t page) { pin.overdue_now = page >= 200; };
  info = write(pin);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().outcome, Outcome::unavailable) << said(info);
  pin.overdue_now = false;
  pin.on_read = {};
  pin.unreadable_page = 100;
  info = write(pin);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().message, "cannot read the page");
  pin.unreadable_page = 0;
  home->refuse_add = core::Refusal{Outcome::unavailable, "the disk is full", {}};
  info = write(pin);
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().message, "the disk is full");
  EXPECT_TRUE(home->kept.empty());
  home->refuse_add.reset();
  EXPECT_TRUE(write(pin));
}

TEST_F(Snapshots, DamageIsToldWithThePart) {
  MemoryPin pin(65536, 522, many_pages());
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  ASSERT_EQ(info->parts, 5u);
  auto& parts = home->kept.back().parts;
  const std::vector<Bytes> good = parts;

  parts[3][parts[3].size() / 2] ^= std::byte{1};
  expect_refused(*info, Outcome::state_mismatch, "snapshot snap-1 of the stream cannot be used: part 3 of 5: damaged");
  parts = good;
  parts[4].resize(parts[4].size() - 100);
  expect_refused(*info, Outcome::state_mismatch, "part 4 of 5");
  parts = good;
  std::swap(parts[0], parts[1]);
  expect_refused(*info, Outcome::state_mismatch, "of 5: it says that it is part");
  parts = good;
  home->absent = {2};
  expect_refused(*info, Outcome::state_mismatch, "part 2 of 5: there is no such part");
  home->absent.clear();
  home->refuse_part = core::Refusal{Outcome::gone, "trimmed meanwhile", {}};
  expect_refused(*info, Outcome::gone, "trimmed meanwhile");
  home->refuse_part = core::Refusal{Outcome::fence_unavailable, "app/@snap/1/part-00002 is damaged", {}};  // as a home says it that checks for itself
  expect_refused(*info, Outcome::state_mismatch, " of 5: app/@snap/1/part-00002 is damaged");
  home->refuse_part.reset();
  EXPECT_TRUE(load(*info));
}

TEST_F(Snapshots, AnyNumberOfThreadsReadsTheSame) {
  auto pages = many_pages();
  for (std::uint32_t n = 1; n <= 522; n += n % 5 + 1) pages.erase(n);
  MemoryPin pin(65536, 522, pages);
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  std::string want;
  for (std::uint32_t n = 1; n <= 522; ++n) want += pages.contains(n) ? std::string(as_text(pages[n])) : std::string(65536, '\0');
  for (std::uint32_t helpers = 0; helpers <= 4; ++helpers) {
    for (const bool second_session : {true, false}) {
      SnapshotLoad options;
      options.helpers = helpers;
      home->fetched = 0;
      auto state = load(*info, second_session, options);
      ASSERT_TRUE(state) << said(state);
      EXPECT_EQ(home->fetched, info->parts) << "each part once";
      EXPECT_TRUE(whole_file(path) == want);
      EXPECT_EQ(table.sum(), pin.state().page_sum);
      for (std::uint32_t n = 1; n <= 522; ++n) {
        ASSERT_EQ(table.hash(n), page_hash_of(n, as_bytes(std::string_view(want).substr(std::size_t{n - 1} * 65536, 65536)))) << n;
      }
    }
  }
}

TEST_F(Snapshots, AWrongDescriptionIsRefused) {
  MemoryPin pin(65536, 522, many_pages());
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  const SnapshotAbout about = *decode_snapshot_about(info->about);
  core::SnapshotInfo wrong = *info;
  wrong.about.pop_back();
  expect_refused(wrong, Outcome::state_mismatch, "snapshot snap-1 of the stream cannot be used: damaged description");
  SnapshotAbout other = about;
  other.page_sum ^= 1;
  wrong.about = encode_snapshot_about(other);
  expect_refused(wrong, Outcome::state_mismatch, "have the page sum");
  other = about;
  other.page_count = 4;
  wrong.about = encode_snapshot_about(other);
  expect_refused(wrong, Outcome::state_mismatch, "5 parts for 4 pages");
  other = about;
  other.page_count = 523;
  wrong.about = encode_snapshot_about(other);
  expect_refused(wrong, Outcome::state_mismatch, "it is of a database of 522 pages");
  other = about;
  other.page_size = 4096;
  wrong.about = encode_snapshot_about(other);
  expect_refused(wrong, Outcome::state_mismatch, "it is of a database of 522 pages of 65536 bytes");
  wrong = *info;
  wrong.parts = 4;  // the last one is not there
  expect_refused(wrong, Outcome::state_mismatch, "its 4 parts have the page sum");
  wrong = *info;
  wrong.about[4] = std::byte{9};
  expect_refused(wrong, Outcome::invalid, "use a newer Onepen");
}

// Each part is whole, in the place its number says, and of a database of this size: only the order of pages and the sum tell.
TEST_F(Snapshots, PartsOfTwoSnapshotsDoNotMix) {
  auto pages = many_pages();
  MemoryPin first(65536, 522, pages);
  ASSERT_TRUE(write(first));
  pages[140] = page_of_text(65536, 9999);
  MemoryPin second(65536, 522, pages);
  auto info = write(second);
  ASSERT_TRUE(info) << said(info);
  home->kept[1].parts[1] = home->kept[0].parts[1];
  expect_refused(*info, Outcome::state_mismatch, "its 5 parts have the page sum");
  pages.erase(130);  // from here on the pages of each part are one further
  MemoryPin third(65536, 522, pages);
  info = write(third);
  ASSERT_TRUE(info) << said(info);
  home->kept[2].parts[3] = home->kept[1].parts[3];
  expect_refused(*info, Outcome::state_mismatch, "its pages begin with 385, and the part before ends with 385");

  set_guard(Guard::snapshot_fits, false);
  home->kept[1].parts[1] = home->kept[0].parts[1];
  EXPECT_TRUE(load(home->kept[1].info)) << "the guard is what refuses it";
  first.damaged_page = 7;
  EXPECT_TRUE(write(first));
  set_guard(Guard::snapshot_fits, true);
}

TEST_F(Snapshots, LoadingStops) {
  MemoryPin pin(65536, 522, many_pages());
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  for (const bool second_session : {true, false}) {
    std::atomic<bool> stop{false};
    home->on_part = [&](std::uint32_t part) {
      if (part == 2) stop = true;
    };
    SnapshotLoad options;
    options.stop = &stop;
    auto state = load(*info, second_session, options);
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().outcome, Outcome::unavailable) << said(state);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST_F(Snapshots, ProgressEndsAtTheDatabase) {
  MemoryPin pin(65536, 522, many_pages());
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  std::uint64_t done = 0, calls = 0;
  SnapshotLoad options;
  options.progress = [&](std::uint64_t now, std::uint64_t total) {
    EXPECT_GE(now, done);
    EXPECT_EQ(total, 522u * 65536u);
    done = now;
    ++calls;
  };
  sync = true;
  ASSERT_TRUE(load(*info, false, options));
  EXPECT_EQ(calls, 5u);
  EXPECT_LE(done, 522u * 65536u);
}

TEST_F(Snapshots, AFullDiskLeavesNothing) {
  MemoryPin pin(65536, 522, many_pages());
  auto info = write(pin);
  ASSERT_TRUE(info) << said(info);
  path = folder / "no/such/folder/db";
  auto state = load(*info);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().outcome, Outcome::unavailable) << said(state);
}

}  // namespace
}  // namespace onepen::sqlite
