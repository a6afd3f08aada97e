// How a session of the memory home changes its stream: claims, appends, snapshots and trims by the owner, and the acts of administrators.
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "core/fence.h"
#include "core/fence_view.h"
#include "tests/support/memory_session.h"

namespace onepen::testing {
namespace {

std::string endpoint_in(ByteView payload) {
  const auto json = nlohmann::json::parse(as_text(payload), nullptr, false);
  if (!json.is_object() || json.value("record", "") != "ready") return {};
  return json.value("endpoint", "");
}

bool is_released(ByteView payload) {
  const auto json = nlohmann::json::parse(as_text(payload), nullptr, false);
  return json.is_object() && json.value("record", "") == "released";
}

}  // namespace

core::Answer<core::ClaimReceipt> MemoryHome::Session::claim(const core::ClaimRequest& request) {
  // By a session of its own: a late request arrives when this one may be gone.
  return with_trouble<core::ClaimReceipt>({Call::claim, &request}, [late = Session(home_, name_), request]() mutable { return late.do_claim(request); });
}

core::Answer<core::AppendReceipt> MemoryHome::Session::append(const core::AppendBatch& batch) {
  return with_trouble<core::AppendReceipt>({Call::append, nullptr, &batch}, [late = Session(home_, name_), batch]() mutable { return late.do_append(batch); });
}

core::Answer<bool> MemoryHome::Session::beat(const std::string& liveness, ByteView content) {
  Bytes bytes = to_bytes(content);
  return with_trouble<bool>({Call::beat}, [this, liveness, bytes] {
    const std::lock_guard lock(home_.shared_->mutex);
    home_.shared_->pulses[name_.text() + "/" + liveness] = bytes;
    return core::Answer<bool>(true);
  });
}

core::Answer<std::unique_ptr<core::SnapshotWriter>> MemoryHome::Session::begin_snapshot(const core::OwnerToken& token, const Offset& at) {
  return with_trouble<std::unique_ptr<core::SnapshotWriter>>({Call::snapshot}, [this, token, at] { return do_begin_snapshot(token, at); });
}

core::Answer<core::Tended> MemoryHome::Session::tend(const core::TendRequest& request) {
  return with_trouble<core::Tended>({Call::tend}, [this, request] { return do_tend(request); });
}

core::Answer<core::HistoryReceipt> MemoryHome::Session::begin_history(const core::HistoryRequest& request) {
  return with_trouble<core::HistoryReceipt>({Call::history}, [this, request] { return do_begin_history(request); });
}

core::Answer<bool> MemoryHome::Session::remove(const core::RemoveRequest& request) {
  return with_trouble<bool>({Call::remove}, [this, request] { return do_remove(request); });
}

core::Answer<bool> MemoryHome::Session::report_suspect(const core::OwnerToken& token, std::string_view) {
  return with_trouble<bool>({Call::suspect}, [this, token] { return do_report_suspect(token); });
}

core::Answer<core::ClaimReceipt> MemoryHome::Session::do_claim(const core::ClaimRequest& request) {
  const std::lock_guard lock(home_.shared_->mutex);
  if (!present(find())) {
    if (!request.create) return tl::unexpected(missing(find()));
    Log& made = home_.shared_->logs[name_.text()];
    core::CreateCommand create;
    create.incarnation = request.first_incarnation;
    create.tail = {++made.histories, 0};
    create.time_ms = request.time_ms;
    if (const auto decision = core::apply(made.state, create); !decision.ok()) return tl::unexpected(refusal(made, decision, request.epoch));
  }
  Log& log = *find();
  core::ClaimCommand command;
  command.incarnation = request.incarnation;
  command.epoch = request.epoch;
  command.claim_id = request.claim_id;
  command.over = request.over;
  if (request.if_tail) command.if_tail = position_of(*request.if_tail).value_or(core::Position{~0ull, ~0ull});
  const std::uint64_t content[] = {request.attempt.hi, request.attempt.lo, static_cast<std::uint64_t>(request.time_ms)};
  command.digest = Digest{xxh3(std::as_bytes(std::span(content)))};
  command.next = next_of(log);
  command.time_ms = request.time_ms;
  command.owner = request.owner;
  const auto decision = core::apply(log.state, command);
  if (!decision.ok() || !decision.receipt) return tl::unexpected(refusal(log, decision, request.epoch));
  core::ClaimReceipt receipt = core::claim_receipt_of(decision);
  receipt.offset = offset_of(*decision.receipt);
  receipt.requests = 1;
  if (decision.outcome == Outcome::applied) {
    log.endpoint.clear();
    log.released = false;
    core::Record record;
    record.kind = core::RecordKind::claim;
    record.owner = request.owner;
    record.closed_epoch = receipt.closed_epoch;
    record.closed_sequence = receipt.closed_sequence;
    put(log, std::move(record), request.epoch, request.claim_id, Sequence{0}, request.time_ms);
  }
  return receipt;
}

// One append after the other, as a home without batches does: the answer is the prefix that was applied, or why not even the first was.
core::Answer<core::AppendReceipt> MemoryHome::Session::do_append(const core::AppendBatch& batch) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  core::AppendReceipt receipt;
  for (std::size_t i = 0; i < batch.appends.size(); ++i) {
    const auto outcome = append_one(*log, batch, i, receipt);
    if (outcome) continue;
    if (i == 0) return tl::unexpected(outcome.error());
    break;
  }
  return receipt;
}

core::Answer<bool> MemoryHome::Session::append_one(Log& log, const core::AppendBatch& batch, std::size_t i, core::AppendReceipt& receipt) {
  const core::Append& append = batch.appends[i];
  core::AppendCommand command;
  command.kind = append.kind;
  command.producer = core::kOwnerProducer;
  command.incarnation = batch.incarnation;
  command.epoch = batch.epoch;
  command.sequence = Sequence{batch.first.value + i};
  command.claim_id = batch.claim_id;
  command.digest = digest_of(append.payload);
  command.size = append.payload.size();
  command.next = next_of(log);
  command.time_ms = batch.time_ms;
  core::StreamState next = log.state;
  const auto decision = core::apply(next, command);
  if (decision.outcome == Outcome::applied && append.kind == core::RecordKind::data && log.refuse_data)
    return tl::unexpected(core::Refusal{*log.refuse_data, "'" + name_.text() + "' takes no data now: " + std::string(word(*log.refuse_data))});
  log.state = std::move(next);
  if (!decision.ok() || !decision.receipt) return tl::unexpected(refusal(log, decision, batch.epoch));
  receipt.offsets.push_back(offset_of(*decision.receipt));
  if (decision.outcome == Outcome::duplicate) return true;
  log.released = append.kind == core::RecordKind::control && is_released(append.payload);
  if (log.released) log.calm_at = log.state.claims_since_data;
  if (append.kind == core::RecordKind::data) log.calm_at = 0;
  if (append.kind == core::RecordKind::control) {
    if (std::string endpoint = endpoint_in(append.payload); !endpoint.empty()) log.endpoint = std::move(endpoint);
  }
  core::Record record;
  record.kind = append.kind;
  record.payload = append.payload;
  put(log, std::move(record), batch.epoch, batch.claim_id, *command.sequence, batch.time_ms);
  return true;
}

void MemoryHome::Session::put(Log& log, core::Record record, Epoch epoch, ClaimId claim_id, Sequence sequence, std::int64_t time_ms) {
  record.incarnation = log.state.incarnation;
  record.epoch = epoch;
  record.claim_id = claim_id;
  record.sequence = sequence;
  record.time_ms = time_ms;
  record.next = offset_of(log.state.tail);
  log.bytes += record.payload.size();
  log.records.push_back(std::move(record));
}

core::Answer<bool> MemoryHome::Session::owner_change(Log& log, const core::OwnerToken& token, core::Change change, std::optional<core::Position> at) {
  core::ChangeCommand command;
  command.change = change;
  command.producer = core::kOwnerProducer;
  command.incarnation = token.incarnation;
  command.epoch = token.epoch;
  command.claim_id = token.claim_id;
  if (at) command.at = *at;
  const auto decision = core::apply(log.state, command);
  if (!decision.ok()) return tl::unexpected(refusal(log, decision, token.epoch));
  return true;
}

// What an owner may do is refused to everybody else before anything is begun.
std::optional<core::Refusal> MemoryHome::Session::not_owner(const core::OwnerToken& token) {
  Log* log = find();
  if (!present(log)) return missing(log);
  const core::StreamState before = log->state;
  auto allowed = owner_change(*log, token, core::Change::snapshot, before.tail);
  log->state = before;
  if (allowed) return std::nullopt;
  return allowed.error();
}

core::Answer<std::unique_ptr<core::SnapshotWriter>> MemoryHome::Session::do_begin_snapshot(const core::OwnerToken& token, const Offset& at) {
  {
    const std::lock_guard lock(home_.shared_->mutex);
    if (auto refused = not_owner(token)) return tl::unexpected(*refused);
  }
  if (!position_of(at)) return tl::unexpected(core::Refusal{Outcome::invalid, "'" + at.text + "' is no offset of the memory home"});
  Snapshot begun;
  begun.info.offset = at;
  begun.info.incarnation = token.incarnation;
  begun.info.epoch = token.epoch;
  return std::unique_ptr<core::SnapshotWriter>(
      std::make_unique<PartsInMemory>(std::move(begun), [this, token](Snapshot whole) { return keep(token, std::move(whole)); }));
}

core::Answer<core::SnapshotInfo> MemoryHome::Session::keep(const core::OwnerToken& token, Snapshot snapshot) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  auto allowed = owner_change(*log, token, core::Change::snapshot, position_of(snapshot.info.offset));
  if (!allowed) return tl::unexpected(allowed.error());
  snapshot.info.id = snapshot.info.offset.text;
  snapshot.info.log_bytes = log->bytes;
  log->snapshots.push_back(snapshot);
  return snapshot.info;
}

core::Answer<core::Tended> MemoryHome::Session::do_tend(const core::TendRequest& request) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  core::Tended tended;
  if (auto refused = not_owner(request.token)) return tl::unexpected(*refused);
  if (!request.trim_to) return tended;
  const auto at = position_of(*request.trim_to);
  if (auto allowed = owner_change(*log, request.token, core::Change::trim, at); !allowed) return tl::unexpected(allowed.error());
  tended.removed = at->low - log->trimmed;
  log->trimmed = at->low;
  return tended;
}

core::Answer<core::HistoryReceipt> MemoryHome::Session::do_begin_history(const core::HistoryRequest& request) {
  std::optional<Snapshot> made;
  if (request.common && *request.common != request.tail && !request.snapshot)
    return tl::unexpected(core::Refusal{Outcome::invalid, "a history that leaves some of the one before behind begins with a snapshot"});
  if (request.snapshot) {
    PartsInMemory parts({}, [](const Snapshot&) { return tl::unexpected(core::Refusal{Outcome::invalid, "the home finishes this snapshot itself"}); });
    auto about = request.snapshot(parts);
    if (!about) return tl::unexpected(about.error());
    made = parts.so_far();
    made->info.about = *about;
  }
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (log == nullptr) return tl::unexpected(missing(log));
  const std::uint64_t kept = request.common ? position_of(*request.common).value_or(core::Position{}).low : log->records.size();
  core::AdminCommand command{core::act_of(request.act), request.incarnation, position_of(request.tail).value_or(core::Position{})};
  command.next_incarnation = request.next;
  command.time_ms = request.time_ms;
  const auto decision = history_of(*log, command, kept);
  if (!decision.ok()) return tl::unexpected(refusal(*log, decision, Epoch{}));
  if (made && decision.outcome == Outcome::applied) {
    made->info.id = "beginning-" + std::to_string(log->histories);
    made->info.offset = offset_of(log->state.tail);
    made->info.incarnation = request.next;
    log->snapshots.push_back(std::move(*made));
  }
  return core::HistoryReceipt{log->state.incarnation, offset_of(log->state.tail), log->state.owner.epoch};
}

core::Answer<bool> MemoryHome::Session::do_remove(const core::RemoveRequest& request) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (log != nullptr && log->state.presence == core::Presence::deleted && log->state.incarnation == request.incarnation) return true;  // a retry
  if (!present(log)) return tl::unexpected(missing(log));
  core::AdminCommand command{core::AdminAct::remove, request.incarnation, position_of(request.tail).value_or(core::Position{})};
  const auto decision = core::apply(log->state, command);
  if (!decision.ok()) return tl::unexpected(refusal(*log, decision, Epoch{}));
  empty(*log);
  return true;
}

core::Answer<bool> MemoryHome::Session::do_report_suspect(const core::OwnerToken& token) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  auto reported = owner_change(*log, token, core::Change::report_suspect, {});
  if (log->state.suspect) return true;  // also when the report itself was the evidence
  return reported;
}

}  // namespace onepen::testing
