// Compaction and trim (homes.md, B5 and B6; docs/adr/0006). A bounded amount of it, by the owner's caretaker on a session of its own; safe also when the
// caller is an owner no more, or when two do it at once.
//
//   the run [mark, last] of old objects ──read, fold──► pack put ──► mark/<last + 1> put ──► data objects that count deleted ──► … ──► packs below the
//                                          then the mark (B6)          (B5: mark first)       (B5: nothing else)                   trim point deleted
//
// A kill between any two steps leaves: a pack above the mark (says the truth, and is put again); objects below the mark that a pack stands for (deleted by
// the next call, before it does anything else).
#include <fmt/format.h>

#include <algorithm>

#include "base/failpoint.h"
#include "base/guard.h"
#include "home/object/object_stream.h"

namespace onepen::home {

using core::Answer;
using core::Tended;
using wire::ObjectKind;
using wire::PackEntry;

namespace {

constexpr std::size_t kRunObjects = 1024;
constexpr std::uint64_t kRunBytes = 8u << 20;
constexpr std::size_t kWholeBytes = 256u << 10;  // larger objects are not worth a copy: they stay in place until they are trimmed
constexpr std::size_t kKeptMarks = 64;           // lower ones tell nothing that a listing of these does not
constexpr std::size_t kWholeFolder = static_cast<std::size_t>(-1);

tl::unexpected<core::Refusal> stopped() { return tl::unexpected(core::Refusal{Outcome::unavailable, "a failpoint said so"}); }

}  // namespace

// Ids of `entries` that may be deleted and are still there.
ObjectStream::Step<std::uint64_t> ObjectStream::erase_objects(const wire::Pack& pack, bool in_place_too) {
  auto there = list_from(pack.first, static_cast<std::size_t>(pack.last - pack.first + 1));
  if (!there) return tl::unexpected(there.error());
  std::uint64_t erased = 0;
  auto erase = [&](std::uint64_t id) -> Step<> {
    if (!std::binary_search(there->begin(), there->end(), id)) return {};
    if (ONEPEN_FAILPOINT("home.tend_before_erase")) return stopped();
    if (auto ok = store_.erase(key(id)); !ok) return refuse(ok.error());
    ++erased;
    return {};
  };
  if (!guard_on(Guard::b5_claims_kept))
    for (auto id = pack.first; id <= pack.last; ++id)
      if (auto ok = erase(id); !ok) return tl::unexpected(ok.error());
  for (const auto& e : pack.entries) {
    if (e.kind == PackEntry::Kind::in_place && !in_place_too) continue;
    if (e.kind == PackEntry::Kind::whole) {  // only data that counts goes; what fences stays (B5)
      auto object = wire::decode_log_object(e.bytes);
      if (!object || object->kind != ObjectKind::appends) continue;
    }
    if (auto ok = erase(e.id); !ok) return tl::unexpected(ok.error());
  }
  return erased;
}

// Reads the run that begins at the mark. What lies wholly below `trim_id` is not kept; the rest is packed when there is enough of it.
ObjectStream::Step<std::optional<ObjectStream::Run>> ObjectStream::read_run(const core::TendRequest& request, std::uint64_t newest, std::uint64_t trim_id) {
  const std::uint64_t first = std::max<std::uint64_t>(mark_, 1);
  if (newest < request.keep_objects || newest - request.keep_objects < first) return std::nullopt;
  const std::uint64_t most = newest - request.keep_objects;  // the newest objects stay: a writer looks for the one before its own
  Run run{.pack = {.stream = name_}, .bytes = {}};
  run.pack.first = first;
  if (auto ok = begin_before(first); !ok) return tl::unexpected(ok.error());
  while (fold_.next_id() < first) {  // a snapshot knows the fold before the mark; packs lead on from it
    if (auto ok = take_packed(nullptr); !ok) return tl::unexpected(ok.error());
  }
  unchecked_from_ = first;
  run.pack.log_bytes_before = fold_.log_bytes();
  const bool trimming = trim_id > first;
  const std::uint64_t end = trimming ? std::min(most, trim_id - 1) : most;
  std::uint64_t kept = 0;
  for (auto id = first; id <= end && id - first < kRunObjects && kept < kRunBytes; ++id) {
    auto there = fetch(id);
    if (!there) return tl::unexpected(there.error());
    if (!*there) {
      if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());
      return damaged(id, fmt::format("it is missing, although object {} is there", newest));
    }
    const auto& object = (*there)->object;
    if (auto ok = take(id, object, nullptr); !ok) return tl::unexpected(ok.error());
    run.pack.last = id;
    ++run.objects;
    if (fold_.is_void(id)) continue;
    PackEntry e{PackEntry::Kind::whole, id, object.checksum, {}};
    if (object.kind == ObjectKind::appends && trimming) e.kind = PackEntry::Kind::dropped;
    else if (object.size > kWholeBytes) e.kind = PackEntry::Kind::in_place;
    if (e.kind == PackEntry::Kind::whole) {
      kept += object.size;
      run.bytes.push_back(std::move((*there)->bytes));
      e.bytes = run.bytes.back();
    }
    run.pack.entries.push_back(e);
  }
  // Worth a pack: enough of it, whatever ends it.
  if (run.objects == 0 || (!trimming && run.objects < std::max<std::size_t>(request.keep_objects, 2) && kept < kRunBytes)) return std::nullopt;
  run.pack.end = fold_.save();
  if (auto ok = check_mark(); !ok) return tl::unexpected(ok.error());  // B6: what was read is the log only if it was not trimmed meanwhile
  run.more = run.pack.last < most;
  return run;
}

// Makes the run count by its pack: from the mark on, nothing else of it does.
ObjectStream::Step<std::uint64_t> ObjectStream::compact(Run& run) {
  const auto file = pack_folder_ + "/" + pack_name(run.pack.first, run.pack.last);
  if (ONEPEN_FAILPOINT("home.tend_before_pack")) return stopped();
  const auto bytes = wire::encode(run.pack);
  auto put = store_.put_if_absent(file, bytes);
  if (!put) return refuse(put.error());
  auto back = store_.get(file);  // ours, or another caretaker's: it read the same objects, and the mark after them
  if (!back && back.error().outcome == Outcome::not_found) return refuse(Outcome::unknown, fmt::format("Whether {} was put is not known.", file));
  if (!back) return refuse(back.error());
  auto read = wire::decode_pack(*back);
  if (!read) return bad_file(file, read.error());
  if (read->stream != name_ || read->first != run.pack.first || read->last != run.pack.last || read->end.prev_checksum != run.pack.end.prev_checksum)
    return bad_file(file, {wire::ObjectFault::Kind::damaged, 0, "it is not the pack that belongs there"});
  if (ONEPEN_FAILPOINT("home.tend_before_mark")) return stopped();
  const auto mark = mark_folder_ + "/" + object_name(run.pack.last + 1);
  auto placed = [&]() -> Step<> { return put_whole(mark, {}); };
  if (guard_on(Guard::b5_mark_first))
    if (auto ok = placed(); !ok) return tl::unexpected(ok.error());
  if (ONEPEN_FAILPOINT("home.tend_after_mark")) return stopped();
  auto erased = erase_objects(*read, false);
  if (!erased) return erased;
  if (!guard_on(Guard::b5_mark_first))
    if (auto ok = placed(); !ok) return tl::unexpected(ok.error());
  mark_ = std::max(mark_, run.pack.last + 1);
  return erased;
}

// Packs wholly below the trim point, oldest first; never the newest, which says how the fold goes on at the mark.
ObjectStream::Step<std::uint64_t> ObjectStream::trim_packs(std::uint64_t trim_id) {
  auto names = store_.list(pack_folder_, "", kWholeFolder);
  if (!names) return refuse(names.error());
  std::uint64_t erased = 0;
  for (const auto& name : *names) {
    auto run = pack_run(name);
    if (!run || run->last >= trim_id || run->last + 1 >= mark_) continue;
    const auto file = pack_folder_ + "/" + name;
    auto bytes = store_.get(file);
    if (!bytes && bytes.error().outcome == Outcome::not_found) continue;
    if (!bytes) return refuse(bytes.error());
    auto pack = wire::decode_pack(*bytes);
    if (!pack) return bad_file(file, pack.error());
    auto objects = erase_objects(*pack, true);
    if (!objects) return objects;
    if (ONEPEN_FAILPOINT("home.tend_before_pack_erase")) return stopped();
    if (auto ok = store_.erase(file); !ok) return refuse(ok.error());
    erased += *objects + 1;
  }
  pack_.reset();
  return erased;
}

// All but the newest whole ones; and what is left of those that were never finished. The head goes first: a snapshot is whole, or it is none.
ObjectStream::Step<std::uint64_t> ObjectStream::trim_snapshots(std::size_t keep) {
  auto ids = snapshot_ids();
  if (!ids) return tl::unexpected(ids.error());
  std::size_t whole = 0;
  std::uint64_t erased = 0;
  for (const auto& id : *ids) {
    const auto folder = snapshot_folder_ + "/" + id;
    if (whole < keep) {
      auto head = head_of(id);
      if (!head) return tl::unexpected(head.error());
      if (*head) ++whole;
      continue;  // one without a head is not older than all that are kept: it may be being made now
    }
    if (ONEPEN_FAILPOINT("home.tend_before_snapshot_erase")) return stopped();
    if (auto ok = store_.erase(folder + "/head"); !ok) return refuse(ok.error());
    auto parts = store_.list(folder, "", kWholeFolder);
    if (!parts) return refuse(parts.error());
    for (const auto& part : *parts)
      if (auto ok = store_.erase(folder + "/" + part); !ok) return refuse(ok.error());
    ++erased;
  }
  head_.reset();
  return erased;
}

ObjectStream::Step<> ObjectStream::prune_marks() {
  auto names = store_.list(mark_folder_, "", kWholeFolder);
  if (!names) return refuse(names.error());
  std::erase_if(*names, [](const std::string& name) { return !object_id(name); });
  for (std::size_t i = 0; i + kKeptMarks < names->size(); ++i)
    if (auto ok = store_.erase(mark_folder_ + "/" + (*names)[i]); !ok) return refuse(ok.error());
  return {};
}

// Signs of life of earlier owners, and of who stood ready beside them; the owner's own, and those beside it (`<name>.successor`), stay. Advice only: that of an owner
// who claims right now is written again with its next beat.
ObjectStream::Step<std::uint64_t> ObjectStream::forget_earlier_lives() {
  auto names = store_.list(alive_folder_, "", kWholeFolder);
  if (!names) return refuse(names.error());
  const auto& own = fold_.state().owner_info.liveness;
  std::uint64_t erased = 0;
  for (const auto& name : *names) {
    if (!own.empty() && (name == own || name.starts_with(own + "."))) continue;
    if (auto ok = store_.erase(alive_folder_ + "/" + name); !ok) return refuse(ok.error());
    ++erased;
  }
  return erased;
}

Answer<Tended> ObjectStream::tend(const core::TendRequest& request) {
  return steadily([&] { return tend_once(request); });
}

Answer<Tended> ObjectStream::tend_once(const core::TendRequest& request) {
  if (auto ok = owns(request.token); !ok) return tl::unexpected(ok.error());
  std::uint64_t trim_id = 0;  // objects below it are needed by nobody
  if (request.trim_to) {
    auto at = parse_offset(*request.trim_to);
    if (!at || at->at.high == 0) return refuse(Outcome::invalid, fmt::format("'{}' is not an offset of '{}'.", request.trim_to->text, name_.text()));
    if (at->at.high >= fold_.next_id()) return refuse(Outcome::invalid, "A log is not trimmed beyond its tail.");
    trim_id = at->at.high;  // the object it lies in may hold records after it
  }
  const auto newest = fold_.next_id() - 1;
  Tended tended;
  if (mark_ > 1) {  // what a killed caretaker left
    auto kept = pack_of(mark_ - 1);
    if (!kept) return tl::unexpected(kept.error());
    if (*kept != nullptr) {
      auto erased = erase_objects((*kept)->pack, false);
      if (!erased) return tl::unexpected(erased.error());
      tended.removed += *erased;
    }
  }
  LogFold main = fold_;
  auto run = read_run(request, newest, trim_id);
  if (!run) return tl::unexpected(run.error());
  if (*run) {
    auto erased = compact(**run);
    if (!erased) return tl::unexpected(erased.error());
    tended.compacted = (*run)->objects;
    tended.removed += *erased;
    tended.more = (*run)->more;
  }
  fold_ = std::move(main);
  begun_ = true;
  unchecked_from_ = fold_.next_id();
  if (trim_id != 0) {
    auto erased = trim_packs(trim_id);
    if (!erased) return tl::unexpected(erased.error());
    tended.removed += *erased;
  }
  auto snapshots = trim_snapshots(std::max<std::size_t>(request.keep_snapshots, 1));
  if (!snapshots) return tl::unexpected(snapshots.error());
  tended.removed += *snapshots;
  if (auto ok = prune_marks(); !ok) return tl::unexpected(ok.error());
  auto lives = forget_earlier_lives();
  if (!lives) return tl::unexpected(lives.error());
  tended.removed += *lives;
  return tended;
}

}  // namespace onepen::home
