#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace onepen::bench {

Child::Child(const std::vector<std::string>& arguments) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) give_up("no pipes");  // else the next process would hold this one's open
  std::vector<char*> argv{const_cast<char*>("child")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execv("/proc/self/exe", argv.data());
    std::_Exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_.reset(::fdopen(in[1], "w"));
  from_.reset(::fdopen(out[0], "r"));
}

Json Child::line() {
  char* text = nullptr;
  std::size_t room = 0;
  if (::getline(&text, &room, from_.get()) < 0) give_up("a process of the benchmark ended early");
  Json json = Json::parse(text);
  std::free(text);
  return json;
}

void Child::say(const std::string& line) {
  std::fputs((line + "\n").c_str(), to_.get());
  std::fflush(to_.get());
}

void Child::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

bool Child::end() {
  if (pid_ <= 0) return true;
  to_.reset();  // it reads the end of its input and ends
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return status == 0;
}

}  // namespace onepen::bench
