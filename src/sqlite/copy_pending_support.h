// What the tests of copies that run ahead of their stream share: a machine with a copy, whose database plain SQLite writes.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/copy_find.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_pages.h"
#include "sqlite/copy_state.h"
#include "sqlite/copy_test_support.h"
#include "sqlite/rebuild.h"
#include "sqlite/salvage.h"

namespace onepen::sqlite::testing {

// Counts the bytes that are read of files called `db`, single pages left out (an opening looks at a few), and those that are written and then synced to become
// a WAL.
class WatchedDisk final : public io::Disk {
 public:
  std::uint64_t database_bytes = 0;
  std::uint64_t wal_synced = 0;
  std::size_t page_size = 0;
  std::vector<std::string> synced_folders, made_folders;  // those made: their names are synced, too

  io::DiskResult<Bytes> read(const std::string& p, std::uint64_t at, std::uint64_t most) override { return disk_->read(p, at, most); }
  io::DiskResult<std::uint64_t> size(const std::string& p) override { return disk_->size(p); }
  io::DiskResult<> create(const std::string& p, ByteView b, bool s) override { return disk_->create(p, b, s); }
  io::DiskResult<> append(const std::string& p, ByteView b, bool s) override { return disk_->append(p, b, s); }
  io::DiskResult<> write_at(const std::string& p, std::uint64_t at, ByteView b, bool s) override { return disk_->write_at(p, at, b, s); }
  io::DiskResult<std::unique_ptr<io::DiskFile>> open(const std::string& p, io::OpenMode mode) override {
    auto file = disk_->open(p, mode);
    if (!file || !(p.ends_with("/db") || p.ends_with("/db-batch"))) return file;
    const bool batch = p.ends_with("-batch");
    return std::make_unique<Watched>(std::move(*file), page_size, batch ? others_ : database_bytes, batch ? wal_synced : others_);
  }
  io::DiskResult<io::FileIdentity> identity(const std::string& p) override { return disk_->identity(p); }
  io::DiskResult<std::int64_t> modified_ns(const std::string& p) override { return disk_->modified_ns(p); }
  io::DiskResult<> link(const std::string& a, const std::string& b) override { return disk_->link(a, b); }
  io::DiskResult<> rename(const std::string& a, const std::string& b) override { return disk_->rename(a, b); }
  io::DiskResult<> remove(const std::string& p) override { return disk_->remove(p); }
  io::DiskResult<> sync_folder(const std::string& p) override {
    synced_folders.push_back(p);
    return disk_->sync_folder(p);
  }
  io::DiskResult<> make_folders(const std::string& p) override {
    made_folders.push_back(p);
    return disk_->make_folders(p);
  }
  io::DiskResult<std::vector<std::string>> list(const std::string& p, const std::string& after, std::size_t n) override { return disk_->list(p, after, n); }

 private:
  class Watched final : public io::DiskFile {
   public:
    Watched(std::unique_ptr<io::DiskFile> file, std::size_t page_size, std::uint64_t& bytes, std::uint64_t& synced)
        : file_(std::move(file)), page_size_(page_size), bytes_(bytes), synced_(synced) {}
    io::DiskResult<std::size_t> read_at(std::uint64_t from, std::span<std::byte> out) override {
      if (out.size() != page_size_) bytes_ += out.size();
      return file_->read_at(from, out);
    }
    io::DiskResult<> write_at(std::uint64_t from, ByteView b) override {
      written_ += b.size();
      return file_->write_at(from, b);
    }
    io::DiskResult<std::uint64_t> size() override { return file_->size(); }
    io::DiskResult<> cut(std::uint64_t n) override { return file_->cut(n); }
    io::DiskResult<> sync() override {
      synced_ += std::exchange(written_, 0);
      return file_->sync();
    }
    io::DiskResult<bool> lock(bool wait) override { return file_->lock(wait); }
    std::int64_t foreign_lock(std::uint64_t at, std::uint64_t n) override { return file_->foreign_lock(at, n); }

   private:
    std::unique_ptr<io::DiskFile> file_;
    std::size_t page_size_;
    std::uint64_t &bytes_, &synced_;
    std::uint64_t written_ = 0;
  };
  std::uint64_t others_ = 0;
  std::unique_ptr<io::Disk> disk_ = io::make_posix_disk();
};

// One statement is one commit. Growth, shrinking and growing again within one WAL, a commit that changes nothing, one that undoes another.
inline std::vector<std::string> life() {
  std::vector<std::string> sql = {"CREATE TABLE t(id INTEGER PRIMARY KEY, x)", "CREATE INDEX i ON t(x)"};
  for (int i = 0; i < 6; ++i) sql.push_back("INSERT INTO t(x) VALUES (printf('%0*d', 700, " + std::to_string(i * 7919 % 101) + "))");
  sql.emplace_back("INSERT INTO t(x) SELECT zeroblob(3000) FROM t");
  sql.emplace_back("DELETE FROM t WHERE id > 6");
  sql.emplace_back("VACUUM");
  sql.emplace_back("INSERT INTO t(x) SELECT zeroblob(2500) FROM t, (VALUES(1),(2))");
  for (int i = 0; i < 4; ++i) sql.push_back("UPDATE t SET x = printf('%0*d', 900, " + std::to_string(i) + ") WHERE id = " + std::to_string(i + 1));
  return sql;
}

// Page sizes, with and without a restart of the machine before the copy is taken again.
struct SizeAndBoot {
  std::uint32_t page_size;
  bool rebooted;
};
class SizesAndBoots : public ::testing::TestWithParam<SizeAndBoot> {
 public:
  static auto all() {
    return ::testing::Values(SizeAndBoot{512, false}, SizeAndBoot{4096, false}, SizeAndBoot{65536, false}, SizeAndBoot{512, true}, SizeAndBoot{65536, true});
  }
  static std::string name(const ::testing::TestParamInfo<SizeAndBoot>& in) {
    return std::to_string(in.param.page_size) + (in.param.rebooted ? "rebooted" : "");
  }
};

// A machine with a copy, whose database plain SQLite writes; this class is what the VFS shim and the sender are.
class Machine {
 public:
  explicit Machine(const std::string& root) : place{root + "/cache", "file:///srv/pen", *StreamName::parse("app")} {}

  void acquire() {
    auto got = Copy::acquire(*runtime, disk, place, Log([this](LogLevel, std::string_view line) { lines.emplace_back(line); }));
    ASSERT_TRUE(got) << told(got);
    copy = std::move(*got);
  }
  void open() {
    auto opened = open_plain(copy->db_path(), SQLITE_OPEN_READWRITE);
    ASSERT_TRUE(opened) << told(opened);
    db = std::move(*opened);
    run_sql(db.get(), "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF");
  }
  void begin(const PlainSource& source) {
    disk.page_size = source.state().page_size;
    acquire();
    for (std::size_t i = 0; i < source.commits()[0].records_end; ++i) ASSERT_TRUE(copy->apply(source.records()[i]));
    ASSERT_TRUE(copy->settle());
    open();
  }
  WalContent wal() {
    auto content = read_wal(disk, copy->db_path() + "-wal", true);
    EXPECT_TRUE(content);
    return *content;
  }
  void commit(const std::string& sql, bool tell_begun = true) {
    const std::string path = copy->db_path() + "-wal", before = slurp(path);
    run_sql(db.get(), sql);
    const WalContent now = wal();
    if (tell_begun && !(begun == std::pair(now.salt1, now.salt2))) {
      // As the shim does: told before anything of the new WAL is in the file.
      const std::string after = slurp(path);
      spill(path, before);
      ASSERT_TRUE(copy->wal_begun(now.salt1, now.salt2));
      spill(path, after);
    }
    begun = std::pair(now.salt1, now.salt2);
  }
  void acknowledge(const SourceCommit& next) {
    const WalContent now = wal();
    WalPlace end = copy->place();
    if (!(end.salt1 == now.salt1 && end.salt2 == now.salt2)) end = {now.salt1, now.salt2, 0};
    do ++end.frame;
    while (end.frame <= now.frames.size() && now.frames[end.frame - 1].page_count_after == 0);
    auto done = copy->acknowledged(next.state, next.hashes, end, ++sequence);
    ASSERT_TRUE(done) << told(done);
  }
  // A reader stands at the end of the WAL, so that it is not begun anew though all of it is in the database file: what the shim does while something is
  // pending.
  void hold() {
    if (!reader) {
      auto opened = open_plain(copy->db_path(), SQLITE_OPEN_READWRITE);
      ASSERT_TRUE(opened) << told(opened);
      reader = std::move(*opened);
    } else {
      run_sql(reader.get(), "COMMIT");
    }
    run_sql(reader.get(), "BEGIN; SELECT count(*) FROM sqlite_schema");
  }
  // Everything acknowledged: SQLite may begin its WAL anew.
  void restart_wal(const std::string& how) {
    reader.reset();
    run_sql(db.get(), "PRAGMA wal_checkpoint(" + how + ")");
    ASSERT_TRUE(copy->wal_restarting(true));
  }
  // What is on disk stays as it is.
  void kill() {
    if (db) sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    db.reset();
    copy.reset();
    begun.reset();
  }
  std::string folder() const { return copies_folder(place) + "/1"; }
  // The machine is started anew: the state file speaks of another boot.
  void reboot() {
    auto state = StateFile::open(disk, folder() + "/state");
    ASSERT_TRUE(state && state->record());
    CopyRecord record = *state->record();
    record.boot.lo ^= 1;
    ASSERT_TRUE(state->write(record, false));
  }
  std::vector<SalvageEntry> salvaged() {
    auto entries = list_salvage(disk, place.cache_root);
    EXPECT_TRUE(entries) << told(entries);
    return *entries;
  }

  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  WatchedDisk disk;
  CopyPlace place;
  std::unique_ptr<Copy> copy;
  PlainConnection db, reader;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> begun;
  struct {
    std::uint64_t value = 1;
    Sequence operator++() { return Sequence{++value}; }
  } sequence;  // the last append that was acknowledged; 1 is `ready`
  std::vector<std::string> lines;
};

// The machine takes its copy and commits the beginning of life(), as the source does. The first of these commits are acknowledged, the others are pending.
inline void live(Machine& m, PlainSource& source, std::size_t commits, std::size_t acknowledged) {
  m.begin(source);
  const auto sql = life();
  for (std::size_t i = 0; i < commits; ++i) {
    source.exec(sql[i]);
    m.commit(sql[i]);
    if (i < acknowledged) m.acknowledge(source.commits().back());
  }
}

inline void read_on(Copy& copy, const PlainSource& source) {
  for (std::uint64_t before = copy.restarts();;) {
    const Offset from = copy.position();
    for (const auto& record : source.records()) {
      if (record.next <= from) continue;
      auto done = copy.apply(record);
      ASSERT_TRUE(done) << told(done);
      if (copy.restarts() != before) break;
    }
    if (copy.restarts() == before) break;
    before = copy.restarts();
  }
  ASSERT_TRUE(copy.settle());
}

inline void expect_is_source(Copy& copy, PlainSource& source) {
  EXPECT_EQ(copy.state().page_sum, source.state().page_sum);
  EXPECT_EQ(copy.state().ordinal, source.state().ordinal);
  MemoryStream stream;
  stream.records = source.records();
  auto compared = compare(copy, stream);
  ASSERT_TRUE(compared) << told(compared);
  EXPECT_TRUE(compared->same()) << compared->differing << " pages differ";
}

}  // namespace onepen::sqlite::testing
