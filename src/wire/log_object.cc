#include "wire/log_object.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "base/checksum.h"

namespace onepen::wire {
namespace {

constexpr std::array<char, 4> kObjectMagic{'O', 'P', 'L', 'G'};
constexpr std::size_t kVersionAt = 4, kKindAt = 6, kHeaderLengthAt = 8;
constexpr std::size_t kFixedBytes = 20;     // magic, version, kind, header length, body length: all a reader needs to find the ends
constexpr std::size_t kChecksumBytes = 8;
constexpr std::uint32_t kRaced = 1;
constexpr std::uint8_t kHasOver = 1, kHasTail = 2;

template <class Id>
void put_id(ByteWriter& out, const Id& id) {
  out.u<std::uint64_t>(id.hi);
  out.u<std::uint64_t>(id.lo);
}
template <class Id>
Id get_id(ByteReader& in) {
  Id id;
  id.hi = in.u<std::uint64_t>();
  id.lo = in.u<std::uint64_t>();
  return id;
}
void put_i64(ByteWriter& out, std::int64_t v) { out.u<std::uint64_t>(static_cast<std::uint64_t>(v)); }
std::int64_t get_i64(ByteReader& in) { return static_cast<std::int64_t>(in.u<std::uint64_t>()); }

// Texts of a claim are cut to what the format holds: they are for people, and a long host name must not keep anybody from claiming.
std::string_view cut(const std::string& text) { return std::string_view(text).substr(0, kMaxOwnerTextBytes); }
void put_text(ByteWriter& out, std::string_view text) {
  out.u<std::uint32_t>(static_cast<std::uint32_t>(text.size()));
  out.raw(as_bytes(text));
}

void encode_person(ByteWriter& out, const core::OwnerInfo& who) {
  for (const auto* text : {&who.name, &who.host, &who.version, &who.why, &who.liveness}) put_text(out, cut(*text));
  put_i64(out, who.pid);
  put_i64(out, who.started_ms);
}
core::OwnerInfo decode_person(ByteReader& in) {
  core::OwnerInfo who;
  for (auto* text : {&who.name, &who.host, &who.version, &who.why, &who.liveness}) *text = in.text(kMaxOwnerTextBytes);
  who.pid = get_i64(in);
  who.started_ms = get_i64(in);
  return who;
}

void put_position(ByteWriter& out, core::Position p) {
  out.u<std::uint64_t>(p.high);
  out.u<std::uint64_t>(p.low);
}
core::Position get_position(ByteReader& in) {
  core::Position p;
  p.high = in.u<std::uint64_t>();
  p.low = in.u<std::uint64_t>();
  return p;
}

void encode_claim(ByteWriter& out, const ClaimBody& c) {
  encode_person(out, c.owner);
  out.u<std::uint8_t>(static_cast<std::uint8_t>((c.over ? kHasOver : 0) | (c.if_tail ? kHasTail : 0)));
  if (c.over) put_id(out, *c.over);
  if (c.if_tail) put_position(out, *c.if_tail);
  out.u<std::uint64_t>(c.closed_epoch.value);
  out.u<std::uint64_t>(c.closed_sequence.value);
  std::size_t skip = c.contenders.size() > core::kMaxContenders ? c.contenders.size() - core::kMaxContenders : 0;
  out.u<std::uint8_t>(static_cast<std::uint8_t>(c.contenders.size() - skip));
  for (std::size_t i = skip; i < c.contenders.size(); ++i) put_text(out, cut(c.contenders[i]));
}

ClaimBody decode_claim(ByteReader& in, std::string& wrong) {
  ClaimBody c;
  c.owner = decode_person(in);
  auto has = in.u<std::uint8_t>();
  if ((has & ~(kHasOver | kHasTail)) != 0) wrong = "a claim's condition is of no known kind";
  if ((has & kHasOver) != 0) c.over = get_id<ClaimId>(in);
  if ((has & kHasTail) != 0) c.if_tail = get_position(in);
  c.closed_epoch.value = in.u<std::uint64_t>();
  c.closed_sequence.value = in.u<std::uint64_t>();
  auto n = in.u<std::uint8_t>();
  if (n > core::kMaxContenders) wrong = "a claim names too many contenders";
  for (std::size_t i = 0; i < n && wrong.empty() && !in.failed(); ++i) c.contenders.push_back(in.text(kMaxOwnerTextBytes));
  return c;
}

tl::unexpected<ObjectFault> damaged(std::size_t at, std::string what) { return tl::unexpected(ObjectFault{ObjectFault::Kind::damaged, at, std::move(what)}); }

// The payload lengths must add up to the body exactly.
std::optional<std::string> decode_appends(ByteReader& in, std::uint32_t count, ByteView body, std::vector<AppendBody>& out) {
  constexpr std::size_t kRow = 1 + 4 + 8;
  if (count == 0 || count > kMaxObjectAppends) return fmt::format("it claims to hold {} appends", count);
  if (in.left() < count * kRow) return "the table of its appends is cut short";
  out.reserve(count);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto kind = in.u<std::uint8_t>();
    auto size = in.u<std::uint32_t>();
    auto digest = in.u<std::uint64_t>();
    if (kind < static_cast<std::uint8_t>(core::RecordKind::data) || kind > static_cast<std::uint8_t>(core::RecordKind::snapshot))
      return fmt::format("append {} is of kind {}", i, kind);
    if (size > body.size() - at) return fmt::format("append {} is longer than the object", i);
    out.push_back({static_cast<core::RecordKind>(kind), Digest{digest}, body.subspan(at, size)});
    at += size;
  }
  if (at != body.size()) return "its appends are shorter than the object";
  return std::nullopt;
}

std::size_t body_bytes(const LogObject& o) {
  std::size_t n = 0;
  for (const auto& a : o.appends) n += a.payload.size();
  return n;
}

void encode_header(ByteWriter& out, const LogObject& o) {
  put_id(out, o.incarnation);
  out.u<std::uint32_t>(o.ordinal);
  out.u<std::uint32_t>(o.raced ? kRaced : 0);
  out.u<std::uint64_t>(o.id);
  out.u<std::uint64_t>(o.epoch.value);
  put_id(out, o.claim_id);
  put_id(out, o.put_id);
  out.u<std::uint64_t>(o.first.value);
  out.u<std::uint32_t>(static_cast<std::uint32_t>(o.appends.size()));
  out.u<std::uint32_t>(o.claims_since_data);
  out.u<std::uint64_t>(o.prev_id);
  out.u<std::uint64_t>(o.prev_checksum);
  out.u<std::uint64_t>(o.claim_at);
  out.u<std::uint64_t>(o.log_bytes);
  put_i64(out, o.time_ms);
  put_text(out, o.stream.text());
  if (o.kind == ObjectKind::claim) encode_claim(out, o.claim);
  if (o.kind == ObjectKind::appends)
    for (const auto& a : o.appends) {
      out.u<std::uint8_t>(static_cast<std::uint8_t>(a.kind));
      out.u<std::uint32_t>(static_cast<std::uint32_t>(a.payload.size()));
      out.u<std::uint64_t>(a.digest.value);
    }
  if (o.kind == ObjectKind::history) {
    put_id(out, o.history.next);
    out.u<std::uint32_t>(o.history.next_ordinal);
    out.u<std::uint64_t>(o.history.floor.value);
    put_id(out, o.history.newest_claim);
    put_text(out, cut(o.history.act));
    put_position(out, o.history.common);
    put_text(out, cut(o.history.snapshot));
  }
  if (o.kind == ObjectKind::history || o.kind == ObjectKind::tombstone) encode_person(out, o.by);
  if (o.kind == ObjectKind::evidence) put_text(out, std::string_view(o.what).substr(0, kMaxEvidenceBytes));
}

// Checks of what the numbers say together; the sentence is the fault.
std::string inconsistent(const LogObject& o, std::uint32_t count, std::size_t body) {
  for (auto number : {o.id, o.epoch.value, o.first.value, o.prev_id, o.claim_at, o.log_bytes, o.history.floor.value})
    if (number > kMaxWireNumber) return "a number is above 2^53-1";
  if (o.id == 0) return "its id is 0";
  if (o.prev_id >= o.id || o.claim_at >= o.id) return "it points at an object that is not before it";
  if (o.ordinal == 0 || o.ordinal > kMaxOrdinal) return "the ordinal of its history is out of range";
  if (o.kind != ObjectKind::appends && (count != 0 || body != 0)) return "it has appends and is not of that kind";
  if (o.kind == ObjectKind::claim && (o.epoch.value == 0 || o.first.value != 0)) return "a claim without epoch, or with a sequence";
  if (o.kind == ObjectKind::appends && (o.first.value == 0 || o.epoch.value == 0)) return "appends without sequence or epoch";
  if (o.kind == ObjectKind::evidence && (o.epoch.value == 0 || o.first.value != 0)) return "evidence without epoch, or with a sequence";
  if (o.kind != ObjectKind::tombstone && o.kind != ObjectKind::history && o.claim_id.nil()) return "it has no claim id";
  if (o.kind == ObjectKind::history && (o.history.next.nil() || o.history.next_ordinal <= o.ordinal || o.history.next_ordinal > kMaxOrdinal))
    return "a new history without incarnation or with an ordinal that is not higher";
  if (o.kind == ObjectKind::history && o.history.common.high >= o.id) return "a new history that has more in common with the old one than there was";
  return {};
}

}  // namespace

Bytes encode(const LogObject& o) {
  ONEPEN_CHECK(o.appends.size() <= kMaxObjectAppends, "a batch holds at most 4096 appends");
  Bytes out;
  std::size_t body = body_bytes(o);
  out.reserve(body + 512 + o.appends.size() * 13);
  ByteWriter writer(out);
  writer.raw(std::as_bytes(std::span(kObjectMagic)));
  writer.u<std::uint16_t>(kLogObjectVersion);
  writer.u<std::uint16_t>(static_cast<std::uint16_t>(o.kind));
  writer.u<std::uint32_t>(0);  // header length: below
  writer.u<std::uint64_t>(body);
  encode_header(writer, o);
  auto header = static_cast<std::uint32_t>(out.size() + kChecksumBytes);
  for (std::size_t i = 0; i < 4; ++i) out[kHeaderLengthAt + i] = static_cast<std::byte>((header >> (8 * i)) & 0xff);
  writer.u<std::uint64_t>(xxh3(out));
  for (const auto& a : o.appends) writer.raw(a.payload);
  writer.u<std::uint64_t>(xxh3(out));
  ONEPEN_CHECK(out.size() <= kMaxObjectBytes && header <= kMaxObjectHeaderBytes, "a log object is at most 64 MiB");
  return out;
}

std::uint64_t checksum_of(ByteView encoded) {
  ONEPEN_CHECK(encoded.size() > kChecksumBytes, "not an encoded log object");
  ByteReader in(encoded.subspan(encoded.size() - kChecksumBytes));
  return in.u<std::uint64_t>();
}

tl::expected<LogObject, ObjectFault> decode_log_object(ByteView bytes) {
  if (bytes.size() > kMaxObjectBytes) return damaged(kMaxObjectBytes, "it is longer than any object may be");
  ByteReader fixed(bytes);
  auto magic = fixed.raw(kObjectMagic.size());
  if (fixed.failed()) return damaged(bytes.size(), "it ends before its header");
  if (as_text(magic) != std::string_view(kObjectMagic.data(), kObjectMagic.size())) return damaged(0, "it does not begin like a log object");
  auto version = fixed.u<std::uint16_t>();
  auto kind = fixed.u<std::uint16_t>();
  std::size_t header = fixed.u<std::uint32_t>();
  auto body = fixed.u<std::uint64_t>();
  if (fixed.failed()) return damaged(bytes.size(), "it ends inside its header");
  if (version > kLogObjectVersion && version < 0x1000)  // anything above is more likely a flipped bit than four thousand formats
    return tl::unexpected(
        ObjectFault{ObjectFault::Kind::newer_format, kVersionAt, fmt::format("format {} (this program reads up to {})", version, kLogObjectVersion)});
  if (version == 0 || version > kLogObjectVersion) return damaged(kVersionAt, fmt::format("its format number is {}", version));
  if (header < kFixedBytes + kChecksumBytes || header > kMaxObjectHeaderBytes) return damaged(kHeaderLengthAt, "its header length is out of range");
  if (bytes.size() < header) return damaged(bytes.size(), "it ends inside its header");
  ByteReader header_sum(bytes.subspan(header - kChecksumBytes, kChecksumBytes));
  if (header_sum.u<std::uint64_t>() != xxh3(bytes.first(header - kChecksumBytes))) return damaged(0, "the checksum of its header is wrong");
  if (body > kMaxObjectBytes || bytes.size() < header + body + kChecksumBytes)
    return damaged(bytes.size(), fmt::format("it ends after {} of {} bytes", bytes.size(), header + body + kChecksumBytes));
  if (bytes.size() > header + body + kChecksumBytes) return damaged(header + body + kChecksumBytes, "there is more after its end");
  if (checksum_of(bytes) != xxh3(bytes.first(bytes.size() - kChecksumBytes))) return damaged(header, "its checksum is wrong");
  if (kind < 1 || kind > 5) return damaged(kKindAt, fmt::format("its kind is {}", kind));

  ByteReader in(bytes.first(header - kChecksumBytes));
  in.raw(kFixedBytes);
  auto incarnation = get_id<Incarnation>(in);
  auto ordinal = in.u<std::uint32_t>();
  auto flags = in.u<std::uint32_t>();
  auto id = in.u<std::uint64_t>();
  Epoch epoch{in.u<std::uint64_t>()};
  auto claim_id = get_id<ClaimId>(in);
  auto put = get_id<PutId>(in);
  Sequence first{in.u<std::uint64_t>()};
  auto count = in.u<std::uint32_t>();
  auto claims_since_data = in.u<std::uint32_t>();
  auto prev_id = in.u<std::uint64_t>();
  auto prev_checksum = in.u<std::uint64_t>();
  auto claim_at = in.u<std::uint64_t>();
  auto log_bytes = in.u<std::uint64_t>();
  auto time_ms = get_i64(in);
  auto name = StreamName::parse(in.text(256));
  if (in.failed()) return damaged(in.at(), "its header is cut short");
  if (!name) return damaged(in.at(), "it names no stream");
  LogObject o{static_cast<ObjectKind>(kind),
              *name,
              id,
              incarnation,
              ordinal,
              epoch,
              claim_id,
              put,
              first,
              prev_id,
              prev_checksum,
              claim_at,
              claims_since_data,
              log_bytes,
              (flags & kRaced) != 0,
              time_ms};
  std::string wrong = (flags & ~kRaced) != 0 ? "it has flags of no known meaning" : "";
  if (o.kind == ObjectKind::claim) o.claim = decode_claim(in, wrong);
  if (o.kind == ObjectKind::history) {
    o.history.next = get_id<Incarnation>(in);
    o.history.next_ordinal = in.u<std::uint32_t>();
    o.history.floor.value = in.u<std::uint64_t>();
    o.history.newest_claim = get_id<ClaimId>(in);
    o.history.act = in.text(kMaxOwnerTextBytes);
    o.history.common = get_position(in);
    o.history.snapshot = in.text(kMaxOwnerTextBytes);
  }
  if (o.kind == ObjectKind::history || o.kind == ObjectKind::tombstone) o.by = decode_person(in);
  if (o.kind == ObjectKind::evidence) o.what = in.text(kMaxEvidenceBytes);
  if (wrong.empty()) wrong = inconsistent(o, count, static_cast<std::size_t>(body));
  if (wrong.empty() && o.kind == ObjectKind::appends)
    if (auto bad = decode_appends(in, count, bytes.subspan(header, static_cast<std::size_t>(body)), o.appends)) wrong = *bad;
  if (!wrong.empty()) return damaged(in.at(), wrong);
  if (in.failed() || in.left() != 0) return damaged(in.at(), "its header does not end where it says");
  o.checksum = checksum_of(bytes);
  o.size = bytes.size();
  return o;
}

Digest claim_digest(const LogObject& o) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.u<std::uint64_t>(o.epoch.value);
  put_id(out, o.claim_id);
  put_id(out, o.put_id);
  ClaimBody asked = o.claim;  // without what its maker saw on the way
  asked.closed_epoch = {};
  asked.closed_sequence = {};
  asked.contenders.clear();
  encode_claim(out, asked);
  return digest_of(bytes);
}

}  // namespace onepen::wire
