#include "sqlite/import.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sqlite/copy_test_support.h"

namespace onepen::sqlite {
namespace {

using testing::MemoryStream;
using testing::run_sql;
using testing::slurp;
using testing::spill;
using testing::TempFolder;
using testing::told;

struct Imported {
  MemoryStream stream;
  ImportReport report;
};
Result<> import_to(const std::string& file, const TempFolder& folder, Imported& out) {
  auto report = import_database(file, folder / "scratch", [&](Bytes part) -> Result<> {
    core::Record record;
    record.kind = core::RecordKind::data;
    record.incarnation = testing::kIncarnation;
    record.next = Offset{fmt::format("{:08}", out.stream.records.size() + 1)};
    record.payload = std::move(part);
    out.stream.records.push_back(std::move(record));
    return {};
  });
  EXPECT_FALSE(file_exists(folder / "scratch"));
  if (!report) return tl::unexpected(report.error());
  out.report = *report;
  return {};
}

std::string dump(const std::string& path) {
  auto db = open_plain(path, SQLITE_OPEN_READONLY);
  EXPECT_TRUE(db) << told(db);
  auto schema = plain_value(db->get(), path, "SELECT group_concat(sql, ';') FROM sqlite_schema");
  auto rows = plain_value(db->get(), path, "SELECT group_concat(id || ':' || hex(x), ',') FROM t");
  auto check = plain_value(db->get(), path, "PRAGMA integrity_check");
  return schema.value_or(told(schema)) + "|" + rows.value_or(told(rows)) + "|" + check.value_or(told(check));
}

class ImportExport : public ::testing::TestWithParam<std::tuple<int, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ImportExport, ::testing::Combine(::testing::Values(512, 4096, 65536), ::testing::Values("delete", "wal")));

TEST_P(ImportExport, GivesTheSameDatabaseBack) {
  const auto& [page_size, mode] = GetParam();
  const TempFolder folder;
  auto db = open_plain(folder / "in.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  ASSERT_TRUE(db);
  run_sql(db->get(), fmt::format("PRAGMA page_size={}; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode={}; PRAGMA user_version=41;"
                                 "CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t(x)",
                                 page_size, mode));
  for (int i = 0; i < 50; ++i) run_sql(db->get(), fmt::format("INSERT INTO t(x) VALUES (randomblob({}))", i * 50));
  Imported in;
  auto done = import_to(folder / "in.db", folder, in);  // while it is open elsewhere
  ASSERT_TRUE(done) << told(done);
  EXPECT_EQ(in.report.state.page_size, static_cast<std::uint32_t>(page_size));
  EXPECT_EQ(in.report.parts, in.stream.records.size());
  auto state = export_database(in.stream, folder / "out.db");
  ASSERT_TRUE(state) << told(state);
  EXPECT_EQ(state->page_sum, in.report.state.page_sum);
  EXPECT_EQ(dump(folder / "out.db"), dump(folder / "in.db"));
  EXPECT_EQ(slurp(folder / "out.db")[18], '\1') << "a plain rollback-journal file";
  auto out = open_plain(folder / "out.db", SQLITE_OPEN_READWRITE);
  EXPECT_EQ(plain_value(out->get(), "", "PRAGMA user_version").value_or(""), "41");
  EXPECT_EQ(plain_value(out->get(), "", "PRAGMA auto_vacuum").value_or(""), "2");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_LE(files, 4u) << "in.db with its wal and shm, out.db, nothing else";
}

TEST(Import, WhatIsNoDatabaseIsTold) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& name) {
    Imported in;
    auto done = import_to(folder / name, folder, in);
    EXPECT_TRUE(in.stream.records.empty());
    return told(done);
  };
  EXPECT_NE(refusal("absent").find("not-found: there is no file"), std::string::npos) << refusal("absent");
  spill(folder / "text", std::string(5000, 'x'));
  EXPECT_NE(refusal("text").find("invalid: " + (folder / "text") + " is not a SQLite database, or it is encrypted"), std::string::npos) << refusal("text");
  spill(folder / "empty", "");
  EXPECT_NE(refusal("empty").find("is empty"), std::string::npos) << refusal("empty");
  {
    auto db = open_plain(folder / "bad", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    run_sql(db->get(), "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t(x) VALUES (zeroblob(90000)); CREATE INDEX i ON t(x)");
  }
  std::string bytes = slurp(folder / "bad");
  for (std::size_t at = 4096; at < 4096 * 3; ++at) bytes[at] = static_cast<char>(at * 31);
  spill(folder / "bad", bytes);
  EXPECT_NE(refusal("bad").find("damaged"), std::string::npos) << refusal("bad");
  std::filesystem::create_directory(folder / "dir");
  EXPECT_NE(refusal("dir").find("cannot open"), std::string::npos) << refusal("dir");
}

TEST(Export, NeverWritesOverAFileAndNeedsACommit) {
  const TempFolder folder;
  testing::PlainSource source(folder.path(), 512);
  source.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
  MemoryStream stream;
  auto none = export_database(stream, folder / "out.db");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().outcome, Outcome::not_found);
  stream.records = source.records();
  spill(folder / "out.db", "mine");
  auto taken = export_database(stream, folder / "out.db");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().outcome, Outcome::invalid);
  EXPECT_EQ(slurp(folder / "out.db"), "mine");
  auto nowhere = export_database(stream, folder / "no/such/out.db");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().outcome, Outcome::not_found);
}

class InitialPage : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(PageSizes, InitialPage, ::testing::Values(512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u, 65536u));

TEST_P(InitialPage, IsAnEmptyDatabaseInWalMode) {
  const TempFolder folder;
  spill(folder / "db", as_text(initial_page(GetParam())));
  auto db = open_plain(folder / "db", SQLITE_OPEN_READWRITE);
  ASSERT_TRUE(db);
  const auto value = [&](const char* sql) { return plain_value(db->get(), "", sql).value_or("?"); };
  EXPECT_EQ(value("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(value("PRAGMA page_size"), std::to_string(GetParam()));
  EXPECT_EQ(value("PRAGMA page_count"), "1");
  EXPECT_EQ(value("PRAGMA integrity_check"), "ok");
  run_sql(db->get(), "PRAGMA encoding='UTF-16le'; CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(200000))");
  EXPECT_EQ(value("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(value("PRAGMA encoding"), "UTF-16le");
  EXPECT_EQ(value("SELECT length(x) FROM t"), "200000");
  EXPECT_EQ(value("PRAGMA integrity_check"), "ok");
}

}  // namespace
}  // namespace onepen::sqlite
