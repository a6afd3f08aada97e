// A test program that is its own child, so that the child reads its failpoints anew and may be killed at one.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace onepen::sqlite::testing {

// Runs this program as a child, and waits for it: the signal that killed it, else 100 + its exit code.
inline int run_child(const std::string& what, const std::string& root, const std::string& failpoint) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ONEPEN_FAILPOINT", failpoint.c_str(), 1);
    const char* const args[] = {"child", "--child", what.c_str(), root.c_str(), nullptr};
    ::execv("/proc/self/exe", const_cast<char* const*>(args));
    _exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 100 + WEXITSTATUS(status);
}

// main() of such a program. child: what it does as one; its exit code.
inline int run_tests_or_child(int argc, char** argv, int (*child)(const std::string& what, const std::string& root)) {
  ::testing::InitGoogleTest(&argc, argv);
  return argc == 4 && std::string_view(argv[1]) == "--child" ? child(argv[2], argv[3]) : RUN_ALL_TESTS();
}

}  // namespace onepen::sqlite::testing
