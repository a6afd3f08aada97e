#include "sim/recording_stream.h"

#include <fmt/format.h>

#include "base/checksum.h"

namespace onepen::sim {
namespace {
std::uint64_t as_number(const core::Refusal& refusal) { return static_cast<std::uint64_t>(refusal.outcome); }
}  // namespace

// What a home may answer as well: the claim as stored. It is the sender's only if it shows the sender's claim id (core/home.h).
std::optional<core::ClaimReceipt> RecordingStream::stored_instead(const core::Refusal& refusal, const core::ClaimRequest& request) {
  if (!refusal.current || refusal.current->token.epoch < request.epoch || !history_.world.random().chance(500)) return {};
  core::ClaimReceipt receipt;
  if (!parse(refusal.current->token.incarnation, receipt.incarnation) || !parse(refusal.current->token.claim_id, receipt.claim_id)) return {};
  receipt.epoch = refusal.current->token.epoch;
  history_.sometimes.reached(Sometime::foreign_receipt);
  return receipt;
}

core::Answer<core::StreamStat> RecordingStream::stat() {
  const Offset at_least = history_.newest_acknowledged;
  const Epoch epoch_at_least = history_.newest_answered_claim;
  const Instant before = process_.runtime->now();
  auto answer = under_->stat();
  if (process_.dead) return answer;
  if (answer) looked(*answer, before);
  if (!answer) {
    history_.world.note("stat.refused", answer.error().message, as_number(answer.error()));
    return answer;
  }
  history_.world.note("stat", answer->tail.text, answer->epoch.value, answer->last_sequence.value);
  history_.saw_epoch(process_.name, answer->incarnation, answer->epoch, answer->claim_id);
  if (!history_.rolled_back && (answer->tail < std::min(at_least, history_.newest_acknowledged) || std::max(answer->epoch, answer->floor) < epoch_at_least)) {
    history_.violated("I8", fmt::format("stat by {} said tail '{}', epoch {}, but '{}' and {} were answered before it began", process_.name, answer->tail.text,
                                        answer->epoch.value, at_least.text, epoch_at_least.value));
  }
  return answer;
}

// A claim that nobody asked for throws out nobody but its own earlier self.
void RecordingStream::self_claimed(const core::ClaimRequest& request, const core::ClaimReceipt& receipt) {
  history_.sometimes.reached(Sometime::went_live);
  const auto closed = history_.epochs.find({receipt.incarnation, receipt.closed_epoch});
  const bool own = request.over && (closed == history_.epochs.end() || closed->second == *request.over);
  if (history_.rolled_back || own) return;
  history_.violated("I2", fmt::format("{} went on by a claim that nobody asked for (epoch {}), and closed epoch {} of somebody else", process_.name,
                                      receipt.epoch.value, receipt.closed_epoch.value));
}

void RecordingStream::looked(const core::StreamStat& stat, Instant before) {
  const auto found = history_.standbys.find(process_.name);
  if (found == history_.standbys.end()) return;
  StandbyWatch& watch = found->second;
  const bool lives = watch.silence < 0 || !(watch.claim == stat.claim_id) || watch.tail != stat.tail;
  if (lives) watch.silence = 0, watch.pulse.reset();
  else watch.silence += std::min<Nanos>((before - watch.looked).count(), watch.term / 4);
  watch.claim = stat.claim_id;
  watch.tail = stat.tail;
  if (stat.released) watch.released = stat.claim_id;
  watch.looked = before;
}

core::Answer<std::optional<Bytes>> RecordingStream::pulse(const std::string& liveness) {
  auto answer = under_->pulse(liveness);
  const auto found = history_.standbys.find(process_.name);
  const bool of_owner = liveness.find('/') == std::string::npos && liveness.find('.') == std::string::npos;
  if (process_.dead || !answer || found == history_.standbys.end() || !of_owner) return answer;
  const Bytes now = answer->value_or(Bytes());
  if (found->second.pulse && now != *found->second.pulse) found->second.silence = 0;
  found->second.pulse = now;
  return answer;
}

// A standby became the owner.
void RecordingStream::stood_in(const core::ClaimRequest& request) {
  const auto found = history_.standbys.find(process_.name);
  if (found == history_.standbys.end() || found->second.asks) return;
  const StandbyWatch& watch = found->second;
  if (!request.over) return history_.violated("I10", process_.name + " was asked by nobody, and claimed unconditionally");
  history_.sometimes.reached(request.if_tail ? Sometime::standby_after_silence : Sometime::standby_after_release);
  if (request.if_tail && watch.silence < watch.term)
    history_.violated("term", fmt::format("{} stood in after {} ms of silence that it watched, and its term is {} ms", process_.name, watch.silence / kMilli,
                                          watch.term / kMilli));
  if (!request.if_tail && !(*request.over == watch.released)) history_.violated("term", process_.name + " stood in for an owner that had not ended");
}

core::Answer<core::ClaimReceipt> RecordingStream::claim(const core::ClaimRequest& request) {
  if (!process_.dead && !history_.claims_logged_elsewhere && history_.written_ahead.count(request.claim_id) == 0) {
    history_.violated("I5", fmt::format("{} sends the claim of epoch {} before it is in its claim log", process_.name, request.epoch.value));
  }
  if (!process_.dead) history_.claims_sent.push_back(ClaimSent{process_.name, request.epoch, request.claim_id, request.over, request.if_tail});
  auto answer = under_->claim(request);
  if (process_.dead) return answer;
  if (!answer) {
    const Outcome outcome = answer.error().outcome;
    history_.world.note("claim.refused", answer.error().message, as_number(answer.error()), request.epoch.value);
    if (outcome == Outcome::epoch_closed) history_.sometimes.reached(request.over ? Sometime::claim_base_lost : Sometime::claim_lost_to_claim);
    if (outcome == Outcome::epoch_closed && request.owner.why == "self-claim") history_.sometimes.reached(Sometime::self_claim_fenced);
    if (outcome == Outcome::unknown) history_.sometimes.reached(Sometime::claim_unknown);
    if (request.owner.why == "standby" && outcome != Outcome::unknown) history_.sometimes.reached(Sometime::standby_refused);
    if (outcome == Outcome::epoch_closed && !request.over && !request.if_tail && history_.answers_as_stored) {
      if (auto stored = stored_instead(answer.error(), request)) return *stored;
    }
    return answer;
  }
  history_.world.note("claimed", answer->offset.text, answer->epoch.value, answer->closed_sequence.value);
  history_.saw_epoch(process_.name, answer->incarnation, answer->epoch, answer->claim_id);
  if (answer->claim_id == request.claim_id) {
    if (request.owner.why == "self-claim") self_claimed(request, *answer);
    if (request.owner.why != "self-claim") stood_in(request);
    history_.claims.push_back(ClaimSeen{process_.name, *answer});
    history_.newest_answered_claim = std::max(history_.newest_answered_claim, answer->epoch);
    history_.answered(answer->incarnation, answer->offset);
    if (answer->closed_epoch.value != 0) history_.sometimes.reached(Sometime::took_over);
  }
  return answer;
}

void RecordingStream::applied(const core::AppendBatch& batch, const core::AppendReceipt& receipt) {
  history_.appends.push_back(AppendSeen{process_.name, batch, receipt.offsets});
  for (const Offset& offset : receipt.offsets) history_.answered(batch.incarnation, offset);
  history_.saw_epoch(process_.name, batch.incarnation, batch.epoch, batch.claim_id);
  if (batch.appends.size() > 1) history_.sometimes.reached(Sometime::several_in_one_object);
}

core::Answer<core::AppendReceipt> RecordingStream::append(const core::AppendBatch& batch) {
  const bool first = sent_.insert(batch.attempt).second;
  history_.world.note("append.send", {}, batch.epoch.value, batch.first.value);
  if (!first) {  // whatever the first attempt was told, this one may land
    for (const core::Append& a : batch.appends) history_.refused_first.erase(digest_of(a.payload).value);
  }
  auto answer = under_->append(batch);
  if (process_.dead) return answer;
  if (answer) {
    history_.world.note("append.applied", answer->offsets.empty() ? std::string_view() : std::string_view(answer->offsets.back().text), batch.epoch.value,
                        batch.first.value);
    applied(batch, *answer);
    return answer;
  }
  const core::Refusal& refusal = answer.error();
  history_.world.note("append.refused", refusal.message, as_number(refusal), batch.first.value);
  if (refusal.outcome == Outcome::cloned) history_.sometimes.reached(Sometime::cloned_seen);
  if (refusal.outcome == Outcome::unavailable) history_.sometimes.reached(Sometime::disk_failed);
  if (first && refusal.outcome != Outcome::unknown && refusal.outcome != Outcome::cloned && refusal.applied == core::Applied::no) {
    for (const core::Append& a : batch.appends) history_.refused_first.insert(digest_of(a.payload).value);
  }
  return answer;
}

core::Answer<core::ReadResult> RecordingStream::read(const Offset& from, const core::ReadLimit& limit) {
  const Offset at_least = history_.newest_acknowledged;
  if (from.text.empty()) begins();
  auto answer = under_->read(from, limit);
  if (process_.dead) return answer;
  if (!answer) {
    history_.world.note("read.refused", answer.error().message, as_number(answer.error()));
    return answer;
  }
  history_.world.note("read", from.text, answer->records.size(), answer->up_to_date);
  for (const core::Record& record : answer->records) history_.saw_record(process_.name, record);
  if (!history_.rolled_back && answer->up_to_date && answer->next < std::min(at_least, history_.newest_acknowledged)) {  // less when restored meanwhile
    history_.violated("I8", fmt::format("a read by {} said it was up to date at '{}', but '{}' was answered before it began", process_.name, answer->next.text,
                                        at_least.text));
  }
  return answer;
}

core::Answer<Bytes> RecordingStream::snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) {
  auto bytes = under_->snapshot_part(info, part);
  if (bytes && !process_.dead) history_.sometimes.reached(Sometime::snapshot_begun);
  return bytes;
}

core::Answer<std::unique_ptr<core::SnapshotWriter>> RecordingStream::begin_snapshot(const core::OwnerToken& token, const Offset& at) {
  auto writer = under_->begin_snapshot(token, at);
  if (!process_.dead) history_.world.note(writer ? "snapshot.begin" : "snapshot.refused", writer ? at.text : writer.error().message);
  return writer;
}

core::Answer<core::Tended> RecordingStream::tend(const core::TendRequest& request) {
  auto tended = under_->tend(request);
  if (process_.dead) return tended;
  if (!tended) return history_.world.note("tend.refused", tended.error().message, as_number(tended.error())), tended;
  history_.world.note("tended", request.trim_to ? std::string_view(request.trim_to->text) : std::string_view(), tended->compacted, tended->removed);
  if (tended->compacted > 0) history_.sometimes.reached(Sometime::compacted);
  if (tended->removed > 0) history_.sometimes.reached(Sometime::trimmed);
  return tended;
}

core::Answer<core::HistoryReceipt> RecordingStream::begin_history(const core::HistoryRequest& request) {
  // From here on it may have happened, and what lies behind the common point is then no part of the stream any more.
  if (request.common) {
    history_.newest_acknowledged = std::min(history_.newest_acknowledged, *request.common);
    history_.cut.insert_or_assign(request.incarnation, *request.common);
  }
  auto receipt = under_->begin_history(request);
  if (process_.dead) return receipt;
  if (!receipt && receipt.error().outcome != Outcome::unknown) history_.cut.erase(request.incarnation);
  if (!receipt) return history_.world.note("history.refused", receipt.error().message, as_number(receipt.error())), receipt;
  history_.world.note("history", receipt->offset.text, static_cast<std::uint64_t>(request.act), receipt->floor.value);
  return receipt;
}

core::Answer<bool> RecordingStream::wait(const Offset& from, Instant deadline) { return under_->wait(from, deadline); }

}  // namespace onepen::sim
