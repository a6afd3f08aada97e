#include "sqlite/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/guard.h"

namespace onepen::sqlite {
namespace {

// Nothing came for a while: the home is asked more rarely, every twentieth of that time, so that a thousand followers of quiet databases cost little. A new record
// is then seen so much later, once.
constexpr std::chrono::seconds kQuietAfter{5}, kRarest{1};
constexpr int kQuietShare = 20;
// Where each look is paid for: half of the time for which nothing came, so that a dozen looks lead from a busy database to the rarest pace.
constexpr int kPaidQuietShare = 2;
// The followers of a process that are up to date take an eighth of one core together, however many there are: each rests, between two batches, as long as all of them
// need for seven (kRestShare). One alone rests for a millisecond or two; many rest up to kRarest, and more commits make one batch. Measured is the quickest of the last
// batches: one that waited for a disk, or for a core, took nothing from anybody meanwhile. Whoever waits for an offset ends the rest.
constexpr int kRestShare = 7;
constexpr std::size_t kLastBatches = 16;
constexpr std::chrono::nanoseconds kFirstFollowPause = std::chrono::milliseconds(20), kLastFollowPause = std::chrono::seconds(2);

// Of an answer of the home: is there anything to be had by asking again? A stream of which nothing is there is out of sight; only a tombstone is a removal (ADR 0009).
bool passes(const core::Refusal& refusal) {
  return refusal.outcome == Outcome::unavailable || refusal.outcome == Outcome::unknown || refusal.outcome == Outcome::unauthorised ||
         core::out_of_sight(refusal);
}

}  // namespace

Follow::Follow(Runtime& runtime, Copy& copy, std::unique_ptr<core::Stream> stream, std::string name, std::function<void(const Error&)> ended, Log log,
               FollowManners manners)
    : runtime_(runtime),
      copy_(copy),
      stream_(std::move(stream)),
      name_(std::move(name)),
      ended_(std::move(ended)),
      log_(std::move(log)),
      manners_(std::move(manners)),
      wake_(runtime.make_signal()),
      changed_(runtime) {}

Follow::~Follow() { stop(); }

void Follow::begin() {
  position_ = copy_.position();
  {
    const Lock lock(mutex_);
    status_.state = copy_.state();
  }
  ++*manners_.company;
  thread_ = runtime_.spawn("onepen-follow", [this] { run(); });
}

void Follow::stop() {
  stop_.store(true);
  wake_->notify();
  changed_.wake_all();
  if (thread_) --*manners_.company;
  thread_.reset();
}

FollowStatus Follow::status() const {
  const Lock lock(mutex_);
  return status_;
}

void Follow::run() {
  Instant last_news = runtime_.now();
  std::array<std::chrono::nanoseconds, kLastBatches> took{};
  std::size_t batches = 0;
  while (!stop_.load()) {
    const Instant from = runtime_.now();
    const auto more = read_on();
    if (!more) return failed(more.error());
    if (manners_.turn && take_turn()) return;
    if (!*more) {
      backoff_ = std::clamp(2 * backoff_, kFirstFollowPause, kLastFollowPause);
      wake_->wait_until(runtime_.now() + backoff_);  // a standby is no less patient with a home that does not serve
      continue;
    }
    backoff_ = {};
    const Instant now = runtime_.now();
    if ((*more)->news) {
      last_news = now;
      took[batches++ % kLastBatches] = now - from;
      const auto quickest = *std::min_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(std::min(batches, kLastBatches)));
      const int share = (kRestShare + 1) * manners_.company->load() - 1;
      if ((*more)->up_to_date && !asked_.load()) pause(std::min<std::chrono::nanoseconds>(share * quickest, kRarest));
      continue;
    }
    const auto quiet = now - last_news;
    if (manners_.pace.metered) {
      if (!asked_.load()) pause(std::clamp(quiet / kPaidQuietShare, manners_.pace.first_look, manners_.pace.last_look));
    } else if (quiet > kQuietAfter) {
      pause(std::min<std::chrono::nanoseconds>(quiet / kQuietShare, kRarest));
    } else if (!asked_.load()) {
      static_cast<void>(stream_->wait(position_, now + least_of(manners_.look)));  // what it fails of, the next read says
      if (runtime_.now() <= now) pause(kFirstFollowPause);  // (it failed, or the process is being stopped)
    }
  }
}

// None: the home does not serve for the moment. Errors: what ends it.
Result<std::optional<Follow::Run>> Follow::read_on() {
  const Instant before = runtime_.now();
  asked_.store(false);
  const auto read = stream_->read(position_, core::ReadLimit{});
  if (!read && guard_on(Guard::follow_reads_anew) && (read.error().outcome == Outcome::gone || read.error().outcome == Outcome::incarnation_changed)) {
    const CommitState shown = copy_.state();
    const auto anew = begin_anew(read.error());
    if (anew) return std::optional(Run{true, false});
    // It was written, and could not be shown: what the WAL holds of it, only the next opening tells.
    if (!(copy_.state() == shown)) return tl::unexpected(anew.error());
    if (anew.error().outcome == Outcome::state_mismatch || anew.error().outcome == Outcome::invalid) return tl::unexpected(anew.error());
    in_trouble(anew.error().message);  // also when the new history has no commit yet
    return std::optional<Run>{};
  }
  if (!read && passes(read.error())) {
    in_trouble(read.error().message);
    return std::optional<Run>{};
  }
  if (!read) return tl::unexpected(Error{read.error().outcome, read.error().message, read.error().current});
  for (const core::Record& record : read->records) {
    if (const auto applied = copy_.apply(record); !applied) return tl::unexpected(applied.error());
    position_ = record.next;
  }
  if (!read->records.empty()) {
    if (const auto shown = copy_.settle(); !shown) return tl::unexpected(shown.error());
  }
  const CommitState now = copy_.state();
  const bool moved = [&] {
    const Lock lock(mutex_);
    const bool more = !(status_.state == now);
    status_.state = now;
    if (read->up_to_date) status_.contact = before;
    status_.trouble.clear();
    return more;
  }();
  if (moved || read->up_to_date) changed_.wake_all();
  return std::optional(Run{!read->records.empty(), read->up_to_date});
}

void Follow::in_trouble(const std::string& why) {
  bool first = false;
  {
    const Lock lock(mutex_);
    first = status_.trouble.empty();
    status_.trouble = why;
  }
  if (first) log_(LogLevel::warn, fmt::format("'{}' cannot be followed for the moment: {}", name_, why));
  changed_.wake_all();
}

Result<> Follow::begin_anew(const core::Refusal& why) {
  log_(LogLevel::info, fmt::format("'{}' is read anew, and its readers go on meanwhile with what they see: {}", name_, why.message));
  if (const auto anew = copy_.begin_anew(*stream_); !anew) return anew;
  position_ = copy_.position();
  {
    const Lock lock(mutex_);
    status_.state = copy_.state();
  }
  changed_.wake_all();
  return {};
}

// True: following is over.
bool Follow::take_turn() {
  const FollowTurn turn = manners_.turn(*stream_);
  if (turn == FollowTurn::go_on) return false;
  position_ = copy_.position();
  {
    const Lock lock(mutex_);
    status_.state = copy_.state();
    status_.over = turn == FollowTurn::over;
  }
  changed_.wake_all();
  return turn == FollowTurn::over;
}

std::chrono::nanoseconds Follow::least_of(std::chrono::nanoseconds time) const { return manners_.patience ? std::min(time, manners_.patience()) : time; }

void Follow::wake() {
  asked_.store(true);
  wake_->notify();
}

void Follow::pause(std::chrono::nanoseconds time) { wake_->wait_until(runtime_.now() + least_of(time)); }

void Follow::failed(const Error& error) {
  log_(LogLevel::error, fmt::format("'{}' is not followed any more: {}", name_, error.message));
  {
    const Lock lock(mutex_);
    status_.ended = error;
  }
  changed_.wake_all();
  ended_(error);
}

Result<> Follow::wait_for(const Offset& offset, Instant deadline) {
  if (!guard_on(Guard::wait_until_shown)) return {};
  const auto there = [&] {
    const Lock lock(mutex_);
    return !(status_.state.offset < offset);
  };
  const auto over = [&] {
    if (there() || stop_.load()) return true;
    const FollowStatus now = status();
    return now.ended || now.over;
  };
  if (!there()) {
    asked_.store(true);
    wake_->notify();
    changed_.wait(deadline, over);
  }
  if (there()) return {};
  const FollowStatus now = status();
  if (now.ended) return tl::unexpected(*now.ended);
  return tl::unexpected(Error{Outcome::unavailable,
                              fmt::format("'{}' is shown up to offset {}, not yet up to {}{}{}", name_, now.state.offset.text, offset.text,
                                          now.trouble.empty() ? "" : ": ", now.trouble),
                              {}});
}

Result<> Follow::fresh(std::chrono::nanoseconds most, Instant deadline) {
  const auto age = [&]() -> std::optional<std::chrono::nanoseconds> {
    const Lock lock(mutex_);
    if (!status_.contact) return std::nullopt;
    return runtime_.now() - *status_.contact;
  };
  const auto is_fresh = [&] {
    const auto old = age();
    return old && *old <= most;
  };
  if (!is_fresh()) {
    asked_.store(true);
    wake_->notify();
    changed_.wait(deadline, [&] {
      if (is_fresh() || stop_.load()) return true;
      const FollowStatus now = status();
      return now.ended || now.over;
    });
  }
  if (is_fresh()) return {};
  const FollowStatus now = status();
  if (now.ended) return tl::unexpected(*now.ended);
  const auto old = age();
  const std::string since =
      old ? fmt::format("{} ms ago", std::chrono::duration_cast<std::chrono::milliseconds>(*old).count()) : std::string("never since it was opened");
  return tl::unexpected(Error{Outcome::unavailable,
                              fmt::format("'{}' was last known to be up to date {}, and max_staleness is {} ms{}{}", name_, since,
                                          std::chrono::duration_cast<std::chrono::milliseconds>(most).count(), now.trouble.empty() ? "." : ": ", now.trouble),
                              {}});
}

}  // namespace onepen::sqlite
