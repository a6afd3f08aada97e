// A store in which a process of a script stands still: before or after a named request, until the script lets it go on or kills it. And the hand-over
// between the script and the one process that runs at a time, so that what real calls do between two requests is written down as lines of a text file.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "home/object/object_store.h"

namespace onepen::testing {

// "app/@log/00000000000000000005" → "@log/5"; the random half of a snapshot's name → '*'.
std::string short_key(const std::string& key);

// One process of a script: its calls run on a thread of their own, of which the script waits until it ends or parks. So one thread runs at a time.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { kill(); }

  // Runs `call`; what it answered, or "parked …". One call at a time.
  std::string start(std::function<std::string()> call);
  std::string go();  // lets a parked call go on
  void kill();       // every further request of a parked call fails, and it comes to its end
  bool parked() const { return parked_; }
  bool dead() const { return dead_; }
  void revive() { dead_ = false; }

  // From a request of the running call: stands still when the script asked for it.
  void at(const std::string& point);
  void park_at(std::string point) { points_.push_back(std::move(point)); }

 private:
  std::string wait_for_it();

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<std::string> points_;
  std::string answer_, where_;
  bool parked_ = false, ended_ = true, dead_ = false;
};

class ParkingStore final : public home::ObjectStore {
 public:
  ParkingStore(std::unique_ptr<home::ObjectStore> place, std::shared_ptr<Worker> worker, std::function<bool(const std::string&)> looks)
      : place_(std::move(place)), worker_(std::move(worker)), looks_(std::move(looks)) {}

  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::optional<bool> has(const std::string& key) override { return looks_ ? looks_(key) : place_->has(key); }  // as a directory, or as a bucket
  std::string describe() const override { return place_->describe(); }

 private:
  template <class F>
  auto asked(const char* what, const std::string& key, F&& request) -> decltype(request());

  std::unique_ptr<home::ObjectStore> place_;
  std::shared_ptr<Worker> worker_;
  std::function<bool(const std::string&)> looks_;
};

}  // namespace onepen::testing
