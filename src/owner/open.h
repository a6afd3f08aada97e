// The open sequence: look, may we, warm up, claim, read the rest, and only then own (fence.md, "The claim", "Takeover").
#pragma once
#include "owner/owner.h"

namespace onepen::owner {

struct Opened {
  core::Writer writer;               // Owning
  std::uint32_t claim_requests = 0;  // as the home counted them
  std::string notice{};              // Status::notice
};

// Errors as Owner::open. Blocks; after it the fold is settled just at, or just after, our claim.
Result<Opened> open_stream(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options);

}  // namespace onepen::owner
