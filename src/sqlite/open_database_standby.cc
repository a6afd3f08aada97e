// How a follower becomes the owner, in place and under its readers, and how an owner hands over to a standby.
//
//   take_over()   wish ──▶ following thread: (gently: the owner is asked) ──▶ claim ──▶ the copy is SQLite's ──▶ owner; the wish is answered
//   standby=1     following thread: Standby says when ──────────────────────▲
//   hand over     owner's thread: a standby stands ready ──▶ keeper's thread: no writer enters, all is sent, `released` ──▶ it claims ──▶ reset
#include <fmt/format.h>

#include <utility>

#include "sqlite/messages.h"
#include "sqlite/open_database.h"

namespace onepen::sqlite {
namespace {

constexpr std::chrono::milliseconds kWriterPause{1};  // between two looks whether the last writer has left

}  // namespace

// ---- a follower that becomes the owner

FollowTurn OpenDatabase::take_turn(core::Stream& stream) {
  std::shared_ptr<Wish> wish;
  {
    const Lock lock(mutex_);
    wish = wish_;
  }
  const Instant now = environment_.runtime->now();
  std::optional<owner::Chance> chance;
  if (wish && (wish->how == TakeOver::at_once || (wish->until && now >= *wish->until))) {
    chance = owner::Chance{};
  } else {
    if (wish && !wish->until) standby_->ask(wish->until.emplace(now + gentle_within()));
    chance = standby_->look(stream);
  }
  if (!chance) return FollowTurn::go_on;
  if (!wish) {
    as_owner_ = settings_.as_owner ? *settings_.as_owner : settings_;
    as_owner_->follower = false;
  } else {
    as_owner_ = wish->as;
  }
  const Result<> done = claim_as_follower(*chance);
  if (!done) standby_->failed(done.error());
  std::vector<std::function<void()>> listeners;
  {
    const Lock lock(mutex_);
    if (wish) {
      wish->answer = done;
      wish_.reset();
    } else if (done) {
      took_over_ = true;
      listeners = take_over_listeners_;
    }
  }
  wishes_.wake_all();
  for (const auto& listener : listeners) listener();
  return done || reset_flag() ? FollowTurn::over : FollowTurn::moved;
}

Result<> OpenDatabase::claim_as_follower(const owner::Chance& chance) {
  owner::Options options = owner_options(*as_owner_);
  options.create = false;
  if (chance.plan) {
    options.watched = chance.plan;
    options.takeover = owner::TakeoverMode::if_dead;
    options.info.why = "standby";
  }
  auto opened = owner::Owner::open(*environment_.runtime, home_->stream(*settings_.name), *copy_, *copy_, std::move(options));
  if (!opened) {
    if (const auto shown = copy_->settle(); !shown) environment_.log(LogLevel::warn, shown.error().message);  // (the next read meets it again)
    return tl::unexpected(opened.error());
  }
  now_.store(&*as_owner_, std::memory_order_release);
  if (const auto begun = begin_to_own(std::move(*opened)); !begun) {
    // The copy is no follower's any more, and nobody's to write: its readers go on with what they see.
    set_reset(Reset{ResetKind::broken,
                    fmt::format("'{}' was claimed, and could not be opened for writing: {}. Open it again.", settings_.name->text(), begun.error().message),
                    copy_->owned() ? copy_->owned()->epoch : Epoch{}});
    tell_listeners();
    return begun;
  }
  note_committed();
  follower_.store(false, std::memory_order_release);
  copy_->release();
  environment_.log(LogLevel::info, fmt::format("'{}': this process follows no more, it is the owner{}: {}", settings_.name->text(),
                                               chance.from.empty() ? std::string() : fmt::format(", after {}", chance.from), owner::word(chance.why)));
  return {};
}

std::chrono::nanoseconds OpenDatabase::gentle_within() const {
  return kGentleWithin + owner::handover_delay(home_->pace().metered, settings_.term.value_or(kDefaultTerm));
}

Result<> OpenDatabase::take_over(const OpenSettings& as, TakeOver how) {
  auto wish = std::make_shared<Wish>(Wish{as, how});
  const auto ended = [&] { return reset_flag() || (follow_ && follow_->status().ended); };
  for (;;) {
    {
      const Lock lock(mutex_);
      if (!wish_) wish_ = wish;
    }
    if (!follower()) break;
    if (follow_) follow_->wake();
    const Instant before = environment_.runtime->now();
    const bool decided = wishes_.wait(before + gentle_within(), [&] {
      const Lock lock(mutex_);
      return wish->answer.has_value() || wish_ == nullptr;
    }) || ended();
    const Lock lock(mutex_);
    if (wish->answer) return *wish->answer;
    if (decided && ended()) break;
    if (!decided && environment_.runtime->now() == before) break;  // the process is being stopped
  }
  {
    const Lock lock(mutex_);
    if (wish_ == wish) wish_.reset();
  }
  if (!follower() && !reset_flag()) return {};
  if (const auto reset = current_reset()) return tl::unexpected(Error{Outcome::epoch_closed, reset->message, reset->current});
  return tl::unexpected(Error{Outcome::closed, fmt::format("'{}' is followed no more here; open it again.", settings_.name->text()), {}});
}

void OpenDatabase::on_take_over(std::function<void()> listener) {
  {
    const Lock lock(mutex_);
    take_over_listeners_.push_back(listener);
    if (!took_over_) return;
  }
  listener();
}

// ---- an owner that hands over

Result<> OpenDatabase::writer_enters() {
  writers_.fetch_add(1);
  if (!draining_.load()) return {};
  writers_.fetch_sub(1);
  std::string to;
  {
    const Lock lock(mutex_);
    to = successor_;
  }
  return tl::unexpected(
      Error{Outcome::not_owner,
            fmt::format("'{}' is being handed over to {}: this process begins no transaction any more. Try it there.", settings_.name->text(), to),
            {}});
}

void OpenDatabase::writer_leaves() { writers_.fetch_sub(1); }

// Keeper's thread. From here on no writer enters; true: the last one has left. An empty successor ends it.
bool OpenDatabase::drain(const std::string& successor, Instant deadline) {
  {
    const Lock lock(mutex_);
    successor_ = successor;
  }
  draining_.store(!successor.empty());
  if (successor.empty()) return false;
  while (writers_.load() > 0) {
    const Instant now = environment_.runtime->now();
    if (now >= deadline || closing_.load() || reset_flag()) return false;
    environment_.runtime->sleep_until(now + kWriterPause);
    if (environment_.runtime->now() <= now) return false;  // the process is being stopped
  }
  return true;
}

}  // namespace onepen::sqlite
