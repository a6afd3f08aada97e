// Snapshots of the object home: parts, then a head that makes them one. Putting, finding, and folds that begin with one.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/failpoint.h"
#include "core/fence.h"
#include "core/fence_view.h"
#include "home/object/object_snapshot.h"

namespace onepen::home {

using core::Answer;
using core::Position;
using core::SnapshotInfo;

namespace {

constexpr std::size_t kEveryName = static_cast<std::size_t>(-1);
constexpr int kPutTries = 3;

std::string part_name(std::uint32_t n) { return fmt::format("part-{:05}", n); }

Result<> put_same(ObjectStore& store, const std::string& file, ByteView bytes) {
  for (int tries = 0; tries < kPutTries; ++tries) {
    auto put = store.put_if_absent(file, bytes);
    if (!put) return tl::unexpected(put.error());
    if (*put == PutOutcome::created) return {};
    auto there = store.get(file);
    if (!there && there.error().outcome != Outcome::not_found) return tl::unexpected(there.error());
    if (there && std::equal(there->begin(), there->end(), bytes.begin(), bytes.end())) return {};
    if (there) return tl::unexpected(Error{Outcome::state_mismatch, fmt::format("{} in {} is there already, and is another one.", file, store.describe()), {}});
  }
  return tl::unexpected(Error{Outcome::unknown, fmt::format("Whether {} was put into {} is not known.", file, store.describe()), {}});
}

// Answers no bytes: what was put is what is read back.
Result<Bytes> put_part(ObjectStore& store, const std::string& file, ByteView part) {
  if (auto put = put_same(store, file, part); !put) return tl::unexpected(put.error());
  auto back = store.get(file);
  if (!back) return back;
  if (std::equal(back->begin(), back->end(), part.begin(), part.end())) return Bytes{};
  return tl::unexpected(Error{Outcome::unavailable, fmt::format("{} in {} does not read back as it was put.", file, store.describe()), {}});
}

}  // namespace

// A file whose name nobody else uses, or under which everybody puts the same. Durable when it answers.
ObjectStream::Step<> ObjectStream::put_whole(const std::string& file, ByteView bytes) {
  if (auto put = put_same(store_, file, bytes); !put) return refuse(put.error());
  return {};
}

// --- putting ------------------------------------------------------------------------------------------------------------------------------------------

Answer<bool> ObjectStream::Writer::add(ByteView part) {
  if (part.size() > core::kMaxSnapshotPart || head_.parts.size() >= wire::kMaxSnapshotParts)
    return stream_.refuse(Outcome::too_large, fmt::format("A part of a snapshot holds at most {} bytes.", core::kMaxSnapshotPart));
  if (ONEPEN_FAILPOINT("home.before_snapshot_part")) return stream_.refuse(Outcome::unavailable, "a failpoint said so");
  const auto file = folder_ + "/" + part_name(static_cast<std::uint32_t>(head_.parts.size()));
  if (auto& store = stream_.store_; store.at_once() < 2) {
    if (auto put = put_part(store, file, part); !put) return stream_.refuse(put.error());
  } else {
    if (!crew_) crew_ = std::make_unique<RequestCrew>(stream_.place_.runtime, "snapshot-part", kPartsAtOnce);
    if (auto ok = sent_up_to(kPartsAtOnce - 1); !ok) return tl::unexpected(ok.error());
    crew_->ask([&store, file, bytes = to_bytes(part)] { return put_part(store, file, bytes); });
  }
  head_.parts.push_back({part.size(), xxh3(part)});
  head_.info.bytes += part.size();
  head_.info.parts += 1;
  return true;
}

ObjectStream::Step<> ObjectStream::Writer::sent_up_to(std::size_t left) {
  while (crew_ && crew_->asked() > left) {
    auto put = crew_->take();
    if (!put) return stream_.refuse(Outcome::unavailable, fmt::format("{} was given up: the process is being stopped.", folder_));
    if (!*put) return stream_.refuse(put->error());
  }
  return {};
}

Answer<SnapshotInfo> ObjectStream::Writer::finish(const Bytes& about) {
  if (about.size() > core::kMaxSnapshotAbout) return stream_.refuse(Outcome::too_large, "What a snapshot says of itself is too long.");
  if (auto ok = sent_up_to(0); !ok) return tl::unexpected(ok.error());
  if (ONEPEN_FAILPOINT("home.before_snapshot_head")) return stream_.refuse(Outcome::unavailable, "a failpoint said so");
  head_.info.about = about;
  if (auto ok = stream_.put_whole(folder_ + "/head", wire::encode(head_)); !ok) return tl::unexpected(ok.error());
  if (ONEPEN_FAILPOINT("home.after_snapshot_head")) return stream_.refuse(Outcome::unknown, "a failpoint said so");
  if (auto whole = still_whole(); !whole) return tl::unexpected(whole.error());
  return head_.info;
}

// A newer owner tends the stream, and took the parts for what is left of an unfinished snapshot, before the head was there. (Killed just here, we leave a head without
// parts, which the next trim removes.)
ObjectStream::Step<> ObjectStream::Writer::still_whole() {
  auto names = stream_.store_.list(folder_, "", wire::kMaxSnapshotParts + 1);
  if (!names) return stream_.refuse(names.error());
  if (names->size() > head_.parts.size()) return {};
  if (auto ok = stream_.store_.erase(folder_ + "/head"); !ok) return stream_.refuse(ok.error());
  return stream_.refuse(Outcome::unavailable, fmt::format("{} in {} was swept by another owner while it was made.", folder_, stream_.store_.describe()));
}

// Whoever changes a stream shows that it owns it (fence.md, "The envelope").
ObjectStream::Step<> ObjectStream::owns(const core::OwnerToken& token) {
  if (auto ok = catch_up_all(); !ok) return ok;
  if (auto ok = check_mark(); !ok) return ok;
  const auto& state = fold_.state();
  if (state.presence != core::Presence::present) return absent();
  const auto& owner = state.owner;
  if (!state.suspect && state.incarnation == token.incarnation && owner.live && owner.epoch == token.epoch && owner.claim_id == token.claim_id) return {};
  core::StreamState trial = state;
  core::ChangeCommand change{core::Change::snapshot, core::kOwnerProducer, token.incarnation, token.epoch, token.claim_id};
  change.at = state.tail;
  auto decision = apply(trial, change);
  if (decision.outcome == Outcome::applied || decision.outcome == Outcome::duplicate) return {};
  return refused(decision, token.epoch);
}

// The newest kept state of a fold that has not taken object `id` yet; else the beginning.
ObjectStream::Step<> ObjectStream::begin_before(std::uint64_t id) {
  forget();
  begun_ = true;
  auto ids = snapshot_ids();
  if (!ids) return tl::unexpected(ids.error());
  for (const auto& snapshot : *ids) {
    if (snapshot_at(snapshot).value_or(id) >= id) continue;
    auto head = head_of(snapshot);
    if (!head) return tl::unexpected(head.error());
    if (!*head || (*head)->fold.next_id > id) continue;
    fold_.begin_with((*head)->fold);
    unchecked_from_ = fold_.next_id();
    break;
  }
  ++requests_;
  auto names = store_.list(pack_folder_, "", kEveryName);
  if (!names) return refuse(names.error());
  std::optional<PackRun> best;
  for (const auto& name : *names) {
    auto run = pack_run(name);
    if (run && run->last < id && run->last + 1 > fold_.next_id() && run->last < mark_ && (!best || run->last > best->last)) best = run;
  }
  if (!best) return {};
  auto kept = pack_of(best->last);
  if (!kept) return tl::unexpected(kept.error());
  if (*kept != nullptr && (*kept)->pack.last < id) {
    fold_.begin_with((*kept)->pack.end);
    unchecked_from_ = fold_.next_id();
  }
  return {};
}

// The fold at a position of the current history: after the object it lies in, when it is that object's end; else just before that object.
ObjectStream::Step<LogFold> ObjectStream::fold_to(const ParsedOffset& at, const Offset& text) {
  if (fold_.state().tail == at.at && fold_.leads_on(at)) return fold_;
  LogFold newest = fold_;
  if (auto ok = begin_before(at.at.high); !ok) return tl::unexpected(ok.error());
  while (fold_.next_id() < at.at.high) {
    auto ok = fold_.next_id() < mark_ ? take_packed(nullptr) : take_next(fold_.next_id(), nullptr);
    if (!ok) return tl::unexpected(ok.error());
  }
  auto there = at.at.high < mark_ ? unpack(at.at.high) : fetch(at.at.high);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return not_here(text, "the object it lies in does not count");
  LogFold before = fold_;
  if (auto ok = take(at.at.high, (*there)->object, nullptr); !ok) return tl::unexpected(ok.error());
  const bool is_position = fold_.leads_on(at) && at.at <= fold_.state().tail;
  const bool at_end = fold_.state().tail == at.at;
  LogFold after = std::move(fold_);
  fold_ = std::move(newest);
  auto seen = check_mark();
  if (!seen) return tl::unexpected(seen.error());
  if (!is_position || fold_.cut_off(at.at)) return not_here(text, "it lies in no record of the current history");
  return at_end ? after : before;
}

Answer<std::unique_ptr<core::SnapshotWriter>> ObjectStream::begin_snapshot(const core::OwnerToken& token, const Offset& at) {
  using Begun = Answer<std::unique_ptr<core::SnapshotWriter>>;
  return steadily([&]() -> Begun {
    if (auto ok = owns(token); !ok) return tl::unexpected(ok.error());
    auto parsed = parse_offset(at);
    if (!parsed || parsed->at.high == 0 || parsed->at.high >= fold_.next_id())
      return refuse(Outcome::invalid, fmt::format("'{}' is not an offset of '{}'.", at.text, name_.text()));
    auto fold = fold_to(*parsed, at);
    if (!fold) return tl::unexpected(fold.error());
    wire::SnapshotHead head{.stream = name_, .at = parsed->at, .fold = fold->save()};
    head.info.id = snapshot_id(parsed->at.high, place_.runtime.draw<PutId>());
    head.info.offset = at;
    head.info.incarnation = token.incarnation;
    head.info.epoch = token.epoch;
    head.info.time_ms = place_.runtime.wall_ms();
    head.info.log_bytes = fold->log_bytes();
    return std::make_unique<Writer>(*this, snapshot_folder_ + "/" + head.info.id, std::move(head));
  });
}

// --- finding ------------------------------------------------------------------------------------------------------------------------------------------

ObjectStream::Step<std::vector<std::string>> ObjectStream::snapshot_ids() {
  ++requests_;
  auto names = store_.list(snapshot_folder_, "", kEveryName);
  if (!names) return refuse(names.error());
  std::erase_if(*names, [](const std::string& name) { return !snapshot_at(name); });
  std::reverse(names->begin(), names->end());
  return std::move(*names);
}

ObjectStream::Step<std::optional<wire::SnapshotHead>> ObjectStream::head_of(const std::string& id) {
  if (head_ && head_->info.id == id && !head_->begins_history) return head_;
  const auto file = snapshot_folder_ + "/" + id + "/head";
  ++requests_;
  auto bytes = store_.get(file);
  if (!bytes && bytes.error().outcome == Outcome::not_found) return std::nullopt;
  if (!bytes) return refuse(bytes.error());
  auto head = wire::decode_snapshot_head(*bytes);
  if (!head) return bad_file(file, head.error());
  if (head->stream != name_ || head->info.id != id || head->at.high != snapshot_at(id))
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, "it is not the head that belongs there"});
  if (head->begins_history) {
    auto counts = history_counts(*head);
    if (!counts) return tl::unexpected(counts.error());
    if (!*counts) return std::nullopt;
  }
  head_ = std::move(*head);
  return head_;
}

// A snapshot with which a history begins was put before the history's object: it is one only if that object came to count.
ObjectStream::Step<bool> ObjectStream::history_counts(const wire::SnapshotHead& head) {
  const auto id = head.at.high;
  if (id < mark_) {  // what lies in the log folder there proves nothing any more
    auto newest = pack_of(mark_ - 1);
    if (!newest) return tl::unexpected(newest.error());
    return *newest != nullptr && (*newest)->pack.end.content_from == id;
  }
  auto there = fetch(id);
  if (!there) return tl::unexpected(there.error());
  return *there && (*there)->object.kind == wire::ObjectKind::history && (*there)->object.history.snapshot == head.info.id;
}

ObjectStream::Step<> ObjectStream::begin_with(const wire::SnapshotHead& head) {
  forget();
  fold_.begin_with(head.fold);
  begun_ = true;
  unchecked_from_ = head.begins_history && head.at.high >= mark_ ? head.at.high : fold_.next_id();
  if (fold_.next_id() > head.at.high) return {};
  return fold_.next_id() < mark_ ? take_packed(nullptr) : take_next(head.at.high, nullptr);  // it lies within this object
}

std::string ObjectStream::begin_again() {
  auto ids = snapshot_ids();
  if (!ids || !ids->empty()) return "Begin again from its snapshot.";
  return fmt::format(
      "And no snapshot of it is there, though there was one: put {} back from a backup, or run `onepen snapshot {}` on a machine that has a copy "
      "of it.",
      snapshot_folder_, name_.text());
}

ObjectStream::Step<bool> ObjectStream::begin_at_snapshot(const ParsedOffset& from, const Offset& text) {
  auto ids = snapshot_ids();
  if (!ids) return tl::unexpected(ids.error());
  for (const auto& id : *ids) {
    if (snapshot_at(id) != from.at.high) continue;
    auto head = head_of(id);
    if (!head) return tl::unexpected(head.error());
    if (!*head || (*head)->info.offset != text) continue;
    if (auto ok = begin_with(**head); !ok) return tl::unexpected(ok.error());
    return true;
  }
  return false;
}

// Of what the stream holds now. Where a history may have cut the one before, the fold says where that begins.
ObjectStream::Step<std::vector<wire::SnapshotHead>> ObjectStream::heads(std::size_t most) {
  if (auto ok = look_at_marks(); !ok) return tl::unexpected(ok.error());
  if (cut_ != 0)
    if (auto ok = catch_up_all(); !ok) return tl::unexpected(ok.error());
  if (cut_ != 0)
    if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
  auto ids = snapshot_ids();
  if (!ids) return tl::unexpected(ids.error());
  std::vector<wire::SnapshotHead> out;
  for (const auto& id : *ids) {
    if (out.size() == most) break;
    auto head = head_of(id);
    if (!head) return tl::unexpected(head.error());
    if (!*head) continue;
    const auto& found = **head;
    if (cut_ != 0 && (found.begins_history ? found.at.high != fold_.content_from() : found.at.high < fold_.content_from())) continue;
    out.push_back(found);
  }
  return out;
}

Answer<std::optional<SnapshotInfo>> ObjectStream::newest_snapshot() {
  return steadily([&]() -> Answer<std::optional<SnapshotInfo>> {
    auto newest = heads(1);
    if (!newest) return tl::unexpected(newest.error());
    if (newest->empty()) return std::optional<SnapshotInfo>{};
    if (!begun_ && !flight_)  // whoever asks will read on from it
      if (auto ok = begin_with(newest->front()); !ok) return tl::unexpected(ok.error());
    return newest->front().info;
  });
}

Answer<std::vector<SnapshotInfo>> ObjectStream::snapshots() {
  return steadily([&]() -> Answer<std::vector<SnapshotInfo>> {
    auto found = heads(kEveryName);
    if (!found) return tl::unexpected(found.error());
    std::vector<SnapshotInfo> out;
    for (auto& head : *found) out.push_back(std::move(head.info));
    return out;
  });
}

Answer<Bytes> ObjectStream::snapshot_part(const SnapshotInfo& info, std::uint32_t part) {
  auto head = head_of(info.id);
  if (!head) return tl::unexpected(head.error());
  if (!*head) return refuse(Outcome::gone, fmt::format("Snapshot {} of '{}' is not there any more. Begin with the newest one.", info.id, name_.text()));
  if (part >= (*head)->parts.size())
    return refuse(Outcome::invalid, fmt::format("Snapshot {} has {} parts; there is no part {}.", info.id, (*head)->parts.size(), part));
  const auto file = snapshot_folder_ + "/" + info.id + "/" + part_name(part);
  auto bytes = store_.get(file);
  if (!bytes && bytes.error().outcome != Outcome::not_found) return refuse(bytes.error());
  if (!bytes) {
    auto still = store_.get_range(snapshot_folder_ + "/" + info.id + "/head", 0, 1);
    if (!still && still.error().outcome == Outcome::not_found) {
      head_.reset();
      return refuse(Outcome::gone, fmt::format("Snapshot {} of '{}' was removed just now. Begin with the newest one.", info.id, name_.text()));
    }
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, "it is missing"});
  }
  if ((*head)->parts[part] != wire::SnapshotPartSum{bytes->size(), xxh3(*bytes)})
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, "its checksum is not the one the snapshot names"});
  return std::move(*bytes);
}

}  // namespace onepen::home
