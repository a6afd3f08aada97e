// A mutex that clang's thread-safety analysis understands, and the only one we use. Never held across a call of Runtime, Disk, ObjectStore or Stream
// (base/runtime.h).
#pragma once
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ONEPEN_TSA(x) __attribute__((x))
#else
#define ONEPEN_TSA(x)
#endif
#define ONEPEN_GUARDED_BY(m) ONEPEN_TSA(guarded_by(m))
#define ONEPEN_REQUIRES(...) ONEPEN_TSA(requires_capability(__VA_ARGS__))
#define ONEPEN_EXCLUDES(...) ONEPEN_TSA(locks_excluded(__VA_ARGS__))

namespace onepen {

class ONEPEN_TSA(capability("mutex")) Mutex {
 public:
  void lock() ONEPEN_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() ONEPEN_TSA(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class ONEPEN_TSA(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) ONEPEN_TSA(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() ONEPEN_TSA(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// Only io/ waits on one; everybody else waits on a Signal.
class Condition {
 public:
  void notify_one() { condition_.notify_one(); }
  template <class Duration>
  void wait_for(Mutex& mutex, Duration time) ONEPEN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(held, time);
    held.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace onepen
