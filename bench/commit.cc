// What a COMMIT costs (engineering.md, "Benchmarks", p50, small inserts: replicated at most 1.3 times one home append; local at most 1.15 times plain WAL
// SQLite at the same `synchronous`). One row of 100 B with an index on it, each in a transaction of its own, on a directory home. Peers, in turn, in the
// same run and on the same filesystem:
//
//   disk_sync   pwrite of 4 KiB into a file that has the space, fdatasync: what this disk can do at all
//   raw_create  an object of the same size with system calls only: O_TMPFILE, write, fdatasync, linkat, fsync of the folder
//   store_put   the same through the directory store
//   home_append the same bytes as one append through the object home (fold, checks, offsets): "one home append"
//   commit      COMMIT through Database and connect(), durability=replicated
//   sqlite_full, sqlite_normal  plain WAL SQLite, the same statements, at synchronous FULL (what a replicated commit promises locally) and NORMAL
//   local_full, local_normal    COMMIT with durability=local at the same two, while the sender follows on another thread; what is left of it is waited for
//               between the rounds, outside of what is measured
#include <fcntl.h>
#include <onepen/database.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>

#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "measure.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

constexpr std::size_t kRowBytes = 100;
constexpr int kWarmUp = 100;

void run_sql(sqlite3* db, const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql, nullptr, nullptr, &message) != SQLITE_OK) give_up(std::string(sql) + ": " + (message != nullptr ? message : "?"));
}

// Inserts one row a call, each its own transaction.
class Inserts {
 public:
  explicit Inserts(sqlite3* db) : db_(db) {
    run_sql(db_, "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB); CREATE INDEX t_k ON t(k);");
    if (sqlite3_prepare_v2(db_, "INSERT INTO t(k, v) VALUES (?1, ?2)", -1, &insert_, nullptr) != SQLITE_OK) give_up(sqlite3_errmsg(db_));
  }
  ~Inserts() { sqlite3_finalize(insert_); }
  Inserts(const Inserts&) = delete;
  Inserts& operator=(const Inserts&) = delete;
  void one() {
    ++n_;
    sqlite3_bind_int64(insert_, 1, static_cast<sqlite3_int64>(n_ * 7'368'787 % 1'000'003));
    const std::string row = noise(kRowBytes, n_);
    sqlite3_bind_blob(insert_, 2, row.data(), static_cast<int>(row.size()), SQLITE_TRANSIENT);
    if (sqlite3_step(insert_) != SQLITE_DONE) give_up(std::string("INSERT: ") + sqlite3_errmsg(db_));
    sqlite3_reset(insert_);
  }

 private:
  sqlite3* db_;
  sqlite3_stmt* insert_ = nullptr;
  std::uint64_t n_ = 0;
};

// The same statements on plain SQLite.
class PlainSqlite {
 public:
  PlainSqlite(const std::string& path, const char* synchronous) {
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) give_up("cannot open " + path);
    run_sql(db_, "PRAGMA journal_mode=WAL");
    run_sql(db_, synchronous);
    inserts_ = std::make_unique<Inserts>(db_);
  }
  ~PlainSqlite() {
    inserts_.reset();
    sqlite3_close(db_);
  }
  PlainSqlite(const PlainSqlite&) = delete;
  PlainSqlite& operator=(const PlainSqlite&) = delete;
  void one() { inserts_->one(); }

 private:
  sqlite3* db_ = nullptr;
  std::unique_ptr<Inserts> inserts_;
};

// The same statements on a database at a home.
class AtHome {
 public:
  AtHome(const Home& home, const char* name, const std::string& cache_root, Durability durability, const char* synchronous) {
    OpenOptions options;
    options.cache_root = cache_root;
    options.durability = durability;
    auto database = Database::open(home, name, options);
    if (!database) give_up(database.error().message);
    database_ = std::make_unique<Database>(std::move(*database));
    auto connection = database_->connect();
    if (!connection) give_up(connection.error().message);
    connection_ = std::move(*connection);
    run_sql(connection_.get(), synchronous);
    inserts_ = std::make_unique<Inserts>(connection_.get());
  }
  AtHome(const AtHome&) = delete;
  AtHome& operator=(const AtHome&) = delete;
  ~AtHome() {
    inserts_.reset();
    connection_.reset();
    if (const auto closed = database_->close(); !closed) give_up(closed.error().message);
  }
  void one() { inserts_->one(); }
  // Everything is in the stream: the sender of this database is idle, and takes nothing from the next peer.
  void settle() {
    if (const auto synced = database_->synced(); !synced) give_up(synced.error().message);
  }

 private:
  std::unique_ptr<Database> database_;
  Connection connection_;
  std::unique_ptr<Inserts> inserts_;
};

// An object with system calls only.
class RawCreate {
 public:
  explicit RawCreate(const std::string& folder) : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~RawCreate() { ::close(folder_); }
  RawCreate(const RawCreate&) = delete;
  RawCreate& operator=(const RawCreate&) = delete;
  void one(const std::string& bytes) {
    const int fd = ::openat(folder_, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
    char self[48], name[32];
    std::snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    std::snprintf(name, sizeof name, "%020llu", static_cast<unsigned long long>(++n_));
    const bool written = fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && ::fdatasync(fd) == 0 &&
                         ::linkat(AT_FDCWD, self, folder_, name, AT_SYMLINK_FOLLOW) == 0;
    ::close(fd);
    if (!written || ::fsync(folder_) != 0) give_up("the raw create failed: this filesystem has no O_TMPFILE, or is full");
  }

 private:
  int folder_;
  std::uint64_t n_ = 0;
};

// Overwrites in place: no metadata to write, so one sync of the data is all.
class DiskSync {
 public:
  explicit DiskSync(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)), block_(4096, 'x') {
    for (off_t at = 0; at < kSpace; at += 4096)
      if (::pwrite(fd_, block_.data(), block_.size(), at) != 4096) give_up("cannot write " + path);
    ::fsync(fd_);
  }
  ~DiskSync() { ::close(fd_); }
  DiskSync(const DiskSync&) = delete;
  DiskSync& operator=(const DiskSync&) = delete;
  void one() {
    if (::pwrite(fd_, block_.data(), block_.size(), at_) != 4096 || ::fdatasync(fd_) != 0) give_up("the disk failed");
    at_ = (at_ + 4096) % kSpace;
  }

 private:
  static constexpr off_t kSpace = 16 << 20;
  int fd_;
  std::string block_;
  off_t at_ = 0;
};

// An owner of a stream that appends, with nothing between it and the home.
class BareOwner {
 public:
  BareOwner(Runtime& runtime, io::Disk& disk, const std::string& folder, std::size_t payload_bytes) : runtime_(runtime), payload_bytes_(payload_bytes) {
    home::ObjectHomeOptions options;
    options.url = "file://" + folder;
    home_ = home::make_object_home(runtime, home::make_file_store(runtime, disk, folder), std::move(options));
    stream_ = home_->stream(*StreamName::parse("bare"));
    core::ClaimRequest claim;
    claim.epoch = Epoch{1};
    claim.claim_id = runtime.draw<ClaimId>();
    claim.attempt = runtime.draw<PutId>();
    claim.create = true;
    claim.first_incarnation = runtime.draw<Incarnation>();
    const auto claimed = stream_->claim(claim);
    if (!claimed) give_up(claimed.error().message);
    batch_.incarnation = claimed->incarnation;
    batch_.epoch = claim.epoch;
    batch_.claim_id = claim.claim_id;
  }
  void one() {
    batch_.first = Sequence{++n_};
    batch_.attempt = runtime_.draw<PutId>();
    batch_.appends.assign(1, core::Append{core::RecordKind::data, to_bytes(as_bytes(noise(payload_bytes_, n_)))});
    const auto done = stream_->append(batch_);
    if (!done) give_up(done.error().message);
  }

 private:
  Runtime& runtime_;
  const std::size_t payload_bytes_;
  std::unique_ptr<core::Home> home_;
  std::unique_ptr<core::Stream> stream_;
  core::AppendBatch batch_;
  std::uint64_t n_ = 0;
};

struct Peer {
  std::string name;
  std::function<void()> one;
  std::function<void()> settle{};  // after each round, not measured
  Samples samples{};
  Usage used{};
};

void run_round(Peer& peer, std::int64_t operations) {
  peer.samples.begin_round();
  const Usage before = usage_of_process();
  for (std::int64_t i = 0; i < operations; ++i) {
    const auto from = Clock::now();
    peer.one();
    peer.samples.add(microseconds(Clock::now() - from));
  }
  const Usage used = usage_of_process() - before;
  peer.used = {peer.used.user_us + used.user_us, peer.used.system_us + used.system_us, peer.used.waits + used.waits, peer.used.preempted + used.preempted};
  if (peer.settle) peer.settle();
}

Json report(const Peer& peer) {
  Json json = peer.samples.json();
  const auto n = static_cast<double>(peer.samples.count());
  json["user_us_each"] = std::round(peer.used.user_us / n * 10) / 10;
  json["system_us_each"] = std::round(peer.used.system_us / n * 10) / 10;
  json["waits_each"] = std::round(static_cast<double>(peer.used.waits) / n * 100) / 100;
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const auto rounds = arguments.number("rounds", 20), operations = arguments.number("operations", 50);
  const std::string only = arguments.text("only", "");  // one peer, for a profiler
  const std::string folder = arguments.text("folder", ".");
  arguments.finish();

  Scratch scratch(std::filesystem::absolute(folder).lexically_normal().string());
  for (const char* name : {"home", "bare", "raw", "store"}) std::filesystem::create_directory(scratch / name);
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();

  auto home = Home::open("file://" + scratch / "home");
  if (!home) give_up(home.error().message);
  auto replicated = std::make_unique<AtHome>(*home, "app", scratch / "cache", Durability::replicated, "PRAGMA synchronous=FULL");
  for (int i = 0; i < kWarmUp; ++i) replicated->one();
  const FolderSize before = size_of(scratch / "home");
  for (int i = 0; i < kWarmUp; ++i) replicated->one();
  const FolderSize after = size_of(scratch / "home");
  const std::size_t object_bytes = (after.bytes - before.bytes) / std::max<std::uint64_t>(1, after.files - before.files);

  const std::string object = noise(object_bytes, 1);
  DiskSync sync(scratch / "sync");
  RawCreate raw(scratch / "raw");
  const auto store = home::make_file_store(*runtime, *disk, scratch / "store");
  BareOwner bare(*runtime, *disk, scratch / "bare",
                 object_bytes > 250 ? object_bytes - 200 : object_bytes);  // an object of one append has about 200 bytes around it
  PlainSqlite full(scratch / "full.db", "PRAGMA synchronous=FULL"), normal(scratch / "normal.db", "PRAGMA synchronous=NORMAL");

  auto local_full = std::make_unique<AtHome>(*home, "local_full", scratch / "cache", Durability::local, "PRAGMA synchronous=FULL");
  auto local_normal = std::make_unique<AtHome>(*home, "local_normal", scratch / "cache", Durability::local, "PRAGMA synchronous=NORMAL");

  std::uint64_t puts = 0;
  std::vector<Peer> peers;
  peers.push_back({"disk_sync", [&] { sync.one(); }});
  peers.push_back({"raw_create", [&] { raw.one(object); }});
  peers.push_back({"store_put", [&] {
                     char key[48];
                     std::snprintf(key, sizeof key, "s/@log/%020llu", static_cast<unsigned long long>(++puts));
                     const auto put = store->put_if_absent(key, as_bytes(object));
                     if (!put || *put != home::PutOutcome::created) give_up("the store did not take an object");
                   }});
  peers.push_back({"home_append", [&] { bare.one(); }});
  peers.push_back({"commit", [&] { replicated->one(); }});
  peers.push_back({"sqlite_full", [&] { full.one(); }});
  peers.push_back({"local_full", [&] { local_full->one(); }, [&] { local_full->settle(); }});
  peers.push_back({"sqlite_normal", [&] { normal.one(); }});
  peers.push_back({"local_normal", [&] { local_normal->one(); }, [&] { local_normal->settle(); }});
  if (!only.empty()) std::erase_if(peers, [&](const Peer& peer) { return peer.name != only; });
  if (peers.empty()) give_up("there is no peer '" + only + "'");

  for (Peer& peer : peers) {
    for (int i = 0; i < kWarmUp; ++i) peer.one();
    if (peer.settle) peer.settle();
  }
  const std::string load_before = load_average();
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < peers.size(); ++i) run_round(peers[round % 2 == 0 ? i : peers.size() - 1 - i], operations);
  }
  Json json{{"benchmark", "commit"},        {"machine", machine()},   {"load_before", load_before},
            {"load_after", load_average()}, {"row_bytes", kRowBytes}, {"object_bytes", object_bytes}};
  const auto find = [&](std::string_view name) -> const Samples* {
    for (const Peer& peer : peers)
      if (peer.name == name) return &peer.samples;
    return nullptr;
  };
  for (const Peer& peer : peers) json["peers"][peer.name] = report(peer);
  struct Compared {
    const char *name, *a, *b;
    std::optional<double> to_reach{};  // at most, of p50
  };
  for (const auto& [name, a, b, to_reach] :
       {Compared{"commit / home_append", "commit", "home_append", 1.3}, Compared{"local_full / sqlite_full", "local_full", "sqlite_full", 1.15},
        Compared{"local_normal / sqlite_normal", "local_normal", "sqlite_normal", 1.15}, Compared{"commit / sqlite_full", "commit", "sqlite_full"},
        Compared{"home_append / raw_create", "home_append", "raw_create"}}) {
    if (find(a) == nullptr || find(b) == nullptr) continue;
    json["ratios"][name] = ratio(*find(a), *find(b));
    if (to_reach) json["ratios"][name]["to_reach"] = *to_reach;
  }
  const auto size = size_of(scratch / "home");
  json["home"] = {{"objects", size.files}, {"bytes", size.bytes}};
  std::cout << json.dump(1) << "\n";
  return 0;
}
