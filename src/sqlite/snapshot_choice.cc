#include "sqlite/snapshot_choice.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace onepen::sqlite {
namespace {

// A caretaker may remove a snapshot while it is read; there is a newer one then.
constexpr int kTriesWhileRemoved = 8;

tl::unexpected<Error> not_answered(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }

class Choosing {
 public:
  Choosing(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const std::string& db_path, PageTable& table, const SnapshotChoice& choice)
      : runtime_(runtime), disk_(disk), source_(source), db_path_(db_path), table_(table), choice_(choice) {}

  Result<std::optional<CommitState>> run() {
    for (int tries = 1;; ++tries) {
      damaged_.clear();
      auto begun = once();
      if (begun || begun.error().outcome != Outcome::gone || tries == kTriesWhileRemoved) return begun;
    }
  }

 private:
  Result<std::optional<CommitState>> once() {
    auto newest = source_.stream.newest_snapshot();
    if (!newest) return not_answered(newest.error());
    if (!*newest) return std::optional<CommitState>{};
    if (wanted(**newest)) {
      auto state = load(**newest);
      if (!state || *state) return state;
    }
    auto all = source_.stream.snapshots();
    if (!all) return not_answered(all.error());
    for (const core::SnapshotInfo& info : *all) {
      if (info.id == (*newest)->id || !wanted(info)) continue;
      auto state = load(info);
      if (!state || *state) return state;
    }
    return from_the_beginning();
  }

  bool wanted(const core::SnapshotInfo& info) const { return !choice_.wanted || choice_.wanted(info); }

  // None: it is damaged.
  Result<std::optional<CommitState>> load(const core::SnapshotInfo& info) {
    auto state = load_snapshot(runtime_, disk_, source_, info, db_path_, table_, choice_.load);
    if (state) {
      if (!damaged_.empty()) choice_.log(LogLevel::warn, fmt::format("{}. Snapshot {}, of before, was used instead", damaged_.back(), info.id));
      return std::optional(std::move(*state));
    }
    if (state.error().outcome != Outcome::state_mismatch) return tl::unexpected(state.error());
    if (!damaged_.empty()) choice_.log(LogLevel::warn, damaged_.back());
    damaged_.push_back(state.error().message);
    if (damaged_.back().ends_with('.')) damaged_.back().pop_back();  // a home's sentence; ours go on behind it
    return std::optional<CommitState>{};
  }

  // Nothing to begin with: is the log there from its first record on?
  Result<std::optional<CommitState>> from_the_beginning() {
    if (damaged_.empty()) return std::optional<CommitState>{};
    auto read = source_.stream.read({}, {.records = 1, .bytes = 1});
    if (read) {
      choice_.log(LogLevel::warn, fmt::format("{}. There is no other snapshot, so the log is read from its beginning", damaged_.back()));
      return std::optional<CommitState>{};
    }
    if (read.error().outcome != Outcome::gone) return not_answered(read.error());
    const std::size_t others = damaged_.size() - 1;
    return tl::unexpected(Error{Outcome::state_mismatch,
                                fmt::format("{}. {}, and the log before it was trimmed, so there is nothing to begin with. Put the damaged file back from a "
                                            "backup or from another copy of the home, and open again",
                                            damaged_.front(),
                                            others == 0   ? "There is no other snapshot"
                                            : others == 1 ? "The snapshot before it is damaged as well"
                                                          : fmt::format("The {} snapshots before it are damaged as well", others)),
                                std::nullopt});
  }

  Runtime& runtime_;
  io::Disk& disk_;
  const SnapshotSource& source_;
  const std::string& db_path_;
  PageTable& table_;
  const SnapshotChoice& choice_;
  std::vector<std::string> damaged_;  // what is wrong with each, newest first
};

}  // namespace

Result<std::optional<CommitState>> begin_with_snapshot(Runtime& runtime, io::Disk& disk, const SnapshotSource& source, const std::string& db_path,
                                                       PageTable& table, const SnapshotChoice& choice) {
  table = PageTable{};
  return Choosing(runtime, disk, source, db_path, table, choice).run();
}

}  // namespace onepen::sqlite
