// Whoever wants to be told of a reset: each exactly once, also when it comes after the reset was told (I7). Thread-safe; a listener is called without a lock.
#pragma once
#include <onepen/reset.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/mutex.h"

namespace onepen::owner {

class ResetListeners {
 public:
  using Listener = std::function<void(const Reset&)>;

  // Called at once, on this thread, when the reset was told already.
  void add(Listener listener) ONEPEN_EXCLUDES(mutex_) {
    std::optional<Reset> already;
    {
      const Lock lock(mutex_);
      already = told_;
      if (!already) listeners_.push_back(listener);
    }
    if (already) listener(*already);
  }
  // The first call tells everybody, on this thread; later ones do nothing.
  void tell(const Reset& reset) ONEPEN_EXCLUDES(mutex_) {
    std::vector<Listener> listeners;
    {
      const Lock lock(mutex_);
      if (told_) return;
      told_ = reset;
      listeners.swap(listeners_);
    }
    for (const Listener& listener : listeners) listener(reset);
  }

 private:
  Mutex mutex_;
  std::optional<Reset> told_ ONEPEN_GUARDED_BY(mutex_);
  std::vector<Listener> listeners_ ONEPEN_GUARDED_BY(mutex_);
};

}  // namespace onepen::owner
