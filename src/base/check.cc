#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace onepen::detail {
void check_failed(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "onepen: invariant broken at %s:%d: %s (%s). The process stops rather than go on with a wrong state.\n", file, line, message,
               expression);
  std::abort();
}
}  // namespace onepen::detail
