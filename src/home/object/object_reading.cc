// Reading objects: from the log folder, or, below the trim mark, from packs (homes.md, B4-B6); reading on; the mark.
#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "home/object/object_stream.h"

namespace onepen::home {

using core::ReadLimit;
using core::Record;
using wire::LogObject;

namespace {

constexpr ReadLimit kReadAll{static_cast<std::size_t>(-1), ~std::uint64_t{0}};
constexpr std::size_t kAllNames = static_cast<std::size_t>(-1);

std::uint64_t payload_bytes(const std::vector<Record>& records, std::size_t from) {
  std::uint64_t n = 0;
  for (std::size_t i = from; i < records.size(); ++i) n += records[i].payload.size();
  return n;
}

}  // namespace

tl::unexpected<core::Refusal> ObjectStream::damaged(std::uint64_t id, std::string_view what) {
  const auto mark = mark_, from = std::min(unchecked_from_, id);
  forget();  // whatever was folded is asked for again: the operator may put the right object back
  moved_ = look_at_marks() && mark_ != mark && mark_ > from;  // then it was read where nothing in the log folder counts any more
  if (auto away = all_gone(); away && *away) return nothing_left();
  return refuse(
      Outcome::fence_unavailable,
      fmt::format("The log of '{}' is damaged: object {} in {}: {}. Nothing was changed and nothing after it is shown. Put the right object back from a "
                  "backup or from another copy of this home; do not delete or renumber others.",
                  name_.text(), key(id), store_.describe(), what));
}

// Whoever removes a stream leaves a tombstone in its log, and claims stay for ever (B5, B7). Where nothing is left, somebody moved it, or the home is not mounted.
ObjectStream::Step<bool> ObjectStream::all_gone() {
  for (const auto* folder : {&log_folder_, &mark_folder_, &snapshot_folder_}) {
    ++requests_;
    auto names = store_.list(*folder, "", 1);
    if (!names) return refuse(names.error());
    if (!names->empty()) return false;
  }
  return true;
}

tl::unexpected<core::Refusal> ObjectStream::nothing_left() const {
  return refuse(Outcome::not_found, fmt::format("Nothing of the stream '{}', which was read earlier, is in {}. Is the home mounted, and the right one?",
                                                name_.text(), store_.describe()));
}

tl::unexpected<core::Refusal> ObjectStream::bad_file(const std::string& name, const wire::ObjectFault& fault) {
  forget();
  if (fault.kind == wire::ObjectFault::Kind::newer_format)
    return refuse(Outcome::invalid, fmt::format("{} in {} was written by a newer Onepen: {}. Use that version or a later one; nothing was changed.", name,
                                                store_.describe(), fault.what));
  return refuse(Outcome::fence_unavailable,
                fmt::format("The log of '{}' is damaged: {} in {}: {} (at byte {}). Nothing was changed. Put the right file back from a backup or from "
                            "another copy of this home.",
                            name_.text(), name, store_.describe(), fault.what, fault.at));
}

tl::unexpected<core::Refusal> ObjectStream::not_here(const Offset& offset, std::string_view why) const {
  return refuse(Outcome::gone,
                fmt::format("Offset {} is no position of '{}' in {} any more: {}. Begin again.", offset.text, name_.text(), store_.describe(), why));
}

void ObjectStream::forget() {
  if (begun_ && fold_.next_id() > 1) seen_ = true;
  fold_ = LogFold(name_);
  begun_ = false;
  unchecked_from_ = 1;
  unlisted_reads_ = 0;
  last_end_.reset();
  placed_.reset();
  ahead_.reset();
  at_tail_ = false;
}

// --- one object ---------------------------------------------------------------------------------------------------------------------------------------

ObjectStream::Step<std::optional<ObjectStream::Fetched>> ObjectStream::fetch(std::uint64_t id) {
  ++requests_;
  auto bytes = store_.get(key(id));
  if (!bytes && bytes.error().outcome == Outcome::not_found) return std::nullopt;
  if (!bytes) return refuse(bytes.error());
  return decoded(id, std::move(*bytes));
}

ObjectStream::Step<ObjectStream::Fetched> ObjectStream::decoded(std::uint64_t id, Bytes bytes) {
  auto object = wire::decode_log_object(bytes);
  if (object) return Fetched{std::move(bytes), std::move(*object)};
  if (object.error().kind == wire::ObjectFault::Kind::newer_format) return bad_file(key(id), object.error());
  return damaged(id, fmt::format("{} (at byte {} of {})", object.error().what, object.error().at, bytes.size()));
}

// The pack that stands for an id below the mark; null: none does any more, the run was trimmed. Packs that overlap say the same: whoever made one had read
// its objects, and then the mark, which was not above them (B6).
ObjectStream::Step<const ObjectStream::KeptPack*> ObjectStream::pack_of(std::uint64_t id) {
  if (pack_ && pack_->pack.first <= id && id <= pack_->pack.last) return pack_.get();
  ++requests_;
  auto names = store_.list(pack_folder_, "", kAllNames);
  if (!names) return refuse(names.error());
  std::optional<PackRun> run;
  for (const auto& name : *names) {
    auto found = pack_run(name);
    // The one that ends first: a longer one may stand beside it whose mark was never made, and the fold begins with the one that ends at the mark.
    if (found && found->first <= id && id <= found->last && (!run || found->last < run->last)) run = found;
  }
  if (!run) return nullptr;
  auto kept = std::make_unique<KeptPack>(KeptPack{pack_name(run->first, run->last), {}, {.stream = name_}});
  const auto file = pack_folder_ + "/" + kept->name;
  ++requests_;
  auto bytes = store_.get(file);
  if (!bytes && bytes.error().outcome == Outcome::not_found) return nullptr;  // trimmed just now
  if (!bytes) return refuse(bytes.error());
  kept->bytes = std::move(*bytes);
  auto pack = wire::decode_pack(kept->bytes);
  if (!pack) return bad_file(file, pack.error());
  if (pack->stream != name_ || pack->first != run->first || pack->last != run->last)
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, "it is not the pack that belongs there"});
  kept->pack = std::move(*pack);
  pack_ = std::move(kept);
  return pack_.get();
}

// Too large to be copied into a pack, it stays under its own name until it is trimmed. Its checksum tells it from what a stalled writer could put there.
ObjectStream::Step<std::optional<ObjectStream::Fetched>> ObjectStream::in_place(std::uint64_t id, std::uint64_t checksum) {
  const auto pack = pack_folder_ + "/" + pack_->name;
  auto there = fetch(id);
  if (there && *there && (*there)->object.checksum == checksum) return there;
  if (!there && there.error().outcome != Outcome::fence_unavailable) return there;
  pack_.reset();
  auto still = store_.get_range(pack, 0, 1);
  if (!still && still.error().outcome == Outcome::not_found) return refuse(Outcome::gone, fmt::format("Object {} was trimmed just now.", key(id)));
  auto newer = snapshot_ids();
  if (newer && !newer->empty() && snapshot_at(newer->front()).value_or(0) > id) return refuse(Outcome::gone, fmt::format("Object {} was trimmed.", key(id)));
  return damaged(id, fmt::format("it is missing or another one, and {} needs it", pack));
}

ObjectStream::Step<std::optional<ObjectStream::Fetched>> ObjectStream::unpack(std::uint64_t id) {
  auto kept = pack_of(id);
  if (!kept) return tl::unexpected(kept.error());
  auto trimmed = [&]() -> tl::unexpected<core::Refusal> {
    if (auto away = all_gone(); away && *away) return nothing_left();
    return refuse(Outcome::gone, fmt::format("The log of '{}' in {} was trimmed up to object {}, above object {} that is asked for. {}", name_.text(),
                                             store_.describe(), mark_, id, begin_again()));
  };
  if (*kept == nullptr) return trimmed();
  const auto& entries = (*kept)->pack.entries;
  auto entry = std::lower_bound(entries.begin(), entries.end(), id, [](const wire::PackEntry& e, std::uint64_t wanted) { return e.id < wanted; });
  if (entry == entries.end() || entry->id != id) return std::nullopt;
  if (entry->kind == wire::PackEntry::Kind::dropped) return trimmed();
  if (entry->kind == wire::PackEntry::Kind::in_place) return in_place(id, entry->checksum);
  Fetched found{to_bytes(entry->bytes), LogObject{.stream = name_}};
  auto object = wire::decode_log_object(found.bytes);
  const auto file = pack_folder_ + "/" + (*kept)->name;
  if (!object) return bad_file(file, object.error());
  if (object->id != id || object->checksum != entry->checksum)
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, fmt::format("what it has as object {} is another one", id)});
  found.object = std::move(*object);
  return found;
}

ObjectStream::Step<> ObjectStream::take(std::uint64_t id, const LogObject& object, std::vector<Record>* out) {
  auto counts = fold_.take(object, out);
  if (!counts) return damaged(id, counts.error().what);
  return {};
}

// --- going on -----------------------------------------------------------------------------------------------------------------------------------------

// Ids from `id` on, at most `limit`, in order; fewer: there are no more. B6: by LIST, not by GET. Names that are no ids are somebody else's, and are passed over.
ObjectStream::Step<std::vector<std::uint64_t>> ObjectStream::list_from(std::uint64_t id, std::size_t limit) {
  std::vector<std::uint64_t> ids;
  for (std::string after = object_name(id - 1);;) {
    ++requests_;
    auto names = store_.list(log_folder_, after, limit);
    if (!names) return refuse(names.error());
    for (const auto& name : *names)
      if (auto found = object_id(name); found && ids.size() < limit) ids.push_back(*found);
    if (names->size() < limit || ids.size() == limit) return ids;
    after = std::move(names->back());
  }
}

// Up to `last`, which LIST showed, for whoever folds it all or reads much at a time.
void ObjectStream::look_ahead(std::uint64_t last, const Batch& batch) {
  const auto next = fold_.next_id();
  if (ahead_ && ahead_->covers(next)) return;
  ahead_.reset();
  if (last <= next || store_.at_once() < 2 || (batch.out != nullptr && batch.limit.records < kLeastReadAhead)) return;
  ahead_ = std::make_unique<LogAhead>(place_.runtime, store_, [folder = log_folder_](std::uint64_t id) { return folder + "/" + object_name(id); }, next, last);
}

// The next object, when LIST showed `listed`. A listing is no snapshot: one below `listed` that it left out may have been created behind its back, but then
// it is there now, because the maker of a later object had seen it. Else it is missing in the middle, and never taken for the tail.
ObjectStream::Step<> ObjectStream::take_next(std::uint64_t listed, std::vector<Record>* out) {
  auto id = fold_.next_id();
  if (auto bytes = ahead_ ? ahead_->take(id) : std::nullopt) {
    ++requests_;
    auto object = decoded(id, std::move(*bytes));
    return object ? take(id, object->object, out) : tl::unexpected(object.error());
  }
  auto there = fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (*there) return take(id, (*there)->object, out);
  if (auto ok = check_mark(); !ok) return ok;
  if (id == listed) return damaged(id, "it vanished while the log was read");
  if (guard_on(Guard::b4_stop_at_absent)) return damaged(id, fmt::format("it is missing, although object {} is there", listed));
  fold_.skip_to(listed);
  return {};
}

// The next object, below the mark. What a pack says needs no further look at the mark.
ObjectStream::Step<> ObjectStream::take_packed(std::vector<Record>* out) {
  const auto id = fold_.next_id();
  auto there = unpack(id);
  if (!there) return tl::unexpected(there.error());
  if (!*there) fold_.pass_void();
  else if (auto ok = take(id, (*there)->object, out); !ok) return ok;
  if (unchecked_from_ == id) unchecked_from_ = id + 1;
  return {};
}

bool ObjectStream::Batch::full() const { return out != nullptr && (turned || out->size() >= limit.records || bytes >= limit.bytes); }

template <typename TakeOne>
ObjectStream::Step<> ObjectStream::add(Batch& batch, TakeOne&& take_one) {
  const auto before = batch.out != nullptr ? batch.out->size() : 0;
  const auto presence = fold_.state().presence;
  const auto ordinal = fold_.ordinal();
  if (auto ok = take_one(); !ok) return ok;
  if (batch.out != nullptr) batch.bytes += payload_bytes(*batch.out, before);
  batch.turned = batch.turned || (presence != core::Presence::absent && (fold_.state().presence != presence || fold_.ordinal() != ordinal));
  return {};
}

ObjectStream::Step<ObjectStream::Reach> ObjectStream::catch_up(std::vector<Record>* out, const ReadLimit& limit) {
  Batch batch{out, limit};
  if (out != nullptr && fold_.next_id() >= mark_) {
    const auto reached = ask_for_next(batch);
    if (!reached) return tl::unexpected(reached.error());
    if (*reached) return **reached;
  }
  for (;;) {
    if (batch.full()) return batch.so_far();
    while (fold_.next_id() < mark_) {
      if (batch.full()) return batch.so_far();
      if (auto ok = add(batch, [&] { return take_packed(out); }); !ok) return tl::unexpected(ok.error());
    }
    const auto next = fold_.next_id();
    // The newest object folded, by this session or by whoever made the snapshot it begins with, is listed along with what follows it: a log that lost its end,
    // or was put back to an older state, shows by its absence. What was written after it would stand behind a hole, and nobody could read it.
    const bool overlap = next > 1 && next > mark_;
    auto ids = list_from(overlap ? next - 1 : next, kListPage);
    if (!ids) return tl::unexpected(ids.error());
    if (overlap && (ids->empty() || ids->front() != next - 1)) {
      unchecked_from_ = std::min(unchecked_from_, next - 1);
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      return damaged(next - 1, fold_.base() == next ? "it is missing, although a snapshot goes up to it" : "it was there before and is missing now");
    }
    if (!ids->empty()) look_ahead(ids->back(), batch);
    for (auto id : *ids)
      while (fold_.next_id() <= id) {
        if (batch.full()) return batch.so_far();
        if (auto ok = add(batch, [&] { return take_next(id, out); }); !ok) return tl::unexpected(ok.error());
      }
    if (ids->size() < kListPage) {
      ahead_.reset();
      unlisted_reads_ = kUnlistedReads;
      return batch.turned ? Reach::turn : Reach::end;
    }
  }
}

// A directory answers for one name at a tenth of what a listing costs. So whoever reads on in one after a listing asks for the next names alone, for a while: the mark
// is looked at after it as ever (B6), and an object that is missing in the middle is found by the listing that comes next, or by the one that ends a wait. None: list.
ObjectStream::Step<std::optional<ObjectStream::Reach>> ObjectStream::ask_for_next(Batch& batch) {
  if (unlisted_reads_ == 0 || fold_.next_id() == 1) return std::nullopt;
  const auto newest = store_.has(key(fold_.next_id() - 1));  // as the listing would show it
  if (!newest || !*newest) return std::nullopt;
  --unlisted_reads_;
  while (!batch.full()) {
    const auto id = fold_.next_id();
    auto there = fetch(id);
    if (!there) return tl::unexpected(there.error());
    if (!*there) return Reach::end;
    if (auto ok = add(batch, [&] { return take(id, (*there)->object, batch.out); }); !ok) return tl::unexpected(ok.error());
  }
  return batch.so_far();
}

ObjectStream::Step<> ObjectStream::catch_up_all() {
  if (!begun_)
    if (auto ok = begin_cold(); !ok) return ok;
  auto done = catch_up(nullptr, kReadAll);
  // Damaged: asked once more from the beginning, so that a log that is whole but shorter is told as what it is now. An owner sees its own writes missing.
  // Gone: the fold stood where the log was trimmed since; what a snapshot or a pack kept leads on.
  if (!done && !moved_ && (done.error().outcome == Outcome::fence_unavailable || done.error().outcome == Outcome::gone)) {
    if (auto ok = begin_cold(); !ok) return tl::unexpected(done.error());
    done = catch_up(nullptr, kReadAll);
  }
  if (!done) return tl::unexpected(done.error());
  return {};
}

// --- the mark -----------------------------------------------------------------------------------------------------------------------------------------

// Marks only rise, and are pruned from below: those after the highest one seen tell all. Names of cuts sort behind every mark.
ObjectStream::Step<> ObjectStream::look_at_marks() {
  std::string after = mark_ == 0 ? "" : object_name(mark_);
  for (;;) {
    ++requests_;
    auto names = store_.list(mark_folder_, after, kListPage);
    if (!names) return refuse(names.error());
    for (const auto& name : *names) {
      mark_ = std::max(mark_, object_id(name).value_or(0));  // the highest wins
      cut_ = std::max(cut_, cut_at(name).value_or(0));
    }
    if (names->size() < kListPage) return {};
    after = names->back();
  }
}

// B6: read after an id was taken as absent, a claim was placed, or a fold went on after a pause. A mark above what was folded from the log folder since the
// last look says that it may have been trimmed, and filled again by a stalled writer.
ObjectStream::Step<> ObjectStream::check_mark() {
  if (auto ok = look_at_marks(); !ok) return ok;
  if (mark_ <= unchecked_from_ || !guard_on(Guard::b6_mark_after)) {
    unchecked_from_ = fold_.next_id();
    return {};
  }
  auto from = unchecked_from_;
  forget();
  moved_ = true;
  return refuse(Outcome::gone,
                fmt::format("The log of '{}' in {} was trimmed up to object {}, above object {} from which it was read. Begin again from its snapshot.",
                            name_.text(), store_.describe(), mark_, from));
}

}  // namespace onepen::home
