#include "tests/support/fault_store.h"

#include <algorithm>
#include <set>

namespace onepen::testing {

using home::PutOutcome;

Result<Bytes> Bucket::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = objects_.find(key);
  if (at == objects_.end()) return tl::unexpected(Error{Outcome::not_found, "there is no " + key, {}});
  return at->second;
}
Result<Bytes> Bucket::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  auto bytes = get(key);
  if (!bytes) return bytes;
  const auto begin = std::min<std::uint64_t>(from, bytes->size());
  const auto end = begin + std::min<std::uint64_t>(size, bytes->size() - begin);
  return Bytes(bytes->begin() + static_cast<std::ptrdiff_t>(begin), bytes->begin() + static_cast<std::ptrdiff_t>(end));
}
Result<PutOutcome> Bucket::put_if_absent(const std::string& key, ByteView bytes) {
  const std::lock_guard lock(mutex_);
  return objects_.try_emplace(key, to_bytes(bytes)).second ? PutOutcome::created : PutOutcome::exists;
}
Result<> Bucket::put(const std::string& key, ByteView bytes) {
  const std::lock_guard lock(mutex_);
  objects_[key] = to_bytes(bytes);
  return {};
}
Result<> Bucket::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  objects_.erase(key);
  return {};
}
Result<std::vector<std::string>> Bucket::list(const std::string& folder, const std::string& after, std::size_t limit) {
  const std::lock_guard lock(mutex_);
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::set<std::string> found;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix); ++at) {
    auto name = at->first.substr(prefix.size());
    name = name.substr(0, name.find('/'));
    if (name > after) found.insert(name);
  }
  std::vector<std::string> out(found.begin(), found.end());
  if (out.size() > limit) out.resize(limit);
  return out;
}
std::vector<std::string> Bucket::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [key, bytes] : objects_) out.push_back(key);
  return out;
}

// A copy of the hook: it may replace itself while it runs.
void FaultStore::run(std::function<void(const std::string&)> hook, const std::string& key) {
  if (!hook) return;
  {
    const std::lock_guard lock(mutex_);
    if (in_hook_) return;
    in_hook_ = true;
  }
  hook(key);
  const std::lock_guard lock(mutex_);
  in_hook_ = false;
}

bool FaultStore::get_fails() {
  const std::lock_guard lock(mutex_);
  ++count().gets;
  if (failing_gets_ == 0) return false;
  --failing_gets_;
  return true;
}

Result<Bytes> FaultStore::get(const std::string& key) {
  if (get_fails()) return tl::unexpected(Error{Outcome::unavailable, "the test lets this get fail", {}});
  auto bytes = place_->get(key);
  run(after_get, key);
  return bytes;
}

Result<Bytes> FaultStore::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  if (get_fails()) return tl::unexpected(Error{Outcome::unavailable, "the test lets this get fail", {}});
  auto bytes = place_->get_range(key, from, size);
  run(after_get, key);
  return bytes;
}

Result<PutOutcome> FaultStore::put_if_absent(const std::string& key, ByteView bytes) {
  run(before_create, key);
  auto fault = PutFault::none;
  {
    const std::lock_guard lock(mutex_);
    ++count().creates;
    if (!faults_.empty()) {
      fault = faults_.front();
      faults_.pop_front();
    }
    if (fault == PutFault::late) late_.emplace_back(key, to_bytes(bytes));
  }
  switch (fault) {
    case PutFault::none: return place_->put_if_absent(key, bytes);
    case PutFault::lost_answer: (void)place_->put_if_absent(key, bytes); return PutOutcome::unknown;
    case PutFault::lost_request:
    case PutFault::late: return PutOutcome::unknown;
    case PutFault::sent_twice: (void)place_->put_if_absent(key, bytes); return PutOutcome::exists;
    case PutFault::refused: break;
  }
  return tl::unexpected(Error{Outcome::unavailable, "the test refuses this create", {}});
}

Result<> FaultStore::put(const std::string& key, ByteView bytes) {
  {
    const std::lock_guard lock(mutex_);
    ++count().puts;
  }
  return place_->put(key, bytes);
}

Result<std::vector<std::string>> FaultStore::list(const std::string& folder, const std::string& after, std::size_t limit) {
  run(before_list, folder);
  {
    const std::lock_guard lock(mutex_);
    ++count().lists;
  }
  return place_->list(folder, after, limit);
}

Result<> FaultStore::erase(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    ++count().erases;
  }
  return place_->erase(key);
}

void FaultStore::next_creates(std::deque<PutFault> faults) {
  const std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
}
void FaultStore::fail_gets(std::uint64_t how_many) {
  const std::lock_guard lock(mutex_);
  failing_gets_ = how_many;
}
std::size_t FaultStore::deliver_late() {
  std::vector<std::pair<std::string, Bytes>> late;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
  }
  std::size_t landed = 0;
  for (const auto& [key, bytes] : late) {
    auto put = place_->put_if_absent(key, bytes);
    landed += put && *put == PutOutcome::created ? 1u : 0u;
  }
  return landed;
}
Requests FaultStore::requests() const {
  const std::lock_guard lock(mutex_);
  Requests all;
  for (const auto& [thread, requests] : requests_) {
    all.gets += requests.gets;
    all.lists += requests.lists;
    all.creates += requests.creates;
    all.puts += requests.puts;
    all.erases += requests.erases;
  }
  return all;
}
Requests FaultStore::requests_here() const {
  const std::lock_guard lock(mutex_);
  const auto at = requests_.find(std::this_thread::get_id());
  return at == requests_.end() ? Requests{} : at->second;
}
void FaultStore::forget_requests() {
  const std::lock_guard lock(mutex_);
  requests_.clear();
}

}  // namespace onepen::testing
