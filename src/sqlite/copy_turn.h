// Lets those that write a copy's files go one after another, also while a write is under way: a mutex must not be held across a call of the Disk
// (base/mutex.h). First come, first served. Thread-safe.
#pragma once
#include <algorithm>
#include <deque>
#include <memory>

#include "base/mutex.h"
#include "base/runtime.h"

namespace onepen::sqlite {

class CopyTurn {
 public:
  explicit CopyTurn(Runtime& runtime) : runtime_(runtime) {}

  // Held by its maker until it goes out of scope. False: the process is being stopped, and it is not ours.
  class Held {
   public:
    explicit Held(CopyTurn& turn) : turn_(turn), ours_(turn.take()) {}
    ~Held() {
      if (ours_) turn_.pass_on();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    explicit operator bool() const { return ours_; }

   private:
    CopyTurn& turn_;
    bool ours_;
  };

 private:
  bool take() {
    {
      Lock lock(mutex_);
      if (!busy_) return busy_ = true;
    }
    const std::shared_ptr<Signal> signal = runtime_.make_signal();
    {
      Lock lock(mutex_);
      if (!busy_) return busy_ = true;
      waiting_.push_back(signal);
    }
    while (!signal->wait_until(Instant::max())) {
      Lock lock(mutex_);
      const auto at = std::find(waiting_.begin(), waiting_.end(), signal);
      if (at == waiting_.end()) break;  // it became ours in this moment
      waiting_.erase(at);
      return false;
    }
    return true;
  }
  void pass_on() {
    std::shared_ptr<Signal> next;
    {
      Lock lock(mutex_);
      if (waiting_.empty()) {
        busy_ = false;
        return;
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    next->notify();
  }

  Runtime& runtime_;
  Mutex mutex_;
  bool busy_ ONEPEN_GUARDED_BY(mutex_) = false;
  std::deque<std::shared_ptr<Signal>> waiting_ ONEPEN_GUARDED_BY(mutex_);
};

}  // namespace onepen::sqlite
