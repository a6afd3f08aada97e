// What ends or turns a stream without being an append: tombstones, new histories, evidence (homes.md, B7; fence.md, "Incarnations"). Each is an object at
// the lowest absent id, like every other change, and counts by the fold alone.
#include <fmt/format.h>

#include <algorithm>

#include "base/failpoint.h"
#include "base/guard.h"
#include "core/fence_view.h"
#include "home/object/history_word.h"
#include "home/object/object_snapshot.h"

namespace onepen::home {

using core::Answer;
using core::HistoryReceipt;
using wire::LogObject;
using wire::ObjectKind;

namespace {

constexpr int kTriesToPlace = 64;

}  // namespace

// Creates `object` at the id it was stamped with. True: it is there, and folded; false: somebody else's is, and is folded instead.
ObjectStream::Step<bool> ObjectStream::place(const LogObject& object) {
  if (ONEPEN_FAILPOINT("home.before_admin_create")) return refuse(Outcome::unavailable, "a failpoint said so");
  auto put = store_.put_if_absent(key(object.id), wire::encode(object));
  if (ONEPEN_FAILPOINT("home.after_admin_create")) put = PutOutcome::unknown;
  if (!put) return refuse(put.error());
  auto there = fetch(object.id);
  if (!there) return tl::unexpected(there.error());
  if (!*there)
    return refuse(Outcome::unknown,
                  fmt::format("Whether object {} in {} was created is not known. Send the same request again.", key(object.id), store_.describe()));
  const bool ours = (*there)->object.put_id == object.put_id;
  if (fold_.next_id() == object.id)
    if (auto ok = take(object.id, (*there)->object, nullptr); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());  // B6: below a mark it is void, and placed again
  return ours;
}

ObjectStream::Step<> ObjectStream::may_write() {
  if (place_.may_write) return {};
  if (place_.options.prepare_writing)
    if (auto ok = place_.options.prepare_writing(); !ok) return refuse(ok.error());
  place_.may_write = true;
  return {};
}

// What the fence says of an admin's act on what is there now, by the tail the admin saw.
core::Decision ObjectStream::judge(core::AdminAct act, const Incarnation& seen, const Offset& tail, const Incarnation& next) {
  core::StreamState trial = fold_.state();
  core::AdminCommand command;
  command.act = act;
  command.incarnation = seen;
  command.tail = trial.tail;
  command.next_incarnation = next;
  command.next_tail = core::Position{fold_.next_id(), 0};
  auto decision = apply(trial, command);
  if (decision.outcome == Outcome::applied && tail != fold_.tail() && guard_on(Guard::admin_sees_tail)) {
    decision = {};
    decision.outcome = Outcome::base_mismatch;
    decision.why = core::Why::tail_moved;
  }
  return decision;
}

// --- a new history ------------------------------------------------------------------------------------------------------------------------------------

Answer<HistoryReceipt> ObjectStream::begin_history(const core::HistoryRequest& request) {
  return steadily([&] { return begin_history_once(request); });
}

// Whether a position lies in the current history. The fold stays where it is.
ObjectStream::Step<bool> ObjectStream::leads_here(const ParsedOffset& at, const Offset& text) {
  if (at.at.high == 0 || at.at > fold_.state().tail) return false;
  if (fold_.covers(at.at)) return fold_.leads_on(at);
  LogFold newest = fold_;
  if (auto ok = begin_at(at, text); !ok) return tl::unexpected(ok.error());
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  const bool leads = fold_.covers(at.at) && fold_.leads_on(at);
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.next_id() == newest.next_id()) fold_ = std::move(newest);
  return leads;
}

// The snapshot the new history begins with, when it leaves some of the old one behind. Put before the history's object, which names it.
ObjectStream::Step<> ObjectStream::put_first_snapshot(const core::HistoryRequest& request, const LogObject& object) {
  if (auto ok = put_whole(mark_folder_ + "/" + cut_name(object.id), {}); !ok) return ok;  // readers look for the cut from here on
  LogFold after = fold_;
  const auto bytes = wire::encode(object);
  auto decoded = wire::decode_log_object(bytes);
  if (!decoded) return refuse(Outcome::invalid, fmt::format("An object just encoded does not decode: {}.", decoded.error().what));
  auto counts = after.take(*decoded, nullptr);
  if (!counts || !*counts) return refuse(Outcome::invalid, fmt::format("A new history of '{}' cannot begin like this.", name_.text()));
  wire::SnapshotHead head{.stream = name_, .at = after.state().tail, .begins_history = true, .fold = after.save()};
  head.info.id = object.history.snapshot;
  head.info.offset = after.tail();
  head.info.incarnation = request.next;
  head.info.epoch = after.state().owner.epoch;
  head.info.time_ms = request.time_ms;
  head.info.log_bytes = after.log_bytes();
  const auto id = head.info.id;
  Writer writer(*this, snapshot_folder_ + "/" + id, std::move(head));
  auto about = request.snapshot(writer);
  if (!about) return tl::unexpected(about.error());
  auto put = writer.finish(*about);
  if (!put) return tl::unexpected(put.error());
  return {};
}

Answer<HistoryReceipt> ObjectStream::begin_history_once(const core::HistoryRequest& request) {
  if (request.next.nil() || request.attempt.nil()) return refuse(Outcome::invalid, "A new history needs an incarnation and a put id.");
  if (auto ok = may_write(); !ok) return tl::unexpected(ok.error());
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  auto receipt = [&] { return HistoryReceipt{request.next, fold_.offset_of({fold_.history_at(), 0}), fold_.state().owner.epoch}; };
  if (fold_.state().presence == core::Presence::present && fold_.state().incarnation == request.next) return receipt();  // its own retry
  if (fold_.state().presence != core::Presence::present) return absent();
  auto decision = judge(core::act_of(request.act), request.incarnation, request.tail, request.next);
  if (decision.outcome != Outcome::applied) return refused(decision, {});
  LogObject object{.kind = ObjectKind::history, .stream = name_};
  fold_.stamp(object);
  object.put_id = request.attempt;
  object.time_ms = request.time_ms;
  object.by = request.by;
  object.history.next = request.next;
  object.history.next_ordinal = fold_.ordinal() + 1;
  object.history.floor = fold_.state().owner.epoch;
  object.history.newest_claim = fold_.state().newest_claim;
  object.history.act = word_of(request.act);
  object.history.common = fold_.state().tail;
  if (request.common && *request.common != fold_.tail()) {
    auto common = parse_offset(*request.common);
    auto found = common ? leads_here(*common, *request.common) : Step<bool>{false};
    if (!found) return tl::unexpected(found.error());
    if (!*found) return refuse(Outcome::invalid, fmt::format("'{}' is no position of the current history of '{}'.", request.common->text, name_.text()));
    if (!request.snapshot) return refuse(Outcome::invalid, "A history that leaves some of the one before behind begins with a snapshot, and none was given.");
    object.history.common = common->at;
    object.history.snapshot = snapshot_id(object.id, request.attempt);
    if (auto ok = put_first_snapshot(request, object); !ok) return tl::unexpected(ok.error());
  }
  auto ours = place(object);
  if (!ours) return tl::unexpected(ours.error());
  if (*ours && fold_.state().incarnation == request.next) return receipt();
  decision = judge(core::act_of(request.act), request.incarnation, request.tail, request.next);
  if (decision.outcome == Outcome::applied) return refuse(Outcome::unavailable, "Somebody's void object took the place. Send the same request again.");
  return refused(decision, {});
}

// --- the end ------------------------------------------------------------------------------------------------------------------------------------------

Answer<bool> ObjectStream::remove(const core::RemoveRequest& request) {
  return steadily([&] { return remove_once(request); });
}

Answer<bool> ObjectStream::remove_once(const core::RemoveRequest& request) {
  if (request.attempt.nil()) return refuse(Outcome::invalid, "A removal needs a put id.");
  if (auto ok = may_write(); !ok) return tl::unexpected(ok.error());
  for (int tries = 0; tries < kTriesToPlace; ++tries) {
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
    if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
    if (fold_.state().presence == core::Presence::deleted && fold_.state().incarnation == request.incarnation) return true;  // its own retry
    if (fold_.state().presence != core::Presence::present) return absent();
    auto decision = judge(core::AdminAct::remove, request.incarnation, request.tail, {});
    if (decision.outcome != Outcome::applied) return refused(decision, {});
    LogObject object{.kind = ObjectKind::tombstone, .stream = name_};
    fold_.stamp(object);
    object.put_id = request.attempt;
    object.time_ms = request.time_ms;
    object.by = request.by;
    if (auto ok = put_whole(mark_folder_ + "/" + cut_name(object.id), {}); !ok) return tl::unexpected(ok.error());
    auto ours = place(object);
    if (!ours) return tl::unexpected(ours.error());
    if (*ours && fold_.state().presence == core::Presence::deleted) return true;
  }
  return refuse(Outcome::unavailable, fmt::format("'{}' was written to faster than it could be removed. Stop its owner and try again.", name_.text()));
}

// --- evidence of the future ---------------------------------------------------------------------------------------------------------------------------

Answer<bool> ObjectStream::report_suspect(const core::OwnerToken& token, std::string_view what) {
  return steadily([&]() -> Answer<bool> {
    for (int tries = 0; tries < kTriesToPlace; ++tries) {
      if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      if (fold_.state().presence != core::Presence::present) return absent();
      if (fold_.state().suspect) return true;
      core::StreamState trial = fold_.state();
      core::ChangeCommand report{core::Change::report_suspect, core::kOwnerProducer, token.incarnation, token.epoch, token.claim_id};
      auto decision = apply(trial, report);
      if (!trial.suspect) return refused(decision, token.epoch);
      LogObject object{.kind = ObjectKind::evidence, .stream = name_};
      fold_.stamp(object);
      object.incarnation = token.incarnation;
      object.epoch = token.epoch;
      object.claim_id = token.claim_id;
      object.put_id = place_.runtime.draw<PutId>();
      object.time_ms = place_.runtime.wall_ms();
      object.what = std::string(what);
      auto ours = place(object);
      if (!ours) return tl::unexpected(ours.error());
    }
    return refuse(Outcome::unavailable, fmt::format("'{}' was written to faster than it could be marked suspect.", name_.text()));
  });
}

// The object before ours is gone: the log lost its end, or was put back to an older state, under a live owner. Nothing is written behind the hole.
tl::unexpected<core::Refusal> ObjectStream::lost(std::uint64_t id, const core::OwnerToken& token) {
  forget();
  // Once more, from the beginning: a home that was away for a moment lost nothing, and one that is still away takes no evidence.
  const auto again = steadily([&]() -> Step<> { return catch_up_all(); });
  if (!again && again.error().outcome != Outcome::fence_unavailable) return tl::unexpected(again.error());
  if (again && fold_.next_id() > id)
    return refuse(Outcome::unavailable,
                  fmt::format("Object {} in {} could not be seen for a moment. Send the same request again.", key(id), store_.describe()));
  if (again && fold_.state().presence == core::Presence::absent) return nothing_left();
  auto told = report_suspect(token, fmt::format("object {} was missing when its owner went on writing", key(id)));
  return refuse(Outcome::fence_unavailable,
                fmt::format("The log of '{}' in {} lost object {}, which was acknowledged: a part of it was deleted, or an older copy of it put back. Nothing "
                            "was written behind it{}. Put the newer log back, or go on with what is there: onepen adopt.",
                            name_.text(), store_.describe(), key(id), told ? ", and the stream is marked suspect" : ""));
}

// A session that went on in two places (a cloned machine) may stand where the other one's objects were packed and deleted, and create over them. On a
// directory, one look at the object before tells, and once in an epoch, whose claim always stays, one look at the marks (docs/adr/0006).
ObjectStream::Step<> ObjectStream::still_stands(std::uint64_t prev, bool first_of_epoch, const core::OwnerToken& token, bool placed) {
  if (prev == 0 || prev < mark_ || !guard_on(Guard::append_stands)) return {};
  auto there = store_.has(key(prev));
  if (!there) return {};
  if (*there && !(first_of_epoch && placed)) return {};
  unchecked_from_ = std::min(unchecked_from_, prev + 1);
  if (auto ok = check_mark(); !ok) return ok;
  if (*there || prev < mark_) return {};
  if (!placed) return lost(prev, token);
  forget();  // the place ours was put into may be no home at all: a folder that was made anew where the home was
  return refuse(Outcome::unknown,
                fmt::format("Object {} in {}, after which the next one was just put, is not there any more. Send the same request again until "
                            "it is decided.",
                            key(prev), store_.describe()));
}

}  // namespace onepen::home
