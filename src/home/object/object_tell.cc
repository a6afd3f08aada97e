// What the object home tells people about a log: what it takes, and what it keeps for ever. Writes nothing.
#include <algorithm>

#include "home/object/history_word.h"
#include "home/object/object_stream.h"

namespace onepen::home {

using core::Answer;
using core::EventKind;
using core::HistoryEvent;
using wire::LogObject;
using wire::ObjectKind;

namespace {

constexpr std::size_t kWholeListing = static_cast<std::size_t>(-1);

EventKind kind_of(const LogObject& o) {
  switch (o.kind) {
    case ObjectKind::claim:
    case ObjectKind::appends: return EventKind::claim;
    case ObjectKind::tombstone: return EventKind::removed;
    case ObjectKind::evidence: return EventKind::evidence;
    case ObjectKind::history: break;
  }
  const HistoryWord* word = history_word(o.history.act);
  return word == nullptr ? EventKind::restore : word->event;
}

HistoryEvent event_of(const LogObject& o) {
  HistoryEvent e;
  e.kind = kind_of(o);
  const bool history = o.kind == ObjectKind::history;
  e.incarnation = history ? o.history.next : o.incarnation;
  e.epoch = history ? o.history.floor : o.epoch;
  e.time_ms = o.time_ms;
  e.by = o.kind == ObjectKind::claim ? o.claim.owner : o.by;
  e.what = o.what;
  e.offset = history ? to_offset(o.history.next_ordinal, {o.id, 0}, o.history.next, {}) : to_offset(o.ordinal, {o.id, 1}, o.incarnation, o.claim_id);
  if (o.kind == ObjectKind::claim) {
    e.claim_id = o.claim_id;
    e.closed_epoch = o.claim.closed_epoch;
    e.closed_sequence = o.claim.closed_sequence;
  }
  return e;
}

}  // namespace

// Below the mark packs tell what counts, as long as they are kept. Of what is older, only what can be no void object is shown: epochs rise.
ObjectStream::Step<> ObjectStream::kept_events(std::vector<HistoryEvent>& out) {
  auto ids = list_from(1, kWholeListing);
  if (!ids) return tl::unexpected(ids.error());
  Epoch newest{};
  for (auto id : *ids) {
    if (id >= mark_) break;
    auto packed = pack_of(id);
    if (!packed) return tl::unexpected(packed.error());
    if (*packed != nullptr) {
      const auto& entries = (*packed)->pack.entries;
      if (std::none_of(entries.begin(), entries.end(), [&](const auto& e) { return e.id == id && e.kind == wire::PackEntry::Kind::whole; })) continue;
    }
    auto there = fetch(id);
    if (!there) return tl::unexpected(there.error());
    if (!*there || (*there)->object.kind == ObjectKind::appends || (*there)->object.stream != name_) continue;
    const auto& object = (*there)->object;
    if (object.kind == ObjectKind::claim && object.epoch <= newest) continue;
    newest = std::max(newest, object.kind == ObjectKind::evidence ? newest : object.epoch);
    out.push_back(event_of(object));
  }
  return {};
}

ObjectStream::Step<std::vector<HistoryEvent>> ObjectStream::events_once() {
  if (auto ok = look_at_marks(); !ok) return tl::unexpected(ok.error());
  std::vector<HistoryEvent> out;
  if (mark_ > 1)
    if (auto ok = kept_events(out); !ok) return tl::unexpected(ok.error());
  const auto first = std::max<std::uint64_t>(mark_, 1);
  if (auto ok = begin_before(first); !ok) return tl::unexpected(ok.error());
  while (fold_.next_id() < first)
    if (auto ok = take_packed(nullptr); !ok) return tl::unexpected(ok.error());
  unchecked_from_ = first;
  auto ids = list_from(first, kWholeListing);
  if (!ids) return tl::unexpected(ids.error());
  for (auto id : *ids) {
    auto there = fetch(id);
    if (!there) return tl::unexpected(there.error());
    if (!*there) {
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      return damaged(id, "it vanished while the log was read");
    }
    const auto& object = (*there)->object;
    if (auto ok = take(id, object, nullptr); !ok) return tl::unexpected(ok.error());
    if (fold_.is_void(id) || object.kind == ObjectKind::appends) continue;
    auto event = event_of(object);
    if (object.kind == ObjectKind::history && !object.history.snapshot.empty()) event.common = fold_.offset_of(object.history.common);
    out.push_back(std::move(event));
  }
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  return out;
}

Answer<std::vector<HistoryEvent>> ObjectStream::events() {
  return steadily([&] { return events_once(); });
}

Answer<core::Usage> ObjectStream::usage() {
  return steadily([&] { return usage_once(); });
}

Answer<core::Usage> ObjectStream::usage_once() {
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence != core::Presence::present) return absent();
  core::Usage usage;
  auto ids = list_from(std::max<std::uint64_t>(mark_, 1), kWholeListing);
  if (!ids) return tl::unexpected(ids.error());
  usage.log_objects = ids->size();
  usage.log_bytes = fold_.log_bytes();
  bool trimmed = false;
  if (mark_ > 1) {  // the run of packs that leads up to the mark
    std::uint64_t from = mark_;
    std::uint64_t before = fold_.log_bytes();
    while (from > 1) {
      auto kept = pack_of(from - 1);
      if (!kept) return tl::unexpected(kept.error());
      if (*kept == nullptr) break;
      const auto& pack = (*kept)->pack;
      const bool dropped = std::any_of(pack.entries.begin(), pack.entries.end(), [](const auto& e) { return e.kind == wire::PackEntry::Kind::dropped; });
      if (dropped) before = pack.end.log_bytes;
      if (dropped) break;
      from = pack.first;
      before = pack.log_bytes_before;
      ++usage.log_objects;
    }
    usage.log_bytes -= std::min(before, usage.log_bytes);
    trimmed = from > 1;
  }
  auto found = heads(kWholeListing);
  if (!found) return tl::unexpected(found.error());
  for (const auto& head : *found) usage.snapshot_bytes += head.info.bytes;
  usage.snapshots = found->size();
  if (trimmed && !found->empty()) usage.oldest = found->back().info.offset;  // whoever is further behind begins with a snapshot
  return usage;
}

}  // namespace onepen::home
