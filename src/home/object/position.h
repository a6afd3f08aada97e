// How the object home spells places: names of objects, and the public Offset. Pure.
//
// An Offset is "<ordinal of the history>.<object id>.<index after the append>.<tag of the incarnation>", fixed width, so that text sorts in stream order.
// The tag tells an offset of another stream that came to live under the same name.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "core/fence_state.h"

namespace onepen::home {

struct ParsedOffset {
  std::uint32_t ordinal = 0;
  core::Position at;
  std::uint32_t tag = 0;
};

std::uint32_t incarnation_tag(const Incarnation& incarnation);
Offset to_offset(std::uint32_t ordinal, core::Position at, const Incarnation& incarnation);
std::optional<ParsedOffset> parse_offset(const Offset& offset);

std::string object_name(std::uint64_t id);                         // 20 digits
std::optional<std::uint64_t> object_id(std::string_view name);     // none: not the name of a log object

}  // namespace onepen::home
