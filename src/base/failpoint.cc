#include "base/failpoint.h"

#ifdef ONEPEN_TEST_HOOKS
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace onepen {
namespace {
struct Armed {
  std::string name, action;
  long left = 1;
};

struct State {
  std::mutex mutex;
  std::vector<Armed> armed;
  std::set<std::string> seen;
  std::string list_file;

  State() {
    if (const char* file = std::getenv("ONEPEN_FAILPOINT_LIST")) list_file = file;
    const char* text = std::getenv("ONEPEN_FAILPOINT");
    std::string_view rest = text == nullptr ? "" : text;
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      std::string_view one = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
      const auto equals = one.find('=');
      if (equals == std::string_view::npos) continue;
      Armed point{std::string(one.substr(0, equals)), std::string(one.substr(equals + 1)), 1};
      if (const auto at = point.action.find('@'); at != std::string::npos) {
        point.left = std::atol(point.action.c_str() + at + 1);
        point.action.resize(at);
      }
      armed.push_back(std::move(point));
    }
  }
};

State& state() {
  static State s;  // test build only: the environment is read once
  return s;
}
}  // namespace

bool failpoint_hit(const char* name) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.list_file.empty() && s.seen.insert(name).second) {
    const int fd = ::open(s.list_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const std::string line = std::string(name) + "\n";
    if (fd >= 0) {
      [[maybe_unused]] const auto n = ::write(fd, line.data(), line.size());
      ::close(fd);
    }
  }
  for (Armed& point : s.armed) {
    if (point.name != name || point.left <= 0 || --point.left > 0) continue;
    if (point.action == "kill") ::kill(::getpid(), SIGKILL);
    // This thread itself: a signal to the process may be taken by another one, later, and this one would run on meanwhile.
    if (point.action == "stop") ::raise(SIGSTOP);
    if (point.action == "error") return true;
  }
  return false;
}
}  // namespace onepen
#endif
