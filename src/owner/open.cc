#include "owner/open.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "owner/catch_up.h"
#include "owner/claim.h"
#include "owner/self_claim.h"

namespace onepen::owner {
namespace {

constexpr unsigned kMaxRestarts = 3;      // the stream got another incarnation while it was opened
constexpr unsigned kMaxWarmPasses = 8;    // a live writer may outrun the warm-up; then the claim comes anyway (I11)
constexpr std::uint64_t kMostSkipped = 1u << 16;  // claims written ahead and never answered; a log that says more is not of this history

Error error_of(const core::Refusal& refusal) { return Error{refusal.outcome, refusal.message, refusal.current}; }

class Opening {
 public:
  Opening(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options)
      : runtime_(runtime),
        stream_(stream),
        claims_(claims),
        fold_(fold),
        options_(options),
        ask_(runtime, options.open_within),
        reading_(runtime, stream, fold, options),
        name_(stream.name().text()) {}

  Result<Opened> run() {
    for (unsigned restarts = 0;; ++restarts) {
      auto opened = once();
      if (opened || opened.error().outcome != Outcome::incarnation_changed || restarts == kMaxRestarts) return opened;
    }
  }

 private:
  Result<Opened> once() {
    if (auto warm = reading_.first_reads(); !warm) return tl::unexpected(warm.error());
    Result<Seen> seen = reading_.stat();  // the first look, where the home gave it along with the last read
    if (!*seen) seen = look();
    if (!seen) return tl::unexpected(seen.error());
    if (flapping_wait(options_, *seen).count() > 0 && options_.takeover != TakeoverMode::never) {
      const auto waited = wait_for_calm(runtime_, name_, options_, **seen);
      if (!waited) return tl::unexpected(stopped_open(name_));
      notice_ = *waited;
      if (seen = look(); !seen) return tl::unexpected(seen.error());
    }
    const auto plan = options_.watched ? Result<ClaimPlan>(*options_.watched) : plan_takeover(runtime_, stream_, options_, *seen);
    if (!plan) return tl::unexpected(plan.error());
    if (*seen) {
      if (auto warm = warm_up((*seen)->tail); !warm) return tl::unexpected(warm.error());
    }
    core::ClaimNow claim{above(*seen)};
    if (*seen) claim.incarnation = (*seen)->incarnation;
    claim.over = plan->over;
    claim.if_tail = plan->if_tail;
    Claim claiming(runtime_, stream_, claims_, fold_, options_, reading_);
    auto opened = claiming.run(*seen, claim);
    if (!opened && !claiming.claimed()) return tl::unexpected(as_held(opened.error(), *seen));
    if (opened) opened->notice = notice_;
    return opened;
  }

  // Every epoch that was given, or may have been: those of earlier histories too, and our own that were only written ahead.
  Epoch above(const Seen& seen) const {
    const Epoch given = seen ? std::max(seen->epoch, seen->floor) : removed_.value_or(Epoch{});
    return std::max(given, std::min(claims_.highest(), Epoch{given.value + kMostSkipped}));
  }

  Result<Seen> look() {
    auto stat = ask_([&] { return stream_.stat(); });
    if (stat) return Seen(*stat);
    if (core::out_of_sight(stat.error()) && !fold_.position().text.empty()) return tl::unexpected(out_of_sight(stat.error().message));
    if (stat.error().outcome != Outcome::not_found || !options_.create) return tl::unexpected(error_of(stat.error()));
    removed_ = stat.error().floor;
    if (fold_.position().text.empty()) return Seen();
    if (auto again = reading_.start_over(); !again) return tl::unexpected(again.error());
    return Seen();
  }

  // A home that lost the stream (emptied, or a folder that is not mounted) must not be taken for one that never had it, or where somebody removed it: a new
  // database over acknowledged commits would hide them.
  Error out_of_sight(const std::string& found) const {
    const Outcome outcome = options_.absent_is_away ? Outcome::unavailable : options_.create ? Outcome::fence_unavailable : Outcome::not_found;
    return Error{
        outcome,
        fmt::format("'{}' was read on this machine up to {}, and nothing of it is there now: {} Nothing was claimed. Is the home mounted, and the right "
                    "one? When it is lost for good, put it back from a backup; this machine's copy may be the only one of those commits.",
                    name_, fold_.position().text, found),
        {}};
  }

  // The home has less than the fold was given by it earlier. Claiming would put new commits upon a history that lacks acknowledged ones.
  Error lost(const std::string& found) const {
    return Error{Outcome::fence_unavailable,
                 fmt::format("'{}' was read on this machine up to {}, and the home has less now: {} Nothing was claimed. Is the home mounted, and the "
                             "right one? When its newer state is lost for good, `onepen adopt {}` accepts what is there; this machine's copy, which may be the "
                             "only one of those commits, goes to salvage then.",
                             name_, fold_.position().text, found, name_),
                 {}};
  }

  // Reads to within one batch of the tail, so that a healthy owner is out for milliseconds, not for a download.
  Result<> warm_up(Offset tail) {
    if (tail < fold_.position()) {
      // Never so in a sound home: what the fold holds was acknowledged by it. The home is asked for that place, and says in its own words what is wrong.
      const Offset before = fold_.position();
      auto read = reading_.read_on("warm");
      if (!read && read.error().outcome == Outcome::fence_unavailable) return tl::unexpected(lost(read.error().message));
      if (!read) return tl::unexpected(read.error());
      if (fold_.position() == before) return tl::unexpected(lost(fmt::format("its log ends at {}.", tail.text)));
    }
    for (unsigned pass = 0; pass < kMaxWarmPasses; ++pass) {
      bool near = false;
      while (!near && reading_.reached() < tail) {
        auto read = reading_.read_on("warm");
        if (!read) return tl::unexpected(read.error());
        near = *read;
      }
      if (near || pass + 1 == kMaxWarmPasses) return {};
      if (pass == 0 && reading_.reached() == tail) return {};  // it was warm already
      const auto stat = ask_([&] { return stream_.stat(); });
      if (!stat) return tl::unexpected(error_of(stat.error()));
      if (reading_.reached() >= stat->tail) return {};
      tail = stat->tail;
    }
    return {};
  }

  // A conditional claim that came too late: somebody lives.
  Error as_held(const Error& error, const Seen& seen) const {
    if (options_.takeover == TakeoverMode::always) return error;
    const onepen::Owner holder = error.current.value_or(seen ? core::owner_of(*seen) : onepen::Owner{});
    if (error.outcome == Outcome::epoch_closed) return held(name_, holder, "it claimed first");
    if (error.outcome == Outcome::base_mismatch) return held(name_, holder, "it wrote at the last moment");
    return error;
  }

  Runtime& runtime_;
  core::Stream& stream_;
  ClaimLog& claims_;
  Fold& fold_;
  const Options& options_;
  Persistence ask_;
  CatchUp reading_;
  const std::string name_;
  std::string notice_;
  std::optional<Epoch> removed_;  // there is no stream, because somebody removed it: its epoch floor
};

}  // namespace

Result<Opened> open_stream(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options) {
  if (options.self_claim) return claim_for_ourselves(runtime, stream, claims, fold, options);
  return Opening(runtime, stream, claims, fold, options).run();
}

}  // namespace onepen::owner
