#include "apps/onepen/scratch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace onepen::app {

ScratchFolder::ScratchFolder(const std::string& cache_root, const std::string& command) : path_(fmt::format("{}/{}-{}", cache_root, command, ::getpid())) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // a left-over scratch folder harms nobody
  std::filesystem::remove_all(path_, ignored);
}

Result<> ScratchFolder::make() const {
  std::error_code error;
  std::filesystem::remove_all(path_, error);  // of a process of the same number that was killed
  std::filesystem::create_directories(path_, error);
  if (error) return tl::unexpected(Error{Outcome::unavailable, fmt::format("Cannot make {}: {}", path_, error.message()), {}});
  return {};
}

}  // namespace onepen::app
