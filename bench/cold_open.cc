// How long a machine that has nothing needs to open a database (engineering.md, "Benchmarks": cold open of 1 GB at least 60 % of what the home can deliver).
// The stream holds one commit of the whole database and a snapshot of it; what is opened begins with the snapshot. Measured in turn, round by round:
//
//   plain     read(2) of the snapshot's files, into one buffer: the bytes as fast as the place delivers them
//   parts     the same bytes through the home's session, which checks them
//   load      parts fetched, checked, expanded, hashed and written into a database file, without a sync; load_synced: with it
//   open      a whole cold open through the public API: a fresh cache root, the claim, the first SELECT
//   written   write(2) of as many bytes as the database has into a fresh file, without a sync
//   copied    read(2) and write(2) of the database file itself into a fresh one, and fdatasync: what the local disk can take
//
// "cached": everything that is read is in the page cache, as after it was written on the same machine. "uncached": it is not, so the disk decides.
// share_of_plain: plain / load. Whoever opens must have the bytes *and* write them, so the limit is the slower of the two: share_of_limit is
// max(plain, written) / load, and max(plain, copied) / load_synced and / open. Bytes a second are those of the database, for plain and parts those of the parts.
#include <fcntl.h>
#include <onepen/database.h>
#include <sqlite3.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "measure.h"
#include "snapshot_place.h"

namespace {
using namespace onepen;
using namespace onepen::bench;

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}
// Out of the page cache. What was written must be on the disk first.
void forget(const std::string& folder) {
  ::sync();
  for (const std::string& file : files_of(folder)) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}
void plain_read(const std::string& folder, std::vector<char>& buffer) {
  for (const std::string& file : files_of(folder)) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    while (::read(fd, buffer.data(), buffer.size()) > 0) {
    }
    ::close(fd);
  }
}

class Measured {
 public:
  // scratch: a file that may be made. A virtual machine may give memory that is free for two seconds back to its host (page reporting), and then each first
  // touch of a page costs 10 us: here 1.3 GB were written in 0.3 s, or in 4.5 s. So that this does not fall on whatever comes first, as much of the page cache
  // as the work needs is filled and freed right before it.
  Measured(bool cached, std::uint64_t database_bytes, std::string scratch) : cached_(cached), database_bytes_(database_bytes), scratch_(std::move(scratch)) {}
  template <class Work>
  void time(const std::string& what, const std::string& folder, std::uint64_t bytes, Work&& work) {
    std::vector<char> buffer(1u << 20);
    if (cached_) plain_read(folder, buffer);
    else forget(folder);
    plain_write("", scratch_, database_bytes_ + database_bytes_ / 8, false);
    std::filesystem::remove(scratch_);
    const Usage before = usage_of_process();
    const auto from = Clock::now();
    work();
    const double took = microseconds(Clock::now() - from);
    const Usage used = usage_of_process() - before;
    samples_[what].begin_round();
    samples_[what].add(took);
    user_[what].begin_round();
    user_[what].add(used.user_us);
    system_[what].begin_round();
    system_[what].add(used.system_us);
    bytes_[what] = bytes;
  }
  Json json() const {
    Json out;
    for (const auto& [what, samples] : samples_) {
      const double seconds = samples.quantile(0.5) / 1e6;
      out[what] = {{"seconds", seconds},
                   {"fastest", samples.quantile(0) / 1e6},
                   {"slowest", samples.quantile(1) / 1e6},
                   {"user_seconds", user_.at(what).quantile(0.5) / 1e6},
                   {"system_seconds", system_.at(what).quantile(0.5) / 1e6},
                   {"megabytes_a_second", static_cast<double>(bytes_.at(what)) / 1e6 / seconds}};
    }
    for (const char* what : {"parts", "load", "load_synced", "open"}) {
      if (samples_.contains(what)) out["share_of_plain"][what] = p50("plain") / p50(what);
    }
    for (const auto& [what, limit] : {std::pair("load", "written"), std::pair("load_synced", "copied"), std::pair("open", "copied")}) {
      if (samples_.contains(what)) out["share_of_limit"][what] = std::max(p50("plain"), p50(limit)) / p50(what);
    }
    return out;
  }

 private:
  double p50(const std::string& what) const { return samples_.at(what).quantile(0.5); }

  bool cached_;
  std::uint64_t database_bytes_;
  std::string scratch_;
  std::map<std::string, Samples> samples_, user_, system_;  // processor time: of all threads, the kernel's own left out
  std::map<std::string, std::uint64_t> bytes_;
};

Json measure(Place& place, const core::SnapshotInfo& info, const Scratch& scratch, const std::string& url, std::int64_t rounds, std::int64_t helpers,
             bool cached) {
  const std::string snapshots = scratch / "home/app/@snap";
  Measured measured(cached, place.database_bytes, scratch / "awake");
  std::vector<char> buffer(1u << 20);
  const sqlite::SnapshotSource source{*place.stream, [&] { return place.home->stream(place.name); }};
  for (std::int64_t round = 0; round < rounds; ++round) {
    measured.time("plain", snapshots, info.bytes, [&] { plain_read(snapshots, buffer); });
    measured.time("parts", snapshots, info.bytes, [&] {
      for (std::uint32_t part = 0; part < info.parts; ++part) must(place.stream->snapshot_part(info, part));
    });
    for (const bool sync : {false, true}) {
      const std::string path = scratch / "loaded";
      std::filesystem::remove(path);
      sqlite::SnapshotLoad options;
      options.sync = sync;
      options.helpers = static_cast<std::uint32_t>(helpers);
      measured.time(sync ? "load_synced" : "load", snapshots, place.database_bytes, [&] {
        sqlite::PageTable table;
        must(sqlite::load_snapshot(place.runtime, place.disk, source, info, path, table, options));
      });
      std::filesystem::remove(path);
    }
    const std::string cache = scratch / "cache";
    std::filesystem::remove_all(cache);
    measured.time("open", scratch / "home", place.database_bytes, [&] { cold_open(url, cache); });
    std::filesystem::remove_all(cache);
    for (const bool copied : {false, true}) {
      measured.time(copied ? "copied" : "written", scratch / "whole", place.database_bytes,
                    [&] { plain_write(scratch / "whole/db", scratch / "loaded", place.database_bytes, copied); });
      std::filesystem::remove(scratch / "loaded");
    }
  }
  return measured.json();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const auto bytes = arguments.number("bytes", 1'000'000'000), rounds = arguments.number("rounds", 5);
  const auto helpers = arguments.number("helpers", sqlite::kSnapshotHelpers);  // of load and load_synced
  const std::string folder = std::filesystem::absolute(arguments.text("folder", ".")).lexically_normal().string();
  arguments.finish();
  const Scratch scratch(folder);
  std::filesystem::create_directory(scratch / "home");
  const std::string url = "file://" + (scratch / "home");
  const auto runtime = io::make_system_runtime();
  const auto disk = io::make_posix_disk();
  Json json{{"benchmark", "cold_open"}, {"machine", machine()}, {"load_before", load_average()}, {"rounds", rounds}};
  Place place(*runtime, *disk, url);
  const auto info = place.fill(scratch, bytes);
  json["database_bytes"] = place.database_bytes;
  json["snapshot_bytes"] = info.bytes;
  json["snapshot_parts"] = info.parts;
  json["write_snapshot_seconds"] = place.write_seconds;
  json["cached"] = measure(place, info, scratch, url, rounds, helpers, true);
  json["uncached"] = measure(place, info, scratch, url, rounds, helpers, false);
  json["load_after"] = load_average();
  std::cout << json.dump(1) << "\n";
  return 0;
}
