#include "sqlite/copy_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "base/failpoint.h"

namespace onepen::sqlite {
namespace {

constexpr std::string_view kMagic = "OPCS";
constexpr std::uint16_t kFlagPoisoned = 1;
constexpr std::size_t kChecksumAt = kStateSlotBytes - 8;

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

}  // namespace

BootId current_boot_id() {
  BootId boot;
  const std::string path = "/proc/sys/kernel/random/boot_id";
  auto file = open_file(path, OpenMode::read);
  if (!file) return boot;
  std::array<std::byte, 36> text{};
  auto got = read_at(file->fd(), 0, text, path);
  if (!got || *got != text.size()) return boot;
  std::string hex(as_text(text));
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
  out.u<std::uint16_t>(record.poisoned ? kFlagPoisoned : std::uint16_t{0});
  out.u<std::uint64_t>(generation);
  out.u<std::uint64_t>(record.boot.hi);
  out.u<std::uint64_t>(record.boot.lo);
  out.u<std::uint64_t>(record.inode);
  put_state(out, record.previous);
  put_state(out, record.next);
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
  slot.record.why = in.text(kMaxPoisonBytes);
  if (in.failed() || version != kCopyStateVersion || (flags & ~kFlagPoisoned) != 0) return std::nullopt;
  return slot;
}

Result<StateFile> StateFile::open(const std::string& path) {
  StateFile state;
  state.path_ = path;
  auto file = open_file(path, OpenMode::create);
  if (!file) return tl::unexpected(file.error());
  state.file_ = std::move(*file);
  for (std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}}) {
    std::array<std::byte, kStateSlotBytes> bytes{};
    auto got = read_at(state.file_.fd(), index * kStateSlotStride, bytes, path);
    if (!got) return tl::unexpected(got.error());
    auto slot = decode_state_slot(ByteView(bytes).first(*got));
    if (!slot) {
      slot.error().message += " (" + path + ")";
      return tl::unexpected(slot.error());
    }
    if (*slot && (!state.record_ || (*slot)->generation > state.generation_)) {
      state.record_ = std::move((*slot)->record);
      state.generation_ = (*slot)->generation;
    }
  }
  return state;
}

Result<> StateFile::write(const CopyRecord& record, bool sync) {
  const std::uint64_t generation = generation_ + 1;
  auto slot = encode_state_slot(record, generation);
  if (!slot) return tl::unexpected(slot.error());
  if (ONEPEN_FAILPOINT("copy.before_state_write")) return tl::unexpected(file_error("write", path_, 5));
  if (auto put = write_at(file_.fd(), (generation % 2) * kStateSlotStride, *slot, path_); !put) return put;
  if (ONEPEN_FAILPOINT("copy.after_state_write")) return tl::unexpected(file_error("write", path_, 5));
  generation_ = generation;
  record_ = record;
  return sync ? sync_file(file_.fd(), path_) : Result<>{};
}

}  // namespace onepen::sqlite
