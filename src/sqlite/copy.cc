#include "sqlite/copy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <optional>

#include "base/failpoint.h"
#include "owner/claim_log.h"
#include "sqlite/apply.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"

namespace onepen::sqlite {
namespace {

constexpr std::size_t kDatabaseHeaderBytes = 100;

std::uint64_t inode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

wire::RunningSum running(const CommitState& state) { return {state.page_sum, state.page_count}; }

class LocalCopy final : public Copy {
 public:
  LocalCopy(Runtime& runtime, io::Disk& disk, CopyPlace place, Log log, CopyFolder folder)
      : runtime_(runtime), disk_(disk), place_(std::move(place)), log_(std::move(log)), folder_(std::move(folder)), files_{folder_.path + "/db"} {}
  ~LocalCopy() override { static_cast<void>(close()); }

  Result<> load();

  const std::string& db_path() const override { return files_.db; }
  const std::string& folder() const override { return folder_.path; }
  const CommitState& state() const override { return applier_->state(); }
  std::uint64_t page_hash(std::uint32_t page_number) const override { return applier_->table().hash(page_number); }
  Result<> will_land(const CommitState& next, std::vector<PageHash> hashes) override;
  Result<> poison(std::string_view why) override;
  Result<> close() override;

  Offset position() const override { return applier_->position(); }
  Result<> apply(const core::Record& record) override;
  Result<> start_over() override;
  Result<> settle() override;

  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) override { return claims_->write_ahead(request, incarnation); }
  Epoch highest() const override { return claims_->highest(); }

 private:
  Result<> begin(PageTable table, CommitState state);
  Result<> begin_empty();
  Result<FoundDatabase> fold_and_scan(PageTable& table);
  Result<> set_aside(std::string kind, std::string why, std::optional<FoundDatabase> found);
  Result<> remember(const CommitState& previous, const CommitState& next);
  Result<> after_failure(Result<> done);

  Runtime& runtime_;
  io::Disk& disk_;
  CopyPlace place_;
  Log log_;
  CopyFolder folder_;
  DatabaseFiles files_;
  std::optional<StateFile> state_file_;
  std::optional<Applier> applier_;
  std::unique_ptr<owner::DiskClaimLog> claims_;
  BootId boot_ = current_boot_id();
  bool from_scratch_ = false;  // holds nothing but what it read from the stream since it was acquired empty
};

Result<> LocalCopy::load() {
  auto claims = owner::DiskClaimLog::open(disk_, folder_.path + "/claims");
  if (!claims) return tl::unexpected(claims.error());
  claims_ = std::move(*claims);
  auto opened = StateFile::open(folder_.path + "/state");
  if (!opened) return tl::unexpected(opened.error());
  state_file_.emplace(std::move(*opened));
  const auto record = state_file_->record();
  // Scrap: a batch that was never made to count.
  if (auto removed = remove_file(files_.batch()); !removed) return removed;
  if (record && record->poisoned) {
    if (auto aside = set_aside("diverged", "this copy was marked as not to be trusted: " + record->why, std::nullopt); !aside) return aside;
    return begin_empty();
  }
  PageTable table;
  auto found = fold_and_scan(table);
  if (!found) return tl::unexpected(found.error());
  if (!record) {
    if (found->bytes == 0) return begin_empty();
    if (auto aside = set_aside("diverged", "there is a database but no whole state file beside it", *found); !aside) return aside;
    return begin_empty();
  }
  // After a kill the database is what it was about to be, or what it was before. When both are alike (a commit that changed nothing) the later counts.
  for (const CommitState* state : {&record->next, &record->previous}) {
    if (running(*state) == found->sum && (state->page_count == 0 ? found->bytes == 0 : state->page_size == found->page_size)) {
      if (state->page_count == 0) from_scratch_ = true;
      return begin(std::move(table), *state);
    }
  }
  const std::string why = fmt::format("the database has page sum {:016x} over {} pages, its state says {:016x} over {} pages (commit {}){}",
                                      found->sum.page_sum, found->sum.page_count, record->next.page_sum, record->next.page_count, record->next.ordinal,
                                      record->boot == boot_ ? "; somebody else wrote to it" : "; the machine was restarted since");
  if (auto aside = set_aside("diverged", why, *found); !aside) return aside;
  return begin_empty();
}

// Brings the database file to what SQLite's own recovery would find, and hashes every page of it.
Result<FoundDatabase> LocalCopy::fold_and_scan(PageTable& table) {
  FoundDatabase found;
  auto wal = read_wal(files_.wal());
  if (!wal) return tl::unexpected(wal.error());
  if (!file_exists(files_.db) && wal->page_count == 0) return found;
  auto db = open_file(files_.db, OpenMode::create);
  if (!db) return tl::unexpected(db.error());
  if (wal->page_count != 0) {
    auto wal_file = open_file(files_.wal(), OpenMode::read);
    if (!wal_file) return tl::unexpected(wal_file.error());
    if (auto folded = fold_wal(*wal, wal_file->fd(), files_.wal(), db->fd(), files_.db); !folded) return tl::unexpected(folded.error());
    if (auto synced = sync_file(db->fd(), files_.db); !synced) return tl::unexpected(synced.error());
  }
  if (ONEPEN_FAILPOINT("copy.acquire_folded")) return tl::unexpected(file_error("fold", files_.db, 5));
  // Everything of the WAL is in the database now; the shared memory speaks of a WAL that is gone.
  if (auto removed = remove_file(files_.wal()); !removed) return tl::unexpected(removed.error());
  if (auto removed = remove_file(files_.shm()); !removed) return tl::unexpected(removed.error());
  auto size = file_size(db->fd(), files_.db);
  if (!size) return tl::unexpected(size.error());
  found.bytes = *size;
  found.inode = inode_of(files_.db);
  if (*size == 0) return found;
  std::array<std::byte, kDatabaseHeaderBytes> header{};
  if (auto got = read_at(db->fd(), 0, header, files_.db); !got) return tl::unexpected(got.error());
  found.page_size = std::to_integer<std::uint32_t>(header[16]) << 8 | std::to_integer<std::uint32_t>(header[17]);
  if (found.page_size == 1) found.page_size = wire::kMaxPageSize;  // how the format writes 65536
  if (!wire::valid_page_size(found.page_size)) found.page_size = wire::kMinPageSize;  // no database; its sum fits nothing
  const auto pages = static_cast<std::uint32_t>((*size + found.page_size - 1) / found.page_size);
  auto scanned = scan_pages(db->fd(), found.page_size, pages, files_.db);
  if (!scanned) return tl::unexpected(scanned.error());
  table = std::move(*scanned);
  found.sum = table.running();
  return found;
}

Result<> LocalCopy::set_aside(std::string kind, std::string why, std::optional<FoundDatabase> found) {
  Salvage salvage{std::move(kind), std::move(why), place_, folder_.path, state_file_->record(), found};
  auto where = move_aside(runtime_, disk_, salvage);
  if (!where) return tl::unexpected(where.error());
  log_(LogLevel::warn,
       fmt::format("the local copy of '{}' was moved to {}: {}. The database is rebuilt from its stream", place_.name.text(), *where, salvage.why));
  auto fresh = StateFile::open(folder_.path + "/state");
  if (!fresh) return tl::unexpected(fresh.error());
  state_file_.emplace(std::move(*fresh));
  return {};
}

Result<> LocalCopy::begin_empty() {
  from_scratch_ = true;
  return begin(PageTable{}, CommitState{});
}

Result<> LocalCopy::begin(PageTable table, CommitState state) {
  if (auto kept = remember(state, state); !kept) return kept;
  applier_.emplace(files_, std::move(table), std::move(state), [this](const CommitState& settled, const CommitState& next) { return remember(settled, next); });
  return {};
}

Result<> LocalCopy::remember(const CommitState& previous, const CommitState& next) {
  return state_file_->write(CopyRecord{previous, next, boot_, inode_of(files_.db), false, {}}, false);
}

Result<> LocalCopy::will_land(const CommitState& next, std::vector<PageHash> hashes) {
  from_scratch_ = false;
  return applier_->landed(next, hashes);
}

Result<> LocalCopy::poison(std::string_view why) {
  CopyRecord record{applier_->state(), applier_->state(), boot_, inode_of(files_.db), true, std::string(why)};
  log_(LogLevel::error, fmt::format("the local copy {} is not trusted any more: {}", folder_.path, why));
  return state_file_->write(record, true);
}

Result<> LocalCopy::apply(const core::Record& record) { return after_failure(applier_->apply(record)); }
Result<> LocalCopy::settle() { return after_failure(applier_->settle()); }

// A copy that does not fit its stream would fail at every opening: it is moved aside at the next one, and rebuilt. Not so when it came whole from this
// very stream: then the stream itself is wrong, and rebuilding would end here again.
Result<> LocalCopy::after_failure(Result<> done) {
  if (done || done.error().outcome != Outcome::state_mismatch) return done;
  if (from_scratch_) {
    done.error().message += "; the database was read from the beginning of the stream, so the stream itself is damaged: see `onepen verify`";
    return done;
  }
  auto poisoned = poison(done.error().message);
  done.error().message += poisoned ? "; open it again: the local copy is moved aside and rebuilt" : "; and " + poisoned.error().message;
  return done;
}

Result<> LocalCopy::start_over() {
  const bool holds_commits = applier_->state().ordinal != 0;
  applier_.reset();  // closes its files
  if (holds_commits) {
    auto aside = set_aside("rewound", "the stream no longer has the position up to which this copy was read", std::nullopt);
    if (!aside) return aside;
  }
  return begin_empty();
}

Result<> LocalCopy::close() {
  folder_.lock.close();
  return {};
}

}  // namespace

Result<std::unique_ptr<Copy>> Copy::acquire(Runtime& runtime, io::Disk& disk, const CopyPlace& place, const Log& log) {
  auto folder = choose_copy(disk, place, log);
  if (!folder) return tl::unexpected(folder.error());
  auto copy = std::make_unique<LocalCopy>(runtime, disk, place, log, std::move(*folder));
  if (auto loaded = copy->load(); !loaded) return tl::unexpected(loaded.error());
  return copy;
}

}  // namespace onepen::sqlite
