// What became of each ticket: the newest kKeptFates decided ones. A plain value.
#pragma once
#include <deque>
#include <optional>

#include "owner/owner.h"

namespace onepen::owner {

class Fates {
 public:
  Ticket add() {  // the next ticket
    rows_.emplace_back();
    return first_ + rows_.size() - 1;
  }
  void decide(Ticket ticket, Fate fate) {
    if (ticket < first_ || ticket >= first_ + rows_.size()) return;
    auto& row = rows_[ticket - first_];
    if (!row) ++decided_;
    row = std::move(fate);  // an undecided one may be decided later (reset unresolved)
    while (rows_.size() > kKeptFates && rows_.front()) {
      rows_.pop_front();
      ++first_;
      --decided_;
    }
  }
  bool decided(Ticket ticket) const { return ticket < first_ || (ticket < first_ + rows_.size() && rows_[ticket - first_].has_value()); }
  // Of a decided ticket. One that is too old to be kept is `undecided`: it is never guessed.
  Fate of(Ticket ticket) const {
    if (ticket >= first_ && ticket < first_ + rows_.size() && rows_[ticket - first_]) return *rows_[ticket - first_];
    return Fate{Fate::Kind::undecided,
                {},
                Error{Outcome::unknown, "what became of this append is not kept any more: wait for an append before thousands of later ones", {}}};
  }
  Ticket last() const { return first_ + rows_.size() - 1; }
  std::uint64_t pending() const { return rows_.size() - decided_; }
  template <class Visit>
  void each_pending(Visit visit) {
    for (Ticket ticket = first_; ticket < first_ + rows_.size(); ++ticket) {
      if (!rows_[ticket - first_]) visit(ticket);
    }
  }

 private:
  Ticket first_ = 1;
  std::deque<std::optional<Fate>> rows_;
  std::uint64_t decided_ = 0;
};

}  // namespace onepen::owner
