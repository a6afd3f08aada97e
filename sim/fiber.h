// A fiber: a function with its own guarded stack, run in turns on the one thread of the simulator. Not thread-safe; no exception may leave the body.
//
//   Fiber(body) ──resume()──▶ running ──suspend()──▶ back in resume() ──resume()──▶ running … ──body returns──▶ done()
//
// A fiber that was started must reach done() before it is destroyed: its locals are never unwound by force.
#pragma once
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

// g++ says it by a macro, clang 19 by a feature.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONEPEN_SIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ONEPEN_SIM_ASAN 1
#endif

namespace onepen::sim {

// Stacks with an inaccessible page below, reused from run to run (mapping them is what costs).
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  void* take();  // the lowest usable byte; kBytes of it
  void give(void* stack) { free_.push_back(stack); }

#if defined(ONEPEN_SIM_ASAN)
  static constexpr std::size_t kBytes = 2u << 20;
#else
  static constexpr std::size_t kBytes = 512u << 10;
#endif

 private:
  std::vector<void*> free_;
};

class Fiber {
 public:
  Fiber(StackPool& pool, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();   // from outside: runs the body until it suspends or returns
  void suspend();  // from inside: back to resume()
  bool done() const { return done_; }

 private:
  static void entry(unsigned high, unsigned low);
  void run();

  StackPool& pool_;
  void* stack_;
  std::function<void()> body_;
  ucontext_t inside_{}, outside_{};
  bool started_ = false, done_ = false;
  // AddressSanitizer's view of the two stacks.
  void* fake_inside_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
};

}  // namespace onepen::sim
