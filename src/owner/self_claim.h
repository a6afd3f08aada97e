// A claim that nobody asked for: going live after an offline opening, going on in a new incarnation (fence.md, "The claim", "Incarnations").
#pragma once
#include "owner/open.h"

namespace onepen::owner {

// Reads the stream to its end first; a claim or a commit by somebody else ends it before anything is claimed. Then exactly one conditional claim over our own,
// exactly one epoch above it (in a history without owner: above every epoch given), bound to the tail that was read; never repeated above another.
// options.self_claim is set. Errors: see SelfClaim.
Result<Opened> claim_for_ourselves(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options);

}  // namespace onepen::owner
