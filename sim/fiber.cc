#include "sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

#if defined(ONEPEN_SIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace onepen::sim {
namespace {
// AddressSanitizer must be told of every change of stack, before and after.
void leave(void** fake, const void* bottom, std::size_t size) {
#if defined(ONEPEN_SIM_ASAN)
  __sanitizer_start_switch_fiber(fake, bottom, size);
#else
  static_cast<void>(fake), static_cast<void>(bottom), static_cast<void>(size);
#endif
}
void arrive(void* fake, const void** bottom, std::size_t* size) {
#if defined(ONEPEN_SIM_ASAN)
  __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
  static_cast<void>(fake), static_cast<void>(bottom), static_cast<void>(size);
#endif
}
// The last frames of a finished fiber are left without returning: what they poisoned must not meet the next fiber on this stack.
void forget([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t bytes) {
#if defined(ONEPEN_SIM_ASAN)
  __asan_unpoison_memory_region(stack, bytes);
#endif
}
std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
}  // namespace

StackPool::~StackPool() {
  for (void* stack : free_) ::munmap(static_cast<char*>(stack) - page_bytes(), kBytes + page_bytes());
}

void* StackPool::take() {
  if (!free_.empty()) {
    void* stack = free_.back();
    free_.pop_back();
    forget(stack, kBytes);
    return stack;
  }
  const std::size_t guard = page_bytes();
  void* base = ::mmap(nullptr, kBytes + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ONEPEN_CHECK(base != MAP_FAILED, "cannot map a fiber's stack");
  ONEPEN_CHECK(::mprotect(base, guard, PROT_NONE) == 0, "cannot protect the page below a fiber's stack");
  return static_cast<char*>(base) + guard;
}

Fiber::Fiber(StackPool& pool, std::function<void()> body) : pool_(pool), stack_(pool.take()), body_(std::move(body)) {
  ONEPEN_CHECK(::getcontext(&inside_) == 0, "getcontext failed");
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = StackPool::kBytes;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::entry), 2, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self & 0xffffffffu));
}

Fiber::~Fiber() {
  ONEPEN_CHECK(done_ || !started_, "a fiber was destroyed in the middle of its body");
  pool_.give(stack_);
}

void Fiber::entry(unsigned high, unsigned low) { reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low)->run(); }

void Fiber::run() {
  arrive(nullptr, &outside_bottom_, &outside_size_);
  body_();
  body_ = nullptr;
  done_ = true;
  leave(nullptr, outside_bottom_, outside_size_);  // nullptr: this stack is finished
  ::swapcontext(&inside_, &outside_);
  ONEPEN_CHECK(false, "a finished fiber was resumed");
}

void Fiber::resume() {
  ONEPEN_CHECK(!done_, "a finished fiber was resumed");
  started_ = true;
  void* fake = nullptr;
  leave(&fake, stack_, StackPool::kBytes);
  ::swapcontext(&outside_, &inside_);
  arrive(fake, nullptr, nullptr);
}

void Fiber::suspend() {
  leave(&fake_inside_, outside_bottom_, outside_size_);
  ::swapcontext(&inside_, &outside_);
  arrive(fake_inside_, &outside_bottom_, &outside_size_);
}

}  // namespace onepen::sim
