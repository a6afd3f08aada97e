// How long a machine that has nothing needs to open a database in a bucket, against what the bucket delivers (issue 5: "against plain parallel GETs beside it").
// bench/cold_open_bucket.py starts a real server, and a proxy that adds a latency to each request, since loopback hides what requests at a time are for.
//
// The stream "app" holds one commit of the whole database and a snapshot of it; the stream "log" many small commits and no snapshot. In turn, round by round:
//
//   plain     GET of every part of the snapshot, with as many requests at a time as the load has, nothing done with the bytes
//   load      the snapshot fetched, checked, expanded, hashed and written into a database file, not synced; load_one: by one thread
//   open      a whole cold open through the public API: a fresh cache root, the claim, the first SELECT
//   copied    read(2) and write(2) of the database file into a fresh one, and fdatasync: what the local disk can take
//   log_plain GET of every object of the log, as many at a time as a reader has; log: the log read and folded by a session; log_one: by one request at a time
//
// share_of_home: plain / load, plain / open, log_plain / log. share_of_limit: max(plain, copied) / load and / open, since whoever opens has both to do.
#include <atomic>
#include <iostream>
#include <thread>

#include "home/object/object_home.h"
#include "home/object/open_bucket.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "snapshot_place.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

constexpr std::size_t kEveryKey = static_cast<std::size_t>(-1);

// The bucket as it is, by one request at a time: what it was before there was more.
class OneAtATime final : public home::ObjectStore {
 public:
  explicit OneAtATime(home::ObjectStore& store) : store_(store) {}
  Result<Bytes> get(const std::string& key) override { return store_.get(key); }
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override { return store_.get_range(key, from, size); }
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override { return store_.put_if_absent(key, bytes); }
  Result<> put(const std::string& key, ByteView bytes) override { return store_.put(key, bytes); }
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override {
    return store_.list(folder, after, limit);
  }
  Result<> erase(const std::string& key) override { return store_.erase(key); }
  std::string describe() const override { return store_.describe(); }

 private:
  home::ObjectStore& store_;
};

std::vector<std::string> keys_of(home::ObjectStore& store, const std::string& folder) {
  std::vector<std::string> keys;
  for (const auto& name : must(store.list(folder, "", kEveryKey))) keys.push_back(folder + "/" + name);
  return keys;
}

std::uint64_t plain_gets(home::ObjectStore& store, const std::vector<std::string>& keys, std::size_t at_once) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> bytes{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < at_once; ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = 0; (at = next++) < keys.size();) bytes += must(store.get(keys[at])).size();
    });
  }
  for (auto& thread : threads) thread.join();
  return bytes;
}

void fill_log(Runtime& runtime, core::Home& home, std::int64_t commits) {
  auto stream = home.stream(*StreamName::parse("log"));
  core::ClaimRequest request{.epoch = Epoch{1}, .claim_id = runtime.draw<ClaimId>(), .attempt = runtime.draw<PutId>(), .owner = {.name = "bench"}};
  request.create = true;
  request.first_incarnation = runtime.draw<Incarnation>();
  const auto claim = must(stream->claim(request));
  for (std::int64_t n = 1; n <= commits; ++n) {
    core::AppendBatch batch{
        .incarnation = claim.incarnation, .epoch = claim.epoch, .claim_id = claim.claim_id, .first = Sequence{static_cast<std::uint64_t>(n)}};
    batch.attempt = runtime.draw<PutId>();
    const std::string payload = noise(4096, static_cast<std::uint64_t>(n));
    batch.appends.push_back({core::RecordKind::data, to_bytes(as_bytes(payload))});
    must(stream->append(batch));
  }
}

void read_log(core::Home& home, std::int64_t commits) {
  auto stream = home.stream(*StreamName::parse("log"));
  std::int64_t seen = 0;
  Offset at;
  for (bool end = false; !end;) {
    const auto read = must(stream->read(at, {}));
    for (const auto& record : read.records) seen += record.kind == core::RecordKind::data;
    at = read.next;
    end = read.up_to_date;
  }
  if (seen != commits) give_up("the log was not read whole");
}

double seconds_of(const std::function<void()>& work) {
  const auto from = Clock::now();
  work();
  return microseconds(Clock::now() - from) / 1e6;
}

class Table {
 public:
  // scratch: a file that may be made, to wake as much memory as the work needs (cold_open.cc, Measured, says why).
  Table(std::string scratch, std::uint64_t bytes) : scratch_(std::move(scratch)), bytes_(bytes) {}
  void time(const std::string& what, const std::function<void()>& work) {
    plain_write("", scratch_, bytes_ + bytes_ / 8, false);
    std::filesystem::remove(scratch_);
    samples_[what].begin_round();
    samples_[what].add(seconds_of(work) * 1e6);
  }
  double median(const std::string& what) const { return samples_.at(what).quantile(0.5); }
  Json json() const {
    Json out;
    for (const auto& [what, samples] : samples_) {
      out[what] = {{"seconds", samples.quantile(0.5) / 1e6}, {"fastest", samples.quantile(0) / 1e6}, {"slowest", samples.quantile(1) / 1e6}};
    }
    for (const auto& [what, peer] : {std::pair("load", "plain"), std::pair("load_one", "plain"), std::pair("open", "plain"), std::pair("log", "log_plain"),
                                     std::pair("log_one", "log_plain")}) {
      out["share_of_home"][what] = median(peer) / median(what);
    }
    for (const char* what : {"load", "open"}) out["share_of_limit"][what] = std::max(median("plain"), median("copied")) / median(what);
    return out;
  }

 private:
  const std::string scratch_;
  const std::uint64_t bytes_;
  std::map<std::string, Samples> samples_;
};

void copy_synced(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to);
  const auto disk = io::make_posix_disk();
  if (!(*disk->open(to, io::OpenMode::write))->sync()) give_up("cannot sync " + to);
  std::filesystem::remove(to);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const std::string url = arguments.text("url", ""), near = arguments.text("near", url);  // near: the same bucket without the added latency, to fill it by
  const auto bytes = arguments.number("bytes", 1'000'000'000), rounds = arguments.number("rounds", 3), commits = arguments.number("commits", 2'000);
  const auto at_once = arguments.number("at_once", sqlite::kSnapshotHelpers + 1);
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  const Scratch scratch(folder);
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  Json json{{"benchmark", "cold_open_bucket"}, {"machine", machine()}, {"load_before", load_average()}, {"rounds", rounds}, {"at_once", at_once}};
  Place filled(*runtime, *disk, near);
  const auto info = filled.fill(scratch, bytes);
  fill_log(*runtime, *filled.home, commits);
  const auto bucket = must(home::open_bucket(*runtime, url, {}, home::process_environment()));
  const auto home = must(home::open_home(*runtime, *disk, url));
  const auto slow = home::make_object_home(*runtime, std::make_unique<OneAtATime>(*bucket.store), {.url = url});
  auto parts = keys_of(*bucket.store, "app/@snap/" + info.id);
  std::erase_if(parts, [](const std::string& key) { return key.ends_with("/head"); });
  const auto objects = keys_of(*bucket.store, "log/@log");
  const auto stream = home->stream(filled.name);
  const sqlite::SnapshotSource source{*stream, [&] { return home->stream(filled.name); }};
  const auto load = [&](std::uint32_t helpers) {
    sqlite::PageTable table;
    sqlite::SnapshotLoad options;
    options.sync = false;
    options.helpers = helpers;
    must(sqlite::load_snapshot(*runtime, *disk, source, info, scratch / "loaded", table, options));
    std::filesystem::remove(scratch / "loaded");
  };
  Table table(scratch / "awake", filled.database_bytes);
  std::uint64_t fetched = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    table.time("plain", [&] { fetched = plain_gets(*bucket.store, parts, static_cast<std::size_t>(at_once)); });
    table.time("load", [&] { load(static_cast<std::uint32_t>(at_once - 1)); });
    table.time("load_one", [&] { load(0); });
    table.time("open", [&] { cold_open(url, scratch / "cache"); });
    std::filesystem::remove_all(scratch / "cache");
    table.time("copied", [&] { copy_synced(scratch / "whole/db", scratch / "copied"); });
    table.time("log_plain", [&] { plain_gets(*bucket.store, objects, bucket.store->at_once()); });
    table.time("log", [&] { read_log(*home, commits); });
    table.time("log_one", [&] { read_log(*slow, commits); });
  }
  json["database_bytes"] = filled.database_bytes;
  json["snapshot_bytes"] = fetched;
  json["snapshot_parts"] = info.parts;
  json["log_objects"] = objects.size();
  json["write_snapshot_seconds_near"] = filled.write_seconds;
  json["measured"] = table.json();
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
