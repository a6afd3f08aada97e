#include "sqlite/import.h"

#include <fmt/format.h>

#include "sqlite/copy_file.h"
#include "sqlite/page_sum.h"
#include "sqlite/plain_sqlite.h"

namespace onepen::sqlite {
namespace {

constexpr int kBackupPages = 4096;  // a step of the backup: between two of them others may write, which begins it anew
constexpr int kBackupPauseMs = 20;  // between tries at a locked file
constexpr int kBackupTries = 250;
constexpr std::size_t kHeaderBytes = 100;
constexpr std::uint32_t kProgressPages = 4096;

tl::unexpected<Error> invalid(std::string what) { return tl::unexpected(Error{Outcome::invalid, std::move(what), std::nullopt}); }

struct RemoveAtEnd {
  std::string path;
  ~RemoveAtEnd() {
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) static_cast<void>(remove_file(path + suffix));
  }
};

// The pages of a backup in progress belong to `to`; the source stays readable and writable for others.
Result<> copy_pages(sqlite3* from, sqlite3* to, const std::string& file, const std::string& scratch, const ProgressFn& progress) {
  sqlite3_backup* backup = sqlite3_backup_init(to, "main", from, "main");
  if (backup == nullptr) return tl::unexpected(plain_error(sqlite3_errcode(to), "write", scratch, sqlite3_errmsg(to)));
  int code = SQLITE_OK, tries = 0;
  while (code == SQLITE_OK || ((code == SQLITE_BUSY || code == SQLITE_LOCKED) && ++tries < kBackupTries)) {
    if (code != SQLITE_OK) sqlite3_sleep(kBackupPauseMs);
    code = sqlite3_backup_step(backup, kBackupPages);
    const auto total = static_cast<std::uint64_t>(sqlite3_backup_pagecount(backup));
    if (progress) progress({"copy", total - static_cast<std::uint64_t>(sqlite3_backup_remaining(backup)), total, "pages"});
  }
  sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE) return {};
  return tl::unexpected(plain_error(code, "copy", file, sqlite3_errstr(code)));
}

Result<> copy_consistently(const std::string& file, const std::string& scratch, const ProgressFn& progress) {
  if (!file_exists(file)) return tl::unexpected(Error{Outcome::not_found, fmt::format("there is no file {}", file), std::nullopt});
  auto from = open_plain(file, SQLITE_OPEN_READONLY);
  if (!from) return tl::unexpected(from.error());
  auto pages = plain_value(from->get(), file, "PRAGMA page_count");
  if (!pages) return tl::unexpected(pages.error());
  if (*pages == "0") return invalid(fmt::format("{} is empty: there is nothing to import. Open the name to make a new database", file));
  auto to = open_plain(scratch, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!to) return tl::unexpected(to.error());
  if (auto off = plain_value(to->get(), scratch, "PRAGMA journal_mode=OFF"); !off) return tl::unexpected(off.error());
  if (auto off = plain_value(to->get(), scratch, "PRAGMA synchronous=OFF"); !off) return tl::unexpected(off.error());
  if (auto copied = copy_pages(from->get(), to->get(), file, scratch, progress); !copied) return copied;
  auto check = plain_value(to->get(), file, "PRAGMA quick_check(1)");
  if (!check) return tl::unexpected(check.error());
  if (*check != "ok") return tl::unexpected(plain_error(SQLITE_CORRUPT, "check", file, check->c_str()));
  return {};
}

struct Shape {
  std::uint32_t page_size = 0, page_count = 0;
};
Result<Shape> shape_of(int fd, const std::string& path) {
  auto size = file_size(fd, path);
  if (!size) return tl::unexpected(size.error());
  std::array<std::byte, kHeaderBytes> header{};
  if (auto got = read_at(fd, 0, header, path); !got) return tl::unexpected(got.error());
  Shape shape;
  shape.page_size = std::to_integer<std::uint32_t>(header[16]) << 8 | std::to_integer<std::uint32_t>(header[17]);
  if (shape.page_size == 1) shape.page_size = wire::kMaxPageSize;
  if (!wire::valid_page_size(shape.page_size) || *size % shape.page_size != 0 || *size / shape.page_size > wire::kMaxPageCount) {
    return invalid(fmt::format("{} has {} bytes and pages of {}", path, *size, shape.page_size));
  }
  shape.page_count = static_cast<std::uint32_t>(*size / shape.page_size);
  return shape;
}

}  // namespace

Result<ImportReport> import_database(const std::string& file, const std::string& scratch, const wire::PartEncoder::Sink& sink, const ProgressFn& progress) {
  const RemoveAtEnd before{scratch};
  {
    const RemoveAtEnd left_over{scratch};
  }
  if (auto copied = copy_consistently(file, scratch, progress); !copied) return tl::unexpected(copied.error());
  auto db = open_file(scratch, OpenMode::read);
  if (!db) return tl::unexpected(db.error());
  auto shape = shape_of(db->fd(), scratch);
  if (!shape) return tl::unexpected(shape.error());
  ImportReport report;
  report.bytes = std::uint64_t{shape->page_count} * shape->page_size;
  wire::PageCodec codec;
  wire::PartEncoder encoder(codec, {.ordinal = 1, .page_size = shape->page_size, .page_count_after = shape->page_count, .before = {}}, [&](Bytes part) {
    report.sent_bytes += part.size();
    return sink(std::move(part));
  });
  Bytes image(shape->page_size);
  std::uint64_t sum = 0;
  for (std::uint32_t n = 1; n <= shape->page_count; ++n) {
    if (n == lock_byte_page(shape->page_size)) continue;
    auto got = read_at(db->fd(), (std::uint64_t{n} - 1) * shape->page_size, image, scratch);
    if (!got) return tl::unexpected(got.error());
    if (*got != image.size()) return invalid(fmt::format("{} got shorter while it was read", scratch));
    if (n == 1) image[18] = image[19] = std::byte{2};  // from now on it is written through a WAL
    sum += page_hash_of(n, image);
    if (auto added = encoder.add(n, image); !added) return tl::unexpected(added.error());
    if (progress && n % kProgressPages == 0) progress({"send", std::uint64_t{n} * shape->page_size, report.bytes, {}});
  }
  if (auto done = encoder.finish(sum); !done) return tl::unexpected(done.error());
  report.parts = encoder.parts();
  report.state = {.offset = {}, .incarnation = {}, .ordinal = 1, .page_sum = sum, .page_count = shape->page_count, .page_size = shape->page_size};
  return report;
}

Result<ImportReport> import_through(Runtime& runtime, owner::Owner& owner, const Copy& copy, const std::string& file, std::chrono::nanoseconds part_timeout,
                                    const ProgressFn& progress) {
  if (copy.state().ordinal != 0) {
    return tl::unexpected(Error{Outcome::state_mismatch,
                                fmt::format("the database already holds {} commits: import makes a new one, so choose another name", copy.state().ordinal),
                                std::nullopt});
  }
  owner::Ticket last = 0;
  auto report = import_database(
      file, copy.folder() + "/import",
      [&](Bytes part) -> Result<> {
        auto ticket = owner.submit(std::move(part), runtime.now() + part_timeout);
        if (!ticket) return tl::unexpected(ticket.error());
        last = *ticket;
        return {};
      },
      progress);
  if (!report) return report;
  const owner::Fate fate = owner.wait(last, runtime.now() + part_timeout, nullptr);
  if (fate.kind != owner::Fate::Kind::acknowledged) {
    return tl::unexpected(
        fate.error.value_or(Error{Outcome::unknown, "the home did not say whether the import is in the stream: `onepen status` tells", std::nullopt}));
  }
  report->state.offset = fate.offset;
  static_cast<void>(parse(owner.status().token.incarnation, report->state.incarnation));
  return report;
}

}  // namespace onepen::sqlite
