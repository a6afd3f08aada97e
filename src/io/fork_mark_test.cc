#include "io/fork_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace onepen::io {
namespace {

TEST(ForkMark, AChildKnowsThatItIsOneAndTheParentThatItIsNot) {
  const ForkMark mark;
  EXPECT_FALSE(mark.forked());
  const pid_t child = ::fork();
  if (child == 0) {
    const ForkMark own;  // the child's own
    ::_exit(mark.forked() && !own.forked() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(mark.forked());
}

}  // namespace
}  // namespace onepen::io
