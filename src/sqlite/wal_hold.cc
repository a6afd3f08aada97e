#include "sqlite/wal_hold.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {

namespace {
constexpr std::uint32_t kCheckpointEvery = 1000;  // frames: SQLite's own default
}  // namespace

WalHold::WalHold(Runtime& runtime) : runtime_(runtime), work_(runtime.make_signal()), changed_(runtime) {}

WalHold::View WalHold::view() const {
  const Lock lock(mutex_);
  return view_;
}

void WalHold::begin(WalBeginning found) {
  const Lock lock(mutex_);
  view_ = {found.published, found.acknowledged, found.pending, 0};
  state_ = std::move(found.state);
  began_with_ = found.began_with;
  backfilled_ = found.published.frame;  // an earlier process may have copied any of it
  gaps_ = std::move(found.gaps);
}

void WalHold::publish(const WalPlace& end) {
  bool wake = false;
  {
    const Lock lock(mutex_);
    view_.published = end;
    ++view_.published_commits;
    wake = sleeper_ == Sleeper::resting;
    if (wake) sleeper_ = Sleeper::awake;
  }
  if (wake) work_->notify();
}

void WalHold::landed(const WalPlace& end, CommitState state) {
  const Lock lock(mutex_);
  state_ = std::move(state);
  view_.published = view_.acknowledged = end;
  ++view_.published_commits;
  ++view_.acknowledged_commits;
}

void WalHold::restarted(std::uint32_t salt1, std::uint32_t salt2) {
  const Lock lock(mutex_);
  view_.published = view_.acknowledged = WalPlace{salt1, salt2, 0};
  began_with_ = state_.page_count;
  backfilled_ = 0;
  automatic_at_.reset();
  restarting_ = false;
}

bool WalHold::held() const {
  const Lock lock(mutex_);
  return guard_on(Guard::wal_held) && (view_.pending() != 0 || pins_ != 0);
}

bool WalHold::checkpoint_begins(bool after_commit) {
  const Lock lock(mutex_);
  if (pins_ != 0) return false;
  const std::uint32_t at = view_.published.frame;
  if (after_commit && view_.pending() != 0 && automatic_at_ && at >= *automatic_at_ && at - *automatic_at_ < kCheckpointEvery) return false;
  automatic_at_ = after_commit ? std::optional(at) : std::nullopt;
  ++checkpoints_;
  return true;
}

void WalHold::checkpoint_ended(std::uint32_t backfilled) {
  {
    const Lock lock(mutex_);
    --checkpoints_;
    backfilled_ = std::max(backfilled_, std::min(backfilled, view_.published.frame));
  }
  changed_.wake_all();
}

bool WalHold::restart_begins() {
  const Lock lock(mutex_);
  if (guard_on(Guard::wal_held) && (view_.pending() != 0 || pins_ != 0)) return false;
  restarting_ = true;
  return true;
}

void WalHold::restart_over() {
  const Lock lock(mutex_);
  restarting_ = false;
}

bool WalHold::close_begins() {
  const Lock lock(mutex_);
  if (guard_on(Guard::wal_held) && (view_.pending() != 0 || pins_ != 0)) return false;
  ++closes_;
  return true;
}

void WalHold::close_over() {
  const Lock lock(mutex_);
  --closes_;
}

std::optional<WalHold::Boundary> WalHold::pin(Instant deadline) {
  {
    const Lock lock(mutex_);
    if (ended_ || closes_ != 0 || restarting_) return std::nullopt;
    ++pins_;
  }
  const Urgent urgent(*this);
  const bool quiet = changed_.wait(deadline, [&] {
    const Lock lock(mutex_);
    return ended_ || (checkpoints_ == 0 && view_.acknowledged.frame >= backfilled_);
  });
  {
    const Lock lock(mutex_);
    if (quiet && !ended_) return Boundary{state_, view_.acknowledged, began_with_};
  }
  unpin();
  return std::nullopt;
}

void WalHold::unpin() {
  const Lock lock(mutex_);
  --pins_;
}

bool WalHold::closing() const {
  const Lock lock(mutex_);
  return ended_;
}

void WalHold::no_more_pins() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.wake_all();
}

void WalHold::acknowledge(const WalPlace& end, CommitState state) {
  {
    const Lock lock(mutex_);
    state_ = std::move(state);
    view_.acknowledged = end;
    ++view_.acknowledged_commits;
  }
  changed_.wake_all();
}

bool WalHold::rest(std::uint64_t taken, Instant until) {
  {
    const Lock lock(mutex_);
    if (view_.published_commits > taken) return true;
    sleeper_ = Sleeper::resting;
  }
  return nap(until);
}

bool WalHold::linger(Instant until) {
  {
    const Lock lock(mutex_);
    if (urgent()) return true;
    sleeper_ = Sleeper::lingering;
  }
  return nap(until);
}

bool WalHold::nap(Instant until) {
  const Instant before = runtime_.now();
  const bool goes_on = before >= until || work_->wait_until(until) || runtime_.now() != before;
  const Lock lock(mutex_);
  sleeper_ = Sleeper::awake;
  return goes_on;
}

void WalHold::wake() { work_->notify(); }

WalHold::Urgent::Urgent(WalHold& hold) : hold_(hold) {
  hold_.urgent_.fetch_add(1);
  bool wake = false;
  {
    const Lock lock(hold_.mutex_);
    wake = hold_.sleeper_ == Sleeper::lingering;
    if (wake) hold_.sleeper_ = Sleeper::awake;
  }
  if (wake) hold_.work_->notify();
}

WalHold::Urgent::~Urgent() { hold_.urgent_.fetch_sub(1); }

void WalHold::note_pages(std::uint32_t page_size, std::uint32_t before, std::uint32_t after, std::span<const std::uint32_t> written) {
  const Lock lock(mutex_);
  update_gaps(gaps_, page_size, before, after, written);
}

bool WalHold::is_gap(std::uint32_t page) const {
  const Lock lock(mutex_);
  return gaps_.contains(page);
}

std::vector<std::uint32_t> WalHold::gaps() const {
  const Lock lock(mutex_);
  return {gaps_.begin(), gaps_.end()};
}

void WalHold::gaps_zeroed() {
  const Lock lock(mutex_);
  gaps_.clear();
}

std::uint64_t zero_page_hash(std::uint32_t page_number, std::uint32_t page_size) {
  static const Bytes zeros(wire::kMaxPageSize);
  return page_hash_of(page_number, ByteView(zeros).first(page_size));
}

void update_gaps(std::set<std::uint32_t>& gaps, std::uint32_t page_size, std::uint32_t before, std::uint32_t after, std::span<const std::uint32_t> written) {
  if (!gaps.empty()) {
    gaps.erase(gaps.upper_bound(after), gaps.end());
    if (!gaps.empty()) {
      for (const std::uint32_t page : written) gaps.erase(page);
    }
  }
  if (after <= before) return;
  auto next = std::lower_bound(written.begin(), written.end(), before + 1);
  for (std::uint32_t page = before + 1; page <= after; ++page) {
    if (next != written.end() && *next == page) ++next;
    else if (page != lock_byte_page(page_size)) gaps.insert(page);
  }
}

}  // namespace onepen::sqlite
