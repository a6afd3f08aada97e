#include "sqlite/copy_pages.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "base/failpoint.h"

namespace onepen::sqlite {
namespace {

constexpr std::string_view kPagesMagic = "OPPT";
constexpr std::uint16_t kFlagMerging = 1, kFlagBegun = 2;
constexpr std::size_t kPagesChecksumAt = kPagesSlotBytes - 8;
constexpr std::uint32_t kJoinWithin = 64;       // entries: changed pages this near each other are written together
constexpr std::size_t kMaxEntryBytes = 1u << 20;  // in one write or read

void put_wal_place(ByteWriter& out, const WalPlace& place) {
  out.u<std::uint32_t>(place.salt1);
  out.u<std::uint32_t>(place.salt2);
  out.u<std::uint32_t>(place.frame);
}
WalPlace get_wal_place(ByteReader& in) {
  WalPlace place;
  place.salt1 = in.u<std::uint32_t>();
  place.salt2 = in.u<std::uint32_t>();
  place.frame = in.u<std::uint32_t>();
  return place;
}

}  // namespace

Result<std::array<std::byte, kPagesSlotBytes>> encode_pages_slot(const PagesHeader& header, std::uint64_t generation) {
  for (const CommitState* state : {&header.state, &header.target}) {
    if (state->offset.text.size() > kMaxOffsetBytes)
      return tl::unexpected(Error{Outcome::invalid, "the offset " + state->offset.text + " is longer than an offset can be", std::nullopt});
  }
  Bytes bytes;
  bytes.reserve(kPagesSlotBytes);
  ByteWriter out(bytes);
  out.raw(as_bytes(kPagesMagic));
  out.u<std::uint16_t>(kPagesVersion);
  out.u<std::uint16_t>(static_cast<std::uint16_t>((header.merging ? kFlagMerging : 0u) | (header.begun ? kFlagBegun : 0u)));
  out.u<std::uint64_t>(generation);
  out.u<std::uint64_t>(header.database.inode);
  out.u<std::uint64_t>(header.database.size);
  out.u<std::uint64_t>(static_cast<std::uint64_t>(header.database.modified_ns));
  out.u<std::uint32_t>(header.begun ? header.begun->first : 0);
  out.u<std::uint32_t>(header.begun ? header.begun->second : 0);
  put_wal_place(out, header.at);
  put_wal_place(out, header.target_at);
  put_state(out, header.state);
  put_state(out, header.target);
  bytes.resize(kPagesChecksumAt);
  out.u<std::uint64_t>(xxh3(bytes));
  std::array<std::byte, kPagesSlotBytes> slot{};
  std::copy(bytes.begin(), bytes.end(), slot.begin());
  return slot;
}

std::optional<std::pair<PagesHeader, std::uint64_t>> decode_pages_slot(ByteView bytes) {
  if (bytes.size() != kPagesSlotBytes || as_text(bytes.first(kPagesMagic.size())) != kPagesMagic) return std::nullopt;
  ByteReader trailer(bytes.subspan(kPagesChecksumAt));
  if (xxh3(bytes.first(kPagesChecksumAt)) != trailer.u<std::uint64_t>()) return std::nullopt;
  ByteReader in(bytes.first(kPagesChecksumAt));
  in.raw(kPagesMagic.size());
  const auto version = in.u<std::uint16_t>();
  const auto flags = in.u<std::uint16_t>();
  const auto generation = in.u<std::uint64_t>();
  PagesHeader header;
  header.database.inode = in.u<std::uint64_t>();
  header.database.size = in.u<std::uint64_t>();
  header.database.modified_ns = static_cast<std::int64_t>(in.u<std::uint64_t>());
  const auto salt1 = in.u<std::uint32_t>(), salt2 = in.u<std::uint32_t>();
  if ((flags & kFlagBegun) != 0) header.begun = std::pair(salt1, salt2);
  header.merging = (flags & kFlagMerging) != 0;
  header.at = get_wal_place(in);
  header.target_at = get_wal_place(in);
  header.state = get_state(in);
  header.target = get_state(in);
  if (in.failed() || version != kPagesVersion || (flags & ~(kFlagMerging | kFlagBegun)) != 0) return std::nullopt;
  if (header.state.page_count != 0 && !wire::valid_page_size(header.state.page_size)) return std::nullopt;
  return std::pair(std::move(header), generation);
}

Result<PagesFile> PagesFile::open(io::Disk& disk, const std::string& path) {
  PagesFile pages;
  pages.path_ = path;
  auto file = open_on(disk, path, io::OpenMode::create);
  if (!file) return tl::unexpected(file.error());
  pages.file_ = std::move(*file);
  return pages;
}

Result<std::vector<PagesFile::Found>> PagesFile::load() {
  std::vector<std::pair<PagesHeader, std::uint64_t>> slots;
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}}) {
    std::array<std::byte, kPagesSlotBytes> bytes{};
    auto got = of_disk(file_->read_at(index * kPagesSlotStride, bytes));
    if (!got) return tl::unexpected(got.error());
    if (auto slot = decode_pages_slot(ByteView(bytes).first(*got))) slots.push_back(std::move(*slot));
  }
  std::sort(slots.begin(), slots.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  auto size = of_disk(file_->size());
  if (!size) return tl::unexpected(size.error());
  std::vector<Found> found;
  for (auto& [header, generation] : slots) {
    generation_ = std::max(generation_, generation);
    if (kPagesEntriesAt + std::uint64_t{header.state.page_count} * 8 > *size) continue;  // cut short: no room is made for what is not there
    std::vector<std::uint64_t> hashes(header.state.page_count);
    bool whole = true;
    for (std::size_t done = 0; done < hashes.size() && whole;) {
      const auto out = std::as_writable_bytes(std::span(hashes)).subspan(done * 8, std::min(kMaxEntryBytes, (hashes.size() - done) * 8));
      auto got = of_disk(file_->read_at(kPagesEntriesAt + done * 8, out));
      if (!got) return tl::unexpected(got.error());
      whole = *got == out.size();
      done += out.size() / 8;
    }
    if constexpr (std::endian::native == std::endian::big) {
      for (auto& hash : hashes) hash = __builtin_bswap64(hash);
    }
    if (!whole) continue;
    PageTable table(header.state.page_size, std::move(hashes));
    if (!header.merging && table.sum() != header.state.page_sum) continue;
    found.push_back({std::move(header), std::move(table)});
  }
  return found;
}

Result<> PagesFile::write_header(const PagesHeader& header) {
  const std::uint64_t generation = generation_ + 1;
  auto slot = encode_pages_slot(header, generation);
  if (!slot) return tl::unexpected(slot.error());
  if (auto put = of_disk(file_->write_at((generation % 2) * kPagesSlotStride, *slot)); !put) return put;
  generation_ = generation;
  header_ = header;
  return {};
}

Result<> PagesFile::write_entries(const PageTable& table, std::vector<std::uint32_t> pages) {
  std::sort(pages.begin(), pages.end());
  std::vector<std::uint64_t> run;
  for (std::size_t i = 0; i < pages.size() && pages[i] <= table.page_count();) {
    std::size_t end = i + 1;
    while (end < pages.size() && pages[end] <= table.page_count() && pages[end] - pages[end - 1] <= kJoinWithin &&
           (pages[end] - pages[i] + 1) * std::size_t{8} <= kMaxEntryBytes)
      ++end;
    run.clear();
    for (std::uint32_t n = pages[i]; n <= pages[end - 1]; ++n) run.push_back(table.hash(n));
    if constexpr (std::endian::native == std::endian::big) {
      for (auto& hash : run) hash = __builtin_bswap64(hash);
    }
    if (ONEPEN_FAILPOINT("copy.table_merge_entries")) return io_failed("write", path_);
    const std::uint64_t at = kPagesEntriesAt + (std::uint64_t{pages[i]} - 1) * 8;
    if (auto put = of_disk(file_->write_at(at, std::as_bytes(std::span(run)))); !put) return put;
    i = end;
  }
  return {};
}

Result<> PagesFile::merge(PageTable& table, const CommitState& state, const WalPlace& at, const FileStamp& database, bool sync) {
  if (!table.changed().empty()) {
    PagesHeader merging = header_;
    merging.merging = true;
    merging.target = state;
    merging.target_at = at;
    if (ONEPEN_FAILPOINT("copy.table_merge_begins")) return io_failed("write", path_);
    // Again after a failure in the middle: what it says of the entries still holds, only the target is another.
    if (auto put = write_header(merging); !put) return put;
    if (ONEPEN_FAILPOINT("copy.table_merge_begun")) return io_failed("write", path_);
    if (auto put = write_entries(table, table.changed()); !put) return put;
    if (ONEPEN_FAILPOINT("copy.table_merge_ends")) return io_failed("write", path_);
  }
  PagesHeader merged;
  merged.state = state;
  merged.at = at;
  merged.database = database;
  if (auto put = write_header(merged); !put) return put;
  if (ONEPEN_FAILPOINT("copy.table_merged")) return io_failed("write", path_);
  if (sync) {
    if (auto synced = of_disk(file_->sync()); !synced) return synced;
  }
  table.forget_changes();
  return {};
}

Result<> PagesFile::write_all(PageTable& table, const CommitState& state, const WalPlace& at, const FileStamp& database, bool sync) {
  // Neither slot is to be believed while the entries change.
  const std::array<std::byte, kPagesSlotBytes> nothing{};
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}}) {
    if (auto put = of_disk(file_->write_at(index * kPagesSlotStride, nothing)); !put) return put;
  }
  if (ONEPEN_FAILPOINT("copy.table_written_anew")) return io_failed("write", path_);
  std::vector<std::uint32_t> all(table.page_count());
  for (std::uint32_t n = 0; n < table.page_count(); ++n) all[n] = n + 1;
  if (auto put = write_entries(table, std::move(all)); !put) return put;
  PagesHeader header;
  header.state = state;
  header.at = at;
  header.database = database;
  if (auto put = write_header(header); !put) return put;
  if (sync) {
    if (auto synced = of_disk(file_->sync()); !synced) return synced;
  }
  table.forget_changes();
  return {};
}

Result<> PagesFile::note_begun(std::uint32_t salt1, std::uint32_t salt2) {
  PagesHeader header = header_;
  header.begun = std::pair(salt1, salt2);
  if (ONEPEN_FAILPOINT("copy.wal_begun")) return io_failed("write", path_);
  return say(header, true);
}

Result<> PagesFile::say(const PagesHeader& header, bool sync) {
  if (auto put = write_header(header); !put || !sync) return put;
  return of_disk(file_->sync());
}

}  // namespace onepen::sqlite
