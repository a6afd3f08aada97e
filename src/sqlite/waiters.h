// Many threads wait until something that others bring about is so. All waiting goes through the Runtime. Thread-safe.
#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/runtime.h"

namespace onepen::sqlite {

class Waiters {
 public:
  explicit Waiters(Runtime& runtime) : runtime_(runtime) {}

  // Waits until ready() or the deadline; true: ready. Whoever makes ready() true calls wake_all() afterwards. False also when the process is being stopped.
  template <class Ready>
  bool wait(Instant deadline, Ready ready) {
    if (ready()) return true;
    Signal* const signal = join();
    bool so = false;
    for (;;) {
      so = ready();
      const Instant before = runtime_.now();
      if (so || before >= deadline) break;
      if (!signal->wait_until(deadline) && runtime_.now() == before) break;
    }
    leave(signal);
    return so;
  }

  void wake_all() {
    const Lock lock(mutex_);
    for (Signal* const signal : waiting_) signal->notify();
  }

 private:
  Signal* join() {
    {
      const Lock lock(mutex_);
      if (!free_.empty()) {
        Signal* const signal = free_.back();
        free_.pop_back();
        waiting_.push_back(signal);
        return signal;
      }
    }
    auto made = runtime_.make_signal();
    const Lock lock(mutex_);
    waiting_.push_back(made.get());
    all_.push_back(std::move(made));
    return waiting_.back();
  }
  void leave(Signal* signal) {
    const Lock lock(mutex_);
    std::erase(waiting_, signal);
    free_.push_back(signal);  // a notify that was left in it wakes its next user for nothing, who then looks again
  }

  Runtime& runtime_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Signal>> all_ ONEPEN_GUARDED_BY(mutex_);
  std::vector<Signal*> waiting_ ONEPEN_GUARDED_BY(mutex_), free_ ONEPEN_GUARDED_BY(mutex_);
};

}  // namespace onepen::sqlite
