#include "io/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

namespace onepen::io {
namespace {
std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
}  // namespace

ForkMark::ForkMark() : made_by_(::getpid()) {
  void* const page = ::mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
    ::munmap(page, page_bytes());
    return;
  }
  *static_cast<unsigned char*>(page) = 1;
  page_ = static_cast<unsigned char*>(page);
}

ForkMark::~ForkMark() {
  if (page_ != nullptr) ::munmap(const_cast<unsigned char*>(page_), page_bytes());
}

bool ForkMark::other_process() const { return ::getpid() != made_by_; }

}  // namespace onepen::io
