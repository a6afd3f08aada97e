// Another process of a benchmark: this very program with other arguments. It prints one JSON object a line and ends when its input does.
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "measure.h"

namespace onepen::bench {

class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments);  // "--name", "value", ...
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { (void)end(); }
  Json line();  // the next one; ends the benchmark when the process ended instead
  void say(const std::string& line);
  void kill();  // -9
  bool end();   // closes its input and waits; true: exit code 0

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  pid_t pid_ = 0;
  std::unique_ptr<std::FILE, CloseFile> to_, from_;
};

// Of CLOCK_MONOTONIC, which all processes of a machine share.
inline std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); }

}  // namespace onepen::bench
