#include "core/fence_codec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"

namespace onepen::core {
namespace {

constexpr std::uint32_t kMagic = 0x5346'504f;  // "OPFS" in little-endian order
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 4 + 2 + 4;
constexpr std::size_t kChecksumBytes = 8;

// ---- writing
template <class Tag>
void put(ByteWriter& out, Id128<Tag> id) {
  out.u(id.hi);
  out.u(id.lo);
}
void put(ByteWriter& out, Position p) {
  out.u(p.high);
  out.u(p.low);
}
void put_time(ByteWriter& out, std::int64_t ms) { out.u(static_cast<std::uint64_t>(ms)); }
void put_flag(ByteWriter& out, bool flag) { out.u(static_cast<std::uint8_t>(flag ? 1 : 0)); }
void put_count(ByteWriter& out, std::size_t n) { out.u(static_cast<std::uint32_t>(n)); }

void put(ByteWriter& out, const Producer& p) {
  out.u(p.epoch.value);
  put(out, p.claim_id);
  out.u(p.last.value);
  put_flag(out, p.live);
  put_time(out, p.last_time_ms);
  out.u(p.claim.digest.value);
  out.u(p.claim.closed_epoch.value);
  out.u(p.claim.closed_sequence.value);
  put(out, p.claim.next);
  out.u(p.known_from.value);
  out.u(p.dropped_commits.value);
  put_count(out, p.closed.size());
  for (std::size_t i = 0; i < p.closed.size(); ++i) {
    out.u(p.closed[i].epoch.value);
    put(out, p.closed[i].claim_id);
    out.u(p.closed[i].last.value);
  }
  put_count(out, p.receipts.size());
  for (std::size_t i = 0; i < p.receipts.size(); ++i) {
    out.u(p.receipts[i].epoch.value);
    out.u(p.receipts[i].sequence.value);
    out.u(p.receipts[i].digest.value);
    put(out, p.receipts[i].next);
  }
  put_count(out, p.commits.size());
  for (std::size_t i = 0; i < p.commits.size(); ++i) {
    out.u(p.commits[i].epoch.value);
    put(out, p.commits[i].commit);
    out.u(p.commits[i].digest.value);
    put(out, p.commits[i].next);
  }
}

void put(ByteWriter& out, const StreamState& s) {
  out.u(static_cast<std::uint8_t>(s.presence));
  out.u(static_cast<std::uint8_t>(s.config.kind));
  out.text(s.config.content_type);
  out.u(s.config.max_append_bytes);
  out.u(s.config.max_stream_bytes);
  put(out, s.incarnation);
  put(out, s.start);
  put(out, s.snapshot);
  put(out, s.tail);
  out.u(s.stored_bytes);
  put_flag(out, s.closed);
  put_flag(out, s.suspect);
  out.u(static_cast<std::uint8_t>(s.namespace_fence));
  put_time(out, s.time_ms);
  out.text(s.stream_seq);
  out.text(s.owner_producer);
  put(out, s.owner);
  put(out, s.newest_claim);
  for (const std::string* text : {&s.owner_info.name, &s.owner_info.host, &s.owner_info.version, &s.owner_info.why, &s.owner_info.liveness}) out.text(*text);
  put_time(out, s.owner_info.pid);
  put_time(out, s.owner_info.started_ms);
  put_time(out, s.claimed_ms);
  out.u(s.claims_since_data);
  put_count(out, s.contenders.size());
  for (const std::string& name : s.contenders) out.text(name);
  std::vector<const std::pair<const std::string, Producer>*> sorted;  // a hash map has no order of its own
  for (const auto& entry : s.producers) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  put_count(out, sorted.size());
  for (const auto* entry : sorted) {
    out.text(entry->first);
    put(out, entry->second);
  }
}

// ---- reading. `ok` turns false at the first value that encode() would not have written.
struct In {
  ByteReader& bytes;
  bool ok = true;

  bool good() const { return ok && !bytes.failed(); }
  void require(bool condition) { ok = ok && condition; }
  std::uint64_t number() { return bytes.u<std::uint64_t>(); }
  std::int64_t time() { return static_cast<std::int64_t>(number()); }
  template <class Id>
  Id id() {
    Id value;
    value.hi = number();
    value.lo = number();
    return value;
  }
  Position position() {
    Position p;
    p.high = number();
    p.low = number();
    return p;
  }
  bool flag() {
    const auto value = bytes.u<std::uint8_t>();
    require(value <= 1);
    return value == 1;
  }
  template <class Enum>
  Enum choice(Enum highest) {
    const auto value = bytes.u<std::uint8_t>();
    require(value <= static_cast<std::uint8_t>(highest));
    return static_cast<Enum>(value);
  }
  std::string text() { return bytes.text(kMaxIdBytes); }
  // A count is believed only when so many entries can still follow.
  std::size_t count(std::size_t most, std::size_t entry_bytes) {
    const auto n = bytes.u<std::uint32_t>();
    if (n > most || n > bytes.left() / entry_bytes) {
      ok = false;
      return 0;
    }
    return n;
  }
};

Producer get_producer(In& in, std::size_t closed_kept) {
  Producer p;
  p.epoch.value = in.number();
  p.claim_id = in.id<ClaimId>();
  p.last.value = in.number();
  p.live = in.flag();
  p.last_time_ms = in.time();
  p.claim.digest.value = in.number();
  p.claim.closed_epoch.value = in.number();
  p.claim.closed_sequence.value = in.number();
  p.claim.next = in.position();
  p.known_from.value = in.number();
  p.dropped_commits.value = in.number();
  const std::size_t closed = in.count(closed_kept, 32);
  p.closed.reserve(closed);
  for (std::size_t i = 0; i < closed && in.good(); ++i) {
    ClosedEpoch row;
    row.epoch.value = in.number();
    row.claim_id = in.id<ClaimId>();
    row.last.value = in.number();
    in.require(p.closed.empty() || p.closed.back().epoch < row.epoch);
    p.closed.push(row, closed_kept);
  }
  const std::size_t receipts = in.count(kReceiptsKept, 40);
  p.receipts.reserve(receipts);
  for (std::size_t i = 0; i < receipts && in.good(); ++i) {
    Receipt receipt;
    receipt.epoch.value = in.number();
    receipt.sequence.value = in.number();
    receipt.digest.value = in.number();
    receipt.next = in.position();
    in.require(p.receipts.empty() || std::pair(p.receipts.back().epoch, p.receipts.back().sequence) < std::pair(receipt.epoch, receipt.sequence));
    p.receipts.push(receipt, kReceiptsKept);
  }
  const std::size_t commits = in.count(kReceiptsKept, 48);
  p.commits.reserve(commits);
  for (std::size_t i = 0; i < commits && in.good(); ++i) {
    PositionalReceipt receipt;
    receipt.epoch.value = in.number();
    receipt.commit = in.id<CommitId>();
    receipt.digest.value = in.number();
    receipt.next = in.position();
    p.commits.push(receipt, kReceiptsKept);
  }
  return p;
}

StreamState get_state(In& in) {
  constexpr std::size_t kLeastProducerBytes = 4 + 109;  // id length, then a producer without rows
  StreamState s;
  s.presence = in.choice(Presence::soft_deleted);
  s.config.kind = in.choice(StreamKind::fence_required);
  s.config.content_type = in.text();
  s.config.max_append_bytes = in.number();
  s.config.max_stream_bytes = in.number();
  s.incarnation = in.id<Incarnation>();
  s.start = in.position();
  s.snapshot = in.position();
  s.tail = in.position();
  s.stored_bytes = in.number();
  s.closed = in.flag();
  s.suspect = in.flag();
  s.namespace_fence = in.choice(NamespaceFence::unavailable);
  s.time_ms = in.time();
  s.stream_seq = in.text();
  s.owner_producer = in.text();
  s.owner = get_producer(in, kClosedEpochsKept);
  s.newest_claim = in.id<ClaimId>();
  for (std::string* text : {&s.owner_info.name, &s.owner_info.host, &s.owner_info.version, &s.owner_info.why, &s.owner_info.liveness}) *text = in.text();
  s.owner_info.pid = in.time();
  s.owner_info.started_ms = in.time();
  s.claimed_ms = in.time();
  s.claims_since_data = in.bytes.u<std::uint32_t>();
  const std::size_t contenders = in.count(kMaxContenders, 4);
  for (std::size_t i = 0; i < contenders && in.good(); ++i) s.contenders.push_back(in.text());
  const std::size_t producers = in.count(kMaxPlainProducers, kLeastProducerBytes);
  std::string before;
  for (std::size_t i = 0; i < producers && in.good(); ++i) {
    std::string id = in.text();
    in.require(!id.empty() && (i == 0 || before < id));
    before = id;
    s.producers.emplace(std::move(id), get_producer(in, kClosedEpochsKeptPlain));
  }
  return s;
}

Result<StreamState> damaged(std::string why) {
  return tl::unexpected(Error{Outcome::invalid, "The saved fence state cannot be used: " + why + " Nothing was changed; take it from another copy.", {}});
}

}  // namespace

Bytes encode(const StreamState& state) {
  Bytes out;
  Bytes body;
  ByteWriter inner(body);
  put(inner, state);
  ByteWriter writer(out);
  writer.u(kMagic);
  writer.u(kVersion);
  writer.u(static_cast<std::uint32_t>(body.size()));
  writer.raw(body);
  writer.u(xxh3(out));
  return out;
}

Result<StreamState> decode_stream_state(ByteView bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes) return damaged(fmt::format("it has only {} bytes.", bytes.size()));
  ByteReader header(bytes);
  if (header.u<std::uint32_t>() != kMagic) return damaged("it does not begin like a fence state.");
  const auto version = header.u<std::uint16_t>();
  if (version != kVersion) {
    return damaged(fmt::format("it has format version {} and this program knows version {}; use the newer program.", version, kVersion));
  }
  const auto size = header.u<std::uint32_t>();
  if (size != bytes.size() - kHeaderBytes - kChecksumBytes) {
    return damaged(fmt::format("it says {} bytes of content and has {}.", size, bytes.size() - kHeaderBytes - kChecksumBytes));
  }
  ByteReader checksum(bytes.last(kChecksumBytes));
  if (checksum.u<std::uint64_t>() != xxh3(bytes.first(bytes.size() - kChecksumBytes))) return damaged("its checksum does not match its content.");
  ByteReader body(bytes.subspan(kHeaderBytes, size));
  In in{body};
  StreamState state = get_state(in);
  if (!in.good()) return damaged(fmt::format("the value before byte {} is none this program writes.", kHeaderBytes + body.at()));
  if (body.left() != 0) return damaged(fmt::format("{} bytes follow its last value.", body.left()));
  return state;
}

}  // namespace onepen::core
