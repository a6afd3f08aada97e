// Paths, as text.
#pragma once
#include <string>

namespace onepen::io {

// The folder a file lies in: "." for a bare name, "/" for what lies in the root.
inline std::string folder_of(const std::string& path) {
  const std::size_t at = path.rfind('/');
  if (at == std::string::npos) return ".";
  return at == 0 ? "/" : path.substr(0, at);
}

}  // namespace onepen::io
