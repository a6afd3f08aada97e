// How a new history says in its object why it began: the words of docs/formats/log-object.md, in one table. Pure.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "core/home.h"

namespace onepen::home {

struct HistoryWord {
  std::string_view word;
  core::HistoryAct act;
  core::EventKind event;
};
inline constexpr std::array<HistoryWord, 4> kHistoryWords{{{"restore", core::HistoryAct::restore, core::EventKind::restore},
                                                           {"adopt", core::HistoryAct::adopt, core::EventKind::adopt},
                                                           {"forced-recovery", core::HistoryAct::forced_recovery, core::EventKind::forced_recovery},
                                                           {"accept-loss", core::HistoryAct::accept_loss, core::EventKind::accept_loss}}};

// Null: none of ours.
inline const HistoryWord* history_word(std::string_view word) {
  const auto at = std::find_if(kHistoryWords.begin(), kHistoryWords.end(), [&](const HistoryWord& w) { return w.word == word; });
  return at == kHistoryWords.end() ? nullptr : &*at;
}
inline std::string_view word_of(core::HistoryAct act) {
  return std::find_if(kHistoryWords.begin(), kHistoryWords.end(), [&](const HistoryWord& w) { return w.act == act; })->word;
}

}  // namespace onepen::home
