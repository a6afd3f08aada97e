#include "tests/home/parking_store.h"

#include <algorithm>

namespace onepen::testing {

std::string short_key(const std::string& key) {
  std::string text = key.starts_with("app/") ? key.substr(4) : key, out;
  for (std::size_t i = 0; i < text.size();) {
    const auto digits = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), [](char c) { return c >= '0' && c <= '9'; }) - text.begin();
    const auto end = static_cast<std::size_t>(digits);
    if (end - i != 20) {
      out += text[i++];
      continue;
    }
    const auto number = text.substr(i, 20);
    out += number.substr(std::min<std::size_t>(number.find_first_not_of('0'), 19));
    i = end;
    if (text.starts_with("@snap/") && i < text.size() && text[i] == '-') {
      out += "-*";
      i = std::min(text.find('/', i), text.size());
    }
  }
  return out;
}

std::string Worker::start(std::function<std::string()> call) {
  if (parked_) return "stands still " + where_ + ": go, or kill";
  if (dead_) return "is dead";
  if (thread_.joinable()) thread_.join();
  ended_ = false;
  thread_ = std::thread([this, run = std::move(call)] {
    auto answer = run();
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    ended_ = true;
    turn_.notify_all();
  });
  return wait_for_it();
}

std::string Worker::wait_for_it() {
  std::unique_lock lock(mutex_);
  turn_.wait(lock, [&] { return parked_ || ended_; });
  return parked_ ? "parked " + where_ : answer_;
}

std::string Worker::go() {
  {
    const std::lock_guard lock(mutex_);
    if (!parked_) return "does not stand still";
    parked_ = false;
    turn_.notify_all();
  }
  return wait_for_it();
}

void Worker::kill() {
  {
    const std::lock_guard lock(mutex_);
    dead_ = true;
    parked_ = false;
    points_.clear();
    turn_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::at(const std::string& point) {
  std::unique_lock lock(mutex_);
  auto asked = std::find_if(points_.begin(), points_.end(), [&](const std::string& p) { return point == p || point.starts_with(p + " "); });
  if (asked == points_.end()) return;
  points_.erase(asked);
  where_ = point;
  parked_ = true;
  turn_.notify_all();
  turn_.wait(lock, [&] { return !parked_; });
}

template <class F>
auto ParkingStore::asked(const char* what, const std::string& key, F&& request) -> decltype(request()) {
  const auto dead = tl::unexpected(Error{Outcome::unavailable, "the process is dead", {}});
  const auto name = what + (" " + short_key(key));
  worker_->at("before " + name);
  if (worker_->dead()) return dead;
  auto answer = request();
  worker_->at("after " + name);
  if (worker_->dead()) return dead;
  return answer;
}

Result<Bytes> ParkingStore::get(const std::string& key) {
  return asked("get", key, [&] { return place_->get(key); });
}
Result<Bytes> ParkingStore::get_range(const std::string& key, std::uint64_t from, std::uint64_t size) {
  return asked("get", key, [&] { return place_->get_range(key, from, size); });
}
Result<home::PutOutcome> ParkingStore::put_if_absent(const std::string& key, ByteView bytes) {
  return asked("create", key, [&] { return place_->put_if_absent(key, bytes); });
}
Result<> ParkingStore::put(const std::string& key, ByteView bytes) {
  return asked("put", key, [&] { return place_->put(key, bytes); });
}
Result<std::vector<std::string>> ParkingStore::list(const std::string& folder, const std::string& after, std::size_t limit) {
  return asked("list", folder, [&] { return place_->list(folder, after, limit); });
}
Result<> ParkingStore::erase(const std::string& key) {
  return asked("erase", key, [&] { return place_->erase(key); });
}

}  // namespace onepen::testing
