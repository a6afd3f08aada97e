// A home in memory over core's real fence, shared by several Home handles (each stands for one process), with hooks that hold, lose and repeat answers.
// Used by the owner's tests and by the home conformance suite. Thread-safe.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "core/home.h"

namespace onepen::testing {

enum class Call { stat, claim, append, read, wait, beat, pulse, snapshot, tend, history, remove, suspect };

// What becomes of one call. The hook runs before the home is touched, without any lock held: a hook that blocks holds the call back.
enum class Trouble {
  none,
  unavailable,    // certainly not applied, and answered so
  lost_request,   // not applied, answered `unknown`
  lost_answer,    // applied, answered `unknown`
  late_request,   // answered `unknown` at once, applied when MemoryHome::deliver_late() is called
  repeated,       // applied twice; the second answer is given
};

struct CallInfo {
  Call call;
  const core::ClaimRequest* claim = nullptr;  // Call::claim
  const core::AppendBatch* batch = nullptr;   // Call::append
};
using Hook = std::function<Trouble(const CallInfo&)>;

class MemoryHome : public core::Home {
 public:
  struct Shared;  // the streams; one for all handles that see the same home
  static std::shared_ptr<Shared> make_shared_state();

  MemoryHome(Runtime& runtime, std::shared_ptr<Shared> shared);
  ~MemoryHome() override;

  std::unique_ptr<core::Stream> stream(const StreamName&) override;
  Result<std::vector<std::string>> list(const std::string& prefix) override;
  const std::string& url() const override;
  core::Pace pace() const override { return {}; }

  // Of this handle (process) only. Replaces the hook before it.
  void set_hook(Hook hook);
  // Applies the requests held back by Trouble::late_request, oldest first; answers how many.
  std::size_t deliver_late();
  // Removes a stream, as an administrator would. It can be made again, by a claim, with another incarnation and a higher epoch.
  void erase(const StreamName&);
  // Gives a stream a new incarnation without an owner, with the records it has (a restore to its tail) at other positions: all old ones are gone.
  void restore(const StreamName&);
  // Gives a stream a new incarnation without an owner that is the old one up to its first `records` records (none: all of them, as `adopt` does). Positions up
  // to there stay good.
  void new_history(const StreamName&, std::optional<std::size_t> records = {});
  // Takes the last `records` records away behind everybody's back, as an older copy of the home that was put back: same incarnation, same owner.
  void put_back(const StreamName&, std::size_t records);
  bool suspect(const StreamName&) const;
  // Every record that counts, oldest first.
  std::vector<core::Record> records(const StreamName&) const;
  // A refusal that every data append that would be applied gets from now on (a namespace fence, a quota); none: lifted.
  void refuse_data(const StreamName&, std::optional<Outcome> outcome);
  // Whether a read up to the tail tells the stat along (ReadResult::stat). Off at first. Set before other threads use it.
  void tell_along(bool on);
  std::uint64_t calls(Call) const;  // made through this handle

 private:
  class Session;
  Runtime& runtime_;
  std::shared_ptr<Shared> shared_;
  mutable std::mutex mutex_;
  Hook hook_;
  std::deque<std::function<void()>> late_;
  std::map<Call, std::uint64_t> calls_;
  bool tells_along_ = false;
};

}  // namespace onepen::testing
