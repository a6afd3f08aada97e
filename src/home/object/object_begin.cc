// Where a fold begins: with the newest state that is kept, or in the middle, at a position that somebody was given (fold.h).
#include <fmt/format.h>

#include <algorithm>

#include "home/object/object_stream.h"

namespace onepen::home {

// With the newest state that a snapshot or a pack kept; without any, from the first object.
ObjectStream::Step<> ObjectStream::begin_cold() {
  forget();
  if (auto ok = look_at_marks(); !ok) return ok;
  auto ids = snapshot_ids();
  if (!ids) return tl::unexpected(ids.error());
  for (const auto& id : *ids) {
    if (snapshot_at(id).value_or(0) + 1 < mark_) break;  // the newest pack knows more
    auto head = head_of(id);
    if (!head) return tl::unexpected(head.error());
    if (*head) return begin_with(**head);
  }
  begun_ = true;
  if (mark_ <= 1) return {};
  auto newest = pack_of(mark_ - 1);
  if (!newest) return tl::unexpected(newest.error());
  if (*newest == nullptr || (*newest)->pack.last != mark_ - 1) {
    const auto mark = mark_;
    if (auto ok = look_at_marks(); !ok) return ok;
    moved_ = mark_ != mark;  // trimmed meanwhile: the newer pack tells
    forget();
    if (auto away = all_gone(); away && *away) return nothing_left();
    return refuse(Outcome::fence_unavailable,
                  fmt::format("The log of '{}' in {} is damaged: it was trimmed up to object {}, and no file of {} ends there. Put it back from a backup or "
                              "from another copy of this home.",
                              name_.text(), store_.describe(), mark, pack_folder_));
  }
  fold_.begin_with((*newest)->pack.end);
  unchecked_from_ = fold_.next_id();
  return {};
}

// The object a known position lies in is absent.
ObjectStream::Step<> ObjectStream::nothing_at(const ParsedOffset& from, const Offset& text) {
  auto id = from.at.high;
  unchecked_from_ = id;
  if (auto ok = check_mark(); !ok) return ok;
  auto any = list_from(1, 1);
  if (!any) return tl::unexpected(any.error());
  if (any->empty()) return damaged(id, "it is missing, and the whole log with it");  // unless there is nothing else either
  auto after = list_from(id, 1);
  if (!after) return tl::unexpected(after.error());
  if (!after->empty()) return damaged(id, fmt::format("it is missing, although object {} is there", after->front()));
  // Or that was adopted since: then the history that the offset belongs to is over, and never came so far.
  if (auto ok = catch_up_all(); !ok) return ok;
  const bool over = fold_.ordinal() != from.ordinal;
  forget();
  if (over) return not_here(text, "the stream has another history now");
  return refuse(
      Outcome::fence_unavailable,
      fmt::format("The log of '{}' in {} ends before object {}, which was seen there earlier: an older copy of it was put back. Put the newer one back, "
                  "or accept this one with `onepen adopt {}`.",
                  name_.text(), store_.describe(), id, name_.text()));
}

// A position somebody was given lies in an object that counts: the fold may begin there (a warm copy need not read the log again).
ObjectStream::Step<> ObjectStream::begin_in_the_middle(const ParsedOffset& from, const Offset& text) {
  const auto id = from.at.high;
  const bool packed = id < mark_;
  auto there = packed ? unpack(id) : fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (!*there && packed) return not_here(text, "the object it lies in does not count");
  if (!*there) return nothing_at(from, text);
  const auto& object = (*there)->object;
  const bool history = object.kind == wire::ObjectKind::history;
  if (object.id != id || object.stream != name_) return damaged(id, "it is not the object that belongs there");
  if (history ? object.history.next_ordinal != from.ordinal || offset_tag(object.history.next, {}) != from.tag
              : object.ordinal != from.ordinal || offset_tag(object.incarnation, object.claim_id) != from.tag)
    return not_here(text, "the stream has another history now");
  const std::size_t ends = history ? 0 : object.kind == wire::ObjectKind::claim ? 1 : object.appends.size();
  if (from.at.low > ends || (from.at.low == 0 && !history)) return not_here(text, "the object it lies in has other contents");
  std::optional<Fetched> claim;
  if (object.kind == wire::ObjectKind::appends) {
    auto made_under = fetch(object.claim_at);  // also below the mark: claims stay for ever (B5)
    if (!made_under) return tl::unexpected(made_under.error());
    if (!*made_under) return damaged(object.claim_at, fmt::format("it is missing, although object {} was made under it", id));
    claim = std::move(*made_under);
  }
  if (auto ok = fold_.begin_after(object, claim ? claim->object : object); !ok) return damaged(id, ok.error().what);
  begun_ = true;
  unchecked_from_ = packed ? id + 1 : id;
  if (from.at.low == ends) last_end_ = from.at;
  return {};
}

ObjectStream::Step<> ObjectStream::begin_at(const ParsedOffset& from, const Offset& text) {
  forget();
  if (auto ok = look_at_marks(); !ok) return ok;
  auto begun = begin_in_the_middle(from, text);
  if (!begun && begun.error().outcome == Outcome::gone && !moved_) {
    auto snapshot = begin_at_snapshot(from, text);
    if (!snapshot) return tl::unexpected(snapshot.error());
    if (!*snapshot) return begun;
  } else if (!begun) {
    return begun;
  }
  // A history may have left this position behind: that is known before anything is handed out.
  if (from.at.high < cut_) return catch_up_all();
  return {};
}

}  // namespace onepen::home
