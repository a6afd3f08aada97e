// One story of a stream, and a place where a copy of it lives: for the tests of a copy that keeps up with its stream.
#pragma once
#include "base/failpoint.h"
#include "sqlite/copy_test_support.h"

namespace onepen::sqlite::testing {

inline constexpr std::uint32_t kPageSize = 1024;

struct Place {
  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::unique_ptr<io::Disk> disk = io::make_posix_disk();
  CopyPlace place;
  std::vector<std::string> lines;

  explicit Place(const std::string& root) : place{root + "/cache", "file:///srv/pen", *StreamName::parse("team/app")} {}
  Result<std::unique_ptr<Copy>> acquire() {
    return Copy::acquire(*runtime, *disk, place, Log([this](LogLevel, std::string_view line) { lines.emplace_back(line); }));
  }
  std::vector<std::string> salvaged() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(place.cache_root + "/salvage/team%2Fapp", none)) out.push_back(entry.path().string());
    return out;
  }
};

// Many small commits, some with claims between, growth and shrinking; the same in every process that makes it.
inline std::vector<std::string> story() {
  std::vector<std::string> sql = {"CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)"};
  for (int i = 0; i < 20; ++i) sql.push_back("INSERT INTO t(x) VALUES (printf('%0*d', 700, " + std::to_string(i * 7919 % 101) + "))");
  sql.emplace_back("UPDATE t SET x = x WHERE id = 1");
  sql.emplace_back("INSERT INTO t(x) SELECT zeroblob(3000) FROM t");
  sql.emplace_back("DELETE FROM t WHERE id > 12");
  sql.emplace_back("VACUUM");
  for (int i = 0; i < 6; ++i) sql.push_back("UPDATE t SET x = printf('%0*d', 900, " + std::to_string(i) + ") WHERE id = " + std::to_string(i + 1));
  return sql;
}

struct Source {
  TempFolder folder;
  PlainSource plain{folder.path(), kPageSize};
  Source() {
    plain.claim();
    for (const std::string& sql : story()) plain.exec(sql);
  }
  const CommitState* find(const CommitState& state) const {
    for (const auto& commit : plain.commits()) {
      if (commit.state.ordinal == state.ordinal && commit.state.page_sum == state.page_sum && commit.state.page_count == state.page_count) return &commit.state;
    }
    return nullptr;
  }
};

inline void apply_all(Copy& copy, const PlainSource& source, std::size_t settle_every = 5) {
  std::size_t n = 0;
  const Offset from = copy.position();
  for (const auto& record : source.records()) {
    if (record.next <= from) continue;
    auto done = copy.apply(record);
    ASSERT_TRUE(done) << told(done);
    if (++n % settle_every == 0) {
      done = copy.settle();
      ASSERT_TRUE(done) << told(done);
    }
  }
  auto done = copy.settle();
  ASSERT_TRUE(done) << told(done);
}

// What a process that owns the database does, but for the stream: will_land() before each commit of a plain SQLite on the copy.
inline void live(Copy& copy, const PlainSource& source, const std::string& checkpoints) {
  auto db = open_plain(copy.db_path(), SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db) << told(db);
  run_sql(db->get(), "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF");
  std::size_t commit = copy.state().ordinal;
  // One statement may be several commits (the first of the story is two): they land one by one, as the capture does it.
  for (std::size_t i = 0; i < story().size(); ++i) {
    const auto land = [&] {
      const auto& next = source.commits()[commit++];
      auto done = copy.will_land(next.state, next.hashes);
      ASSERT_TRUE(done) << told(done);
    };
    if (ONEPEN_FAILPOINT("test.before_land")) return;
    land();
    if (ONEPEN_FAILPOINT("test.before_frame")) return;
    if (i == 0) {
      const std::string both = story()[0];
      const auto at = both.find(';');
      run_sql(db->get(), both.substr(0, at));
      land();
      run_sql(db->get(), both.substr(at + 1));
    } else {
      run_sql(db->get(), story()[i]);
    }
    if (ONEPEN_FAILPOINT("test.after_frame")) return;
    if (!checkpoints.empty() && i % 3 == 0) run_sql(db->get(), "PRAGMA wal_checkpoint(" + checkpoints + ")");
    if (ONEPEN_FAILPOINT("test.after_checkpoint")) return;
  }
  db->reset();
  if (ONEPEN_FAILPOINT("test.after_close")) return;
}

}  // namespace onepen::sqlite::testing
