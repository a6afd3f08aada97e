// How the object home spells places: names of objects, and the public Offset. Pure.
//
// An Offset is "<ordinal of the history>.<object id>.<index after the append>.<tag>", fixed width, so that text sorts in stream order. The tag is of the
// incarnation and of the claim under which the object was made: it tells an offset of another stream that came to live under the same name, and one of a
// log that was put back and went on another way.
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

std::uint32_t offset_tag(const Incarnation& incarnation, const ClaimId& claim_id);
Offset to_offset(std::uint32_t ordinal, core::Position at, const Incarnation& incarnation, const ClaimId& claim_id);
std::optional<ParsedOffset> parse_offset(const Offset& offset);

std::string object_name(std::uint64_t id);                         // 20 digits
std::optional<std::uint64_t> object_id(std::string_view name);     // none: not the name of a log object

// A pack is named by the run of ids it stands for: "<20 digits>-<20 digits>".
struct PackRun {
  std::uint64_t first = 0, last = 0;
};
std::string pack_name(std::uint64_t first, std::uint64_t last);
std::optional<PackRun> pack_run(std::string_view name);

// A snapshot is named by the object its position lies in: "<20 digits>-<32 hex digits>".
std::string snapshot_id(std::uint64_t id, const PutId& put);
std::optional<std::uint64_t> snapshot_at(std::string_view id);

// A history that cut the one before, or a stream made anew over a tombstone, leaves this beside the marks before it is made, so that readers look for it.
std::string cut_name(std::uint64_t id);
std::optional<std::uint64_t> cut_at(std::string_view name);

}  // namespace onepen::home
