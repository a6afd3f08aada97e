#include "owner/self_claim.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "owner/carry.h"
#include "owner/catch_up.h"
#include "owner/claim.h"

namespace onepen::owner {
namespace {

constexpr unsigned kMaxTries = 4;  // a late append of our own may land between the look and the claim, each time

class SelfClaiming {
 public:
  SelfClaiming(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options)
      : runtime_(runtime),
        stream_(stream),
        claims_(claims),
        fold_(fold),
        options_(options),
        mine_(*options.self_claim),
        ask_(runtime, options.open_within),
        reading_(runtime, stream, fold, options),
        name_(stream.name().text()) {
    reading_.keep_fold();
  }

  Result<Opened> run() {
    for (unsigned tries = 1;; ++tries) {
      auto opened = once();
      if (opened || opened.error().outcome != Outcome::base_mismatch) return opened;
      if (tries == kMaxTries) {
        return tl::unexpected(Error{Outcome::unavailable,
                                    fmt::format("'{}' grew each of the {} times this process meant to claim it over its own claim of epoch {}; nothing was "
                                                "claimed",
                                                name_, kMaxTries, mine_.own.value),
                                    {}});
      }
    }
  }

 private:
  Result<Opened> once() {
    // Read before the look, so that the home's fold begins where ours ends.
    if (auto read = read_to_the_tail(); !read) return tl::unexpected(read.error());
    const bool told_along = reading_.stat().has_value();
    core::Answer<core::StreamStat> stat = told_along ? *reading_.stat() : ask_([&] { return stream_.stat(); });
    if (!stat) return tl::unexpected(not_told(stat.error()));
    if (auto ours = still_ours(*stat); !ours) return tl::unexpected(ours.error());
    if (!told_along) {  // what came between the first read and the look
      if (auto read = read_to_the_tail(); !read) return tl::unexpected(read.error());
    }
    core::ClaimNow claim{stat->epoch.value != 0 ? stat->epoch : std::max(mine_.own, stat->floor)};
    claim.incarnation = stat->incarnation;
    claim.over = stat->newest_claim;
    // The home compares the tail in the same step: everything up to there was read since, and nothing unread is claimed over.
    if (guard_on(Guard::self_claim_reads_first)) claim.if_tail = stat->tail;
    auto opened = Claim(runtime_, stream_, claims_, fold_, options_, reading_).run(Seen(*stat), claim);
    if (opened) return opened;
    // Its answer says who; where it does not, nobody owned the stream when it was looked at and somebody does now.
    if (opened.error().outcome == Outcome::epoch_closed) return tl::unexpected(fenced(opened.error().current));
    return opened;
  }

  // Folds nothing that somebody else wrote: the fold may be in use.
  Result<> read_to_the_tail() {
    if (!guard_on(Guard::self_claim_reads_first)) return {};
    do {
      auto read = reading_.read_on("read", [this](const core::Record& record) { return is_foreign(record); });
      if (!read && read.error().outcome == Outcome::gone) return tl::unexpected(position_gone(read.error()));
      if (!read) return tl::unexpected(read.error());
      if (foreign_ || reading_.restarts() > 0) return tl::unexpected(fenced(foreign_ ? foreign_ : newest_owner()));
    } while (!reading_.at_tail());
    return {};
  }

  // Records before our own claim are everybody's history; from it on only ours may stand there.
  bool is_foreign(const core::Record& record) {
    if (record.epoch < mine_.own || own(record.claim_id)) return false;
    if (record.kind == core::RecordKind::claim) foreign_ = core::owner_of(record);
    else foreign_ = onepen::Owner{Token{to_text(record.incarnation), record.epoch, to_text(record.claim_id)}, {}, {}, {}, 0};
    return true;
  }

  bool own(const ClaimId& id) const { return id == mine_.over || std::find(mine_.sent.begin(), mine_.sent.end(), id) != mine_.sent.end(); }

  // The newest claim must be the one we own by, or one of ours that nobody answered.
  Result<> still_ours(const core::StreamStat& stat) const {
    const bool epoch_fits = stat.epoch.value == 0 || (stat.newest_claim == mine_.over ? stat.epoch == mine_.own : stat.epoch > mine_.own);
    if (own(stat.newest_claim) && epoch_fits) return {};
    return tl::unexpected(fenced(stat.epoch.value != 0 ? std::optional<onepen::Owner>(core::owner_of(stat)) : std::nullopt));
  }

  std::optional<onepen::Owner> newest_owner() {
    const auto stat = ask_([&] { return stream_.stat(); });
    return stat && stat->epoch.value != 0 ? std::optional<onepen::Owner>(core::owner_of(*stat)) : std::nullopt;
  }

  // The stream has not what our copy has. Nobody but an owner trims, so under our own claim it can only be another history.
  Error position_gone(const Error& error) {
    const auto stat = ask_([&] { return stream_.stat(); });
    if (!stat) return not_told(stat.error());
    if (stat->epoch.value != 0 && !own(stat->newest_claim)) return fenced(core::owner_of(*stat));
    return Error{Outcome::incarnation_changed,
                 fmt::format("rewound: '{}' has a new history (incarnation {}), which lacks commits of ours that were acknowledged ({}). Nothing was claimed. "
                             "Open the database again to go on from the new history.",
                             name_, to_text(stat->incarnation), error.message),
                 {}};
  }

  // A stream that is out of sight was not removed: it is asked for again, like one out of reach.
  static Error not_told(const core::Refusal& refusal) {
    return Error{core::out_of_sight(refusal) ? Outcome::unavailable : refusal.outcome, refusal.message, refusal.current};
  }

  Error fenced(const std::optional<onepen::Owner>& current) const {
    const std::string who = current && current->token.epoch > mine_.own ? "is now written by " + core::describe(*current)
                            : current                                   ? "has records under our claim that are not ours: two processes hold one claim"
                                                                        : std::string("was claimed by somebody else");
    return Error{Outcome::epoch_closed,
                 fmt::format("fenced: '{}' {}. Ours was epoch {}, and this process claimed nothing. {}", name_, who, mine_.own.value, core::kOnlyToTakeItBack),
                 current};
  }

  Runtime& runtime_;
  core::Stream& stream_;
  ClaimLog& claims_;
  Fold& fold_;
  const Options& options_;
  const SelfClaim& mine_;
  Persistence ask_;
  CatchUp reading_;
  const std::string name_;
  std::optional<onepen::Owner> foreign_;
};

}  // namespace

Result<Opened> claim_for_ourselves(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options) {
  return SelfClaiming(runtime, stream, claims, fold, options).run();
}

}  // namespace onepen::owner
