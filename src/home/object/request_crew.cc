#include "home/object/request_crew.h"

#include <utility>

namespace onepen::home {
namespace {

constexpr std::chrono::hours kCrewRest{1};  // of a wait that a notice ends

}  // namespace

void RequestCrew::ask(Work work) {
  auto task = std::make_shared<Task>(Task{std::move(work)});
  if (!answered_) answered_ = runtime_.make_signal();
  order_.push_back(task);
  Member* wake = nullptr;
  {
    const Lock lock(mutex_);
    if (ended_) return;
    waiting_.push_back(std::move(task));
    for (const auto& member : members_) {
      if (!std::exchange(member->idle, false)) continue;
      wake = member.get();
      break;
    }
  }
  if (wake != nullptr) return wake->wake->notify();
  if (members_.size() >= most_) return;
  Member& fresh = *members_.emplace_back(std::make_unique<Member>());
  fresh.wake = runtime_.make_signal();
  fresh.thread = runtime_.spawn(name_, [this, &fresh] { run(fresh); });
}

// None: it rests until there is something, or has `ended`.
std::shared_ptr<RequestCrew::Task> RequestCrew::next(Member& member, bool& ended) {
  const Lock lock(mutex_);
  ended = ended_;
  member.idle = !ended && waiting_.empty();
  if (ended || member.idle) return nullptr;
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

void RequestCrew::run(Member& member) {
  for (bool ended = false;;) {
    const auto task = next(member, ended);
    if (ended) return;
    if (!task) {
      if (!member.wake->wait_until(runtime_.now() + kCrewRest)) return stand_down();
      continue;
    }
    auto answer = task->work();
    {
      const Lock lock(mutex_);
      task->answer = std::move(answer);
    }
    answered_->notify();
  }
}

// The process is being stopped: nothing more is begun, and whoever waits learns it.
void RequestCrew::stand_down() {
  {
    const Lock lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  answered_->notify();
}

std::optional<Result<Bytes>> RequestCrew::take() {
  if (order_.empty()) return std::nullopt;
  const auto oldest = std::move(order_.front());
  order_.pop_front();
  for (;;) {
    {
      const Lock lock(mutex_);
      if (oldest->answer) return std::move(oldest->answer);
      if (ended_) return std::nullopt;
    }
    if (!answered_->wait_until(runtime_.now() + kCrewRest)) return std::nullopt;
  }
}

void RequestCrew::stop() {
  {
    const Lock lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  for (const auto& member : members_) member->wake->notify();
  members_.clear();
}

}  // namespace onepen::home
