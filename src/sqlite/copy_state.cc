#include "sqlite/copy_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/failpoint.h"

namespace onepen::sqlite {
namespace {

constexpr std::string_view kMagic = "OPCS";
constexpr std::uint16_t kFlagPoisoned = 1, kFlagPreviousPlace = 2, kFlagNextPlace = 4, kFlagOwned = 8, kFlagSent = 16;
constexpr std::size_t kMaxPoisonBytesV1 = 120;
constexpr std::size_t kChecksumAt = kStateSlotBytes - 8;

void put_place(ByteWriter& out, const std::optional<WalPlace>& place) {
  out.u<std::uint32_t>(place ? place->salt1 : 0);
  out.u<std::uint32_t>(place ? place->salt2 : 0);
  out.u<std::uint32_t>(place ? place->frame : 0);
}
std::optional<WalPlace> get_place(ByteReader& in, bool known) {
  WalPlace place;
  place.salt1 = in.u<std::uint32_t>();
  place.salt2 = in.u<std::uint32_t>();
  place.frame = in.u<std::uint32_t>();
  return known ? std::optional(place) : std::nullopt;
}

}  // namespace

void put_state(ByteWriter& out, const CommitState& state) {
  out.text(state.offset.text);
  out.u<std::uint64_t>(state.incarnation.hi);
  out.u<std::uint64_t>(state.incarnation.lo);
  out.u<std::uint64_t>(state.ordinal);
  out.u<std::uint64_t>(state.page_sum);
  out.u<std::uint32_t>(state.page_count);
  out.u<std::uint32_t>(state.page_size);
}
CommitState get_state(ByteReader& in) {
  CommitState state;
  state.offset.text = in.text(kMaxOffsetBytes);
  state.incarnation.hi = in.u<std::uint64_t>();
  state.incarnation.lo = in.u<std::uint64_t>();
  state.ordinal = in.u<std::uint64_t>();
  state.page_sum = in.u<std::uint64_t>();
  state.page_count = in.u<std::uint32_t>();
  state.page_size = in.u<std::uint32_t>();
  return state;
}

bool operator==(const CopyRecord& a, const CopyRecord& b) {
  const auto same_token = [](const std::optional<core::OwnerToken>& x, const std::optional<core::OwnerToken>& y) {
    if (!x || !y) return !x && !y;
    return x->incarnation == y->incarnation && x->epoch == y->epoch && x->claim_id == y->claim_id;
  };
  return a.previous == b.previous && a.next == b.next && a.previous_place == b.previous_place && a.next_place == b.next_place && same_token(a.owned, b.owned) &&
         a.sent == b.sent && a.boot == b.boot && a.inode == b.inode && a.poisoned == b.poisoned && a.why == b.why;
}

BootId current_boot_id(io::Disk& disk) {
  constexpr std::size_t kTextBytes = 36;  // 8-4-4-4-12
  BootId boot;
  const std::string path = "/proc/sys/kernel/random/boot_id";
  auto text = disk.read(path, 0, 64);
  if (text && text->empty()) {  // the kernel says that its file has no bytes, and gives them all the same
    text->resize(64);
    auto file = disk.open(path, io::OpenMode::read);
    if (!file) return boot;
    auto got = (*file)->read_at(0, *text);
    if (!got) return boot;
    text->resize(*got);
  }
  if (!text || text->size() < kTextBytes) return boot;
  std::string hex(as_text(*text).substr(0, kTextBytes));
  std::erase(hex, '-');
  if (!detail::parse_hex128(hex, boot.hi, boot.lo)) return {};
  return boot;
}

Result<std::array<std::byte, kStateSlotBytes>> encode_state_slot(const CopyRecord& record, std::uint64_t generation) {
  for (const CommitState* state : {&record.previous, &record.next}) {
    if (state->offset.text.size() > kMaxOffsetBytes) {
      return tl::unexpected(Error{Outcome::invalid, fmt::format("the offset {} is longer than {} bytes", state->offset.text, kMaxOffsetBytes), std::nullopt});
    }
  }
  Bytes bytes;
  bytes.reserve(kStateSlotBytes);
  ByteWriter out(bytes);
  out.raw(as_bytes(kMagic));
  out.u<std::uint16_t>(kCopyStateVersion);
  const unsigned flags = (record.poisoned ? kFlagPoisoned : 0u) | (record.previous_place ? kFlagPreviousPlace : 0u) |
                         (record.next_place ? kFlagNextPlace : 0u) | (record.owned ? kFlagOwned : 0u) | (record.sent ? kFlagSent : 0u);
  out.u<std::uint16_t>(static_cast<std::uint16_t>(flags));
  out.u<std::uint64_t>(generation);
  out.u<std::uint64_t>(record.boot.hi);
  out.u<std::uint64_t>(record.boot.lo);
  out.u<std::uint64_t>(record.inode);
  put_state(out, record.previous);
  put_state(out, record.next);
  put_place(out, record.previous_place);
  put_place(out, record.next_place);
  const core::OwnerToken owned = record.owned.value_or(core::OwnerToken{});
  out.u<std::uint64_t>(owned.incarnation.hi);
  out.u<std::uint64_t>(owned.incarnation.lo);
  out.u<std::uint64_t>(owned.epoch.value);
  out.u<std::uint64_t>(owned.claim_id.hi);
  out.u<std::uint64_t>(owned.claim_id.lo);
  const SentMark sent = record.sent.value_or(SentMark{});
  out.u<std::uint64_t>(sent.sequence.value);
  out.u<std::uint32_t>(sent.others);
  out.text(std::string_view(record.why).substr(0, kMaxPoisonBytes));
  bytes.resize(kChecksumAt);
  out.u<std::uint64_t>(xxh3(bytes));
  std::array<std::byte, kStateSlotBytes> slot{};
  std::copy(bytes.begin(), bytes.end(), slot.begin());
  return slot;
}

Result<std::optional<StateSlot>> decode_state_slot(ByteView bytes) {
  if (bytes.size() != kStateSlotBytes || as_text(bytes.first(kMagic.size())) != kMagic) return std::nullopt;
  ByteReader trailer(bytes.subspan(kChecksumAt));
  if (xxh3(bytes.first(kChecksumAt)) != trailer.u<std::uint64_t>()) return std::nullopt;
  ByteReader in(bytes.first(kChecksumAt));
  in.raw(kMagic.size());
  const auto version = in.u<std::uint16_t>();
  if (version > kCopyStateVersion) {
    return tl::unexpected(
        Error{Outcome::invalid,
              fmt::format("the local copy was written by a newer Onepen (state format {}, this one reads {}): use the newer one, or another cache root",
                          version, kCopyStateVersion),
              std::nullopt});
  }
  StateSlot slot;
  const auto flags = in.u<std::uint16_t>();
  slot.record.poisoned = (flags & kFlagPoisoned) != 0;
  slot.generation = in.u<std::uint64_t>();
  slot.record.boot.hi = in.u<std::uint64_t>();
  slot.record.boot.lo = in.u<std::uint64_t>();
  slot.record.inode = in.u<std::uint64_t>();
  slot.record.previous = get_state(in);
  slot.record.next = get_state(in);
  if (version >= 2) {
    slot.record.previous_place = get_place(in, (flags & kFlagPreviousPlace) != 0);
    slot.record.next_place = get_place(in, (flags & kFlagNextPlace) != 0);
    core::OwnerToken owned;
    owned.incarnation.hi = in.u<std::uint64_t>();
    owned.incarnation.lo = in.u<std::uint64_t>();
    owned.epoch.value = in.u<std::uint64_t>();
    owned.claim_id.hi = in.u<std::uint64_t>();
    owned.claim_id.lo = in.u<std::uint64_t>();
    if ((flags & kFlagOwned) != 0) slot.record.owned = owned;
  }
  if (version >= 3) {
    SentMark sent;
    sent.sequence.value = in.u<std::uint64_t>();
    sent.others = in.u<std::uint32_t>();
    if ((flags & kFlagSent) != 0) slot.record.sent = sent;
  }
  slot.record.why = in.text(version == 1 ? kMaxPoisonBytesV1 : kMaxPoisonBytes);
  unsigned known = kFlagPoisoned;
  if (version >= 2) known |= kFlagPreviousPlace | kFlagNextPlace | kFlagOwned;
  if (version >= 3) known |= kFlagSent;
  if (in.failed() || version == 0 || (flags & ~known) != 0) return std::nullopt;
  return slot;
}

Result<StateFile> StateFile::open(io::Disk& disk, const std::string& path) {
  StateFile state;
  state.path_ = path;
  auto file = open_on(disk, path, io::OpenMode::create);
  if (!file) return tl::unexpected(file.error());
  state.file_ = std::move(*file);
  if (auto read = state.read(); !read) return tl::unexpected(read.error());
  return state;
}

Result<std::optional<CopyRecord>> StateFile::look(io::Disk& disk, const std::string& path) {
  StateFile state;
  state.path_ = path;
  auto file = open_on(disk, path, io::OpenMode::read);
  if (!file && file.error().outcome == Outcome::not_found) return std::nullopt;
  if (!file) return tl::unexpected(file.error());
  state.file_ = std::move(*file);
  if (auto read = state.read(); !read) return tl::unexpected(read.error());
  return std::move(state.record_);
}

Result<> StateFile::read() {
  for (std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}}) {
    std::array<std::byte, kStateSlotBytes> bytes{};
    auto got = of_disk(file_->read_at(index * kStateSlotStride, bytes));
    if (!got) return tl::unexpected(got.error());
    auto slot = decode_state_slot(ByteView(bytes).first(*got));
    if (!slot) {
      slot.error().message += " (" + path_ + ")";
      return tl::unexpected(slot.error());
    }
    if (*slot && (!record_ || (*slot)->generation > generation_)) {
      record_ = std::move((*slot)->record);
      generation_ = (*slot)->generation;
    }
  }
  return {};
}

Result<> StateFile::write(const CopyRecord& record, bool sync) {
  const std::uint64_t generation = generation_ + 1;
  auto slot = encode_state_slot(record, generation);
  if (!slot) return tl::unexpected(slot.error());
  if (ONEPEN_FAILPOINT("copy.before_state_write")) return io_failed("write", path_);
  if (auto put = of_disk(file_->write_at((generation % 2) * kStateSlotStride, *slot)); !put) return put;
  if (ONEPEN_FAILPOINT("copy.after_state_write")) return io_failed("write", path_);
  generation_ = generation;
  record_ = record;
  return sync ? of_disk(file_->sync()) : Result<>{};
}

}  // namespace onepen::sqlite
