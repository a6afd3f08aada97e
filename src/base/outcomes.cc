#include "base/outcomes.h"

#include <array>

namespace onepen {
namespace {
constexpr std::array kRows = {
#define ONEPEN_OUTCOME(name, word, http, code, sqlstate, retry, may) OutcomeRow{Outcome::name, #name, word, http, code, sqlstate, retry, may},
#include <onepen/outcomes.def>
#undef ONEPEN_OUTCOME
};
}  // namespace

std::span<const OutcomeRow> outcome_table() { return kRows; }
const OutcomeRow& row(Outcome outcome) { return kRows.at(static_cast<std::size_t>(outcome)); }
std::string_view word(Outcome outcome) { return row(outcome).word; }
}  // namespace onepen
