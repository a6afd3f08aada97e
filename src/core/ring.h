// The newest entries of something, oldest first; the oldest is dropped when a limit is reached. A value: equality and copies look at the entries only.
// Grows by doubling, so a ring that is full (or was reserve()d) never allocates again: the append path of the fence rests on that.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace onepen::core {

template <class T>
class Ring {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return slots_[index(i)]; }  // 0 is the oldest; i < size()
  T& operator[](std::size_t i) { return slots_[index(i)]; }
  const T& back() const { return (*this)[size_ - 1]; }

  // Room for `limit` entries, so that no push up to that limit allocates.
  void reserve(std::size_t limit) {
    if (limit > slots_.size()) resize(limit);
  }
  // Adds the newest. True when the oldest of `limit` entries was dropped for it.
  bool push(const T& value, std::size_t limit) {
    if (size_ == limit) {
      head_ = head_ + 1 == slots_.size() ? 0 : head_ + 1;
      slots_[index(size_ - 1)] = value;
      return true;
    }
    if (size_ == slots_.size()) {
      const std::size_t doubled = size_ == 0 ? kFirstSlots : 2 * size_;
      resize(doubled < limit ? doubled : limit);
    }
    slots_[index(size_)] = value;
    ++size_;
    return false;
  }
  void clear() {
    slots_.clear();
    slots_.shrink_to_fit();
    head_ = size_ = 0;
  }
  bool operator==(const Ring& other) const {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!((*this)[i] == other[i])) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kFirstSlots = 8;
  std::size_t index(std::size_t i) const {
    const std::size_t at = head_ + i;
    return at < slots_.size() ? at : at - slots_.size();
  }
  void resize(std::size_t slots) {
    std::vector<T> grown(slots);
    for (std::size_t i = 0; i < size_; ++i) grown[i] = (*this)[i];
    slots_ = std::move(grown);
    head_ = 0;
  }

  std::vector<T> slots_;
  std::size_t head_ = 0, size_ = 0;
};

}  // namespace onepen::core
