#include "wire/pack.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/checksum.h"

namespace onepen::wire {
namespace {

constexpr std::string_view kPackMagic = "OPPK", kHeadMagic = "OPSN";
constexpr std::size_t kEnvelopeBytes = 4 + 2, kSumBytes = 8;

tl::unexpected<ObjectFault> pack_fault(std::size_t at, std::string what) {
  return tl::unexpected(ObjectFault{ObjectFault::Kind::damaged, at, std::move(what)});
}

void begin_file(ByteWriter& out, std::string_view magic, std::uint16_t version) {
  out.raw(as_bytes(magic));
  out.u<std::uint16_t>(version);
}
void end_file(Bytes& bytes) {
  const auto sum = xxh3(bytes);
  ByteWriter(bytes).u<std::uint64_t>(sum);
}

// The inside of a file with this beginning, when its checksum is right.
tl::expected<ByteView, ObjectFault> inside(ByteView bytes, std::string_view magic, std::uint16_t version, std::size_t most) {
  if (bytes.size() > most) return pack_fault(most, "it is longer than any such file may be");
  if (bytes.size() < kEnvelopeBytes + kSumBytes) return pack_fault(bytes.size(), "it ends before its header");
  ByteReader in(bytes);
  if (as_text(in.raw(magic.size())) != magic) return pack_fault(0, fmt::format("it does not begin with {}", magic));
  const auto found = in.u<std::uint16_t>();
  if (found > version && found < 0x1000)
    return tl::unexpected(ObjectFault{ObjectFault::Kind::newer_format, magic.size(), fmt::format("format {} (this program reads up to {})", found, version)});
  if (found != version) return pack_fault(magic.size(), fmt::format("its format number is {}", found));
  ByteReader sum(bytes.last(kSumBytes));
  if (sum.u<std::uint64_t>() != xxh3(bytes.first(bytes.size() - kSumBytes))) return pack_fault(0, "its checksum is wrong");
  return bytes.subspan(kEnvelopeBytes, bytes.size() - kEnvelopeBytes - kSumBytes);
}

std::string decode_entries(ByteReader& in, Pack& pack) {
  constexpr std::size_t kLeastRow = 1 + 8 + 8 + 4;
  const auto count = in.u<std::uint32_t>();
  if (count > kMaxPackObjects || count > in.left() / kLeastRow) return fmt::format("it claims to hold {} objects", count);
  pack.entries.reserve(count);
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    PackEntry e;
    const auto kind = in.u<std::uint8_t>();
    e.id = in.u<std::uint64_t>();
    e.checksum = in.u<std::uint64_t>();
    const auto size = in.u<std::uint32_t>();
    if (kind < 1 || kind > 3) return fmt::format("entry {} is of kind {}", i, kind);
    e.kind = static_cast<PackEntry::Kind>(kind);
    if (size > in.left()) return fmt::format("entry {} is longer than the file", i);
    if ((e.kind == PackEntry::Kind::whole) != (size != 0)) return fmt::format("entry {} has {} bytes", i, size);
    if (e.id <= before || e.id < pack.first || e.id > pack.last) return fmt::format("entry {} is object {}, which has no place there", i, e.id);
    before = e.id;
    e.bytes = in.raw(size);
    pack.entries.push_back(e);
  }
  return {};
}

}  // namespace

Bytes encode(const Pack& pack) {
  Bytes out;
  ByteWriter writer(out);
  begin_file(writer, kPackMagic, kPackVersion);
  writer.text(pack.stream.text());
  writer.u<std::uint64_t>(pack.first);
  writer.u<std::uint64_t>(pack.last);
  writer.u<std::uint64_t>(pack.log_bytes_before);
  encode(writer, pack.end);
  writer.u<std::uint32_t>(static_cast<std::uint32_t>(pack.entries.size()));
  for (const auto& e : pack.entries) {
    writer.u<std::uint8_t>(static_cast<std::uint8_t>(e.kind));
    writer.u<std::uint64_t>(e.id);
    writer.u<std::uint64_t>(e.checksum);
    writer.u<std::uint32_t>(static_cast<std::uint32_t>(e.bytes.size()));
    writer.raw(e.bytes);
  }
  end_file(out);
  ONEPEN_CHECK(out.size() <= kMaxPackBytes, "a pack is at most 64 MiB");
  return out;
}

tl::expected<Pack, ObjectFault> decode_pack(ByteView bytes) {
  auto content = inside(bytes, kPackMagic, kPackVersion, kMaxPackBytes);
  if (!content) return tl::unexpected(content.error());
  ByteReader in(*content);
  auto at = [&in] { return kEnvelopeBytes + in.at(); };
  auto name = StreamName::parse(in.text(256));
  if (!name) return pack_fault(at(), "it names no stream");
  Pack pack{.stream = *name};
  pack.first = in.u<std::uint64_t>();
  pack.last = in.u<std::uint64_t>();
  pack.log_bytes_before = in.u<std::uint64_t>();
  std::string wrong;
  pack.end = decode_fold_state(in, wrong);
  if (wrong.empty() && (pack.first == 0 || pack.last < pack.first || pack.end.next_id != pack.last + 1)) wrong = "its run of objects is none";
  if (wrong.empty()) wrong = decode_entries(in, pack);
  if (wrong.empty() && (in.failed() || in.left() != 0)) wrong = "it does not end where it says";
  if (!wrong.empty()) return pack_fault(at(), wrong);
  return pack;
}

Bytes encode(const SnapshotHead& head) {
  Bytes out;
  ByteWriter writer(out);
  begin_file(writer, kHeadMagic, kSnapshotHeadVersion);
  const auto& i = head.info;
  writer.text(head.stream.text());
  writer.text(i.id);
  writer.text(i.offset.text);
  for (auto number : {head.at.high, head.at.low, i.incarnation.hi, i.incarnation.lo, i.epoch.value, static_cast<std::uint64_t>(i.time_ms), i.log_bytes})
    writer.u<std::uint64_t>(number);
  writer.u<std::uint8_t>(head.begins_history ? 1 : 0);
  writer.text(as_text(i.about));
  writer.u<std::uint32_t>(static_cast<std::uint32_t>(head.parts.size()));
  for (const auto& part : head.parts) {
    writer.u<std::uint64_t>(part.size);
    writer.u<std::uint64_t>(part.sum);
  }
  encode(writer, head.fold);
  end_file(out);
  return out;
}

tl::expected<SnapshotHead, ObjectFault> decode_snapshot_head(ByteView bytes) {
  auto content = inside(bytes, kHeadMagic, kSnapshotHeadVersion, kMaxSnapshotHeadBytes);
  if (!content) return tl::unexpected(content.error());
  ByteReader in(*content);
  auto at = [&in] { return kEnvelopeBytes + in.at(); };
  auto name = StreamName::parse(in.text(256));
  if (!name) return pack_fault(at(), "it names no stream");
  SnapshotHead head{.stream = *name};
  auto& i = head.info;
  i.id = in.text(128);
  i.offset.text = in.text(128);
  std::uint64_t time = 0;
  for (auto* number : {&head.at.high, &head.at.low, &i.incarnation.hi, &i.incarnation.lo, &i.epoch.value, &time, &i.log_bytes}) *number = in.u<std::uint64_t>();
  i.time_ms = static_cast<std::int64_t>(time);
  const auto flag = in.u<std::uint8_t>();
  head.begins_history = flag == 1;
  i.about = to_bytes(as_bytes(in.text(core::kMaxSnapshotAbout)));
  const auto count = in.u<std::uint32_t>();
  if (in.failed()) return pack_fault(at(), "it is cut short");
  if (flag > 1) return pack_fault(at(), "a flag is neither 0 nor 1");
  if (count > kMaxSnapshotParts || count > in.left() / 16) return pack_fault(at(), fmt::format("it claims to have {} parts", count));
  for (std::uint32_t n = 0; n < count; ++n) {
    SnapshotPartSum part;
    part.size = in.u<std::uint64_t>();
    part.sum = in.u<std::uint64_t>();
    if (part.size > core::kMaxSnapshotPart) return pack_fault(at(), fmt::format("part {} is longer than any may be", n));
    i.bytes += part.size;
    head.parts.push_back(part);
  }
  i.parts = count;
  std::string wrong;
  head.fold = decode_fold_state(in, wrong);
  if (wrong.empty() && (in.failed() || in.left() != 0)) wrong = "it does not end where it says";
  if (wrong.empty() && head.fold.next_id < head.at.high) wrong = "the state of its fold is of another place";
  if (!wrong.empty()) return pack_fault(at(), wrong);
  return head;
}

}  // namespace onepen::wire
