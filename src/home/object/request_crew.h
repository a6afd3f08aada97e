// A few threads that carry out requests which wait for a network, several at a time; what they answer is taken in the order in which it was asked for.
//
// Whoever asks decides how much may be asked for and not taken, and so how much memory it costs. Used by one thread at a time; the work runs on others, and uses
// nothing of the asker's. Never holds its mutex across a request.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <onepen/result.h>
#include "base/bytes.h"
#include "base/mutex.h"
#include "base/runtime.h"

namespace onepen::home {

class RequestCrew {
 public:
  using Work = std::function<Result<Bytes>()>;

  // `runtime` outlives it. A thread begins with the work that needs it, up to `threads`.
  RequestCrew(Runtime& runtime, std::string name, std::size_t threads) : runtime_(runtime), name_(std::move(name)), most_(threads) {}
  ~RequestCrew() { stop(); }
  RequestCrew(const RequestCrew&) = delete;
  RequestCrew& operator=(const RequestCrew&) = delete;

  void ask(Work work);
  std::size_t asked() const { return order_.size(); }  // and not taken
  // The oldest answer; waits for it. None: nothing was asked for, or the process is being stopped.
  std::optional<Result<Bytes>> take();
  // What has not begun never does; waits for what has. Idempotent.
  void stop();

 private:
  struct Task {
    Work work;
    std::optional<Result<Bytes>> answer{};
  };
  struct Member {
    std::unique_ptr<Signal> wake;
    std::unique_ptr<Thread> thread;
    bool idle = false;  // under the crew's mutex
  };
  void run(Member& member);
  std::shared_ptr<Task> next(Member& member, bool& ended);
  void stand_down();

  Runtime& runtime_;
  const std::string name_;
  const std::size_t most_;  // threads
  std::deque<std::shared_ptr<Task>> order_;  // the asker's
  std::unique_ptr<Signal> answered_;
  std::vector<std::unique_ptr<Member>> members_;  // the asker's

  mutable Mutex mutex_;
  std::deque<std::shared_ptr<Task>> waiting_ ONEPEN_GUARDED_BY(mutex_);
  bool ended_ ONEPEN_GUARDED_BY(mutex_) = false;
};

}  // namespace onepen::home
