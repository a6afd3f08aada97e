// A log that anybody may have written, object by object: claims, appends, tombstones, histories and evidence with any fields (their checksums fit), things that
// are no objects, holes, marks and packs that say anything. The object home reads it without a crash; two sessions that read it in different steps are shown the
// same; and what is shown keeps the rules that the fold promises, whoever broke them in the log (B4).
#include <map>

#include "fuzz/fuzz_input.h"
#include "home/object/object_home.h"
#include "home/object/position.h"
#include "tests/support/fault_store.h"
#include "tests/support/manual_runtime.h"
#include "wire/log_object.h"

using namespace onepen;
using fuzz::require;

namespace {

const StreamName& app() {
  static const StreamName kName = StreamName::parse("app").value();
  return kName;
}

struct AnyLog {
  std::shared_ptr<testing::Bucket> bucket = std::make_shared<testing::Bucket>();
  std::uint64_t next = 1;
  std::uint64_t prev = 0, prev_checksum = 0;
  std::vector<Bytes> payloads;

  static std::string key(std::uint64_t id) { return "app/@log/" + home::object_name(id); }

  void draw(fuzz::Source& in) {
    switch (in.below(12)) {
      case 0: ++next; return;  // a hole
      case 1: (void)bucket->put(key(next++), to_bytes(in.take(in.below(64)))); return;
      case 2: (void)bucket->put("app/@mark/" + home::object_name(1 + in.below(12)), {}); return;
      case 3: (void)bucket->put("app/@mark/" + home::cut_name(1 + in.below(12)), {}); return;
      case 4: {
        const auto first = 1 + in.below(8);
        (void)bucket->put("app/@pack/" + home::pack_name(first, first + in.below(8)), to_bytes(in.take(in.below(64))));
        return;
      }
      default: object(in); return;
    }
  }

  void object(fuzz::Source& in) {
    wire::LogObject o{.kind = static_cast<wire::ObjectKind>(1 + in.below(5)), .stream = app()};
    o.id = in.byte() % 16 == 0 ? 1 + in.below(12) : next;
    turns = turns || o.kind == wire::ObjectKind::history || o.kind == wire::ObjectKind::tombstone;
    o.ordinal = 1 + in.byte() % 16 / 14;
    o.incarnation = {1, 1 + in.byte() % 16 / 14u};
    o.epoch = Epoch{1 + in.below(4)};
    o.claim_id = {7, o.epoch.value + in.byte() % 16 / 15u};
    o.put_id = {8, ++puts};
    o.first = Sequence{in.below(5)};
    o.time_ms = static_cast<std::int64_t>(in.word());
    o.prev_id = prev;
    o.prev_checksum = prev_checksum;
    if (in.byte() % 16 == 0) o.prev_checksum ^= 1;
    o.raced = o.kind == wire::ObjectKind::claim && in.byte() % 4 == 0;
    if (o.raced) o.prev_id = o.prev_checksum = 0;
    o.claim_at = in.below(6);
    o.claims_since_data = in.below(3);
    o.log_bytes = in.word();
    if (o.kind == wire::ObjectKind::claim) {
      o.claim.owner.name = in.text(4);
      o.claim.closed_epoch = Epoch{in.below(4)};
      o.claim.closed_sequence = Sequence{in.below(5)};
      if (in.flag()) o.claim.over = ClaimId{7, in.below(4)};
    } else if (o.kind == wire::ObjectKind::appends) {
      for (std::uint32_t i = 0; i < 1 + in.below(3); ++i) {
        payloads.push_back(to_bytes(in.take(in.below(24))));
        o.appends.push_back({in.flag() ? core::RecordKind::data : core::RecordKind::control, Digest{xxh3(payloads.back())}, payloads.back()});
      }
    } else if (o.kind == wire::ObjectKind::history) {
      static constexpr const char* kActs[] = {"adopt", "restore", "forced-recovery", "accept-loss", "x"};
      o.history.next = {1, 2 + in.below(3)};
      o.history.next_ordinal = o.ordinal + in.below(3);
      o.history.floor = Epoch{in.below(6)};
      o.history.act = kActs[in.below(5)];
      o.history.common = {in.below(static_cast<std::uint32_t>(next % 200 + 1)), in.below(3)};
      if (in.flag()) o.history.snapshot = home::snapshot_id(next, o.put_id);
    } else if (o.kind == wire::ObjectKind::evidence) {
      o.what = in.text(12);
    }
    const Bytes bytes = wire::encode(o);
    const auto decoded = wire::decode_log_object(bytes);
    require(!decoded || wire::encode(*decoded) == bytes, "an object is spelled in one way");
    (void)bucket->put(key(next++), bytes);
    if (decoded && in.byte() % 8 != 0) prev = o.id, prev_checksum = decoded->checksum;
  }

  std::uint64_t puts = 0;
  bool turns = false;  // it holds a history or a tombstone
};

struct Session {
  explicit Session(const AnyLog& log)
      : home(home::make_object_home(runtime, std::make_unique<testing::FaultStore>(log.bucket), {.url = "test:"})), stream(home->stream(app())) {}
  testing::ManualRuntime runtime;
  std::unique_ptr<core::Home> home;
  std::unique_ptr<core::Stream> stream;
};

// Everything that a session is shown, in steps of `step` records, and how it ended. What was shown and then cut off by a history, or ended by a tombstone, is
// told as such: whoever is told begins again, as a follower does.
std::pair<std::vector<core::Record>, Outcome> read_all(const AnyLog& log, std::size_t step) {
  Session session(log);
  std::vector<core::Record> shown;
  Offset at;
  bool again = false;
  for (int calls = 0; calls < 1000; ++calls) {
    auto some = session.stream->read(at, {step, 8u << 20});
    if (!some) {
      require(!some.error().message.empty(), "a refusal says why");
      const Outcome why = some.error().outcome;
      if (again || shown.empty() || (why != Outcome::gone && why != Outcome::not_found)) return {shown, why};
      again = true;
      shown.clear();
      at = {};
      continue;
    }
    for (auto& record : some->records) shown.push_back(std::move(record));
    require(some->up_to_date || some->next != at, "a read that goes nowhere");
    at = some->next;
    if (some->up_to_date) return {shown, Outcome::applied};
  }
  require(false, "a read without an end");
  return {};
}

void keeps_the_rules(const std::vector<core::Record>& shown) {
  std::map<std::pair<Incarnation, Epoch>, ClaimId> owners;
  std::optional<core::Record> before;
  for (const auto& record : shown) {
    const auto owner = owners.emplace(std::pair(record.incarnation, record.epoch), record.claim_id);
    require(owner.first->second == record.claim_id, "an epoch of one history belongs to one claim (I5)");
    if (before) {
      require(record.next > before->next, "offsets rise");
      require(record.epoch >= before->epoch || record.incarnation != before->incarnation, "owner epochs never decrease (I1)");
      const bool same = record.incarnation == before->incarnation && record.epoch == before->epoch;
      if (same && record.kind != core::RecordKind::claim && before->kind != core::RecordKind::claim)
        require(record.sequence.value == before->sequence.value + 1, "sequences follow one another (I3)");
    }
    before = record;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 1024) return 0;
  fuzz::Source in(fuzz::view(data, size));
  AnyLog log;
  while (!in.empty()) log.draw(in);
  const auto before = log.bucket->keys();
  const auto [all, end] = read_all(log, 1024);
  const auto [again, same_end] = read_all(log, 1);
  keeps_the_rules(all);
  keeps_the_rules(again);
  // In small steps, more may be shown of a damaged log: what a history or a tombstone between it and the damage leaves out when it is read at once.
  require(end == same_end, "two sessions are shown the same");
  if (log.turns && end != Outcome::applied) return 0;
  require(all.size() == again.size(), "two sessions are shown the same");
  for (std::size_t i = 0; i < all.size(); ++i) require(all[i].next == again[i].next && all[i].payload == again[i].payload, "two sessions are shown the same");
  Session asks(log);
  const auto stat = asks.stream->stat();
  (void)asks.stream->newest_snapshot();
  (void)asks.stream->snapshots();
  (void)asks.stream->usage();
  (void)asks.stream->events();
  require(log.bucket->keys() == before, "whoever reads writes nothing");
  // A claim above everything, and an append under it: refused with a sentence, or in the stream.
  Session writes(log);
  core::ClaimRequest claim;
  claim.epoch = Epoch{(stat ? std::max(stat->epoch.value, stat->floor.value) : 0) + 1};
  claim.claim_id = {9, 9};
  claim.attempt = {9, 8};
  claim.create = true;
  claim.first_incarnation = {9, 7};
  const auto owned = writes.stream->claim(claim);
  if (!owned) {
    require(!owned.error().message.empty(), "a refusal says why");
    return 0;
  }
  require(owned->claim_id == claim.claim_id && owned->epoch == claim.epoch, "a claim is what it says");
  core::AppendBatch batch{owned->incarnation, owned->epoch, owned->claim_id, Sequence{1}, PutId{9, 6}, 0, {}};
  batch.appends.push_back({core::RecordKind::data, to_bytes(as_bytes("mine"))});
  const auto sent = writes.stream->append(batch);
  if (sent && stat) {
    const auto after = read_all(log, 1024).first;
    require(after.empty() || (after.back().claim_id == claim.claim_id && as_text(after.back().payload) == "mine"), "what was acknowledged is in the stream");
  }
  return 0;
}
