// The directory: what is durable before what is said, what readers sync, what a failed sync means, and an unprivileged reader. A disk that records what it
// is asked stands before the real one.
#include "home/object/file_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "home/object/object_home.h"
#include "home/object/open_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {
namespace {

using Texts = std::vector<std::string>;

class RecordingDisk final : public io::Disk {
 public:
  Texts calls;
  bool sync_fails = false;
  int sync_code = EIO;
  int lists_that_vanish = 0;  // of folders of the log
  bool no_unnamed_files = false;
  std::function<void()> before_sync, after_sync;  // of a folder, once

  io::DiskResult<Bytes> read(const std::string& p, std::uint64_t from, std::uint64_t n) override { return note("read", p), disk_->read(p, from, n); }
  io::DiskResult<std::uint64_t> size(const std::string& p) override { return note("size", p), disk_->size(p); }
  io::DiskResult<> create(const std::string& p, ByteView b, bool sync) override { return note(sync ? "create+sync" : "create", p), disk_->create(p, b, sync); }
  io::DiskResult<> create_whole(const std::string& p, ByteView b, bool sync, const std::string& scratch) override {
    if (no_unnamed_files) return io::Disk::create_whole(p, b, sync, scratch);
    return note(sync ? "create_whole+sync" : "create_whole", p), disk_->create_whole(p, b, sync, scratch);
  }
  io::DiskResult<> append(const std::string& p, ByteView b, bool sync) override { return note("append", p), disk_->append(p, b, sync); }
  io::DiskResult<> write_at(const std::string& p, std::uint64_t at, ByteView b, bool sync) override {
    return note("write_at", p), disk_->write_at(p, at, b, sync);
  }
  io::DiskResult<std::unique_ptr<io::DiskFile>> open(const std::string& p, io::OpenMode mode) override { return note("open", p), disk_->open(p, mode); }
  io::DiskResult<io::FileIdentity> identity(const std::string& p) override { return note("identity", p), disk_->identity(p); }
  io::DiskResult<> link(const std::string& from, const std::string& to) override { return note("link", to), disk_->link(from, to); }
  io::DiskResult<> rename(const std::string& from, const std::string& to) override { return note("rename", to), disk_->rename(from, to); }
  io::DiskResult<> remove(const std::string& p) override { return note("remove", p), disk_->remove(p); }
  io::DiskResult<> sync_folder(const std::string& p) override {
    note("sync_folder", p);
    if (const auto act = std::exchange(before_sync, nullptr)) act();
    if (sync_fails) return tl::unexpected(io::DiskError{sync_code, "cannot sync " + p});
    auto synced = disk_->sync_folder(p);
    if (const auto act = std::exchange(after_sync, nullptr)) act();
    return synced;
  }
  io::DiskResult<> make_folders(const std::string& p) override { return note("make_folders", p), disk_->make_folders(p); }
  io::DiskResult<Texts> list(const std::string& p, const std::string& after, std::size_t n) override {
    note("list", p);
    if (p.ends_with("00") && lists_that_vanish > 0 && lists_that_vanish-- > 0) return tl::unexpected(io::DiskError{ENOENT, "cannot list " + p});
    return disk_->list(p, after, n);
  }

 private:
  void note(const std::string& what, const std::string& path) { calls.push_back(what + " " + path.substr(path.rfind('/') + 1)); }
  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
};

const std::string kKey = "app/@log/00000000000000000001", kNext = "app/@log/00000000000000000002", kShard = "00000000000000000";

class FileStore : public ::testing::Test {
 protected:
  std::unique_ptr<home::ObjectStore> open() { return home::make_file_store(*runtime, disk, folder.path()); }
  TempFolder folder;
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  RecordingDisk disk;
};

TEST_F(FileStore, a_create_is_bytes_then_name_then_folder_and_nothing_else) {
  auto store = open();
  ASSERT_EQ(store->put_if_absent(kKey, as_bytes("1")).value(), home::PutOutcome::created);
  disk.calls.clear();
  ASSERT_EQ(store->put_if_absent(kNext, as_bytes("2")).value(), home::PutOutcome::created);
  EXPECT_EQ(disk.calls, (Texts{"size 00000000000000000002", "create_whole+sync 00000000000000000002", "sync_folder " + kShard}));
  disk.calls.clear();
  EXPECT_EQ(store->put_if_absent(kNext, as_bytes("3")).value(), home::PutOutcome::exists);
  EXPECT_EQ(disk.calls, (Texts{"size 00000000000000000002"})) << "a claimer that is behind catches up without writing";
  EXPECT_EQ(as_text(store->get(kNext).value()), "2");
}

TEST_F(FileStore, without_unnamed_files_a_scratch_file_is_linked_and_what_a_killed_writer_left_is_swept) {
  disk.no_unnamed_files = true;
  std::filesystem::create_directories(folder.path() + "/app/@tmp");
  ASSERT_TRUE(disk.create(folder.path() + "/app/@tmp/left-behind", as_bytes("x"), false));
  ASSERT_TRUE(open()->list("app/@log", "", 10));
  EXPECT_EQ(disk.list(folder.path() + "/app/@tmp", "", 10)->size(), 1u) << "readers sweep nothing";
  auto store = open();
  disk.calls.clear();
  ASSERT_EQ(store->put_if_absent(kKey, as_bytes("1")).value(), home::PutOutcome::created);
  auto at = [&](std::string_view what) {
    return std::find_if(disk.calls.begin(), disk.calls.end(), [&](const std::string& c) { return c.starts_with(what); }) - disk.calls.begin();
  };
  EXPECT_LT(at("create+sync"), at("link 00000000000000000001"));
  EXPECT_LT(at("link 00000000000000000001"), at("sync_folder " + kShard));
  EXPECT_TRUE(disk.list(folder.path() + "/app/@tmp", "", 10)->empty());
}

TEST_F(FileStore, a_reader_syncs_the_folder_before_it_believes_a_name_and_once) {
  ASSERT_TRUE(open()->put_if_absent(kKey, as_bytes("1")));
  auto reader = open();
  disk.calls.clear();
  ASSERT_EQ(reader->list("app/@log", "", 10)->size(), 1u);
  ASSERT_GT(disk.calls.size(), 2u);
  EXPECT_EQ(disk.calls.end()[-2], "sync_folder " + kShard);
  EXPECT_EQ(disk.calls.back(), "identity 00000000000000000001") << "it still is the same";
  disk.calls.clear();
  ASSERT_TRUE(reader->get(kKey));
  ASSERT_TRUE(reader->list("app/@log", "", 10));
  EXPECT_EQ(std::count(disk.calls.begin(), disk.calls.end(), "sync_folder " + kShard), 0) << "known to be durable";
  disk.calls.clear();
  ASSERT_TRUE(open()->get(kKey));
  EXPECT_EQ(disk.calls.at(1), "read 00000000000000000001");
  EXPECT_EQ(disk.calls.end()[-2], "sync_folder " + kShard);
  EXPECT_EQ(disk.calls.back(), disk.calls.front()) << "it still is the same";
  const auto synced = [&](const std::string& name) { return std::count(disk.calls.begin(), disk.calls.end(), "sync_folder " + name); };
  EXPECT_EQ(synced(kShard), 1);
  EXPECT_EQ(synced("@log") + synced("app"), 2) << "a folder whose own name is not durable takes its objects with it";
}

// Another machine's, whose power goes between our look and our sync (with a shared directory): the sync that follows says nothing about it.
TEST_F(FileStore, a_name_that_is_gone_when_its_folder_was_synced_does_not_count) {
  const auto path = folder.path() + "/app/@log/" + kShard + "/00000000000000000002", lost = folder.path() + "/lost";
  ASSERT_TRUE(open()->put_if_absent(kKey, as_bytes("1")));
  const auto put = [&](const char* text) { ASSERT_TRUE(io::make_posix_disk()->create(path, as_bytes(text), true)); };
  for (const bool listed : {false, true}) {
    for (const bool made_anew : {false, true}) {
      put("theirs");
      auto reader = open();
      ASSERT_TRUE(reader->get(kKey));  // (what is above the folder is synced, too, once)
      disk.calls.clear();
      disk.before_sync = [&] { std::filesystem::rename(path, lost); };  // its inode is not free for the next one
      if (made_anew) disk.after_sync = [&] { put("another's"); };
      if (listed) {
        EXPECT_EQ(reader->list("app/@log", "", 10).value().size(), made_anew ? 2u : 1u);
      } else {
        const auto got = reader->get(kNext);
        ASSERT_EQ(got.has_value(), made_anew);
        if (made_anew) {
          EXPECT_EQ(as_text(*got), "another's");
        } else {
          EXPECT_EQ(got.error().outcome, Outcome::not_found);
        }
      }
      if (!made_anew) put("another's");
      EXPECT_EQ(as_text(reader->get(kNext).value()), "another's");
      EXPECT_EQ(std::count(disk.calls.begin(), disk.calls.end(), "sync_folder " + kShard), 2) << "the new one has to be synced, too";
      std::filesystem::remove(path);
      std::filesystem::remove(lost);
    }
  }
}

TEST_F(FileStore, a_failed_folder_sync_is_unknown_and_poisons_the_folder) {
  auto store = open();
  ASSERT_TRUE(store->put_if_absent(kKey, as_bytes("1")));
  disk.sync_fails = true;
  EXPECT_EQ(store->put_if_absent(kNext, as_bytes("2")).value(), home::PutOutcome::unknown);
  disk.sync_fails = false;
  auto again = store->put_if_absent("app/@log/00000000000000000003", as_bytes("3"));
  ASSERT_FALSE(again) << "a second sync would lie";
  EXPECT_EQ(again.error().outcome, Outcome::unavailable);
  auto read = store->get(kNext);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().outcome, Outcome::unavailable);
  EXPECT_TRUE(store->get(kKey)) << "what was durable before stays readable";
}

TEST_F(FileStore, a_folder_that_could_not_be_opened_for_a_sync_is_synced_the_next_time) {
  for (const int code : {ENOENT, EACCES, ENOTDIR, EMFILE}) {
    SCOPED_TRACE(code);
    disk.sync_code = code;
    const TempFolder home;
    auto store = home::make_file_store(*runtime, disk, home.path());
    ASSERT_TRUE(store->put_if_absent(kKey, as_bytes("1")));
    disk.sync_fails = true;
    EXPECT_EQ(store->put_if_absent(kNext, as_bytes("2")).value(), home::PutOutcome::unknown) << "its name may not be durable";
    EXPECT_FALSE(store->get(kNext)) << "nor is it believed";
    disk.sync_fails = false;
    EXPECT_EQ(store->put_if_absent(kNext, as_bytes("2")).value(), home::PutOutcome::exists);
    disk.calls.clear();
    EXPECT_EQ(as_text(store->get(kNext).value()), "2");
    EXPECT_EQ(disk.calls.end()[-2], "sync_folder " + kShard);
    EXPECT_EQ(store->put_if_absent("app/@log/00000000000000000003", as_bytes("3")).value(), home::PutOutcome::created);
  }
}

TEST_F(FileStore, a_home_that_went_away_is_not_made_anew) {
  const TempFolder above;
  const std::string root = above.path() + "/home", away = above.path() + "/away";
  auto store = home::make_file_store(*runtime, disk, root);
  ASSERT_TRUE(store->put_if_absent(kKey, as_bytes("1"))) << "the first one makes it";
  std::filesystem::rename(root, away);
  for (const auto& key : {kNext, std::string("app/@log/00000000000000001000")}) {
    auto put = store->put_if_absent(key, as_bytes("2"));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().outcome, Outcome::unavailable) << put.error().message;
  }
  EXPECT_FALSE(store->put("app/@alive/x", as_bytes("beat")));
  EXPECT_FALSE(std::filesystem::exists(root));
  std::filesystem::rename(away, root);
  EXPECT_EQ(store->put_if_absent(kNext, as_bytes("2")).value(), home::PutOutcome::created);
}

TEST_F(FileStore, a_folder_that_vanishes_while_it_is_listed_does_not_end_the_list) {
  auto store = open();
  for (auto* id : {"00000000000000000999", "00000000000000001000"}) ASSERT_TRUE(store->put_if_absent(std::string("app/@log/") + id, as_bytes(id)));
  disk.lists_that_vanish = 1;
  EXPECT_EQ(store->list("app/@log", "", 10)->size(), 2u);
  disk.lists_that_vanish = 1000;
  auto listed = store->list("app/@log", "", 10);
  ASSERT_FALSE(listed) << "what was seen of it is no log";
  EXPECT_EQ(listed.error().outcome, Outcome::unavailable);
}

TEST_F(FileStore, lists_across_folders_of_a_thousand) {
  auto store = open();
  for (auto* id : {"00000000000000000998", "00000000000000000999", "00000000000000001000", "00000000000000001001"})
    ASSERT_TRUE(store->put_if_absent(std::string("app/@log/") + id, as_bytes(id)));
  EXPECT_EQ(store->list("app/@log", "", 10)->size(), 4u);
  EXPECT_EQ(store->list("app/@log", "00000000000000000998", 2).value(), (Texts{"00000000000000000999", "00000000000000001000"}));
  EXPECT_EQ(store->list("app/@log", "00000000000000001001", 10)->size(), 0u);
  EXPECT_EQ(store->list("nothing", "", 10)->size(), 0u);
}

// In a child that gives up root, when the test has it.
int as_nobody(const std::function<bool()>& body) {
  pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FileStore, a_read_only_home_is_read_by_anybody_and_claimed_by_nobody) {
  auto request = [](Runtime& r, std::uint64_t epoch) {
    core::ClaimRequest c;
    c.epoch = {epoch};
    c.claim_id = r.draw<ClaimId>();
    c.attempt = r.draw<PutId>();
    c.create = true;
    c.first_incarnation = r.draw<Incarnation>();
    return c;
  };
  const auto url = "file://" + folder.path();
  const auto app = StreamName::parse("app").value();
  {
    auto posix = io::make_posix_disk();
    auto home = home::open_home(*runtime, *posix, url);
    ASSERT_TRUE(home) << home.error().message;
    auto claimed = (*home)->stream(app)->claim(request(*runtime, 1));
    ASSERT_TRUE(claimed) << claimed.error().message;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    std::filesystem::permissions(entry, entry.is_directory() ? std::filesystem::perms(0555) : std::filesystem::perms(0444));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  EXPECT_EQ(as_nobody([&] {
              auto own_runtime = io::make_system_runtime();
              auto own_disk = io::make_posix_disk();
              auto home = home::open_home(*own_runtime, *own_disk, url);
              if (!home) return false;
              auto stream = (*home)->stream(app);
              auto read = stream->read({}, {});
              auto claimed = stream->claim(request(*own_runtime, 2));
              return read && read->records.size() == 1 && (*home)->list("")->size() == 1 && !claimed && claimed.error().outcome == Outcome::unauthorised &&
                     claimed.error().message.find("permission") != std::string::npos;
            }),
            0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    if (entry.is_directory()) std::filesystem::permissions(entry, std::filesystem::perms(0755));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
}

TEST_F(FileStore, opening_a_home_writes_nothing_and_a_missing_folder_is_an_empty_home) {
  const auto path = folder.path() + "/new";
  auto home = home::open_home(*runtime, disk, "file://" + path);
  ASSERT_TRUE(home) << home.error().message;
  EXPECT_TRUE((*home)->list("")->empty());
  EXPECT_FALSE(std::filesystem::exists(path));
  auto lost = home::open_home(*runtime, disk, "file://" + path + "/deeper");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().outcome, Outcome::not_found);
  for (auto* bad : {"gopher://x", "relative", "/plain", "s3://b/p", "postgres://me:secret@h/db", "file:///x?token=1"}) {
    auto refused = home::open_home(*runtime, disk, bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().outcome, Outcome::invalid);
    EXPECT_EQ(refused.error().message.find("secret@"), std::string::npos) << "a secret is never repeated";
  }
}

TEST_F(FileStore, a_folder_of_the_log_goes_with_its_last_object_and_comes_back) {
  auto store = open();
  ASSERT_TRUE(store->put_if_absent(kKey, as_bytes("1")));
  ASSERT_TRUE(store->put_if_absent(kNext, as_bytes("2")));
  EXPECT_EQ(store->has(kKey), true);
  ASSERT_TRUE(store->erase(kKey));
  EXPECT_EQ(store->has(kKey), false);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/app/@log/" + kShard)) << "it is not empty";
  ASSERT_TRUE(store->erase(kNext));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/app/@log/" + kShard));
  EXPECT_TRUE(store->list("app/@log", "", 10)->empty());
  ASSERT_EQ(store->put_if_absent(kKey, as_bytes("1")).value(), home::PutOutcome::created);
  EXPECT_EQ(as_text(open()->get(kKey).value()), "1");
  ASSERT_TRUE(store->put_if_absent("app/@snap/x/part-00000", as_bytes("p")));
  ASSERT_TRUE(store->put_if_absent("app/@snap/x/head", as_bytes("h")));
  disk.calls.clear();
  ASSERT_TRUE(open()->get("app/@snap/x/head"));
  EXPECT_EQ(disk.calls.end()[-2], "sync_folder x") << "others trim because of it";
  for (auto* file : {"head", "part-00000"}) ASSERT_TRUE(store->erase(std::string("app/@snap/x/") + file));
  EXPECT_TRUE(store->list("app/@snap", "", 10)->empty());
}

}  // namespace
}  // namespace onepen::testing
