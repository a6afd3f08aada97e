// Tells a child of fork() that it is one, for the price of a load: every step of a COMMIT asks, and a getpid() is a system call.
#pragma once
#include <sys/types.h>

namespace onepen::io {

// Belongs to the process that made it. Thread-safe, and safe in a child whose parent was in the middle of anything (no lock, no call).
class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  // The kernel gives every copy of this memory zeros (MADV_WIPEONFORK, Linux 4.14); where it can't, the process id tells.
  bool forked() const { return page_ != nullptr ? *page_ == 0 : other_process(); }

 private:
  bool other_process() const;

  volatile const unsigned char* page_ = nullptr;
  pid_t made_by_;
};

}  // namespace onepen::io
