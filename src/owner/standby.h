// A standby: stands ready with a warm fold, and says when to claim, and upon what (homes.md 1, "Liveness"; fence.md, "The claim").
//
//     watching ──the owner released──────────────▶ claim over its claim                     (it ended in peace, or handed over)
//        │  ▲  └──silent for a whole term─────────▶ claim over its claim, at the tail that was seen
//        │  └── the claim did not land: somebody lives
//        └──an admin asked for a handover, or the user did──▶ announced: "I stand ready" ──▶ the owner drains, and releases
//
// While it watches it only reads. What it announces, when it was asked to take over, is an object beside the owner's liveness object; an owner that keeps none
// cannot be asked. Clocks decide only when to try; the conditional claim decides. Thread-safety: none; one thread, which may block in the home's calls.
#pragma once
#include <optional>
#include <string>

#include "owner/life_watch.h"

namespace onepen::owner {

// How often a standby looks, and how often one that announced itself does. At a metered home kSignsInATerm times in a term: an owner that died right after a sign of
// life is taken over from after the term and at most two looks.
inline constexpr std::chrono::milliseconds kMostStandbyLook{50}, kLeastStandbyLook{5}, kAnnouncedLook{5}, kMeteredAnnouncedLook{250};
inline constexpr std::chrono::seconds kHandoverWithin{10};  // an owner that was asked has not handed over: it is left alone again
// How much longer that takes at a metered home: an owner looks for whoever stands ready with each sign of life only.
inline std::chrono::nanoseconds handover_delay(bool metered, std::chrono::nanoseconds term) {
  return metered ? 2 * term / kSignsInATerm : std::chrono::nanoseconds{};
}

struct StandbyOptions {
  std::string who;  // for people, and the owner
  std::chrono::nanoseconds term;
  bool watches = true;  // claims by itself; else only when asked
  bool metered = false;  // each request to the home is paid for (core::Pace)
};

// The moment to claim.
struct Chance {
  enum class Why : std::uint8_t { released, silent, asked } why = Why::asked;
  std::optional<ClaimPlan> plan{};  // none: unconditional
  std::string from{};  // the owner so far, for people; empty: there is none
};
std::string_view word(Chance::Why why);

class Standby {
 public:
  Standby(Runtime& runtime, std::string stream, StandbyOptions options, Log log);

  // Looks once, when it is time to; nothing: go on following. What the home does not answer is no sign of death.
  std::optional<Chance> look(core::Stream& stream);
  // The user wants this process to become the owner: the owner is asked to hand over until `deadline`; then the claim comes without being asked for.
  void ask(Instant deadline);
  // A claim came to nothing: somebody lives, or the home was out of reach. Never at once again.
  void failed(const Error& error);
  // How long following may sleep until the next look.
  std::chrono::nanoseconds patience() const;

 private:
  std::optional<Chance> judge(core::Stream& stream, const core::StreamStat& stat, Instant before);
  void listen(core::Stream& stream, const core::StreamStat& stat);
  void announce(core::Stream& stream, const core::StreamStat& stat, Instant until);
  bool announced() const { return announced_until_.has_value(); }

  Runtime& runtime_;
  const std::string stream_;
  const StandbyOptions options_;
  const std::chrono::nanoseconds look_;
  const Log log_;
  LifeWatch life_;
  Instant next_look_{};
  std::optional<Instant> asked_until_, announced_until_;
  ClaimId listened_{};  // the owner whose requests are listened to
  std::string heard_;  // its last request: an older one is not one of now
  std::string last_error_;
};

}  // namespace onepen::owner
