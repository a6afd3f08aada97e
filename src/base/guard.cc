#include "base/guard.h"

#ifdef ONEPEN_TEST_HOOKS
#include <array>
#include <cstring>

namespace onepen {
namespace {
constexpr std::array kNames = {
#define ONEPEN_GUARD(name) #name,
    ONEPEN_GUARDS(ONEPEN_GUARD)
#undef ONEPEN_GUARD
};
std::array<bool, kNames.size()> off{};  // all on
}  // namespace

bool guard_on(Guard guard) { return !off.at(static_cast<std::size_t>(guard)); }
void set_guard(Guard guard, bool on) { off.at(static_cast<std::size_t>(guard)) = !on; }
const char* guard_name(Guard guard) { return kNames.at(static_cast<std::size_t>(guard)); }
bool guard_from_name(const char* name, Guard& guard) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (std::strcmp(kNames.at(i), name) == 0) {
      guard = static_cast<Guard>(i);
      return true;
    }
  }
  return false;
}
}  // namespace onepen
#endif
