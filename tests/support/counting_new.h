// Link counting_new.cc into a test to count what it allocates: every operator new of that binary goes through it. For single-threaded tests.
#pragma once
#include <cstddef>
namespace onepen::testing {
std::size_t allocations();  // of this process so far
}
