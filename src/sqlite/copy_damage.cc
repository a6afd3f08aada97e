#include "sqlite/copy_damage.h"

#include <fmt/format.h>

#include <algorithm>

namespace onepen::sqlite {
namespace {

constexpr std::uint32_t kDamageFrames = 64;  // damage longer than this is taken for the end of the WAL: what lies behind an end is mostly an older WAL's

// Where the newest commit ends of which it was written down that the stream has it, in each WAL that is named; the tables' own beginnings count as such.
std::vector<WalPlace> named_places(const WalContent& wal, const CopyRecord& record, const std::vector<PagesFile::Found>& tables) {
  std::vector<WalPlace> all;
  const auto add = [&](const WalPlace& place) {
    if (place == WalPlace{} || (wal.valid() && !same_salts(place, wal))) return;
    for (WalPlace& one : all) {
      if (one.salt1 != place.salt1 || one.salt2 != place.salt2) continue;
      one.frame = std::max(one.frame, place.frame);
      return;
    }
    all.push_back(place);
  };
  for (const auto& place : {record.next_place, record.previous_place}) add(place.value_or(WalPlace{}));
  for (const auto& table : tables) {
    add(table.header.at);
    add(table.header.target_at);
    if (table.header.begun) add({table.header.begun->first, table.header.begun->second, 0});
  }
  return all;
}

}  // namespace

Result<std::optional<FoundCopy>> look_behind_damage(io::Disk& disk, const std::string& path, const WalContent& wal, const CopyRecord& record,
                                                    const std::vector<PagesFile::Found>& tables) {
  const std::uint32_t page_size = wal.valid() ? wal.page_size : record.next.page_size;
  if (page_size == 0) return std::nullopt;
  for (const WalPlace& place : named_places(wal, record, tables)) {
    if (wal.valid() && last_frame(wal) >= place.frame) continue;
    auto raw = raw_commits(disk, path, page_size, place.salt1, place.salt2, place.frame);
    if (!raw) return tl::unexpected(raw.error());
    if (raw->empty()) continue;
    FoundCopy out;
    out.place = place;
    out.pending_known = false;
    std::uint32_t begin = place.frame;
    for (const RawCommit& commit : *raw) {
      WalCommit unsent;
      unsent.begin = begin, unsent.end = begin = commit.end;
      unsent.page_count = commit.page_count;
      unsent.bytes = (unsent.end - unsent.begin) * std::uint64_t{page_size + kWalFrameHeaderBytes};
      for (const std::uint32_t page : commit.pages) unsent.hashes.emplace_back(page, 0);
      out.pending.push_back(std::move(unsent));
    }
    const std::string where = wal.valid() ? fmt::format("at frame {}", wal.whole + 1) : std::string("in its header");
    out.why = fmt::format("the WAL of the database is damaged {}, in front of at least {} commit{} behind commit {} that nobody has sent: SQLite would drop {}",
                          where, raw->size(), raw->size() == 1 ? "" : "s", record.next.ordinal, raw->size() == 1 ? "it" : "them");
    return out;
  }
  return std::nullopt;
}

Result<std::uint64_t> commits_behind_end(io::Disk& disk, const std::string& path, const WalContent& wal) {
  if (!wal.valid()) return 0;
  auto raw = raw_commits(disk, path, wal.page_size, wal.salt1, wal.salt2, last_frame(wal), kDamageFrames);
  if (!raw) return tl::unexpected(raw.error());
  return raw->size();
}

}  // namespace onepen::sqlite
