#include "owner/owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "owner/open.h"
#include "owner/runner.h"

namespace onepen::owner {

Result<std::unique_ptr<Owner>> Owner::open(Runtime& runtime, std::unique_ptr<core::Stream> stream, ClaimLog& claims, Fold& fold, Options options) {
  auto opened = open_stream(runtime, *stream, claims, fold, options);
  if (!opened) return tl::unexpected(opened.error());
  return std::make_unique<Runner>(runtime, std::move(stream), std::move(options), std::move(*opened));
}

std::string sign_of_life(std::uint64_t number, std::chrono::nanoseconds term) {
  return fmt::format("{} {}", number, std::chrono::duration_cast<std::chrono::milliseconds>(term).count());
}

std::chrono::nanoseconds term_told(ByteView sign) {
  const std::string_view text = as_text(sign);
  const auto blank = text.find(' ');
  std::int64_t ms = 0;
  if (blank == std::string_view::npos) return {};
  const auto [end, error] = std::from_chars(text.data() + blank + 1, text.data() + text.size(), ms);
  const bool good = error == std::errc() && end == text.data() + text.size() && ms > 0;
  return good ? std::chrono::milliseconds(std::min<std::int64_t>(ms, kMostTerm.count())) : std::chrono::milliseconds(0);
}

std::string successor_object(const std::string& liveness) { return liveness + ".successor"; }

std::string handover_object(const std::string& liveness) { return liveness + ".handover"; }

}  // namespace onepen::owner
