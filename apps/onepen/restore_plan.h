// Where a restore goes back to, as people write it, and what a log keeps and loses by it. Pure: the caller reads clock and log.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/home.h"

namespace onepen::app {

struct RestorePoint {
  std::optional<Offset> offset{};  // just after the last thing that is kept; none: by time
  std::int64_t time_ms = 0;        // by the clocks of the machines that wrote
};

// An offset as Onepen prints it; "2026-11-29", "2026-11-29 17:05[:11[.123]]" (or with a T between; local time, or with Z or +hh:mm behind); "-2h", "-90s",
// "-1d12h": so long before now_ms. Errors: invalid, with what may be written.
Result<RestorePoint> read_restore_point(std::string_view text, std::int64_t now_ms);

// Commits one after the other, in the order of the log.
struct CommitSpan {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;                // of their payloads
  std::int64_t first_ms = 0, last_ms = 0;
  std::set<std::string> owners{};         // who made them: "'ingest', pid 12 on host a"
  void add(const core::Record& record, std::uint64_t commit_bytes, const std::string& owner);
};

// Fed with the records of the log in order, from any position between two commits to the tail.
//
// Kept is everything before the first commit that ends behind the point (by offset), or was made after it (by time): what follows that commit goes with it,
// whatever its clock said. Claims and control records are no loss, so the common part reaches as far as it can.
class RestorePlan {
 public:
  RestorePlan(RestorePoint point, Offset begin) : point_(std::move(point)), previous_(begin), common_(std::move(begin)) {}
  void take(const core::Record& record);

  bool loses() const { return lost_.count > 0; }
  const Offset& common() const { return common_; }  // the new history is the old one up to here
  const CommitSpan& kept() const { return kept_; }  // of those that were fed
  const CommitSpan& lost() const { return lost_; }
  std::int64_t first_ms() const { return first_ms_; }  // of the oldest commit that was fed; 0: none

 private:
  bool within(const core::Record& record) const;
  void commit(const core::Record& record);

  const RestorePoint point_;
  Offset previous_;                       // just after the last record that was fed
  Offset common_;
  std::optional<Offset> run_begin_{};     // of a commit whose last part has not come yet
  std::uint64_t run_bytes_ = 0;
  bool past_ = false;
  std::string owner_{};
  CommitSpan kept_{}, lost_{};
  std::int64_t first_ms_ = 0;
};

}  // namespace onepen::app
