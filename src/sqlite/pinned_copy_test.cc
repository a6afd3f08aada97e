#include "sqlite/pinned_copy.h"

#include <gtest/gtest.h>

#include "sqlite/copy_test_support.h"
#include "sqlite/vfs.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {
namespace {

using testing::TempFolder;
using testing::told;

constexpr std::uint32_t kPageSize = 512;
constexpr std::uint64_t kSalts = 0x1122334455667788u;

Bytes page_of(char letter) { return Bytes(kPageSize, static_cast<std::byte>(letter)); }

// What the database is after each commit of a WAL. Not written when it was grown over: zeros.
struct Commit {
  std::uint32_t count;
  std::map<std::uint32_t, char> written;
  std::vector<Bytes> pages{};  // from page 1 on
  WalPlace end{};
};

// SQLite never reads the pages that a commit grew over, so only their bytes in the file tell a wrong answer: it has other ones, all of which no commit made.
class PinnedGaps : public ::testing::Test {
 protected:
  // Files are read through the platform's VFS, which is known once ours stands before it.
  static void SetUpTestSuite() {
    static const auto of_process = io::make_system_runtime();
    static const auto disk_of_process = io::make_posix_disk();
    Environment environment;
    environment.runtime = of_process.get();
    environment.disk = disk_of_process.get();
    ASSERT_EQ(register_vfs(environment), SQLITE_OK);
  }
  void SetUp() override {
    auto file = disk->open(path, io::OpenMode::create);
    ASSERT_TRUE(file);
    for (std::uint32_t page = 1; page <= 12; ++page) {
      ASSERT_TRUE((*file)->write_at((std::uint64_t{page} - 1) * kPageSize, page_of(page <= kBeganWith ? static_cast<char>('0' + page) : '!')));
    }
    std::vector<Bytes> now;
    for (std::uint32_t page = 1; page <= kBeganWith; ++page) now.push_back(page_of(static_cast<char>('0' + page)));
    auto wal = WalWriter::create(*disk, path + "-wal", kPageSize, kSalts);
    ASSERT_TRUE(wal) << told(wal);
    std::uint32_t frame = 0;
    for (Commit& commit : commits) {
      now.resize(commit.count, Bytes(kPageSize));
      for (const auto& [page, letter] : commit.written) {
        now[page - 1] = page_of(letter);
        const bool last = page == commit.written.rbegin()->first;
        ASSERT_TRUE(wal->add(page, last ? commit.count : 0, now[page - 1]));
        ++frame;
      }
      commit.pages = now;
      commit.end = {wal->salt1(), wal->salt2(), frame};
    }
    ASSERT_TRUE(wal->seal());
  }
  static CommitState state_of(const Commit& commit) {
    CommitState state{Offset{"7"}, Incarnation{1, 2}, 1, 0, commit.count, kPageSize};
    for (std::uint32_t page = 1; page <= commit.count; ++page) state.page_sum += page_hash_of(page, commit.pages[page - 1]);
    return state;
  }
  void publish(WalHold& hold, std::size_t n) {
    std::vector<std::uint32_t> written;
    for (const auto& [page, letter] : commits[n].written) written.push_back(page);
    hold.note_pages(kPageSize, n == 0 ? kBeganWith : commits[n - 1].count, commits[n].count, written);
    hold.publish(commits[n].end);
  }
  void expect_pinned(WalHold& hold, const Commit& commit) {
    auto pinned = pin_copy(*disk, hold, path, runtime->now() + std::chrono::seconds(60));
    ASSERT_TRUE(pinned) << told(pinned);
    ASSERT_EQ((*pinned)->state(), state_of(commit));
    for (std::uint32_t page = 1; page <= commit.count; ++page) {
      Bytes image(kPageSize);
      ASSERT_TRUE((*pinned)->read(page, image));
      EXPECT_EQ(as_text(image).substr(0, 1), as_text(commit.pages[page - 1]).substr(0, 1)) << "page " << page;
      EXPECT_EQ(image, commit.pages[page - 1]) << "page " << page;
    }
  }

  static constexpr std::uint32_t kBeganWith = 4;
  TempFolder folder;
  std::string path = folder / "db";
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  std::vector<Commit> commits{
      {10, {{1, 'a'}, {6, 'b'}}},            // grows over 5 and 7..10
      {10, {{1, 'c'}, {7, 'd'}, {8, 'e'}}},  // writes two of them
      {5, {{1, 'f'}}},                       // forgets all but 5
      {9, {{1, 'g'}, {9, 'h'}}},             // grows over 6, 7 and 8, which had content
      {9, {{2, 'i'}, {5, 'j'}, {6, 'k'}}},
  };
};

// Each commit as the acknowledged one, with each number of commits pending behind it.
TEST_F(PinnedGaps, AreThoseOfThePinnedCommitWhateverIsPending) {
  for (std::size_t acknowledged = 0; acknowledged < commits.size(); ++acknowledged) {
    WalHold hold(*runtime);
    hold.begin({{}, {commits[0].end.salt1, commits[0].end.salt2, 0}, {commits[0].end.salt1, commits[0].end.salt2, 0}, 0, {}, kBeganWith});
    for (std::size_t n = 0; n <= acknowledged; ++n) {
      publish(hold, n);
      hold.acknowledge(commits[n].end, state_of(commits[n]));
    }
    for (std::size_t published = acknowledged;; publish(hold, published)) {
      SCOPED_TRACE(::testing::Message() << "commit " << acknowledged << " of " << published);
      EXPECT_EQ(hold.view().pending(), published - acknowledged);
      expect_pinned(hold, commits[acknowledged]);
      if (++published == commits.size()) break;
    }
  }
}

// Before the first commit of a WAL it is the database file alone.
TEST_F(PinnedGaps, OfTheCommitBeforeTheWal) {
  WalHold hold(*runtime);
  Commit before{kBeganWith, {}};
  for (std::uint32_t page = 1; page <= kBeganWith; ++page) before.pages.push_back(page_of(static_cast<char>('0' + page)));
  hold.begin({state_of(before), {commits[0].end.salt1, commits[0].end.salt2, 0}, {commits[0].end.salt1, commits[0].end.salt2, 0}, 0, {}, kBeganWith});
  for (std::size_t n = 0; n < commits.size(); ++n) publish(hold, n);
  expect_pinned(hold, before);
}

}  // namespace
}  // namespace onepen::sqlite
