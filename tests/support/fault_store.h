// An object store whose every request a test can lose, repeat, hold back or refuse, around any other. Several FaultStores (processes) share one place: a
// Bucket in memory, or a directory. Thread-safe. Counts what was asked, so that tests can say that reading writes nothing and how many requests a takeover costs.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "home/object/object_store.h"

namespace onepen::testing {

// A place in memory.
class Bucket final : public home::ObjectStore {
 public:
  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::string describe() const override { return "bucket of a test"; }
  std::vector<std::string> keys() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Bytes> objects_;
};

enum class PutFault {
  none,
  lost_answer,  // lands, answered `unknown`
  lost_request,  // does not land, answered `unknown`
  late,  // answered `unknown` now, lands when deliver_late() is called
  sent_twice,  // lands, answered `exists`: a transport that tries again itself
  refused,  // does not land, answered with an Error
};

struct Requests {
  std::uint64_t gets = 0, lists = 0, creates = 0, puts = 0, erases = 0;
  std::uint64_t writes() const { return creates + puts + erases; }
  std::uint64_t all() const { return gets + lists + writes(); }
};

class FaultStore final : public home::ObjectStore {
 public:
  explicit FaultStore(std::shared_ptr<home::ObjectStore> place) : place_(std::move(place)) {}

  Result<Bytes> get(const std::string& key) override;
  Result<Bytes> get_range(const std::string& key, std::uint64_t from, std::uint64_t size) override;
  Result<home::PutOutcome> put_if_absent(const std::string& key, ByteView bytes) override;
  Result<> put(const std::string& key, ByteView bytes) override;
  Result<std::vector<std::string>> list(const std::string& folder, const std::string& after, std::size_t limit) override;
  Result<> erase(const std::string& key) override;
  std::optional<bool> has(const std::string& key) override { return place_->has(key); }
  std::size_t at_once() const override { return place_->at_once(); }
  std::string describe() const override { return place_->describe(); }

  void next_creates(std::deque<PutFault> faults);  // of the coming creates, in order
  void fail_gets(std::uint64_t how_many);  // the coming gets are `unavailable`
  // Called before a create, after a get, before a list: what somebody else does at that moment. Not called while it runs.
  std::function<void(const std::string& key)> before_create, after_get, before_list;
  std::size_t deliver_late();  // how many landed
  Requests requests() const;  // of every thread
  Requests requests_here() const;  // of the calling thread alone: an owner's thread looks at the home whenever it likes
  void forget_requests();

 private:
  bool get_fails();
  Requests& count() { return requests_[std::this_thread::get_id()]; }  // under the mutex
  void run(std::function<void(const std::string&)> hook, const std::string& key);

  std::shared_ptr<home::ObjectStore> place_;
  mutable std::mutex mutex_;
  std::deque<PutFault> faults_;
  std::uint64_t failing_gets_ = 0;
  std::vector<std::pair<std::string, Bytes>> late_;
  std::map<std::thread::id, Requests> requests_;
  bool in_hook_ = false;
};

}  // namespace onepen::testing
