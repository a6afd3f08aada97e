// What must not stay behind when somebody presses Ctrl-C.
#pragma once
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace onepen::app {

// While it lives, SIGINT, SIGTERM and SIGHUP remove these files and folders before they end the process as they always do. One at a time, made by the main
// thread before others are; those inherit that the signals are held back. A signal that is ignored (nohup) stays ignored.
class RemovedWhenStopped {
 public:
  explicit RemovedWhenStopped(std::vector<std::string> paths);
  ~RemovedWhenStopped();
  RemovedWhenStopped(const RemovedWhenStopped&) = delete;
  RemovedWhenStopped& operator=(const RemovedWhenStopped&) = delete;

 private:
  void watch();

  const std::vector<std::string> paths_;
  sigset_t held_{}, before_{};
  std::atomic<bool> over_{false};
  std::thread watcher_{};
};

}  // namespace onepen::app
