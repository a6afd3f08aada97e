#include "home/object/object_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/guard.h"
#include "core/fence_view.h"

namespace onepen::home {

using core::Answer;
using core::Position;
using core::ReadLimit;
using core::ReadResult;
using core::Record;
using wire::LogObject;

namespace {

constexpr ReadLimit kNoLimit{static_cast<std::size_t>(-1), ~std::uint64_t{0}};

bool liveness_name(std::string_view text) {
  auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= 128 && text[0] != '.' && std::all_of(text.begin(), text.end(), good);
}

std::uint64_t bytes_of(const std::vector<Record>& records, std::size_t from) {
  std::uint64_t n = 0;
  for (std::size_t i = from; i < records.size(); ++i) n += records[i].payload.size();
  return n;
}

}  // namespace

ObjectStream::ObjectStream(Place& place, StreamName name)
    : place_(place),
      store_(place.store),
      name_(name),
      log_folder_(name.text() + "/@log"),
      mark_folder_(name.text() + "/@mark"),
      alive_folder_(name.text() + "/@alive"),
      fold_(std::move(name)) {}

tl::unexpected<core::Refusal> ObjectStream::refuse(Outcome outcome, std::string message) const {
  core::Refusal r{outcome, std::move(message)};
  r.current = core::owner_of(fold_.state());
  if (r.current) r.current->endpoint = fold_.endpoint();
  return tl::unexpected(std::move(r));
}
tl::unexpected<core::Refusal> ObjectStream::refuse(const Error& error) const { return refuse(error.outcome, error.message); }

tl::unexpected<core::Refusal> ObjectStream::damaged(std::uint64_t id, std::string_view what) {
  forget();  // whatever was folded is asked for again: the operator may put the right object back
  return refuse(
      Outcome::fence_unavailable,
      fmt::format("The log of '{}' is damaged: object {} in {}: {}. Nothing was changed and nothing after it is shown. Put the right object back from a "
                  "backup or from another copy of this home; do not delete or renumber others.",
                  name_.text(), key(id), store_.describe(), what));
}

void ObjectStream::forget() {
  fold_ = LogFold(name_);
  begun_ = false;
  unchecked_from_ = 1;
  last_end_.reset();
}

ObjectStream::Step<std::optional<ObjectStream::Fetched>> ObjectStream::fetch(std::uint64_t id) {
  ++requests_;
  auto bytes = store_.get(key(id));
  if (!bytes && bytes.error().outcome == Outcome::not_found) return std::nullopt;
  if (!bytes) return refuse(bytes.error());
  auto object = wire::decode_log_object(*bytes);
  if (object) return Fetched{std::move(*bytes), std::move(*object)};
  if (object.error().kind == wire::ObjectFault::Kind::newer_format) {
    forget();
    return refuse(Outcome::invalid, fmt::format("Object {} in {} was written by a newer Onepen: {}. Use that version or a later one; nothing was changed.",
                                                key(id), store_.describe(), object.error().what));
  }
  return damaged(id, fmt::format("{} (at byte {} of {})", object.error().what, object.error().at, bytes->size()));
}

ObjectStream::Step<> ObjectStream::take(std::uint64_t id, const LogObject& object, std::vector<Record>* out) {
  auto counts = fold_.take(object, out);
  if (!counts) return damaged(id, counts.error().what);
  return {};
}

// Ids from `id` on, as many as one page holds, in order. B6: by LIST, not by GET.
ObjectStream::Step<std::vector<std::uint64_t>> ObjectStream::list_from(std::uint64_t id, std::size_t limit) {
  ++requests_;
  auto names = store_.list(log_folder_, object_name(id - 1), limit);
  if (!names) return refuse(names.error());
  std::vector<std::uint64_t> ids;
  ids.reserve(names->size());
  for (const auto& name : *names)
    if (auto found = object_id(name)) ids.push_back(*found);
  return ids;
}

// The next object, when LIST showed `listed`. A listing is no snapshot: one below `listed` that it left out may have been created behind its back, but then
// it is there now, because the maker of a later object had seen it. Else it is missing in the middle, and never taken for the tail.
ObjectStream::Step<> ObjectStream::take_next(std::uint64_t listed, std::vector<Record>* out) {
  auto id = fold_.next_id();
  auto there = fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (*there) return take(id, (*there)->object, out);
  if (auto ok = check_mark(); !ok) return ok;
  if (id == listed) return damaged(id, "it vanished while the log was read");
  if (guard_on(Guard::b4_stop_at_absent)) return damaged(id, fmt::format("it is missing, although object {} is there", listed));
  fold_.skip_to(listed);
  return {};
}

ObjectStream::Step<bool> ObjectStream::catch_up(std::vector<Record>* out, const ReadLimit& limit) {
  std::uint64_t bytes = 0;
  for (;;) {
    const auto next = fold_.next_id();
    // The newest object folded is listed along with what follows it: a log that lost its end, or was put back to an older state, shows by its absence. What
    // was written after it would stand behind a hole, and nobody could read it.
    const bool overlap = next > fold_.base();
    auto ids = list_from(overlap ? next - 1 : next, kListPage);
    if (!ids) return tl::unexpected(ids.error());
    if (overlap && (ids->empty() || ids->front() != next - 1)) {
      unchecked_from_ = std::min(unchecked_from_, next - 1);
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      return damaged(next - 1, "it was there before and is missing now");
    }
    for (auto id : *ids)
      while (fold_.next_id() <= id) {
        if (out != nullptr && (out->size() >= limit.records || bytes >= limit.bytes)) return false;
        auto before = out != nullptr ? out->size() : 0;
        if (auto ok = take_next(id, out); !ok) return tl::unexpected(ok.error());
        if (out != nullptr) bytes += bytes_of(*out, before);
      }
    if (ids->size() < kListPage) return true;
  }
}

ObjectStream::Step<> ObjectStream::catch_up_all() {
  if (!begun_) {
    if (auto ok = begin(std::nullopt, {}); !ok) return ok;
  }
  auto done = catch_up(nullptr, kNoLimit);
  // Damaged: asked once more from the beginning, so that a log that is whole but shorter is told as what it is now. An owner sees its own writes missing.
  if (!done && done.error().outcome == Outcome::fence_unavailable) {
    begun_ = true;
    done = catch_up(nullptr, kNoLimit);
  }
  if (!done) return tl::unexpected(done.error());
  return {};
}

// B6: read after an id was taken as absent, a claim was placed, or a fold went on after a pause. A mark above what was folded since the last look says
// that it may have been trimmed and filled again by a stalled writer.
ObjectStream::Step<> ObjectStream::check_mark() {
  ++requests_;
  auto names = store_.list(mark_folder_, "", kListPage);
  if (!names) return refuse(names.error());
  std::uint64_t mark = 0;
  for (const auto& name : *names) mark = std::max(mark, object_id(name).value_or(0));  // the highest wins
  if (mark <= unchecked_from_) {
    unchecked_from_ = fold_.next_id();
    return {};
  }
  auto from = unchecked_from_;
  forget();
  return refuse(Outcome::gone,
                fmt::format("The log of '{}' in {} was trimmed up to object {}, above object {} from which it was read. Begin again from its snapshot.",
                            name_.text(), store_.describe(), mark, from));
}

ObjectStream::Step<> ObjectStream::begin(const std::optional<ParsedOffset>& from, const Offset& text) {
  if (from) return begin_in_the_middle(*from, text);
  forget();
  begun_ = true;
  return {};
}

// The object a known position lies in is absent.
ObjectStream::Step<> ObjectStream::nothing_at(const ParsedOffset& from) {
  auto id = from.at.high;
  unchecked_from_ = id;
  if (auto ok = check_mark(); !ok) return ok;
  auto any = list_from(1, 1);
  if (!any) return tl::unexpected(any.error());
  if (any->empty()) return refuse(Outcome::not_found, fmt::format("There is no stream '{}' in {}.", name_.text(), store_.describe()));
  auto after = list_from(id, 1);
  if (!after) return tl::unexpected(after.error());
  if (!after->empty()) return damaged(id, fmt::format("it is missing, although object {} is there", after->front()));
  return refuse(
      Outcome::fence_unavailable,
      fmt::format("The log of '{}' in {} ends before object {}, which was seen there earlier: an older copy of it was put back. Restore the newer one; "
                  "nothing was changed.",
                  name_.text(), store_.describe(), id));
}

// A position somebody was given lies in an object that counts: the fold may begin there (a warm copy need not read the log again).
ObjectStream::Step<> ObjectStream::begin_in_the_middle(const ParsedOffset& from, const Offset& text) {
  auto not_here = [&](std::string_view why) {
    return refuse(Outcome::gone,
                  fmt::format("Offset {} is no position of '{}' in {} any more: {}. Begin again.", text.text, name_.text(), store_.describe(), why));
  };
  forget();
  auto id = from.at.high;
  auto there = fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return nothing_at(from);
  const auto& object = (*there)->object;
  if (object.id != id || object.stream != name_) return damaged(id, "it is not the object that belongs there");
  if (object.ordinal != from.ordinal || incarnation_tag(object.incarnation) != from.tag) return not_here("the stream has another history now");
  auto ends = object.kind == wire::ObjectKind::claim ? 1 : object.appends.size();
  if (from.at.low == 0 || from.at.low > ends) return not_here("the object it lies in has other contents");
  std::optional<Fetched> claim;
  if (object.kind == wire::ObjectKind::appends) {
    auto made_under = fetch(object.claim_at);
    if (!made_under) return tl::unexpected(made_under.error());
    if (!*made_under) return damaged(object.claim_at, fmt::format("it is missing, although object {} was made under it", id));
    claim = std::move(*made_under);
  }
  if (auto ok = fold_.begin_after(object, claim ? claim->object : object); !ok) return damaged(id, ok.error().what);
  begun_ = true;
  unchecked_from_ = id;
  if (from.at.low == ends) last_end_ = from.at;
  return {};
}

// The position an offset names, with the fold begun so that it covers it; none: the beginning.
ObjectStream::Step<std::optional<Position>> ObjectStream::position_of(const Offset& from) {
  if (from.text.empty()) {
    if (!begun_ || fold_.base() > 1)
      if (auto ok = begin(std::nullopt, from); !ok) return tl::unexpected(ok.error());
    return std::nullopt;
  }
  auto parsed = parse_offset(from);
  if (!parsed || parsed->at.high == 0) return refuse(Outcome::invalid, fmt::format("'{}' is not an offset of '{}'.", from.text, name_.text()));
  if (begun_ && parsed->at.high >= fold_.next_id())
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (!begun_ || parsed->at.high < fold_.base() || parsed->at.high >= fold_.next_id())
    if (auto ok = begin(parsed, from); !ok) return tl::unexpected(ok.error());
  if (parsed->ordinal != fold_.ordinal() || parsed->tag != incarnation_tag(fold_.state().incarnation) || fold_.is_void(parsed->at.high))
    return refuse(Outcome::gone, fmt::format("Offset {} is no position of '{}' in {} any more: the stream has another history now. Begin again.", from.text,
                                             name_.text(), store_.describe()));
  return parsed->at;
}

// Shows an object that was folded before. False: the limit is reached.
ObjectStream::Step<bool> ObjectStream::reread(std::uint64_t id, std::size_t skip, const ReadLimit& limit, std::vector<Record>& out, std::uint64_t& bytes) {
  if (out.size() >= limit.records || bytes >= limit.bytes) return false;
  if (fold_.is_void(id)) return true;
  auto there = fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (!*there) {
    unchecked_from_ = std::min(unchecked_from_, id);
    if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
    return damaged(id, "it was there before and is missing now");
  }
  auto before = out.size();
  fold_.replay((*there)->object, skip, out);
  bytes += bytes_of(out, before);
  return true;
}

Answer<ReadResult> ObjectStream::read(const Offset& from, const ReadLimit& limit) {
  auto at = position_of(from);
  if (!at) return tl::unexpected(at.error());
  ReadResult result;
  result.next = from;
  auto& out = result.records;
  std::uint64_t id = 1, bytes = 0;
  std::size_t skip = 0;
  if (*at) {
    bool at_end = fold_.state().tail == **at || last_end_ == **at;
    id = (*at)->high + (at_end ? 1 : 0);
    skip = at_end ? 0 : static_cast<std::size_t>((*at)->low);
  }
  unchecked_from_ = std::min(unchecked_from_, id);
  bool all = true;
  for (; id < fold_.next_id() && all; ++id, skip = 0) {
    auto more = reread(id, skip, limit, out, bytes);
    if (!more) return tl::unexpected(more.error());
    all = *more;
  }
  if (all && out.size() < limit.records && bytes < limit.bytes) {
    auto done = catch_up(&out, limit);
    if (!done && out.empty()) return tl::unexpected(done.error());
    if (!done) {  // what lies before the fault is shown; the next read meets it
      result.next = out.back().next;
      return result;
    }
    all = *done;
  } else {
    all = false;
  }
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence != core::Presence::present && all)
    return refuse(Outcome::not_found, fmt::format("There is no stream '{}' in {}.", name_.text(), store_.describe()));
  bool cut = out.size() > limit.records && limit.records > 0;
  if (cut) out.resize(limit.records);
  if (!out.empty()) result.next = out.back().next;
  if (!out.empty() && !cut) last_end_ = parse_offset(result.next)->at;
  result.up_to_date = all && !cut;
  return result;
}

Answer<core::StreamStat> ObjectStream::stat() {
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence != core::Presence::present)
    return refuse(Outcome::not_found, fmt::format("There is no stream '{}' in {}.", name_.text(), store_.describe()));
  auto stat = core::stat_of(fold_.state());
  stat.tail = fold_.tail();
  stat.endpoint = fold_.endpoint();
  return stat;
}

Answer<bool> ObjectStream::wait(const Offset& from, Instant deadline) {
  auto at = position_of(from);
  if (!at) return tl::unexpected(at.error());
  auto pause = place_.options.poll_min;
  for (;;) {
    if (fold_.state().presence != core::Presence::absent && (!*at || fold_.state().tail > **at)) return true;
    auto ids = list_from(fold_.next_id(), 1);
    if (!ids) return tl::unexpected(ids.error());
    if (!ids->empty()) return true;
    auto now = place_.runtime.now();
    if (now >= deadline) return false;
    place_.runtime.sleep_until(std::min(deadline, now + pause));
    if (place_.runtime.now() <= now) return false;  // the process is being stopped: sleeping ends at once
    pause = std::min<std::chrono::nanoseconds>(pause + pause / 2, place_.options.poll_max);
  }
}

Answer<bool> ObjectStream::beat(const std::string& liveness, ByteView content) {
  if (!liveness_name(liveness)) return refuse(Outcome::invalid, fmt::format("'{}' is not a name for a liveness object.", liveness));
  if (auto ok = store_.put(alive_folder_ + "/" + liveness, content); !ok) return refuse(ok.error());
  return true;
}

Answer<std::optional<Bytes>> ObjectStream::pulse(const std::string& liveness) {
  if (!liveness_name(liveness)) return refuse(Outcome::invalid, fmt::format("'{}' is not a name for a liveness object.", liveness));
  auto bytes = store_.get(alive_folder_ + "/" + liveness);
  if (!bytes && bytes.error().outcome == Outcome::not_found) return std::optional<Bytes>{};
  if (!bytes) return refuse(bytes.error());
  return std::optional<Bytes>(std::move(*bytes));
}

}  // namespace onepen::home
