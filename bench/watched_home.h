// A directory home that notes what is asked of it: every call of a stream with its time, and the requests to the place that it took. For benchmarks.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/home.h"
#include "home/object/object_store.h"
#include "io/disk.h"
#include "measure.h"

namespace onepen::bench {

struct Call {
  std::string what;  // "stat", "claim", "append", "read"; "prove": that the place can fence, inside the first claim
  Clock::time_point from, to;
  std::uint64_t requests = 0;
};

// Thread-safe. Outlives the homes made of it.
class Notes {
 public:
  void request() {
    const std::lock_guard lock(mutex_);
    ++requests_;
  }
  std::uint64_t requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void add(Call call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  std::vector<Call> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t requests_ = 0;
  std::vector<Call> calls_;
};

// The object home over the directory store, as open_home() makes it, with notes in between.
std::unique_ptr<core::Home> watched_home(Runtime& runtime, io::Disk& disk, const std::string& url, Notes& notes);

// A disk that leaves out every sync: for making a long log quickly. Call ::sync() at the end.
std::unique_ptr<io::Disk> disk_without_syncs(io::Disk& disk);

}  // namespace onepen::bench
