#include "io/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace onepen::io {
namespace {
constexpr std::size_t kMaxLine = 1u << 20;  // a child that never ends its line is not talked to any more

DiskError failed(const std::string& what, int code) { return DiskError{code, what + ": " + std::strerror(code)}; }

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const std::string name = entry.substr(0, entry.find('='));
    bool replaced = false;
    for (const auto& [key, value] : added) replaced = replaced || key == name;
    if (!replaced) all.push_back(entry);
  }
  for (const auto& [key, value] : added) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}
}  // namespace

DiskResult<ChildProcess> ChildProcess::start(const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& environment) {
  int to_child[2], from_child[2];
  if (::pipe2(to_child, O_CLOEXEC) != 0) return tl::unexpected(failed("cannot make a pipe", errno));
  if (::pipe2(from_child, O_CLOEXEC) != 0) {
    const int code = errno;
    ::close(to_child[0]);
    ::close(to_child[1]);
    return tl::unexpected(failed("cannot make a pipe", code));
  }
  ::signal(SIGPIPE, SIG_IGN);  // a child that went away is an answer of send_line, not our death
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::vector<std::string> args = argv, env = merged_environment(environment);
  std::vector<char*> arg_pointers = pointers(args), env_pointers = pointers(env);
  ChildProcess child;
  const int code = ::posix_spawn(&child.pid_, argv.at(0).c_str(), &actions, nullptr, arg_pointers.data(), env_pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(to_child[0]);
  ::close(from_child[1]);
  child.in_ = to_child[1];
  child.out_ = from_child[0];
  if (code != 0) {
    child.pid_ = -1;
    return tl::unexpected(failed("cannot start " + argv.at(0), code));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  release();
  pid_ = std::exchange(other.pid_, -1);
  in_ = std::exchange(other.in_, -1);
  out_ = std::exchange(other.out_, -1);
  status_ = std::exchange(other.status_, std::nullopt);
  buffered_ = std::move(other.buffered_);
  return *this;
}
ChildProcess::~ChildProcess() { release(); }

void ChildProcess::release() {
  if (in_ >= 0) ::close(in_);
  if (pid_ > 0 && !status_) {
    signal(SIGKILL);
    wait();
  }
  if (out_ >= 0) ::close(out_);
  in_ = out_ = -1;
}

bool ChildProcess::send_line(const std::string& line) {
  const std::string whole = line + "\n";
  std::size_t done = 0;
  while (done < whole.size()) {
    const ssize_t n = ::write(in_, whole.data() + done, whole.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::string> ChildProcess::read_line(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (const auto newline = buffered_.find('\n'); newline != std::string::npos) {
      std::string line = buffered_.substr(0, newline);
      buffered_.erase(0, newline + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0 || buffered_.size() > kMaxLine) return std::nullopt;
    pollfd poller{out_, POLLIN, 0};
    const int ready = ::poll(&poller, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    char chunk[4096];
    const ssize_t n = ::read(out_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    buffered_.append(chunk, static_cast<std::size_t>(n));
  }
}

void ChildProcess::signal(int number) {
  if (pid_ > 0 && !status_) ::kill(pid_, number);
}

int ChildProcess::wait() {
  if (status_ || pid_ <= 0) return status_.value_or(-1);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) {
      status = -1;
      break;
    }
  }
  status_ = status;
  return status;
}

}  // namespace onepen::io
