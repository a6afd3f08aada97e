// Which places may be a home: the probe, network filesystems, URLs.
#include <gtest/gtest.h>

#include "home/object/object_home.h"
#include "home/object/open_home.h"
#include "home/object/probe.h"
#include "io/mounts.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {
namespace {

class IgnoresConditions final : public home::ObjectStore {  // like the bucket servers that answer 200 to every create
 public:
  Result<Bytes> get(const std::string& key) override { return inner_.get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return inner_.get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    (void)inner_.put(key, bytes);
    return home::PutOutcome::created;
  }
  Result<> put(const std::string& key, ByteView bytes) override { return inner_.put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& f, const std::string& a, std::size_t n) override { return inner_.list(f, a, n); }
  Result<> erase(const std::string& key) override { return inner_.erase(key); }
  std::string describe() const override { return "bucket that ignores conditions"; }

 private:
  Bucket inner_;
};

TEST(Places, the_probe_refuses_a_place_that_ignores_conditions_and_leaves_nothing_in_a_good_one) {
  const auto runtime = io::make_system_runtime();
  IgnoresConditions bad;
  Bucket good;
  auto refused = home::probe_can_fence(*runtime, bad);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("created twice"), std::string::npos) << refused.error().message;
  ASSERT_TRUE(home::probe_can_fence(*runtime, good));
  EXPECT_TRUE(good.keys().empty());
}

// A store that keeps the condition but for one case.
class AlmostKeeps final : public home::ObjectStore {
 public:
  explicit AlmostKeeps(std::string what) : what_(std::move(what)) {}
  Result<Bytes> get(const std::string& key) override { return inner_.get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return inner_.get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override {
    const auto there = inner_.get(key);
    const bool overwrites =
        there && ((what_ == "empty" && there->empty()) || (what_ == "race" && key.ends_with("-race")) || (what_ == "stale" && as_text(*there) == "newer"));
    if (!overwrites) return inner_.put_if_absent(key, bytes);
    (void)inner_.put(key, bytes);
    return home::PutOutcome::created;
  }
  Result<> put(const std::string& key, ByteView bytes) override { return inner_.put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& f, const std::string& a, std::size_t n) override {
    if (what_ == "list") return std::vector<std::string>{};
    return inner_.list(f, a, n);
  }
  Result<> erase(const std::string& key) override { return inner_.erase(key); }
  std::string describe() const override { return "bucket that almost keeps conditions"; }

 private:
  const std::string what_;
  Bucket inner_;
};

TEST(Places, the_full_probe_refuses_what_keeps_conditions_only_almost) {
  const auto runtime = io::make_system_runtime();
  for (const std::string what : {"empty", "race", "stale", "list"}) {
    AlmostKeeps bad(what);
    const auto report = home::run_probe(*runtime, bad, home::ProbeDepth::full);
    ASSERT_FALSE(report.verdict) << what;
    EXPECT_EQ(report.verdict.error().outcome, Outcome::invalid) << report.verdict.error().message;
    const auto& failed = report.steps[report.steps.size() - 2];  // before the tidying
    EXPECT_NE(failed.name.find(what), std::string::npos) << failed.name << ": " << failed.said;
    EXPECT_FALSE(failed.good);
    EXPECT_FALSE(home::probe_once(*runtime, bad)) << "and nothing is remembered: " << what;
    EXPECT_FALSE(home::probe_once(*runtime, bad));
  }
}

TEST(Places, a_probe_that_was_passed_is_remembered_at_the_place) {
  const auto runtime = io::make_system_runtime();
  const auto bucket = std::make_shared<Bucket>();
  FaultStore first(bucket), second(bucket);
  ASSERT_TRUE(home::probe_once(*runtime, first));
  EXPECT_GE(first.requests().creates, 16u);
  EXPECT_EQ(bucket->keys().size(), 1u) << "all that stays";
  EXPECT_TRUE(bucket->keys().front().starts_with("@probe/passed-"));
  ASSERT_TRUE(home::probe_once(*runtime, second));
  EXPECT_EQ(second.requests().all(), 1u);
}

class Missing final : public home::ObjectStore {  // as a bucket that is not there answers (s3_store.h)
 public:
  Result<Bytes> get(const std::string&) override { return tl::unexpected(Error{Outcome::unavailable, "no such bucket", {}}); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t, std::uint64_t) override { return get(key); }
  Result<home::PutOutcome> put_if_absent(const std::string&, ByteView) override { return tl::unexpected(Error{Outcome::unavailable, "no such bucket", {}}); }
  Result<> put(const std::string&, ByteView) override { return tl::unexpected(Error{Outcome::unavailable, "no such bucket", {}}); }
  Result<std::vector<std::string>> list(const std::string&, const std::string&, std::size_t) override {
    return tl::unexpected(Error{Outcome::not_found, "no such bucket", {}});
  }
  Result<> erase(const std::string&) override { return tl::unexpected(Error{Outcome::unavailable, "no such bucket", {}}); }
  std::string describe() const override { return "bucket that is not there"; }
};

TEST(Places, a_bucket_that_is_missing_is_told_as_such_before_a_claim_and_not_waited_for) {
  const auto runtime = io::make_system_runtime();
  Missing missing;
  const auto refused = home::probe_once(*runtime, missing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().outcome, Outcome::not_found);
  const auto report = home::run_probe(*runtime, missing, home::ProbeDepth::full);
  ASSERT_FALSE(report.verdict);
  EXPECT_EQ(report.verdict.error().outcome, Outcome::not_found);
}

TEST(Places, a_create_whose_answer_is_lost_is_settled_by_the_probe) {
  const auto runtime = io::make_system_runtime();
  const auto bucket = std::make_shared<Bucket>();
  FaultStore lossy(bucket);
  lossy.next_creates({PutFault::lost_answer, PutFault::lost_request, PutFault::none, PutFault::lost_answer, PutFault::sent_twice});
  EXPECT_TRUE(home::probe_once(*runtime, lossy));
}

// A line that is none (found by fuzz/names): a mount point is an absolute path.
TEST(Places, a_line_without_a_mount_point_is_no_mount) {
  EXPECT_FALSE(io::mount_of("36 35 98:0 /  rw master:1 - ext4 /dev/root rw\n", "/srv/x"));
  const auto mount = io::mount_of("36 35 98:0 / /srv rw master:1 - ext4 /dev/root rw\n", "/srv/x");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->type, "ext4");
}

TEST(Places, a_chroot_whose_mounts_say_nothing_is_judged_by_the_filesystem_itself) {
  EXPECT_EQ(io::local_filesystem_by_magic(0xef53), "ext4");
  EXPECT_EQ(io::local_filesystem_by_magic(static_cast<std::int32_t>(0x9123683e)), "btrfs");  // as a 32-bit kernel widens it
  EXPECT_EQ(io::local_filesystem_by_magic(0x6969), "") << "nfs";
  EXPECT_EQ(io::local_filesystem_by_magic(0x65735546), "") << "fuse";
  const TempFolder folder;
  EXPECT_TRUE(io::mount_of(io::mountinfo_for(folder.path()), folder.path()));
}

TEST(Places, network_filesystems_are_refused_unless_they_do_not_cache_lookups) {
  constexpr std::string_view kMounts =
      "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "40 22 0:40 / /mnt/nfs rw,relatime shared:1 - nfs4 server:/x rw,vers=4.2,lookupcache=all\n"
      "41 22 0:41 / /mnt/nfs/none rw,relatime - nfs4 server:/y rw,vers=4.2,lookupcache=none\n"
      "42 22 0:42 / /mnt/with\\040space rw - cifs //s/share rw\n"
      "43 22 0:43 / /mnt/fuse rw - fuse.sshfs user@s:/ rw\n"
      "44 22 0:44 / /mnt/nfsish rw - xfs /dev/sdb rw\n";
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/srv/onepen"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfs/none/home"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfsish"));
  EXPECT_TRUE(home::judge_filesystem(kMounts, "/mnt/nfs-is-only-a-prefix"));
  auto cached = home::judge_filesystem(kMounts, "/mnt/nfs/home");
  ASSERT_FALSE(cached);
  EXPECT_EQ(cached.error().outcome, Outcome::invalid);
  EXPECT_NE(cached.error().message.find("lookupcache=all"), std::string::npos) << "with the evidence: " << cached.error().message;
  EXPECT_FALSE(home::judge_filesystem(kMounts, "/mnt/with space/x"));
  EXPECT_FALSE(home::judge_filesystem(kMounts, "/mnt/fuse/x"));
  EXPECT_FALSE(home::judge_filesystem("", "/srv"));
}

TEST(Places, a_secret_in_a_url_is_refused_and_not_repeated) {
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  for (const auto* bad : {"s3://key:hush@bucket/x", "s3://bucket?access_key=hush", "az://container?sv=1&sig=hush", "s3://bucket?region=r&Session_Token=hush",
                          "s3://bucket?endpoint=https://me:hush@host", "s3://bucket?endpoint=https%3A%2F%2Fme%3Ahush%40host"}) {
    const auto refused = home::open_home(*runtime, *disk, bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().outcome, Outcome::invalid);
    EXPECT_EQ(refused.error().message.find("hush"), std::string::npos) << refused.error().message;
  }
  EXPECT_TRUE(home::open_home(*runtime, *disk, "s3://token-bucket/secret/credentials?endpoint=https://tokens.example.net")) << "names may be what they like";
}

TEST(Places, urls) {
  EXPECT_EQ(home::path_of_file_url("file:///srv/onepen/").value(), "/srv/onepen");
  EXPECT_EQ(home::path_of_file_url("file:///with%20space").value(), "/with space");
  for (auto* bad : {"file:relative", "file://host/dir", "file:///a/../b", "file:///a?b=c", "file:///%zz", "/plain", "s3://b/p"})
    EXPECT_FALSE(home::path_of_file_url(bad)) << bad;
}

}  // namespace
}  // namespace onepen::testing
