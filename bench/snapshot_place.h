// A stream whose newest snapshot is all of it: what a cold open begins with. Shared by the benchmarks of cold opens.
#pragma once
#include <fcntl.h>
#include <onepen/database.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "home/object/open_home.h"
#include "io/disk.h"
#include "measure.h"
#include "sqlite/import.h"
#include "sqlite/snapshot_load.h"

namespace onepen::bench {

inline constexpr std::array<const char*, 16> kWords = {"amber", "birch",   "cedar", "delta",  "ember",  "fjord", "grove",  "harbor",
                                                       "inlet", "juniper", "kelp",  "lagoon", "meadow", "north", "orchid", "pine"};

template <class T>
T must(tl::expected<T, Error> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}
template <class T>
T must(core::Answer<T> answer) {
  if (!answer) give_up(answer.error().message);
  return std::move(*answer);
}

inline void run_sql(sqlite3* db, const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql, nullptr, nullptr, &message) != SQLITE_OK) give_up(std::string(sql) + ": " + (message != nullptr ? message : "?"));
}

// Rows of half a kilobyte of words and half of bytes that do not compress.
inline void make_database(const std::string& path, std::int64_t bytes) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) give_up("cannot make a database");
  run_sql(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE t(id INTEGER PRIMARY KEY, note TEXT, v BLOB); BEGIN");
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO t(note, v) VALUES (?1, ?2)", -1, &insert, nullptr);
  std::uint64_t x = 88172645463325252u;
  for (std::int64_t row = 0; row < bytes / 1050; ++row) {
    std::string note;
    while (note.size() < 512) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      note.append(kWords[x % kWords.size()]).push_back(' ');
    }
    const std::string blob = noise(512, static_cast<std::uint64_t>(row));
    sqlite3_bind_text(insert, 1, note.data(), static_cast<int>(note.size()), SQLITE_STATIC);
    sqlite3_bind_blob(insert, 2, blob.data(), static_cast<int>(blob.size()), SQLITE_STATIC);
    if (sqlite3_step(insert) != SQLITE_DONE) give_up(sqlite3_errmsg(db));
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  run_sql(db, "COMMIT");
  sqlite3_close(db);
}

// The stream: a claim, the database as its first commit, and a snapshot of it.
struct Place {
  Place(Runtime& r, io::Disk& d, const std::string& url) : runtime(r), disk(d), home(must(home::open_home(r, d, url))), stream(home->stream(name)) {}

  core::SnapshotInfo fill(const Scratch& scratch, std::int64_t bytes) {
    make_database(scratch / "plain.db", bytes);
    core::ClaimRequest request{.epoch = Epoch{1}, .claim_id = runtime.draw<ClaimId>(), .attempt = runtime.draw<PutId>(), .owner = {.name = "bench"}};
    request.create = true;
    request.first_incarnation = runtime.draw<Incarnation>();
    const auto claim = must(stream->claim(request));
    std::uint64_t sequence = 0;
    must_import(scratch, [&](Bytes part) -> Result<> {
      core::AppendBatch batch{.incarnation = claim.incarnation, .epoch = claim.epoch, .claim_id = claim.claim_id, .first = Sequence{++sequence}};
      batch.attempt = runtime.draw<PutId>();
      batch.appends.push_back({core::RecordKind::data, std::move(part)});
      must(stream->append(batch));
      return {};
    });
    std::filesystem::remove(scratch / "plain.db");
    std::filesystem::create_directory(scratch / "whole");
    const auto state = must(sqlite::rebuild_into(*stream, scratch / "whole/db"));
    auto pin = must(sqlite::pin_file(disk, scratch / "whole/db", state));
    auto writer = must(stream->begin_snapshot({claim.incarnation, claim.epoch, claim.claim_id}, state.offset));
    const auto from = Clock::now();
    auto info = must(sqlite::write_snapshot(*pin, *writer));
    write_seconds = microseconds(Clock::now() - from) / 1e6;
    database_bytes = std::uint64_t{state.page_count} * state.page_size;
    return info;
  }

  Runtime& runtime;
  io::Disk& disk;
  StreamName name = *StreamName::parse("app");
  std::unique_ptr<core::Home> home;
  std::unique_ptr<core::Stream> stream;
  std::uint64_t database_bytes = 0;
  double write_seconds = 0;

 private:
  static void must_import(const Scratch& scratch, const wire::PartEncoder::Sink& sink) {
    if (auto done = sqlite::import_database(scratch / "plain.db", scratch / "import", sink); !done) give_up(done.error().message);
  }
};

// As many bytes as `from` has, into a fresh file; from memory, or from that file.
inline void plain_write(const std::string& from, const std::string& to, std::uint64_t bytes, bool copied) {
  std::vector<char> buffer(1u << 20, 'x');
  const int in = copied ? ::open(from.c_str(), O_RDONLY | O_CLOEXEC) : -1, out = ::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (std::uint64_t done = 0; done < bytes;) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - done));
    if (copied && ::read(in, buffer.data(), want) != static_cast<ssize_t>(want)) give_up("cannot read " + from);
    if (::write(out, buffer.data(), want) != static_cast<ssize_t>(want)) give_up("cannot write " + to);
    done += want;
  }
  if (copied && ::fdatasync(out) != 0) give_up("cannot sync " + to);
  if (in >= 0) ::close(in);
  ::close(out);
}

// A whole cold open through the public API.
inline void cold_open(const std::string& url, const std::string& cache_root) {
  auto home = must(Home::open(url));
  OpenOptions options;
  options.cache_root = cache_root;
  auto database = must(Database::open(home, "app", options));
  {
    auto connection = must(database.connect());
    run_sql(connection.get(), "SELECT count(*) FROM t WHERE id < 100");
  }
  if (auto closed = database.close(); !closed) give_up(closed.error().message);
}

}  // namespace onepen::bench
