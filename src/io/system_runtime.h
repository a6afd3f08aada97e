// The product's Runtime: std::thread, CLOCK_BOOTTIME, getrandom(2), condition variables. The only place that starts threads.
//
// Threads it spawns are named (at most 15 bytes are shown by the kernel) and have every signal blocked: signals belong to the host program's threads.
// A wait that spans a suspend of the machine ends at most kWaitSlice late (condition variables count no suspend, the clock does).
// Thread-safe. Threads, Signals and users of a Runtime end before it does.
#pragma once
#include <memory>

#include "base/runtime.h"

namespace onepen::io {

inline constexpr std::chrono::seconds kWaitSlice{5};

std::unique_ptr<Runtime> make_system_runtime();

}  // namespace onepen::io
