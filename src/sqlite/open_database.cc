#include "sqlite/open_database.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "sqlite/api.h"
#include "sqlite/messages.h"
#include "sqlite/pinned_copy.h"

namespace onepen::sqlite {
namespace {

constexpr std::chrono::seconds kPinWithin{5};

ResetKind kind_after(Outcome outcome) {
  switch (outcome) {
    case Outcome::incarnation_changed: return ResetKind::rewound;
    case Outcome::not_found:
    case Outcome::gone: return ResetKind::removed;
    case Outcome::cloned:
    case Outcome::sequence_gap:
    case Outcome::state_mismatch: return ResetKind::diverged;
    case Outcome::unauthorised:
    case Outcome::quota: return ResetKind::refused;
    default: return ResetKind::fenced;
  }
}

}  // namespace

OpenDatabase::OpenDatabase(const Environment& environment, OpenSettings settings, std::unique_ptr<Copy> copy)
    : environment_(environment), settings_(std::move(settings)), copy_(std::move(copy)), hold_(*environment.runtime), wishes_(*environment.runtime) {}

OpenDatabase::~OpenDatabase() { static_cast<void>(stop()); }

Result<std::unique_ptr<OpenDatabase>> OpenDatabase::acquire(const Environment& environment, OpenSettings settings) {
  const CopyPlace place{settings.cache_root, settings.home_url, *settings.name};
  auto copy = Copy::acquire(*environment.runtime, *environment.disk, place, environment.log, settings.follower ? CopyUse::read : CopyUse::write);
  if (!copy) return tl::unexpected(copy.error());
  return std::unique_ptr<OpenDatabase>(new OpenDatabase(environment, std::move(settings), std::move(*copy)));
}

std::shared_ptr<owner::Owner> OpenDatabase::owner() const { return keeper() != nullptr ? keeper()->current().owner : nullptr; }

// ---- KeeperDesk

void OpenDatabase::owner_came(owner::Owner& owner) {
  owner.on_reset([this](const Reset& reset) { on_owner_reset(reset); });
}

// On the owner's thread. A new history is no reset yet: the keeper looks whether it goes on from where we are.
void OpenDatabase::on_owner_reset(const Reset& reset) {
  if (reset.kind == ResetKind::rewound && !reset_flag()) {
    keeper_->history_changed();
    return;
  }
  set_reset(reset);
  tell_listeners();
}

void OpenDatabase::lost(ResetKind kind, std::string message, std::optional<Owner> current) {
  Reset reset{kind, std::move(message), Epoch{}, std::move(current)};
  if (const auto owned = copy_->owned()) reset.ours = owned->epoch;
  if (const auto ours = owner()) ours->reset(kind, reset.message);
  set_reset(std::move(reset));
  tell_listeners();
}

void OpenDatabase::set_reset(Reset reset) {
  {
    const Lock lock(mutex_);
    if (!reset_) reset_ = std::move(reset);
  }
  reset_flag_.store(true, std::memory_order_release);
  hold_.wake_waiters();
  hold_.wake();
}

// Exactly once each, on the owner's thread or the keeper's, without a lock of ours.
void OpenDatabase::tell_listeners() {
  if (const auto reset = current_reset()) listeners_.tell(*reset);
}

void OpenDatabase::on_reset(std::function<void(const Reset&)> listener) { listeners_.add(std::move(listener)); }

// ---- CaretakerSeat

std::unique_ptr<core::Stream> OpenDatabase::session() { return home_->stream(*settings_.name); }

std::optional<core::OwnerToken> OpenDatabase::token() {
  const auto ours = owner();
  if (!ours || reset_flag()) return std::nullopt;
  const owner::Status status = ours->status();
  core::OwnerToken token{{}, status.token.epoch, {}};
  if (status.reset || !parse(status.token.incarnation, token.incarnation) || !parse(status.token.claim_id, token.claim_id)) return std::nullopt;
  return token;
}

std::uint64_t OpenDatabase::database_bytes() { return std::uint64_t{copy_->state().page_count} * page_size_; }

Offset OpenDatabase::position() { return copy_->state().offset; }

Result<std::unique_ptr<PinnedCopy>> OpenDatabase::pin() {
  return pin_copy(*environment_.disk, hold_, copy_->db_path(), environment_.runtime->now() + kPinWithin);
}

Result<Offset> OpenDatabase::append_record(core::RecordKind kind, Bytes payload) {
  const auto ours = owner();
  if (!ours) return tl::unexpected(Error{Outcome::not_owner, "Nobody owns the stream at the moment.", {}});
  const Instant deadline = environment_.runtime->now() + settings().commit_timeout;
  if (const auto ahead = copy_->record_ahead(); !ahead) return tl::unexpected(ahead.error());
  const auto ticket = ours->submit(std::move(payload), deadline, kind);
  if (!ticket) return tl::unexpected(ticket.error());
  const owner::Fate fate = ours->wait(*ticket, deadline, &closing_);
  if (fate.kind == owner::Fate::Kind::acknowledged) {
    copy_->record_landed(fate.sequence);
    return fate.offset;
  }
  return tl::unexpected(fate.error.value_or(Error{Outcome::unknown, "The home did not say whether the record is in the stream.", {}}));
}

Result<core::SnapshotInfo> OpenDatabase::snapshot_now() {
  if (caretaker() == nullptr) return tl::unexpected(Error{Outcome::not_owner, fmt::format("'{}' is not open for writing here.", settings_.name->text()), {}});
  return caretaker()->snapshot_now();
}

void OpenDatabase::sent(std::uint64_t bytes) {
  if (caretaker() != nullptr) caretaker()->committed(bytes);
}

Result<> OpenDatabase::stop(std::optional<std::chrono::nanoseconds> flush) {
  if (stopped_) return {};
  stopped_ = true;
  if (forked()) {  // the parent's: its threads are not here to be joined, its state file and lock are not ours to touch
    static_cast<void>(capture_.release());
    static_cast<void>(keeper_.release());
    static_cast<void>(caretaker_.release());
    static_cast<void>(follow_.release());
    static_cast<void>(copy_.release());
    static_cast<void>(home_.release());
    return {};
  }
  Result<> left;
  closing_.store(true);
  hold_.no_more_pins();
  if (follow_) {
    follow_->stop();
    if (follower()) copy_->rest();
    tell_listeners();
  }
  if (caretaker_) caretaker_->stop();
  if (keeper_) {
    const Instant deadline = environment_.runtime->now() + flush.value_or(settings().close_flush);
    if (hold_.pending() && owner()) static_cast<void>(keeper_->flush(deadline));
    if (hold_.pending()) left = tl::unexpected(keeper_->left_over("Closed"));
    const auto last = owner();
    keeper_->end();  // what it waits for ends with the owner
    if (last) {
      // Its `released` record counts among the appends of this ownership, with commits left behind that were never sent.
      const Instant now = environment_.runtime->now();
      const bool noted = !hold_.pending() || copy_->record_ahead();
      if (const auto done = last->stop(noted ? std::max(deadline, now) : now); !done && left) left = done;
    }
    keeper_->stop();
    tell_listeners();
    if (!left) refuse(left.error().message);
  }
  capture_.reset();
  keeper_now_.store(nullptr);
  keeper_.reset();
  follow_.reset();
  caretaker_now_.store(nullptr);
  caretaker_.reset();
  if (copy_) {
    if (const auto done = copy_->close(); !done) environment_.log(LogLevel::warn, done.error().message);
  }
  return left;
}

Result<> OpenDatabase::flush(std::chrono::nanoseconds limit) { return keeper() != nullptr ? keeper()->flush(environment_.runtime->now() + limit) : Result<>{}; }

// ---- a follower

void OpenDatabase::on_follow_ended(const Error& error) {
  const auto kind = [&] {
    switch (error.outcome) {
      case Outcome::not_found: return ResetKind::removed;
      case Outcome::gone:
      case Outcome::incarnation_changed: return ResetKind::rewound;
      case Outcome::unavailable: return ResetKind::broken;
      case Outcome::fence_unavailable:  // the log is damaged, or suspect: the copy is as good as it was
      case Outcome::read_fenced:
      case Outcome::quarantined: return ResetKind::refused;
      default: return ResetKind::diverged;
    }
  }();
  set_reset(Reset{kind, fmt::format("'{}' cannot be followed any further: {}. Open it again.", settings_.name->text(), error.message), Epoch{}, error.current});
  tell_listeners();
}

Result<> OpenDatabase::wait_for(const Offset& offset, std::chrono::nanoseconds limit) {
  const Instant deadline = environment_.runtime->now() + limit;
  if (follower()) {
    const auto shown = follow_->wait_for(offset, deadline);
    if (shown || follower()) return shown;
  }
  // The owner sees everything that it wrote, and all that was there before.
  if (!(copy_->state().offset < offset)) return {};
  return tl::unexpected(Error{Outcome::invalid,
                              fmt::format("'{}' is written by this process, up to offset {}; {} is none that it was given", settings_.name->text(),
                                          copy_->state().offset.text, offset.text),
                              {}});
}

Result<> OpenDatabase::check_staleness() {
  if (!follower() || !settings_.max_staleness || !guard_on(Guard::stale_refused)) return {};
  const auto fresh = follow_->fresh(*settings_.max_staleness, environment_.runtime->now() + *settings_.max_staleness);
  return follower() ? fresh : Result<>{};  // it may have taken over meanwhile
}

Result<Offset> OpenDatabase::confirm(std::chrono::nanoseconds limit) {
  if (forked()) return tl::unexpected(Error{Outcome::epoch_closed, forked_sentence(), {}});
  if (const auto reset = current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  if (keeper() == nullptr || follower())
    return tl::unexpected(
        Error{Outcome::not_owner, fmt::format("'{}' is open read-only (mode=ro): it owns nothing that could be confirmed.", settings_.name->text()), {}});
  const Instant deadline = environment_.runtime->now() + limit;
  auto confirmed = keeper()->synced(deadline);
  if (confirmed) return confirmed;
  // The owner's listener comes on its own thread, perhaps later; the caller has been told, so nothing begins from here on (I7).
  if (const auto ours = owner(); ours && ours->status().reset && ours->status().reset->kind != ResetKind::rewound) reset_after(confirmed.error());
  if (const auto reset = current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  return confirmed;
}

void OpenDatabase::reset(ResetKind kind, std::string message) {
  const auto ours = owner();
  if (ours) ours->reset(kind, message);
  // The owner's listener may come later, on its own thread; this handle must not begin anything meanwhile.
  const owner::Status now = ours ? ours->status() : owner::Status{};
  set_reset(now.reset && now.reset->kind != ResetKind::rewound ? *now.reset : Reset{kind, std::move(message), now.token.epoch});
}

void OpenDatabase::reset_after(const Error& refusal) {
  const auto ours = owner();
  const owner::Status now = ours ? ours->status() : owner::Status{};
  set_reset(now.reset ? *now.reset : Reset{kind_after(refusal.outcome), refusal.message, now.token.epoch, refusal.current});
}

// What was committed here and nobody else has is not lost: the sentence says where it is, and how many as it is asked. A commit may just be on its way.
std::optional<Reset> OpenDatabase::current_reset() const {
  if (!reset_flag()) return std::nullopt;
  Reset reset;
  {
    const Lock lock(mutex_);
    reset = *reset_;
  }
  const WalHold::View view = hold_.view();
  if (view.pending() != 0 && reset.salvage_path.empty()) reset.salvage_path = copy_->folder();
  if (view.pending() != 0 && reset.kind != ResetKind::broken && reset.kind != ResetKind::unresolved) {
    const bool comes_back = reset.kind == ResetKind::refused;
    reset.message += fmt::format(" {} commits of durability=local are not in the stream: they are kept in {}, and {}.", view.pending(), copy_->folder(),
                                 comes_back ? std::string("are sent when the database is opened again")
                                            : fmt::format("move to {}/salvage/{}/ when the database is opened again, unless the stream can still take them",
                                                          settings_.cache_root, settings_.name->text()));
  }
  return reset;
}

void OpenDatabase::poison(std::string_view why) {
  poisoned_.store(true, std::memory_order_release);
  // Failing to write that down is no news: the state file already names both the state before and after, and neither will fit.
  if (const auto done = copy_->poison(why); !done) environment_.log(LogLevel::error, done.error().message);
}

void OpenDatabase::doubt(std::string_view why) {
  poisoned_.store(true, std::memory_order_release);
  if (const auto done = copy_->doubt(why); !done) environment_.log(LogLevel::error, done.error().message);
}

void OpenDatabase::note_committed() {
  CommitState now = copy_->state();
  Lock lock(mutex_);
  committed_ = std::move(now);
}

void OpenDatabase::landed(const WalPlace& end) {
  CommitState state;
  {
    const Lock lock(mutex_);
    state = committed_;
  }
  hold_.landed(end, std::move(state));
}

bool OpenDatabase::wait_for_sender(std::uint64_t least, std::chrono::nanoseconds patience) {
  const std::uint64_t bytes = std::uint64_t{hold_.view().published.frame} * (page_size_ + kWalFrameHeaderBytes);
  if (bytes < std::max(least, patient_from_) || !owner() || reset_flag()) return false;
  const WalHold::Urgent urgent(hold_);
  hold_.changed().wait(environment_.runtime->now() + patience, [&] { return !hold_.pending() || reset_flag(); });
  const bool drained = !hold_.pending();
  patient_from_ = drained ? 0 : bytes + bytes / 4;
  return drained;
}

bool OpenDatabase::wal_ends(const std::function<int(std::uint32_t, std::span<const std::byte>)>& write, const std::function<int()>& sync) {
  if (const auto gaps = hold_.gaps(); !gaps.empty()) {
    const Bytes zeros(page_size_);
    for (const std::uint32_t page : gaps) {
      if (write(page, zeros) != SQLITE_OK) return false;
    }
    if (sync() != SQLITE_OK) return false;
  }
  if (const auto noted = copy_->wal_restarting(local()); !noted) {
    environment_.log(LogLevel::warn, noted.error().message);
    return false;
  }
  hold_.gaps_zeroed();
  return true;
}

core::RequestCounts OpenDatabase::requests() const {
  const core::Home* const home = home_now_.load(std::memory_order_acquire);
  if (home == nullptr) return {};
  core::RequestCounts counts = home->requests();
  for (std::size_t i = 0; i < requests_before_.size() && i < counts.size(); ++i) counts[i].second -= requests_before_[i].second;
  return counts;
}

DatabaseStatus OpenDatabase::status() const {
  DatabaseStatus status;
  status.name = settings_.name->text();
  status.home_url = settings_.home_url;
  status.follower = follower();
  status.standby = status.follower && settings_.standby;
  status.durability = settings().durability;
  if (forked()) {
    status.reset = Reset{ResetKind::diverged, forked_sentence(), Epoch{}};
    return status;
  }
  status.requests = requests();
  status.opening_requests = opening_requests_.load(std::memory_order_acquire);
  status.copy_path = copy_->db_path();
  status.salvaged = salvaged_;
  status.reset = current_reset();
  if (const Keeper* const keeper = status.follower ? nullptr : this->keeper()) {
    status.offline = keeper->offline();
    status.trouble = keeper->trouble();
    if (const auto ours = owner()) status.owner = ours->status();
    else if (const auto owned = copy_->owned()) status.owner.token = {to_text(owned->incarnation), owned->epoch, to_text(owned->claim_id)};
    const WalHold::View view = hold_.view();
    status.pending_commits = local() ? view.pending() : status.owner.pending;
    status.pending_bytes = std::uint64_t{view.pending_frames()} * (page_size_ + kWalFrameHeaderBytes);
  }
  if (status.follower) {
    const FollowStatus now = follow_->status();
    status.copy = now.state;
    status.trouble = now.trouble;
    if (now.contact) status.contact_age = std::chrono::duration_cast<std::chrono::milliseconds>(environment_.runtime->now() - *now.contact);
    return status;
  }
  if (caretaker() != nullptr) status.growth = caretaker()->status();
  if (local()) status.copy = copy_->state();
  if (local()) return status;
  Lock lock(mutex_);
  status.copy = committed_;
  return status;
}

}  // namespace onepen::sqlite
