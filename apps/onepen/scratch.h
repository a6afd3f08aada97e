// A folder for one command's work under the cache root, removed with what is in it, also by Ctrl-C.
#pragma once
#include <onepen/result.h>

#include <string>

#include "apps/onepen/tidy.h"

namespace onepen::app {

class ScratchFolder {
 public:
  ScratchFolder(const std::string& cache_root, const std::string& command);  // makes nothing yet
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  Result<> make() const;  // errors: unavailable
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  const std::string path_;
  const RemovedWhenStopped tidy_{{path_}};
};

}  // namespace onepen::app
