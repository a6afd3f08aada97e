#include "sqlite/keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/messages.h"

namespace onepen::sqlite {
namespace {

constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds(50), kLastPause = std::chrono::seconds(2);
// Handing over: writers inside end, and what is pending is sent, within this; then the successor claims within that.
constexpr std::chrono::seconds kDrainWithin{5}, kSuccessorWithin{3};

// Claims that went out and were not answered yet are our own when the stream turns out to have one of them (owner.h, SelfClaim::sent).
class NotedClaims final : public owner::ClaimLog {
 public:
  NotedClaims(owner::ClaimLog& log, std::vector<ClaimId>& sent) : log_(log), sent_(sent) {}
  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) override {
    auto written = log_.write_ahead(request, incarnation);
    if (written && std::find(sent_.begin(), sent_.end(), request.claim_id) == sent_.end()) sent_.push_back(request.claim_id);
    return written;
  }
  Epoch highest() const override { return log_.highest(); }

 private:
  owner::ClaimLog& log_;
  std::vector<ClaimId>& sent_;
};

}  // namespace

// What the stream is read into while SQLite has the copy open: only our own commits may be there, and nothing is written to the database.
class Keeper::GoingOn final : public owner::Fold {
 public:
  GoingOn(Copy& copy, LocalSender& sender) : sender_(sender), position_(copy.state().offset) {}
  Offset position() const override { return position_; }
  Result<> apply(const core::Record& record) override {
    if (record.kind == core::RecordKind::data) {
      const auto ours = sender_.landed(record);
      if (!ours) return tl::unexpected(ours.error());
      if (!*ours)
        return tl::unexpected(
            Error{Outcome::epoch_closed,
                  fmt::format("fenced: the stream has a commit (before {}) that this copy does not. {}", record.next.text, core::kOnlyToTakeItBack),
                  {}});
    }
    position_ = record.next;
    return {};
  }
  Result<> start_over() override {
    return tl::unexpected(Error{Outcome::incarnation_changed, "rewound: the stream no longer has the position up to which this copy was acknowledged.", {}});
  }
  Result<> settle() override { return {}; }

 private:
  LocalSender& sender_;
  Offset position_;
};

Keeper::Keeper(Runtime& runtime, io::Disk& disk, Copy& copy, WalHold& hold, KeeperDesk& desk, std::string name, const KeeperOptions& options, Log log)
    : runtime_(runtime),
      copy_(copy),
      hold_(hold),
      desk_(desk),
      name_(std::move(name)),
      options_(options),
      log_(std::move(log)),
      sender_(runtime, disk, copy, hold) {}

Keeper::~Keeper() { stop(); }

Result<> Keeper::begin(std::shared_ptr<owner::Owner> owner) {
  if (owner) {
    Ownership now{std::move(owner), {}};
    if (!parse(now.owner->status().token.incarnation, now.incarnation))
      return tl::unexpected(Error{Outcome::state_mismatch, "The home gave a claim without an incarnation.", {}});
    const Lock lock(mutex_);
    now_ = std::move(now);
    was_owner_ = true;
  }
  thread_ = runtime_.spawn("onepen-keeper", [this] { run(); });
  return {};
}

Ownership Keeper::current() const {
  const Lock lock(mutex_);
  return now_;
}

Ownership Keeper::wait_for_owner(Instant deadline) {
  hold_.changed().wait(deadline, [&] { return current().owner != nullptr || desk_.is_reset() || stop_.load(); });
  return current();
}

bool Keeper::offline() const {
  const Lock lock(mutex_);
  return !was_owner_;
}

std::string Keeper::trouble() const {
  Ownership now;
  {
    const Lock lock(mutex_);
    if (!trouble_.empty()) return trouble_;
    now = now_;
  }
  return now.owner ? now.owner->status().trouble : std::string();  // it asks the home again and again, and nothing failed yet
}

void Keeper::set_trouble(std::string trouble) {
  const Lock lock(mutex_);
  trouble_ = std::move(trouble);
}

void Keeper::history_changed() {
  history_changed_.store(true);
  hold_.wake();
}

void Keeper::run() {
  while (!stop_.load()) {
    desk_.tell_listeners();
    if (desk_.is_reset()) {
      if (!hold_.rest(UINT64_MAX, Instant::max())) return;
      continue;
    }
    if (history_changed_.exchange(false)) {
      std::shared_ptr<owner::Owner> old;
      {
        const Lock lock(mutex_);
        old = std::move(now_.owner);
        now_.owner = nullptr;
      }
      if (old) static_cast<void>(old->stop(runtime_.now()));  // whoever waits for it is told that its fate is not decided
    }
    const Ownership now = current();
    if (!now.owner) {
      claim();
      continue;
    }
    if (hand_over_.exchange(false)) {
      hand_over_now();
      continue;
    }
    if (hold_.pending()) send(now);
    else if (!hold_.rest(options_.local ? sender_.taken() : UINT64_MAX, Instant::max())) return;
  }
}

// Between two batches more commits collect: fewer objects, and sending does not take the second core and the disk from the one who commits. synced() ends it.
void Keeper::linger(const owner::Owner& owner) {
  const owner::Pacing pacing = owner.pacing();
  if (!linger_) linger_.emplace(options_.max_linger.value_or(pacing.metered ? kMeteredLinger : kDirectoryLinger));
  const WalHold::View view = hold_.view();
  const Instant at = linger_->send_at({view.pending(), std::uint64_t{view.pending_frames()} * copy_.state().page_size});
  if (at == Instant::min()) return;
  const Instant until = std::max(at, pacing.next_batch);
  if (until > runtime_.now()) hold_.linger(until);
}

void Keeper::send(const Ownership& now) {
  linger(*now.owner);
  const auto done = sender_.work(*now.owner, now.incarnation, stop_, [this](std::uint64_t bytes) { desk_.sent(bytes); });
  if (done) {
    backoff_ = {};
    if (sender_.last_batch() > 0) linger_->answered(runtime_.now(), sender_.last_batch(), now.owner->pacing().append_took);
    set_trouble({});
    return;
  }
  if (sender_.out_of_step()) {
    desk_.lost(ResetKind::broken,
               "The last commit that was sent is in the stream, but the local copy could not write that down (" + done.error().message +
                   "). Open the database again: it reads the stream and goes on from there.",
               {});
    return;
  }
  sender_.rewind();
  if (stop_.load() || desk_.is_reset() || history_changed_.load() || now.owner->status().reset) {
    if (!stop_.load() && !desk_.is_reset() && !history_changed_.load()) pause(kFirstPause);  // the owner's thread is about to say why
    return;
  }
  if (done.error().outcome == Outcome::state_mismatch || done.error().outcome == Outcome::too_large) {
    desk_.lost(done.error().outcome == Outcome::too_large ? ResetKind::refused : ResetKind::diverged, done.error().message, {});
    return;
  }
  set_trouble(done.error().message);
  backoff_ = std::clamp(backoff_ * 2, kFirstPause, kLastPause);
  pause(backoff_);
}

void Keeper::hand_over(std::string successor) {
  {
    const Lock lock(mutex_);
    successor_ = std::move(successor);
  }
  hand_over_.store(true);
  hold_.wake();
}

// The ownership is let go only when everything is in the stream; if nobody comes for it, it is taken back like one that was lost to an outage: conditionally.
void Keeper::hand_over_now() {
  const std::shared_ptr<owner::Owner> ours = current().owner;
  std::string to;
  {
    const Lock lock(mutex_);
    to = successor_;
  }
  log_(LogLevel::info, fmt::format("'{}' is being handed over to {}", name_, to));
  const Instant deadline = runtime_.now() + kDrainWithin;
  const WalHold::Urgent urgent(hold_);  // nobody can write meanwhile
  bool drained = desk_.drain(to, deadline);
  while (drained && hold_.pending()) {
    if (runtime_.now() >= deadline || stop_.load() || desk_.is_reset() || history_changed_.load()) drained = false;
    else send({ours, current().incarnation});
  }
  if (!drained || !copy_.record_ahead()) {
    static_cast<void>(desk_.drain({}, runtime_.now()));
    if (!stop_.load() && !desk_.is_reset())
      log_(LogLevel::warn,
           fmt::format("'{}' is not handed over to {}: writers, or commits that are not in the stream, were left after {} s. This process goes on", name_, to,
                       kDrainWithin.count()));
    return;
  }
  static_cast<void>(ours->stop(runtime_.now() + kDrainWithin));
  if (ONEPEN_FAILPOINT("keeper.released")) return;
  {
    const Lock lock(mutex_);
    now_.owner = nullptr;
  }
  const std::string released = ours->status().token.claim_id;
  const auto stream = desk_.session();
  const Instant patience = runtime_.now() + kSuccessorWithin;
  while (!stop_.load() && !desk_.is_reset() && runtime_.now() < patience) {
    if (const auto stat = stream->stat(); stat && to_text(stat->claim_id) != released) {
      auto came = core::owner_of(*stat);
      const auto why = fmt::format("handed over: '{}' is now written by {}. Everything that was committed here is in the stream. {}", name_,
                                   core::describe(came), core::kOnlyToTakeItBack);
      desk_.lost(ResetKind::fenced, why, std::move(came));
      return;
    }
    if (!hold_.nap(runtime_.now() + kFirstPause)) return;
  }
  if (stop_.load() || desk_.is_reset()) return;
  log_(LogLevel::warn, fmt::format("'{}' was released for {}, which did not claim it within {} s. This process goes on", name_, to, kSuccessorWithin.count()));
  claim();
}

void Keeper::pause(std::chrono::nanoseconds time) {
  const Instant until = runtime_.now() + time;
  while (!stop_.load() && !desk_.is_reset() && runtime_.now() < until) {
    if (!hold_.nap(until)) return;
  }
}

// A claim that nobody asked for: fence.md, "The claim".
void Keeper::claim() {
  const auto owned = copy_.owned();
  if (!owned) {
    desk_.lost(ResetKind::rewound, "The stream has a new history, and this copy does not remember what it owned. Open the database again.", {});
    return;
  }
  sender_.rewind();
  GoingOn fold(copy_, sender_);
  NotedClaims claims(copy_, sent_claims_);
  auto owner = desk_.claim_again({owned->epoch, owned->claim_id, sent_claims_}, fold, claims);
  sender_.rewind();
  if (!owner) {
    claim_failed(owner.error());
    return;
  }
  const Token token = (*owner)->status().token;
  core::OwnerToken ours{{}, token.epoch, {}};
  if (!parse(token.incarnation, ours.incarnation) || !parse(token.claim_id, ours.claim_id)) {
    desk_.lost(ResetKind::diverged, "The home gave a claim without an id.", {});
    return;
  }
  if (const auto kept = copy_.remember_owned(ours); !kept) log_(LogLevel::warn, kept.error().message);
  sent_claims_.clear();
  backoff_ = {};
  {
    const Lock lock(mutex_);
    now_ = {*owner, ours.incarnation};
    was_owner_ = true;
    trouble_.clear();
  }
  static_cast<void>(desk_.drain({}, runtime_.now()));  // of a handover that nobody took up
  desk_.owner_came(**owner);
  hold_.wake_waiters();
}

void Keeper::claim_failed(const Error& error) {
  switch (error.outcome) {
    case Outcome::epoch_closed:
    case Outcome::base_mismatch:
    case Outcome::claim_races:
    case Outcome::held: desk_.lost(ResetKind::fenced, error.message, error.current); return;
    case Outcome::cloned:
    case Outcome::state_mismatch: desk_.lost(ResetKind::diverged, error.message, error.current); return;
    case Outcome::incarnation_changed: desk_.lost(ResetKind::rewound, error.message, error.current); return;
    case Outcome::not_found:
    case Outcome::gone: desk_.lost(ResetKind::removed, error.message, error.current); return;
    default: break;  // out of reach, suspect, not let in: it may pass
  }
  if (trouble() != error.message) log_(LogLevel::info, error.message);
  set_trouble(error.message);
  backoff_ = std::clamp(backoff_ * 2, kFirstPause, kLastPause);
  pause(backoff_);
}

Error Keeper::left_over(std::string_view what, bool goes_on) const {
  const WalHold::View view = hold_.view();
  UnsentStory unsent;
  unsent.database = name_;
  unsent.copy_folder = copy_.folder();
  unsent.commits = view.pending();
  unsent.bytes = std::uint64_t{view.pending_frames()} * (copy_.state().page_size + kWalFrameHeaderBytes);
  unsent.why = trouble();
  if (desk_.is_reset()) unsent.next = UnsentStory::Next::nobody;
  else unsent.next = goes_on ? UnsentStory::Next::this_handle : UnsentStory::Next::next_open;
  return Error{Outcome::unavailable, unsent_sentence(what, unsent), {}};
}

Result<Offset> Keeper::synced(Instant deadline) {
  const std::uint64_t target = hold_.view().published_commits;
  const auto there = [&] { return hold_.view().acknowledged_commits >= target; };
  {
    const WalHold::Urgent urgent(hold_);
    hold_.changed().wait(deadline, [&] { return there() || desk_.is_reset() || stop_.load(); });
  }
  if (desk_.is_reset() || !there()) return tl::unexpected(left_over("Not synced", true));
  const Ownership now = wait_for_owner(deadline);
  if (!now.owner) return tl::unexpected(left_over("Not synced: nobody owns the stream at the moment", true));
  if (!guard_on(Guard::synced_confirms_after)) return now.owner->status().acknowledged;
  return now.owner->confirm(deadline);
}

Result<> Keeper::flush(Instant deadline) {
  const WalHold::Urgent urgent(hold_);
  hold_.changed().wait(deadline, [&] { return !hold_.pending() || desk_.is_reset() || stop_.load(); });
  if (hold_.pending()) return tl::unexpected(left_over("Closed", !stop_.load()));
  return {};
}

void Keeper::end() {
  stop_.store(true);
  hold_.wake();
  hold_.wake_waiters();
}

void Keeper::stop() {
  end();
  thread_.reset();
}

}  // namespace onepen::sqlite
