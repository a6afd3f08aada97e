#include "sqlite/copy_find.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/copy_damage.h"

namespace onepen::sqlite {
namespace {

constexpr std::size_t kDatabaseHeaderBytes = 100;
constexpr std::uint32_t kSampledPages = 16;  // or up to twice as many

struct Candidate {
  CommitState state;
  std::optional<WalPlace> place;
};

bool is_boundary(const WalContent& wal, std::uint32_t frame) {
  return frame == 0 || (frame <= wal.frames.size() && wal.frames[frame - 1].page_count_after != 0);
}

std::string tell_sum(const wire::RunningSum& sum) { return fmt::format("page sum {:016x} over {} pages", sum.page_sum, sum.page_count); }

class Finder {
 public:
  Finder(io::Disk& disk, const DatabaseFiles& files, const std::optional<CopyRecord>& record, const BootId& boot, PagesFile& pages)
      : disk_(disk), files_(files), record_(record), boot_(boot), pages_(pages) {}

  Result<FoundCopy> find() {
    if (auto looked = look(); !looked) return tl::unexpected(looked.error());
    auto tables = pages_.load();
    if (!tables) return tl::unexpected(tables.error());
    if (!record_) return without_record();
    auto damaged = look_behind_damage(disk_, files_.wal(), wal_, *record_, *tables);
    if (!damaged) return tl::unexpected(damaged.error());
    if (*damaged) return finish(std::move(**damaged));
    // A boot id of zeros tells nothing.
    const bool same_boot = record_->boot == boot_ && !(boot_ == BootId{});
    if (same_boot && record_->inode == stamp_.inode) {
      for (const auto& table : *tables) {
        auto found = try_table(table, false);
        if (!found.fits) continue;
        auto alike = samples_fit(table.table);
        if (!alike) return tl::unexpected(alike.error());
        if (*alike) return finish(std::move(found));
      }
    }
    if (auto scanned = scan(); !scanned) return tl::unexpected(scanned.error());
    for (const auto& table : *tables) {
      if (auto found = try_table(table, true); found.fits) return finish(std::move(found));
    }
    const PageTable whole = with_wal(0, kUnknownCount);
    if (auto found = end_only(whole); found.fits) return finish(std::move(found));
    return misfit(whole.running(), same_boot);
  }

 private:
  Result<> look() {
    auto wal = read_wal(disk_, files_.wal(), true);
    if (!wal) return tl::unexpected(wal.error());
    wal_ = std::move(*wal);
    auto stamp = stamp_of(disk_, files_.db);
    if (!stamp) return tl::unexpected(stamp.error());
    stamp_ = *stamp;
    // SQLite throws a WAL away whose database file is empty: a kill between our first batch and its folding.
    if (stamp_.size == 0 && wal_.page_count != 0) {
      auto db = open_on(disk_, files_.db, io::OpenMode::create);
      if (!db) return tl::unexpected(db.error());
      auto file = open_on(disk_, files_.wal(), io::OpenMode::read);
      if (!file) return tl::unexpected(file.error());
      if (auto folded = fold_wal(wal_, view_of(wal_, 0, 0), **file, **db, files_.db); !folded) return tl::unexpected(folded.error());
      if (ONEPEN_FAILPOINT("copy.acquire_folded")) return io_failed("fold", files_.db);
      stamp = stamp_of(disk_, files_.db);
      if (!stamp) return tl::unexpected(stamp.error());
      const bool was_none = stamp_.inode == 0;
      stamp_ = *stamp;
      if (was_none && record_) record_->inode = record_->inode == 0 ? stamp_.inode : record_->inode;
    }
    return {};
  }

  // Where the states that are spoken of come from: what the record says, and what the table says of itself.
  std::vector<Candidate> candidates(const PagesHeader* header) const {
    std::vector<Candidate> all = {{record_->next, record_->next_place}, {record_->previous, record_->previous_place}};
    if (header != nullptr && header->merging) all.push_back({header->target, header->target_at});
    else if (header != nullptr) all.push_back({header->state, header->at});
    for (std::size_t i = 1; i < all.size(); ++i) {  // the newest first; of equals the one that was named first
      for (std::size_t j = i; j > 0 && all[j].state.ordinal > all[j - 1].state.ordinal; --j) std::swap(all[j], all[j - 1]);
    }
    // A follower's copy that was read anew, in a history with fewer commits: what comes later in the WAL is the newer one all the same (Copy::begin_anew).
    if (record_->next.ordinal < record_->previous.ordinal) {
      const auto next = std::find_if(all.begin(), all.end(), [&](const Candidate& one) { return one.state == record_->next; });
      std::rotate(all.begin(), next, next + 1);
    }
    return all;
  }

  struct Start {
    std::uint32_t frame = 0;
    bool told = true;  // by the WAL's salts; false: only hashing everything can prove it, and nothing in it is taken for pending
  };
  // Somebody may have written another image of the database over this very file. A few of the pages that the WAL does not have tell, whatever its size.
  Result<bool> samples_fit(const PageTable& table) {
    if (table.page_count() == 0) return true;
    auto db = open_on(disk_, files_.db, io::OpenMode::read);
    if (!db) return db.error().outcome == Outcome::not_found ? Result<bool>(false) : tl::unexpected(db.error());
    std::unordered_set<std::uint32_t> in_wal;  // of those the file may have any version
    for (const WalFrame& frame : wal_.frames) in_wal.insert(frame.page_number);
    Bytes image(table.page_size());
    const std::uint32_t step = std::max<std::uint32_t>(1, table.page_count() / kSampledPages);
    for (std::uint32_t page = 1; page <= table.page_count(); page += step) {
      if (page == lock_byte_page(table.page_size()) || in_wal.contains(page)) continue;
      auto got = of_disk((*db)->read_at((page - 1) * std::uint64_t{table.page_size()}, image));
      if (!got) return tl::unexpected(got.error());
      if (*got < image.size()) break;  // it is only in the WAL so far
      const std::uint64_t hash = page_hash_of(page, image);
      if (hash != table.hash(page)) return false;
    }
    return true;
  }

  // The frame of the WAL before which the table's commits are all in the database; none: it cannot be.
  std::optional<Start> start_of(const PagesHeader& header, bool scanned) const {
    if (!wal_.valid()) return scanned || header.database == stamp_ ? std::optional(Start{}) : std::nullopt;
    if (header.state.page_count != 0 && header.state.page_size != wal_.page_size) return std::nullopt;
    if (same_salts(header.at, wal_)) return is_boundary(wal_, header.at.frame) ? std::optional(Start{header.at.frame}) : std::nullopt;
    if (header.begun && *header.begun == std::pair(wal_.salt1, wal_.salt2)) return Start{};
    return scanned ? std::optional(Start{0, false}) : std::nullopt;
  }

  std::optional<std::uint32_t> frame_of(const WalPlace& place, const PagesHeader& header, std::uint32_t start) const {
    if (same_salts(place, wal_)) return place.frame;
    if (!wal_.valid() && place == WalPlace{}) return start;
    if (place == header.at) return start;
    if (header.begun && place == WalPlace{header.begun->first, header.begun->second, 0}) return start;
    return std::nullopt;
  }

  // scanned: every page of the database file was hashed, and must fit as well.
  FoundCopy try_table(const PagesFile::Found& in, bool scanned) {
    FoundCopy out;
    const auto begins = start_of(in.header, scanned);
    if (!begins) return out;
    const std::uint32_t start = begins->frame;
    auto commits = commits_of(wal_, start, in.table);
    // Boundaries: [0] the table's own, [i] after the i-th commit. Those below `known` are of a table half merged: their sums mean nothing.
    std::size_t known = 0;
    const auto sum_at = [&](std::size_t i) { return i == 0 ? in.table.running() : wire::RunningSum{commits[i - 1].sum, commits[i - 1].page_count}; };
    const auto index_of = [&](std::uint32_t frame) -> std::optional<std::size_t> {
      if (frame == start) return 0;
      for (std::size_t i = 0; i < commits.size(); ++i) {
        if (commits[i].end == frame) return i + 1;
      }
      return std::nullopt;
    };
    if (in.header.merging) {
      const auto frame = frame_of(in.header.target_at, in.header, start);
      const auto target = frame ? index_of(*frame) : std::nullopt;
      if (!target || !(sum_at(*target) == wire::RunningSum{in.header.target.page_sum, in.header.target.page_count})) return out;
      known = *target;
    }
    // A WAL that may have begun upon another database than the table's: what lies in the file is not taken for gaps then.
    const std::uint32_t count_before = begins->told ? in.header.state.page_count : kUnknownCount;
    if (scanned && !(sum_at(commits.size()) == with_wal(start, count_before).running())) return out;
    std::optional<std::size_t> at;
    std::optional<Candidate> missed;
    Candidate chosen;
    for (const Candidate& candidate : candidates(&in.header)) {
      const auto matches = [&](std::size_t i) {
        return i >= known && sum_at(i) == wire::RunningSum{candidate.state.page_sum, candidate.state.page_count} &&
               (candidate.state.page_count == 0 || candidate.state.page_size == page_size_of(in.table));
      };
      if (!guard_on(Guard::copy_place_checked)) {
        for (std::size_t i = commits.size() + 1; i-- > 0 && !at;) {
          if (matches(i)) at = i;
        }
      } else if (!candidate.place) {
        // Only the end can be meant by a state without a place: everything in the WAL was acknowledged then.
        if (matches(commits.size())) at = commits.size();
      } else if (const auto frame = frame_of(*candidate.place, in.header, start)) {
        const auto index = index_of(*frame);
        if (index && *index >= known) {
          if (!matches(*index)) return out;  // it is there, and it is not what was written down
          at = index;
        }
      }
      if (at) {
        chosen = candidate;
        break;
      }
      if (!missed) missed = candidate;
    }
    if (!at) return out;
    bool repeats = false;  // what is in the database already
    if (!begins->told && *at != commits.size()) {
      // Nobody said that this WAL was begun upon the table. With the database file at the table's state its commits would fit upon any: an old WAL that came
      // back would be sent as if it were new, over what was committed since. It may only repeat what the database has.
      repeats = *at == 0 && sum_at(commits.size()) == in.table.running();
      if (!repeats) {
        foreign_ = true;
        return out;
      }
      commits.clear();
    }
    out.fits = true;
    out.state = chosen.state;
    if (start == 0 && !repeats) out.wal_began_with = in.header.state.page_count;
    out.header = in.header;
    name_wal(out, *begins, repeats);
    out.table = in.table;
    out.table.track_changes();
    for (std::size_t i = 0; i < *at; ++i) out.table.commit(commits[i].page_count, commits[i].hashes, wal_.page_size);
    if (repeats) out.place = {wal_.salt1, wal_.salt2, last_frame(wal_)};
    else if (wal_.valid()) out.place = {wal_.salt1, wal_.salt2, *at == 0 ? start : commits[*at - 1].end};
    commits.erase(commits.begin(), commits.begin() + static_cast<std::ptrdiff_t>(*at));
    out.pending = std::move(commits);
    if (missed && missed->state.ordinal > out.state.ordinal) out.missed = missed->state, out.missed_place = missed->place;
    out.scanned = scanned;
    return out;
  }

  // The file `pages` must name the WAL that there is, and no other: one that is gone would count by its salts when it comes back.
  void name_wal(FoundCopy& out, const Start& begins, bool repeats) const {
    PagesHeader& header = *out.header;
    if (!wal_.valid()) {
      out.header_stale = !header.merging && (header.begun || !(header.at == WalPlace{}));
      if (header.merging) return;
      header.begun.reset();
      header.at = {};
    } else if (!begins.told) {
      out.header_stale = true;
      header.at = repeats ? WalPlace{wal_.salt1, wal_.salt2, last_frame(wal_)} : WalPlace{};
      header.begun = repeats ? std::nullopt : std::optional(std::pair(wal_.salt1, wal_.salt2));
    }
  }

  std::uint32_t page_size_of(const PageTable& table) const { return table.page_size() != 0 ? table.page_size() : wal_.page_size; }

  // No table to begin with: only the end of the WAL is known, so it must be the end that was written down.
  FoundCopy end_only(const PageTable& scanned) {
    FoundCopy out;
    for (const Candidate& candidate : candidates(nullptr)) {
      const CommitState& state = candidate.state;
      const bool alike = state.page_count == 0
                             ? stamp_.size == 0 && wal_.page_count == 0
                             : scanned.running() == wire::RunningSum{state.page_sum, state.page_count} && state.page_size == scanned.page_size();
      if (!alike) continue;
      const bool at_end = !candidate.place || wal_.frames.empty() || (same_salts(*candidate.place, wal_) && candidate.place->frame == last_frame(wal_)) ||
                          !guard_on(Guard::copy_place_checked);
      if (!at_end) continue;
      out.fits = true;
      out.state = state;
      out.table = scanned;
      if (wal_.valid()) out.place = {wal_.salt1, wal_.salt2, last_frame(wal_)};
      if (state.ordinal < record_->next.ordinal) out.missed = record_->next, out.missed_place = record_->next_place;
      out.scanned = true;
      return out;
    }
    return out;
  }

  Result<FoundCopy> finish(FoundCopy found) {
    auto dropped = found.fits ? commits_behind_end(disk_, files_.wal(), wal_) : 0;
    if (!dropped) return tl::unexpected(dropped.error());
    found.dropped = *dropped;
    found.wal_valid = wal_.valid();
    found.wal_pages.reserve(wal_.frames.size());
    for (const WalFrame& frame : wal_.frames) found.wal_pages.push_back(frame.page_number);
    return found;
  }

  Result<FoundCopy> without_record() {
    FoundCopy out;
    if (stamp_.size == 0 && wal_.page_count == 0) {
      out.fits = true;
      return finish(std::move(out));
    }
    out.why = "there is a database but no whole state file beside it";
    out.pending_known = false;
    note_unsent(out);
    return finish(std::move(out));
  }

  Result<FoundCopy> misfit(const wire::RunningSum& sum, bool same_boot) {
    FoundCopy out;
    out.database = database_;
    std::string_view since = "; somebody else wrote to it";
    if (!same_boot) since = "; the machine was restarted since";
    else if (record_->inode == 0) since = "; a sync of it had failed";
    out.why = fmt::format("the database has {} with {} frames in its WAL, its state says {} (commit {}){}", tell_sum(sum), wal_.frames.size(),
                          tell_sum({record_->next.page_sum, record_->next.page_count}), record_->next.ordinal, since);
    if (foreign_) {
      out.why = fmt::format(
          "the WAL beside the database, of {} frames, does not belong to this database file: it is not the one that was begun upon it (an older one that came "
          "back, or one of another file). The state of the database is commit {}",
          wal_.frames.size(), record_->next.ordinal);
    }
    note_unsent(out);
    return finish(std::move(out));
  }

  // For the manifest only: the commits behind the place that the record names, or all of them.
  void note_unsent(FoundCopy& out) {
    std::uint32_t after = 0;
    if (wal_.valid()) out.place = {wal_.salt1, wal_.salt2, 0};
    const std::optional<WalPlace> place = record_ ? (record_->next_place ? record_->next_place : record_->previous_place) : std::nullopt;
    if (place && same_salts(*place, wal_) && is_boundary(wal_, place->frame)) after = place->frame;
    else if (!wal_.frames.empty()) out.pending_known = false;
    out.pending = commits_of(wal_, after, PageTable(wal_.page_size));
    for (WalCommit& commit : out.pending) commit.sum = 0;  // not known
  }

  // Every page of the database file as it lies there.
  Result<> scan() {
    database_ = FoundDatabase{{}, 0, stamp_.size, stamp_.inode};
    if (stamp_.size == 0) return {};
    auto db = open_on(disk_, files_.db, io::OpenMode::read);
    if (!db) return tl::unexpected(db.error());
    std::uint32_t page_size = wal_.page_count != 0 ? wal_.page_size : 0;
    if (page_size == 0) {
      std::array<std::byte, kDatabaseHeaderBytes> header{};
      if (auto got = of_disk((*db)->read_at(0, header)); !got) return tl::unexpected(got.error());
      page_size = std::to_integer<std::uint32_t>(header[16]) << 8 | std::to_integer<std::uint32_t>(header[17]);
      if (page_size == 1) page_size = wire::kMaxPageSize;  // how the format writes 65536
      if (!wire::valid_page_size(page_size)) page_size = wire::kMinPageSize;  // no database; its sum fits nothing
    }
    auto table = scan_pages(**db, page_size, static_cast<std::uint32_t>((stamp_.size + page_size - 1) / page_size));
    if (!table) return tl::unexpected(table.error());
    lying_ = std::move(*table);
    return {};
  }

  // What the scan found, with what the WAL makes of it.
  PageTable with_wal(std::uint32_t after, std::uint32_t count_before) {
    PageTable table = lying_;
    const WalView view = view_of(wal_, after, count_before);
    if (view.page_count != 0) {
      std::vector<PageHash> changed;
      changed.reserve(view.frame_of.size());
      for (const auto& [page, frame] : view.frame_of) {
        changed.emplace_back(page, frame == 0 ? table.zero_hash(page, wal_.page_size) : wal_.frames[frame - 1].hash);
      }
      table.commit(view.page_count, changed, wal_.page_size);
    }
    database_->page_size = table.page_size();
    database_->sum = table.running();
    return table;
  }

  io::Disk& disk_;
  const DatabaseFiles& files_;
  std::optional<CopyRecord> record_;
  BootId boot_;
  PagesFile& pages_;
  WalContent wal_;
  FileStamp stamp_;
  PageTable lying_;
  bool foreign_ = false;  // a table fits, but for a WAL that is not its own
  std::optional<FoundDatabase> database_;
};

}  // namespace

std::vector<WalCommit> commits_of(const WalContent& wal, std::uint32_t after, const PageTable& table) {
  std::vector<WalCommit> commits;
  PagesAhead ahead(table);
  std::uint32_t begin = after;
  for (std::uint32_t i = after; i < wal.frames.size(); ++i) {
    if (wal.frames[i].page_count_after == 0) continue;
    WalCommit commit;
    commit.begin = begin;
    commit.end = begin = i + 1;
    commit.page_count = wal.frames[i].page_count_after;
    commit.bytes = (commit.end - commit.begin) * std::uint64_t{wal.page_size + kWalFrameHeaderBytes};
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pages;  // page, frame
    for (std::uint32_t f = commit.begin; f < commit.end; ++f) {
      if (wal.frames[f].page_number <= commit.page_count) pages.emplace_back(wal.frames[f].page_number, f);
    }
    std::sort(pages.begin(), pages.end());
    for (std::size_t p = 0; p < pages.size(); ++p) {  // the last frame of a page counts
      if (p + 1 == pages.size() || pages[p + 1].first != pages[p].first) commit.hashes.emplace_back(pages[p].first, wal.frames[pages[p].second].hash);
    }
    ahead.commit(commit.page_count, commit.hashes, wal.page_size);
    commit.sum = ahead.running().page_sum;
    commits.push_back(std::move(commit));
  }
  return commits;
}

Result<FoundCopy> find_copy(io::Disk& disk, const DatabaseFiles& files, const std::optional<CopyRecord>& record, const BootId& boot, PagesFile& pages) {
  return Finder(disk, files, record, boot, pages).find();
}

}  // namespace onepen::sqlite
