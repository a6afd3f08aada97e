// The rows of the outcome table for code that maps it to a protocol. Generated from include/onepen/outcomes.def by the preprocessor.
#pragma once
#include <onepen/result.h>

#include <span>
#include <string_view>

namespace onepen {
struct OutcomeRow {
  Outcome outcome;
  std::string_view name, word;
  int http;
  std::string_view code, sqlstate, retry, may;
};
std::span<const OutcomeRow> outcome_table();
const OutcomeRow& row(Outcome);
}  // namespace onepen
