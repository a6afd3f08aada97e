#include <onepen/reset.h>

#include "base/check.h"

namespace onepen {
std::string_view word(ResetKind kind) {
  switch (kind) {
    case ResetKind::fenced: return "fenced";
    case ResetKind::rewound: return "rewound";
    case ResetKind::removed: return "removed";
    case ResetKind::diverged: return "diverged";
    case ResetKind::refused: return "refused";
    case ResetKind::broken: return "broken";
    case ResetKind::unresolved: return "unresolved";
  }
  ONEPEN_CHECK(false, "no such reset kind");
}
}  // namespace onepen
