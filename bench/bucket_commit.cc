// What commits cost in a bucket: latency against requests (docs/operating/buckets.md, "What it costs"). A real bucket server on loopback, given by --home with its
// endpoint, and a wire that gives each request to it some milliseconds later. One row of 100 B with an index, each in a transaction of its own. For each latency:
//
//   put          a plain sequence of conditional PUTs of the size of a commit's object: what a bucket so far away can do at all, one create in flight
//   replicated   COMMITs one after the other, durability=replicated; without a bound and with max_objects_per_second
//   local        COMMITs at a given rate, durability=local, for some pairs of max_linger and max_objects_per_second. behind: how long the commits that wait at some
//                moment took to come in (pending / rate), what a machine that dies there loses
//
// Objects and requests are counted on the wire while the commits come in; what a peer asks for at opening is not in it.
#include <onepen/database.h>
#include <sqlite3.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "home/object/open_bucket.h"
#include "io/system_runtime.h"
#include "slow_wire.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

constexpr std::size_t kRowBytes = 100, kObjectBytes = 600;  // an object of one commit, as bench/commit prints it
constexpr int kWarmUp = 5;

struct Setup {
  Durability durability = Durability::replicated;
  std::optional<Duration> max_linger{};
  std::optional<double> max_objects_per_second{};
};

int port_of(const std::string& url) {
  const auto host = url.find("127.0.0.1:");
  if (host == std::string::npos) give_up("--home takes the URL of a bucket with an endpoint at 127.0.0.1:PORT, as tests/process/bucket_servers.py prints it");
  return std::atoi(url.c_str() + host + 10);
}

std::string with_port(std::string url, int from, int to) {
  const std::string text = ":" + std::to_string(from);
  return url.replace(url.find(text), text.size(), ":" + std::to_string(to));
}

class Writer {
 public:
  Writer(const std::string& url, const std::string& name, const std::string& cache_root, const Setup& setup) {
    auto home = Home::open(url);
    if (!home) give_up(home.error().message);
    OpenOptions options;
    options.cache_root = cache_root;
    options.durability = setup.durability;
    options.max_linger = setup.max_linger;
    options.max_objects_per_second = setup.max_objects_per_second;
    auto opened = Database::open(*home, name, options);
    if (!opened) give_up(opened.error().message);
    database_ = std::make_unique<Database>(std::move(*opened));
    auto connected = database_->connect();
    if (!connected) give_up(connected.error().message);
    connection_ = std::move(*connected);
    run("CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v BLOB); CREATE INDEX t_k ON t(k)");
    for (int i = 0; i < kWarmUp; ++i) one();
    settle();
  }
  ~Writer() {
    connection_.reset();
    if (const auto closed = database_->close(std::chrono::minutes(1)); !closed) give_up(closed.error().message);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void one() {
    ++n_;
    char sql[96];
    std::snprintf(sql, sizeof sql, "INSERT INTO t(k, v) VALUES (%llu, randomblob(%zu))", static_cast<unsigned long long>(n_ * 7'368'787 % 1'000'003),
                  kRowBytes);
    run(sql);
  }
  void settle() {
    if (const auto synced = database_->synced(); !synced) give_up(synced.error().message);
  }
  std::uint64_t pending() const { return database_->status().pending_commits; }

 private:
  void run(const char* sql) {
    char* message = nullptr;
    if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, &message) != SQLITE_OK) give_up(std::string(sql) + ": " + (message != nullptr ? message : "?"));
  }
  std::unique_ptr<Database> database_;
  Connection connection_;
  std::uint64_t n_ = 0;
};

double seconds_since(Clock::time_point from) { return microseconds(Clock::now() - from) / 1e6; }
double rounded(double value) { return std::round(value * 100) / 100; }

Json row(const std::string& name, const Samples& commits, double seconds, SlowWire::Counts before, SlowWire::Counts after) {
  return {{"peer", name},
          {"p50_ms", rounded(commits.quantile(0.5) / 1e3)},
          {"p99_ms", rounded(commits.quantile(0.99) / 1e3)},
          {"commits_per_second", rounded(static_cast<double>(commits.count()) / seconds)},
          {"objects_per_second", rounded(static_cast<double>(after.log_puts - before.log_puts) / seconds)},
          {"requests_per_second", rounded(static_cast<double>(after.requests - before.requests) / seconds)}};
}

void timed(Samples& samples, const std::function<void()>& one) {
  const auto from = Clock::now();
  one();
  samples.add(microseconds(Clock::now() - from));
}

Json plain_puts(const SlowWire& wire, const std::string& url, const std::string& folder, double seconds) {
  const auto runtime = io::make_system_runtime();
  const auto bucket = home::open_bucket(*runtime, url, {}, home::process_environment());
  if (!bucket) give_up(bucket.error().message);
  const std::string object = noise(kObjectBytes, 1);
  Samples samples;
  samples.begin_round();
  std::uint64_t puts = 0;
  const auto put = [&] {
    char key[64];
    std::snprintf(key, sizeof key, "%s/@log/%020llu", folder.c_str(), static_cast<unsigned long long>(++puts));
    const auto done = bucket->store->put_if_absent(key, as_bytes(object));
    if (!done || *done != home::PutOutcome::created) give_up("the bucket did not take an object");
  };
  for (int i = 0; i < kWarmUp; ++i) put();
  const auto before = wire.counts();
  const auto from = Clock::now();
  while (seconds_since(from) < seconds) timed(samples, put);
  return row("put", samples, seconds_since(from), before, wire.counts());
}

// As fast as they are acknowledged.
Json one_after_the_other(const SlowWire& wire, Writer& writer, const std::string& name, double seconds) {
  Samples samples;
  samples.begin_round();
  const auto before = wire.counts();
  const auto from = Clock::now();
  while (seconds_since(from) < seconds) timed(samples, [&] { writer.one(); });
  return row(name, samples, seconds_since(from), before, wire.counts());
}

// At a rate of their own, whatever becomes of them.
Json paced(const SlowWire& wire, Writer& writer, const std::string& name, double seconds, double rate) {
  Samples samples, pending;
  samples.begin_round();
  pending.begin_round();
  const auto before = wire.counts();
  const auto from = Clock::now();
  for (double due = 0; due < seconds; due += 1 / rate) {
    std::this_thread::sleep_until(from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(due)));
    timed(samples, [&] { writer.one(); });
    pending.add(static_cast<double>(writer.pending()));
  }
  Json json = row(name, samples, seconds_since(from), before, wire.counts());
  json["behind_p50_ms"] = rounded(pending.quantile(0.5) / rate * 1e3);
  json["behind_p99_ms"] = rounded(pending.quantile(0.99) / rate * 1e3);
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const std::string url = arguments.text("home", "");
  const auto seconds = static_cast<double>(arguments.number("seconds", 5));
  const auto rate = static_cast<double>(arguments.number("rate", 200));
  std::istringstream latencies(arguments.text("latencies", "0,20,50"));
  Scratch scratch(std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string());
  arguments.finish();

  const std::vector<std::pair<std::string, Setup>> replicated{
      {"replicated", {}},
      {"replicated, 10 objects a second", {Durability::replicated, {}, 10.0}},
  };
  const std::vector<std::pair<std::string, Setup>> local{
      {"local", {Durability::local, {}, {}}},
      {"local, max_linger 0", {Durability::local, Duration(0), {}}},
      {"local, max_linger 2 s", {Durability::local, Duration(2'000), {}}},
      {"local, 1 object a second", {Durability::local, {}, 1.0}},
  };
  Json json{{"benchmark", "bucket_commit"}, {"machine", machine()}, {"load_before", load_average()}, {"seconds_each", seconds}, {"rate", rate}};
  json["rows"] = Json::array();
  int made = 0;
  for (std::string text; std::getline(latencies, text, ',');) {
    SlowWire& wire = *new SlowWire(port_of(url), std::chrono::milliseconds(std::stoi(text)));  // for as long as the process: its threads use it
    const std::string through = with_port(url, port_of(url), wire.port());
    const auto name = [&] { return "bench" + std::to_string(++made); };
    std::vector<Json> rows{plain_puts(wire, through, name(), seconds)};
    for (const auto& [what, setup] : replicated) {
      Writer writer(through, name(), scratch / "cache", setup);
      rows.push_back(one_after_the_other(wire, writer, what, seconds));
    }
    for (const auto& [what, setup] : local) {
      Writer writer(through, name(), scratch / "cache", setup);
      rows.push_back(paced(wire, writer, what, seconds, rate));
    }
    for (Json& one : rows) {
      one["latency_ms"] = std::stoi(text);
      json["rows"].push_back(std::move(one));
    }
  }
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
