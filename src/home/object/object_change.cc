// Claims and appends of the object home: everything that creates an object. Rules B1-B4 and B6 of homes.md; each is behind its guard.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/failpoint.h"
#include "base/guard.h"
#include "core/fence_view.h"
#include "home/object/object_stream.h"

namespace onepen::home {

using core::Answer;
using core::AppendBatch;
using core::AppendReceipt;
using core::ClaimReceipt;
using core::ClaimRequest;
using wire::LogObject;
using wire::ObjectKind;

tl::unexpected<core::Refusal> ObjectStream::refused(const core::Decision& decision, Epoch ours) const {
  auto r = core::refusal_of(name_.text(), fold_.state(), decision, ours);
  if (r.current) r.current->endpoint = fold_.endpoint();
  if (r.outcome == Outcome::base_mismatch) r.tail = fold_.tail();
  return tl::unexpected(std::move(r));
}

tl::unexpected<core::Refusal> ObjectStream::undecided(std::string_view why) const {
  auto id = flight_ ? flight_->id : fold_.next_id();
  return refuse(Outcome::unknown, fmt::format("Whether object {} in {} was created is not known: {}. Send the same request again until it is decided.", key(id),
                                              store_.describe(), why));
}

// --- one create ---------------------------------------------------------------------------------------------------------------------------------------

ObjectStream::Step<ObjectStream::Landed> ObjectStream::send() {
  ++requests_;
  if (ONEPEN_FAILPOINT("home.before_create")) return undecided("a failpoint said so");
  auto put = store_.put_if_absent(key(flight_->id), flight_->bytes);
  if (ONEPEN_FAILPOINT("home.after_create")) put = PutOutcome::unknown;
  if (!put) {
    if (flight_->answer_lost) return undecided(put.error().message);  // this attempt was refused; an earlier one may have landed (I4)
    flight_.reset();
    return refuse(put.error());
  }
  if (*put == PutOutcome::created) return Landed::ours;
  return look(*put == PutOutcome::exists);
}

// B2: the answer was lost, or somebody has the name. The object itself tells: our put id is success, whoever else's is not ours.
ObjectStream::Step<ObjectStream::Landed> ObjectStream::look(bool exists) {
  if (!exists) flight_->answer_lost = true;
  if (exists && !guard_on(Guard::b2_own_put_id)) {
    flight_.reset();
    return refuse(Outcome::epoch_closed, "somebody has the name");
  }
  auto there = fetch(flight_->id);
  if (!there) {
    flight_->answer_lost = true;
    return undecided(there.error().message);
  }
  if (!*there) {
    flight_->answer_lost = true;
    return undecided(exists ? "the name is taken and the object cannot be found" : "the answer was lost and the object is not there yet");
  }
  const auto& object = (*there)->object;
  if (object.put_id == flight_->attempt) return Landed::ours;
  if (begun_ && fold_.next_id() == object.id)
    if (auto ok = take(object.id, object, nullptr); !ok) return undecided(ok.error().message);
  bool ours_by_claim = object.kind == ObjectKind::appends && flight_->epoch == object.epoch && flight_->claim_id == object.claim_id;
  flight_.reset();
  if (ours_by_claim)
    return refuse(Outcome::cloned, fmt::format("Two processes write '{}' under one claim of epoch {}: object {} in {} is not the one sent here. Stop both and "
                                               "open again.",
                                               name_.text(), object.epoch.value, key(object.id), store_.describe()));
  return Landed::other;
}

ObjectStream::Step<> ObjectStream::settle(ByteView own) {
  auto object = wire::decode_log_object(own);
  if (!object) return refuse(Outcome::fence_unavailable, fmt::format("An object just encoded does not decode: {}.", object.error().what));
  flight_.reset();
  wrote_ = true;
  if (!begun_)
    if (auto ok = begin_cold(); !ok) return ok;
  while (fold_.next_id() < object->id) {  // after a race, or when the fold was begun anew meanwhile: every id below is there, or the log is damaged
    if (!guard_on(Guard::b3_lowest_absent) || !guard_on(Guard::b2_same_bytes) || !guard_on(Guard::b1_one_create)) fold_.skip_to(object->id);
    else if (auto ok = take_next(object->id, nullptr); !ok) return ok;
  }
  if (fold_.next_id() > object->id) return {};
  if (object->kind != ObjectKind::claim) return take(object->id, *object, nullptr);
  PlacedClaim placed{fold_.tail(), {}};
  std::vector<core::Record> shown;
  if (auto ok = take(object->id, *object, &shown); !ok) return ok;
  if (shown.empty()) return {};
  placed.record = std::move(shown.front());
  placed_ = std::move(placed);
  return {};
}

// --- claims -------------------------------------------------------------------------------------------------------------------------------------------

ClaimReceipt ObjectStream::receipt_of(const core::Decision& decision) const {
  auto receipt = core::claim_receipt_of(decision);
  if (decision.receipt) receipt.offset = fold_.offset_of(*decision.receipt);
  receipt.requests = requests_;
  return receipt;
}

ObjectStream::Step<LogObject> ObjectStream::claim_object(const ClaimRequest& request) {
  LogObject object{.kind = ObjectKind::claim, .stream = name_};
  object.epoch = request.epoch;
  object.claim_id = request.claim_id;
  object.put_id = request.attempt;
  object.time_ms = request.time_ms;
  object.claim.owner = request.owner;
  object.claim.over = request.over;
  if (request.if_tail && !request.if_tail->text.empty()) {
    auto at = parse_offset(*request.if_tail);
    if (!at) return refuse(Outcome::invalid, fmt::format("'{}' is not an offset of '{}'.", request.if_tail->text, name_.text()));
    object.claim.if_tail = at->at;  // the same in every resend; that it is of this history is checked below
  }
  fold_.stamp(object);
  if (fold_.state().presence != core::Presence::present) object.incarnation = request.first_incarnation;
  return object;
}

// What the fence says of the claim on what is folded so far. A receipt: it is answered already.
ObjectStream::Step<std::optional<ClaimReceipt>> ObjectStream::claim_allowed(const ClaimRequest& request, const LogObject& object) {
  bool present = fold_.state().presence == core::Presence::present;
  if (!present && (!request.create || request.incarnation)) return absent();
  core::StreamState trial = fold_.state();
  auto command = fold_.claim_command(object);
  if (request.incarnation) command.incarnation = request.incarnation;
  if (!present) {
    core::CreateCommand create;
    create.incarnation = request.first_incarnation;
    create.tail = core::Position{object.id, 0};
    if (auto d = apply(trial, create); d.outcome != Outcome::applied) return refused(d, request.epoch);
  }
  auto d = apply(trial, command);
  if (d.outcome == Outcome::duplicate) return receipt_of(d);
  if (d.outcome == Outcome::applied && request.if_tail && !request.if_tail->text.empty() && *request.if_tail != fold_.tail() && guard_on(Guard::claim_tail)) {
    d = {};
    d.outcome = Outcome::base_mismatch;  // the same place in another history
    d.why = core::Why::tail_moved;
  }
  if (d.outcome != Outcome::applied) return refused(d, request.epoch);
  return std::nullopt;
}

// Ownership is what the fold says once everything below the claim, and the claim itself, was folded (B3, B4); then the mark (B6).
ObjectStream::Step<ClaimReceipt> ObjectStream::owned(const ClaimRequest& request) {
  auto object = claim_object(request);
  if (!object) return tl::unexpected(object.error());
  auto receipt = claim_allowed(request, *object);
  if (!receipt) return tl::unexpected(receipt.error());
  if (!*receipt) return undecided("the claim was placed and is void");
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  (*receipt)->requests = requests_;
  if (placed_ && placed_->record.claim_id == request.claim_id) {
    (*receipt)->record = placed_->record;
    (*receipt)->follows = placed_->follows;
  }
  return **receipt;
}

// One id. Racing: an id that is taken is left behind unread, and the next one tried at once, so that a busy writer cannot keep a claimer out for ever; what
// was left behind is read by settle(), before anything is owned.
ObjectStream::Step<> ObjectStream::place_claim(const ClaimRequest& request, const LogObject& first, bool racing) {
  LogObject object = first;
  for (int i = 0; i < kMaxClaimTries; ++i) {
    flight_ = Flight{object.id, request.attempt, wire::encode(object), request.epoch, request.claim_id, 0};
    if (racing) {
      ++requests_;
      auto put = store_.put_if_absent(key(object.id), flight_->bytes);
      if (put && *put == PutOutcome::exists) {
        object.raced = true;
        object.prev_id = object.prev_checksum = 0;
        ++object.id;
        continue;
      }
      if (put && *put == PutOutcome::created) return settle(Bytes(std::move(flight_->bytes)));
      flight_->answer_lost = put.has_value();
    }
    auto landed = send();
    if (!landed) return tl::unexpected(landed.error());
    return *landed == Landed::ours ? settle(Bytes(std::move(flight_->bytes))) : Step<>{};
  }
  flight_.reset();
  return refuse(Outcome::claim_races, fmt::format("The claim of '{}' lost {} objects to others. Try again later.", name_.text(), kMaxClaimTries));
}

Answer<ClaimReceipt> ObjectStream::claim(const ClaimRequest& request) {
  requests_ = 0;
  return steadily([&] { return claim_once(request); });
}

Answer<ClaimReceipt> ObjectStream::claim_once(const ClaimRequest& request) {
  if (request.epoch.value == 0 || request.claim_id.nil() || request.attempt.nil() || (request.create && request.first_incarnation.nil()))
    return refuse(Outcome::invalid, "A claim needs an epoch, a claim id and a put id, and an incarnation when it may make the stream.");
  if (auto ok = may_write(); !ok) return tl::unexpected(ok.error());
  if (flight_ && flight_->attempt != request.attempt) flight_.reset();  // safe: this claim goes to the lowest absent id, and one of the two loses it
  if (flight_) {  // B2: its answer was lost before
    auto landed = send();
    if (!landed) return tl::unexpected(landed.error());
    if (*landed == Landed::ours) {
      if (auto ok = settle(Bytes(std::move(flight_->bytes))); !ok) return tl::unexpected(ok.error());
      return owned(request);
    }
  }
  // Whoever has just read to the tail knows the lowest absent id by that LIST; whether it is absent still, the create tells, as it tells after every LIST (B3).
  bool listed = !std::exchange(at_tail_, false);
  if (listed)
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  for (int tries = 0; tries < kMaxClaimTries; ++tries) {
    auto object = claim_object(request);
    if (!object) return tl::unexpected(object.error());
    auto answered = claim_allowed(request, *object);
    if (!listed && (!answered || *answered)) {  // answered without a create: by what is there now
      listed = true;
      if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
      continue;
    }
    if (!answered) {
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());  // B6: also before a refusal
      return tl::unexpected(answered.error());
    }
    if (*answered) return owned(request);
    if (!guard_on(Guard::b3_lowest_absent)) ++object->id;
    auto id = object->id;
    if (auto ok = place_claim(request, *object, tries >= kTriesBeforeRace); !ok) return tl::unexpected(ok.error());
    const bool placed = fold_.state().owner.claim_id == request.claim_id;
    const bool behind = !listed && !placed && tries > 0;  // more than one object came since that LIST
    listed = listed || placed || behind;
    if (!begun_ || fold_.next_id() <= id || behind)
      if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  }
  return refuse(Outcome::claim_races, fmt::format("The claim of '{}' lost {} objects to others. Try again later.", name_.text(), kMaxClaimTries));
}

// --- appends ------------------------------------------------------------------------------------------------------------------------------------------

// What the fence says of the batch. A receipt: all of it was applied before.
ObjectStream::Step<std::optional<AppendReceipt>> ObjectStream::append_allowed(const AppendBatch& batch, const LogObject& object) {
  auto& state = fold_.state();
  const auto& owner = state.owner;
  bool next = state.presence == core::Presence::present && !state.suspect && !state.closed && owner.live && batch.incarnation == state.incarnation &&
              batch.epoch == owner.epoch && batch.claim_id == owner.claim_id && batch.first.value == owner.last.value + 1;
  if (next) return std::nullopt;  // what apply() will say, without asking it twice on the hot path
  if (state.presence != core::Presence::present) return absent();
  AppendReceipt receipt;
  for (std::size_t i = 0; i < batch.appends.size(); ++i) {
    core::StreamState trial = state;  // rare: a resend, or a refusal
    auto d = apply(trial, fold_.append_command(object, i));
    if (d.outcome == Outcome::duplicate && !d.receipt) return refused(d, batch.epoch);
    if (d.outcome == Outcome::duplicate) receipt.offsets.push_back(fold_.offset_of(*d.receipt));
    else if (d.outcome == Outcome::applied || i > 0)
      return i == 0 ? Step<std::optional<AppendReceipt>>{std::nullopt}
                    : refuse(Outcome::invalid, fmt::format("The first {} of {} appends to '{}' were applied earlier and the rest was not: send the rest alone.",
                                                           i, batch.appends.size(), name_.text()));
    else return refused(d, batch.epoch);
  }
  return receipt;
}

Answer<AppendReceipt> ObjectStream::append(const AppendBatch& batch) {
  return steadily([&] { return append_once(batch); });
}

Answer<AppendReceipt> ObjectStream::append_once(const AppendBatch& batch) {
  std::uint64_t bytes = 0;
  for (const auto& a : batch.appends) bytes += a.payload.size();
  if (batch.appends.empty() || batch.appends.size() > wire::kMaxObjectAppends || batch.first.value == 0 || batch.attempt.nil())
    return refuse(Outcome::invalid,
                  fmt::format("A batch for '{}' needs 1 to {} appends, a first sequence and a put id.", name_.text(), wire::kMaxObjectAppends));
  if (bytes > kMaxBatchPayload)
    return refuse(Outcome::too_large,
                  fmt::format("A batch of {} bytes for '{}' is above the {} bytes an object holds.", bytes, name_.text(), kMaxBatchPayload));
  if (flight_ && flight_->attempt != batch.attempt) {
    if (guard_on(Guard::b1_one_create))
      return refuse(Outcome::unavailable, fmt::format("Object {} in {} is not decided yet; nothing else is sent before (one create in flight).",
                                                      key(flight_->id), store_.describe()));
    fold_.skip_to(flight_->id + 1);
    flight_.reset();
  }
  if (flight_ && !guard_on(Guard::b2_same_bytes)) {
    fold_.skip_to(flight_->id + 1);
    flight_.reset();
  }
  // What does not follow on the fold may follow on the stream: a fold that began anew, and whose reading on then failed, stands far behind the tail.
  const auto& folded = fold_.state().owner;
  const bool behind = batch.epoch > folded.epoch || (batch.epoch == folded.epoch && batch.first.value > folded.last.value + 1);
  if (!flight_ && (!begun_ || behind))
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  LogObject object{.kind = ObjectKind::appends, .stream = name_};
  object.appends.reserve(batch.appends.size());
  for (const auto& a : batch.appends) object.appends.push_back({a.kind, digest_of(a.payload), a.payload});
  object.epoch = batch.epoch;
  object.claim_id = batch.claim_id;
  object.put_id = batch.attempt;
  object.first = batch.first;
  object.time_ms = batch.time_ms;
  const core::OwnerToken token{batch.incarnation, batch.epoch, batch.claim_id};
  for (;;) {
    if (!flight_) {
      fold_.stamp(object);
      object.incarnation = batch.incarnation;
      auto answered = append_allowed(batch, object);
      if (!answered) return tl::unexpected(answered.error());
      if (*answered) return **answered;
      if (auto ok = still_stands(object.prev_id, batch.first.value == 1, token, false); !ok) return tl::unexpected(ok.error());
      flight_ = Flight{object.id, batch.attempt, wire::encode(object), batch.epoch, batch.claim_id, object.prev_id};
    }
    auto id = flight_->id;
    const auto prev = flight_->prev;
    auto landed = send();
    if (!landed) return tl::unexpected(landed.error());
    if (*landed == Landed::other) {  // void by B4, or a claim: the fence says which; a void one costs an id
      if (!begun_ || fold_.next_id() <= id)
        if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
      // B6: below a mark it tells nothing, and what it displaced may have been ours, packed long ago.
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      continue;
    }
    if (auto ok = settle(Bytes(std::move(flight_->bytes))); !ok) return undecided(ok.error().message);
    if (fold_.is_void(id)) continue;
    if (auto ok = still_stands(prev, batch.first.value == 1, token, true); !ok)
      return moved_ || ok.error().outcome == Outcome::unknown ? tl::unexpected(ok.error()) : undecided(ok.error().message);
    AppendReceipt receipt;
    for (std::size_t i = 0; i < batch.appends.size(); ++i) receipt.offsets.push_back(fold_.offset_of(core::Position{id, i + 1}));
    return receipt;
  }
}

}  // namespace onepen::home
