#include "base/guard.h"

#ifdef ONEPEN_TEST_HOOKS
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace onepen {
namespace {
constexpr std::array kNames = {
#define ONEPEN_GUARD(name) #name,
    ONEPEN_GUARDS(ONEPEN_GUARD)
#undef ONEPEN_GUARD
};
// ONEPEN_GUARDS_OFF=b4_current_only,wal_held runs any test binary without a rule: scripts/mutants.py asks whether the test that is said to show it turns red.
std::array<bool, kNames.size()> switched_off() {
  std::array<bool, kNames.size()> off{};  // all on
  const char* asked = std::getenv("ONEPEN_GUARDS_OFF");
  const std::string_view names = asked == nullptr ? "" : asked;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    const auto found = std::find(kNames.begin(), kNames.end(), names.substr(at, end - at));
    if (found == kNames.end()) {
      std::fprintf(stderr, "ONEPEN_GUARDS_OFF=%s: there is no guard '%s'\n", asked, std::string(names.substr(at, end - at)).c_str());
      std::abort();  // else a test would run with the rule on and say that it holds without
    }
    off.at(static_cast<std::size_t>(found - kNames.begin())) = true;
    at = end + 1;
  }
  return off;
}
const std::array<bool, kNames.size()> kept_off = switched_off();  // also when a test that switches guards itself says otherwise
std::array<bool, kNames.size()> off = kept_off;
}  // namespace

bool guard_on(Guard guard) { return !off.at(static_cast<std::size_t>(guard)); }
void set_guard(Guard guard, bool on) { off.at(static_cast<std::size_t>(guard)) = !on || kept_off.at(static_cast<std::size_t>(guard)); }
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
