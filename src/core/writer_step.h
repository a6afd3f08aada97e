// Shared by the files of the writer only.
#pragma once
#include "core/writer.h"

namespace onepen::core {

struct Writer::Step {
  const Moment& at;
  Effects out;
};

// 20 ms after the first failure, doubling to 1 s.
std::chrono::nanoseconds backoff(unsigned failures);

inline Error error_of(const Refusal& refusal) { return Error{refusal.outcome, refusal.message, refusal.current}; }
Error error_of(const Finished& finished);

}  // namespace onepen::core
