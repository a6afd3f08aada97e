// A child process that we talk to by lines: used by the demo and drills. Not thread-safe; owns the process: the destructor kills and reaps it.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/disk.h"

namespace onepen::io {

class ChildProcess {
 public:
  // argv[0] is the path of the program; `environment` is added to ours (name, value). Its standard error stays ours.
  static DiskResult<ChildProcess> start(const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& environment);
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  bool send_line(const std::string& line);                                   // false: it no longer reads
  std::optional<std::string> read_line(std::chrono::milliseconds limit);     // none: time is up or it closed its output
  void signal(int number);                                                   // SIGSTOP, SIGCONT, SIGKILL, ...
  int wait();                                                                // its exit status as of waitpid; idempotent

 private:
  ChildProcess() = default;
  void release();
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::optional<int> status_{};
  std::string buffered_{};
};

}  // namespace onepen::io
