// Between the writer machine and the ports: draws what a step needs, carries out its requests. Shared by the opening and the running owner.
#pragma once
#include "base/runtime.h"
#include "core/writer.h"

namespace onepen::owner {

inline constexpr core::ReadLimit kReadLimit{};

core::Moment draw_moment(Runtime& runtime);

// Sends one request and returns the event that tells its answer. Blocks.
core::Event carry_out(core::Stream& stream, const core::Request& request);

// Sleeps. False when time did not pass: the (simulated) process is being stopped, and its loops must end.
bool pause_until(Runtime& runtime, Instant deadline);

}  // namespace onepen::owner
