#include "home/object/object_stream.h"

#include <fmt/chrono.h>
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

namespace {

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
      pack_folder_(name.text() + "/@pack"),
      snapshot_folder_(name.text() + "/@snap"),
      fold_(std::move(name)) {}

tl::unexpected<core::Refusal> ObjectStream::refuse(Outcome outcome, std::string message) const {
  core::Refusal r{outcome, std::move(message)};
  r.current = core::owner_of(fold_.state());
  if (r.current) r.current->endpoint = fold_.endpoint();
  return tl::unexpected(std::move(r));
}
// Permissions that an owner had come and go with mounts and moves, as a home out of reach does; to whoever begins they are told as what they are.
tl::unexpected<core::Refusal> ObjectStream::refuse(const Error& error) const {
  return refuse(wrote_ && error.outcome == Outcome::unauthorised ? Outcome::unavailable : error.outcome, error.message);
}

tl::unexpected<core::Refusal> ObjectStream::absent() {
  if (fold_.state().presence == core::Presence::absent) {
    forget();  // it may be out of sight for a while only (a home that is not mounted): whatever comes back is read from its beginning
    if (seen_) return nothing_left();
    return refuse(Outcome::not_found, fmt::format("There is no stream '{}' in {}.", name_.text(), store_.describe()));
  }
  const std::chrono::sys_time<std::chrono::milliseconds> when{std::chrono::milliseconds(fold_.removed_ms())};
  core::Refusal r{Outcome::not_found,
                  fmt::format("The stream '{}' in {} was deleted at {} UTC. A claim that may create it makes it anew, empty, above epoch {}.", name_.text(),
                              store_.describe(), when, fold_.state().owner.epoch.value)};
  r.floor = fold_.state().owner.epoch;
  return tl::unexpected(std::move(r));
}

// The beginning of what the stream holds. A log of which nothing was ever cut off begins with its first object; else the fold knows where it begins.
ObjectStream::Step<ObjectStream::Start> ObjectStream::start_of_content() {
  if (begun_ && fold_.state().presence == core::Presence::deleted) {
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
    if (fold_.state().presence != core::Presence::present) return absent();
  }
  if (begun_ && fold_.base() == 1 && !fold_.has_cuts()) return Start{};
  if (!begun_)
    if (auto ok = look_at_marks(); !ok) return tl::unexpected(ok.error());
  if (cut_ == 0) {
    if (!begun_ || fold_.base() != 1) forget();
    begun_ = true;
    return Start{};
  }
  if (!begun_ || fold_.content_from() == 0) {
    if (auto ok = begin_cold(); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  const auto id = std::max<std::uint64_t>(fold_.content_from(), 1);
  if (fold_.state().presence != core::Presence::present) return absent();
  auto first = fetch(id);  // claims and histories stay for ever (B5)
  if (!first) return tl::unexpected(first.error());
  if (!*first) return damaged(id, "it is missing, although the stream begins with it");
  if ((*first)->object.kind == wire::ObjectKind::history)
    return refuse(Outcome::gone, fmt::format("What '{}' holds begins with a snapshot, not with its records. {}", name_.text(), begin_again()));
  if (fold_.base() <= id) return Start{id, 0, std::nullopt};
  if (auto ok = fold_.begin_after((*first)->object, (*first)->object); !ok) return damaged(id, ok.error().what);
  unchecked_from_ = id < mark_ ? id + 1 : id;
  last_end_.reset();
  return Start{id, 0, std::nullopt};
}

// Where a read from an offset goes on, with the fold begun so that it covers it.
ObjectStream::Step<ObjectStream::Start> ObjectStream::start_of(const Offset& from) {
  if (from.text.empty()) return start_of_content();
  auto parsed = parse_offset(from);
  if (!parsed || parsed->at.high == 0) return refuse(Outcome::invalid, fmt::format("'{}' is not an offset of '{}'.", from.text, name_.text()));
  const auto at = parsed->at;
  if (begun_ && at.high >= fold_.next_id() && !fold_.covers(at))
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (!begun_ || !fold_.covers(at))
    if (auto ok = begin_at(*parsed, from); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence == core::Presence::deleted) return absent();
  if (!fold_.covers(at) || !fold_.leads_on(*parsed)) return not_here(from, "the stream has another history now");
  const bool at_end = fold_.state().tail == at || last_end_ == at || at.low == 0 || (fold_.start() == at && fold_.base() == at.high + 1);
  return Start{at.high + (at_end ? 1 : 0), at_end ? 0 : static_cast<std::size_t>(at.low), at};
}

// Shows an object that was folded before. False: the limit is reached.
ObjectStream::Step<bool> ObjectStream::reread(std::uint64_t id, std::size_t skip, const ReadLimit& limit, std::vector<Record>& out, std::uint64_t& bytes) {
  if (out.size() >= limit.records || bytes >= limit.bytes) return false;
  if (fold_.is_void(id) || fold_.cut_off(Position{id, 1})) return true;
  // Between the position that a snapshot or a pack kept and the first object folded from there nothing counted that could be shown.
  if (fold_.start() && fold_.start()->high < id && id < fold_.base()) return true;
  auto there = id < mark_ ? unpack(id) : fetch(id);
  if (!there) return tl::unexpected(there.error());
  if (!*there && id < mark_) return true;
  if (!*there) {
    unchecked_from_ = std::min(unchecked_from_, id);
    if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
    return damaged(id, "it was there before and is missing now");
  }
  auto before = out.size();
  fold_.replay((*there)->object, skip, out);
  if (fold_.has_cuts()) {  // a history may have left part of it behind
    const auto left = [&](const Record& r) {
      const auto at = parse_offset(r.next);
      return at && fold_.cut_off(at->at);
    };
    out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(), left), out.end());
  }
  bytes += bytes_of(out, before);
  return true;
}

Answer<ReadResult> ObjectStream::read(const Offset& from, const ReadLimit& limit) {
  return steadily([&] { return read_once(from, limit); });
}

Answer<ReadResult> ObjectStream::read_once(const Offset& from, const ReadLimit& limit) {
  auto start = start_of(from);
  if (!start) return tl::unexpected(start.error());
  ReadResult result;
  result.next = from;
  auto& out = result.records;
  std::uint64_t id = start->id, bytes = 0;
  std::size_t skip = start->skip;
  const auto ground = std::max(id, mark_);  // from here on the log folder was read
  if (id >= mark_) unchecked_from_ = std::min(unchecked_from_, id);
  bool all = true;
  for (; id < fold_.next_id() && all; ++id, skip = 0) {
    auto more = reread(id, skip, limit, out, bytes);
    if (!more) return tl::unexpected(more.error());
    all = *more;
  }
  if (all && out.size() < limit.records && bytes < limit.bytes) {
    auto done = catch_up(&out, limit);
    if (!done && (out.empty() || moved_ || done.error().outcome == Outcome::gone)) return tl::unexpected(done.error());
    if (!done) {  // what lies before the fault is shown; the next read meets it
      if (auto ok = look_at_marks(); !ok) return tl::unexpected(ok.error());
      moved_ = mark_ > ground;
      if (moved_) return tl::unexpected(done.error());
      result.next = out.back().next;
      return result;
    }
    if (*done == Reach::turn) {  // with all of it known, what is shown is part of the stream
      if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
      return read_once(from, limit);
    }
    all = *done == Reach::end;
  } else {
    all = false;
  }
  // A batch that is full took no id as absent; and when all of it came from packs, nothing of it depends on the mark.
  if (all || unchecked_from_ != fold_.next_id())
    if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence != core::Presence::present && all) return absent();
  bool cut = out.size() > limit.records && limit.records > 0;
  if (cut) out.resize(limit.records);
  if (!out.empty()) result.next = out.back().next;
  if (!out.empty() && !cut) last_end_ = parse_offset(result.next)->at;
  result.up_to_date = all && !cut;
  at_tail_ = result.up_to_date;
  if (result.up_to_date) result.stat = told();
  return result;
}

Answer<core::StreamStat> ObjectStream::stat() {
  return steadily([&] { return stat_once(); });
}

Answer<core::StreamStat> ObjectStream::stat_once() {
  if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  if (fold_.state().presence != core::Presence::present) return absent();
  at_tail_ = true;
  return told();
}

core::StreamStat ObjectStream::told() {
  auto stat = core::stat_of(fold_.state());
  stat.tail = fold_.tail();
  stat.endpoint = fold_.endpoint();
  stat.released = fold_.released();
  stat.suspect = fold_.suspect();
  stat.log_bytes = fold_.log_bytes();
  return stat;
}

Answer<bool> ObjectStream::wait(const Offset& from, Instant deadline) {
  auto start = steadily([&] { return start_of(from); });
  if (!start) return tl::unexpected(start.error());
  const auto& at = start->at;
  auto pause = place_.options.pace.first_look;
  for (;;) {
    if (fold_.state().presence != core::Presence::absent && (!at || fold_.state().tail > *at)) return true;
    const auto there = store_.has(log_folder_ + "/" + object_name(fold_.next_id()));
    if (there && *there) return true;
    auto now = place_.runtime.now();
    // A directory is asked for the next name only, which costs a listing's tenth; what was trimmed meanwhile has newer objects behind it, which the listing shows.
    if (!there || now >= deadline) {
      auto ids = list_from(fold_.next_id(), 1);
      if (!ids) return tl::unexpected(ids.error());
      if (!ids->empty()) {
        unlisted_reads_ = 0;  // the next read is to see it, too
        return true;
      }
    }
    if (now >= deadline) return false;
    place_.runtime.sleep_until(std::min(deadline, now + pause));
    if (place_.runtime.now() <= now) return false;  // the process is being stopped: sleeping ends at once
    pause = std::min<std::chrono::nanoseconds>(pause + pause / 2, place_.options.pace.last_look);
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
