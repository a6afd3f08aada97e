// What the tests of a copy that goes on while it is read share.
#pragma once
#include <optional>

#include "sqlite/commit_target.h"

namespace onepen::sqlite::testing {

// A copy's part: remembers what it is told, as the state file would.
struct Ledger {
  CommitState settled, next;
  std::optional<WalPlace> place;
  int merged = 0, begun = 0;
  bool killed = false;  // whatever comes next is not written any more
  SettleHooks hooks() {
    SettleHooks all;
    all.remember = [this](const CommitState& before, const CommitState& after, const std::optional<WalPlace>& at) -> Result<> {
      settled = before, next = after;
      if (at) place = at;
      return {};
    };
    all.folded = [this](PageTable&, const CommitState&, const WalPlace&) -> Result<> {
      ++merged;
      return {};
    };
    all.begun = [this](std::uint32_t salt1, std::uint32_t salt2) -> Result<> {
      ++begun;
      place = WalPlace{salt1, salt2, 0};
      return {};
    };
    return all;
  }
};

}  // namespace onepen::sqlite::testing
