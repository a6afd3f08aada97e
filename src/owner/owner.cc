#include "owner/owner.h"

#include "owner/open.h"
#include "owner/runner.h"

namespace onepen::owner {

Result<std::unique_ptr<Owner>> Owner::open(Runtime& runtime, std::unique_ptr<core::Stream> stream, ClaimLog& claims, Fold& fold, Options options) {
  auto opened = open_stream(runtime, *stream, claims, fold, options);
  if (!opened) return tl::unexpected(opened.error());
  return std::make_unique<Runner>(runtime, std::move(stream), std::move(options), std::move(*opened));
}

std::string successor_object(const std::string& liveness) { return liveness + ".successor"; }

std::string handover_object(const std::string& liveness) { return liveness + ".handover"; }

}  // namespace onepen::owner
