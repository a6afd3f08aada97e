#include "sqlite/copy_trimmed.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"

#include "sqlite/copy_local.h"
#include "sqlite/snapshot_part.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {
namespace {

tl::unexpected<Error> refused_by_home(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }

std::string commits_of_it(std::size_t count) { return fmt::format("{} commit{}", count, count == 1 ? "" : "s"); }

}  // namespace

LandedRange landed_by_sequence(const SentMark& mark, Sequence closed, std::span<const std::uint32_t> parts) {
  const std::uint64_t behind = closed > mark.sequence ? closed.value - mark.sequence.value : 0;
  const auto fit = [&](std::uint64_t appends) {
    std::size_t commits = 0;
    while (commits < parts.size() && parts[commits] <= appends) appends -= parts[commits++];
    return commits;
  };
  return {fit(behind > mark.others ? behind - mark.others : 0), fit(behind)};
}

Result<std::optional<Sequence>> closed_sequence(core::Stream& stream, const core::OwnerToken& token) {
  const auto events = stream.events();
  if (!events && events.error().outcome == Outcome::invalid) return std::nullopt;
  if (!events) return refused_by_home(events.error());
  bool ours = false;
  for (const core::HistoryEvent& event : *events) {
    if (event.kind != core::EventKind::claim || !(event.incarnation == token.incarnation)) continue;
    if (ours && event.closed_epoch == token.epoch) return event.closed_sequence;
    ours = ours || (event.epoch == token.epoch && event.claim_id == token.claim_id);
  }
  return std::nullopt;
}

Result<std::optional<SnapshotMeeting>> meet_snapshot(core::Stream& stream, const CommitState& state, std::span<const WalCommit> pending) {
  const auto snapshots = stream.snapshots();
  if (!snapshots) return refused_by_home(snapshots.error());
  for (const core::SnapshotInfo& info : *snapshots) {
    if (!(info.incarnation == state.incarnation)) continue;
    const auto about = decode_snapshot_about(info.about);
    if (!about || about->page_size != state.page_size || about->ordinal < state.ordinal || about->ordinal - state.ordinal > pending.size()) continue;
    const std::size_t landed = about->ordinal - state.ordinal;
    const wire::RunningSum there =
        landed == 0 ? wire::RunningSum{state.page_sum, state.page_count} : wire::RunningSum{pending[landed - 1].sum, pending[landed - 1].page_count};
    if (there == wire::RunningSum{about->page_sum, about->page_count}) return SnapshotMeeting{info, landed};
  }
  return std::nullopt;
}

// ---- of a copy

// A place that was trimmed from the log of the same history: everything up to it was in the stream, and the snapshots have it. Anything else (another history,
// a home that does not tell, unsent commits) is kept.
Result<> LocalCopy::gone_from(core::Stream& stream) {
  const CommitState now = state();
  if (!pending_known_) return start_over();
  const auto stat = stream.stat();
  const auto usage = stream.usage();
  if (!stat || !usage || !(stat->incarnation == now.incarnation) || !(now.offset < usage->oldest)) return start_over();
  if (auto went_on = go_on_from_snapshot(stream); !went_on || *went_on) return went_on ? Result<>{} : tl::unexpected(went_on.error());
  if (landed_ < found_pending_.size() && guard_on(Guard::trimmed_to_salvage)) return decide_trimmed(stream, usage->oldest);
  if (live_) return start_over();
  log_(LogLevel::info, fmt::format("the local copy {} begins anew: the log of '{}' was trimmed up to {}, above {}, up to which this copy was read. All of its "
                                   "{} commits are in the stream",
                                   folder_.path, place_of_copy_.name.text(), usage->oldest.text, now.offset.text, state().ordinal));
  if (auto dropped = drop(); !dropped) return dropped;
  return begin_empty();
}

// Nothing is rebuilt when a snapshot says that the stream was just here: true.
Result<bool> LocalCopy::go_on_from_snapshot(core::Stream& stream) {
  const auto meeting = meet_snapshot(stream, state(), std::span(found_pending_).subspan(landed_));
  if (!meeting) return tl::unexpected(meeting.error());
  if (!*meeting) return false;
  const core::SnapshotInfo& info = (*meeting)->info;
  for (std::size_t i = 0; i < (*meeting)->landed; ++i) land_first(info.offset, info.incarnation);
  core::Record there;
  there.kind = core::RecordKind::snapshot;
  there.incarnation = info.incarnation;
  there.next = info.offset;
  record_stale_ = true;
  Lock lock(mutex_);
  applier_->moved_on(there);
  return true;
}

// Pending commits behind a place that is trimmed, and the stream went on without them: those that landed are in it, the others never will be. Nothing is deleted
// on the word of a count: the copy moves to salvage, also when all of them landed.
Result<> LocalCopy::decide_trimmed(core::Stream& stream, const Offset& oldest) {
  const CommitState now = state();
  std::optional<Sequence> closed;
  if (owned_ && owned_->incarnation == now.incarnation && sent_ && sent_at_ == now.ordinal) {
    auto told = closed_sequence(stream, *owned_);
    if (!told) return tl::unexpected(told.error());
    closed = *told;
  }
  const std::size_t pending = found_pending_.size() - landed_;
  LandedRange landed{0, pending};
  if (closed) {
    std::vector<std::uint32_t> parts;
    parts.reserve(pending);
    for (std::size_t i = landed_; i < found_pending_.size(); ++i)
      parts.push_back(wire::PartEncoder::parts_of(static_cast<std::uint32_t>(found_pending_[i].hashes.size()), now.page_size));
    landed = landed_by_sequence(*sent_, *closed, parts);
  }
  for (std::size_t i = 0; i < landed.least; ++i) land_first(now.offset, now.incarnation);
  std::string why = fmt::format("the log was trimmed up to {}, above the place up to which this copy was read: ", oldest.text);
  if (!landed.known()) {
    pending_known_ = false;
    why += closed ? fmt::format("of its {} unsent ones some may be in the stream, at most {}", commits_of_it(pending), landed.most)
                  : fmt::format("which of its {} are in the stream cannot be told any more", commits_of_it(pending));
  } else {
    why += fmt::format("epoch {} was closed at sequence {}, so {} of its {} landed{}", owned_->epoch.value, closed->value, landed.least, commits_of_it(pending),
                       landed.least == pending ? "" : ", and the rest can never be sent");
  }
  if (auto aside = set_aside("fenced", std::move(why)); !aside) return tl::unexpected(aside.error());
  return begin_empty();
}

}  // namespace onepen::sqlite
