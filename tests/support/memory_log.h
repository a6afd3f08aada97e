// The log of one stream of the memory home, and what changes it besides the fence. Inside memory_home.cc and memory_changes.cc only.
#pragma once
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/fence.h"
#include "core/home.h"

namespace onepen::testing {

struct Snapshot {
  core::SnapshotInfo info;
  std::vector<Bytes> parts;
};

struct Log {
  core::StreamState state;
  std::vector<core::Record> records;  // the n-th ends at position (history, n)
  std::string endpoint;
  std::optional<Outcome> refuse_data;
  std::uint64_t histories = 0;
  bool released = false;
  std::uint32_t calm_at = 0;                      // claims_since_data when an owner last ended in peace
  std::uint64_t bytes = 0;                        // ever appended
  std::map<std::uint64_t, std::uint64_t> common;  // history → how many of its records the newest history has, at the same positions
  std::uint64_t trimmed = 0;                      // reads below are gone
  std::vector<Snapshot> snapshots;                // whole ones, of the newest history
};

inline Offset offset_of(core::Position position) {
  char text[40];
  std::snprintf(text, sizeof text, "%08llx-%016llx", static_cast<unsigned long long>(position.high), static_cast<unsigned long long>(position.low));
  return Offset{text};
}

inline std::optional<core::Position> position_of(const Offset& offset) {
  unsigned long long high = 0, low = 0;
  if (std::sscanf(offset.text.c_str(), "%8llx-%16llx", &high, &low) != 2) return {};
  return core::Position{high, low};
}

// How many records stand before `at`; none: it is no position of the newest history.
inline std::optional<std::uint64_t> place_of(const Log& log, core::Position at) {
  const std::uint64_t now = log.state.tail.high;
  if (at.high != now) {
    const auto common = log.common.find(at.high);
    if (common == log.common.end() || at.low > common->second) return {};
  }
  if (at.low > log.records.size() || at.low < log.trimmed) return {};
  return at.low;
}

inline core::Position next_of(const Log& log) { return {log.state.tail.high, log.state.tail.low + 1}; }

// Collects the parts of a snapshot; `keep` makes it count.
class PartsInMemory : public core::SnapshotWriter {
 public:
  using Keep = std::function<core::Answer<core::SnapshotInfo>(Snapshot)>;
  PartsInMemory(Snapshot begun, Keep keep) : snapshot_(std::move(begun)), keep_(std::move(keep)) {}
  core::Answer<bool> add(ByteView part) override {
    if (part.size() > core::kMaxSnapshotPart) return tl::unexpected(core::Refusal{Outcome::too_large, "a part of a snapshot is too large"});
    snapshot_.parts.push_back(to_bytes(part));
    snapshot_.info.bytes += part.size();
    snapshot_.info.parts = static_cast<std::uint32_t>(snapshot_.parts.size());
    return true;
  }
  core::Answer<core::SnapshotInfo> finish(const Bytes& about) override {
    snapshot_.info.about = about;
    return keep_(snapshot_);
  }
  const Snapshot& so_far() const { return snapshot_; }

 private:
  Snapshot snapshot_;
  Keep keep_;
};

// A new history that is the old one up to its first `kept` records.
inline core::Decision history_of(Log& log, core::AdminCommand command, std::uint64_t kept) {
  const std::uint64_t before = log.state.tail.high, next = log.histories + 1;
  command.next_tail = {next, kept};
  auto decision = core::apply(log.state, command);
  if (decision.outcome != Outcome::applied) return decision;
  log.histories = next;
  for (auto& [history, common] : log.common) common = std::min(common, kept);
  log.common[before] = kept;
  log.records.resize(kept);
  for (core::Record& record : log.records) record.next = offset_of({next, position_of(record.next)->low});
  std::erase_if(log.snapshots, [&](const Snapshot& s) { return position_of(s.info.offset)->low > kept; });
  for (Snapshot& snapshot : log.snapshots) snapshot.info.offset = offset_of({next, position_of(snapshot.info.offset)->low});
  log.released = false;
  log.endpoint.clear();
  return decision;
}

inline void empty(Log& log) {
  log.records.clear();
  log.snapshots.clear();
  log.common.clear();
  log.trimmed = 0;
  log.released = false;
}

}  // namespace onepen::testing
