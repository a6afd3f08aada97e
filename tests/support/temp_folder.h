// A folder of one test's own, removed at its end. Without symbolic links in its path.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace onepen::testing {

class TempFolder {
 public:
  TempFolder() {
    auto pattern = (std::filesystem::canonical(std::filesystem::temp_directory_path()) / "onepen-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace onepen::testing
