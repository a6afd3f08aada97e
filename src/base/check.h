// CHECK stays on in release: a broken invariant stops the process with a message rather than going on with a wrong state.
#pragma once
namespace onepen::detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* message);
}
#define ONEPEN_CHECK(expr, message) (static_cast<bool>(expr) ? void(0) : ::onepen::detail::check_failed(#expr, __FILE__, __LINE__, message))
