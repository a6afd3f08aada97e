#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/failpoint.h"
#include "base/guard.h"
#include "sqlite/messages.h"
#include "sqlite/vfs_file.h"
#include "sqlite/wal_file.h"

namespace onepen::sqlite {
namespace {

void write_be32(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

WalFile* wal_file(sqlite3_file* file) { return static_cast<WalFile*>(file); }

}  // namespace

WalFile::WalFile(sqlite3_file* real, MainFile* main) : sqlite3_file{&kMethods}, real_(real), main_(main), files_(real, main) {}

int ConnectionFiles::read_slot(WalSlot slot, std::span<std::byte> image) {
  const auto page_size = static_cast<std::uint32_t>(image.size());
  const auto offset = wal_slot_offset(page_size, slot) + static_cast<std::int64_t>(kWalFrameHeaderBytes);
  return wal_->pMethods->xRead(wal_, image.data(), static_cast<int>(image.size()), offset);
}

int ConnectionFiles::read_database_page(std::uint32_t number, std::span<std::byte> image) {
  sqlite3_file* database = main_->real();
  const auto offset = static_cast<std::int64_t>(number - 1) * static_cast<std::int64_t>(image.size());
  const int rc = database->pMethods->xRead(database, image.data(), static_cast<int>(image.size()), offset);
  return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : rc;  // the rest was filled with zeros
}

int ConnectionFiles::reserve(WalSlot slot, std::span<const std::byte> image) {
  static constexpr std::array<std::uint8_t, kWalFrameHeaderBytes> kNoFrame{};  // page 0: recovery stops here
  const auto offset = wal_slot_offset(static_cast<std::uint32_t>(image.size()), slot);
  if (const int rc = wal_->pMethods->xWrite(wal_, kNoFrame.data(), static_cast<int>(kNoFrame.size()), offset); rc != SQLITE_OK) return rc;
  const auto page_at = offset + static_cast<std::int64_t>(kWalFrameHeaderBytes);
  if (const int rc = wal_->pMethods->xWrite(wal_, image.data(), static_cast<int>(image.size()), page_at); rc != SQLITE_OK) return rc;
  sqlite3_file* database = main_->real();
  void volatile* region = nullptr;
  return database->pMethods->xShmMap(database, wal_index_region(slot), kIndexRegionBytes, 1, &region);
}

int ConnectionFiles::write_frame_header(WalSlot slot, std::span<const std::uint8_t> header) {
  const auto offset = wal_slot_offset(main_->database().page_size(), slot);
  return wal_->pMethods->xWrite(wal_, header.data(), static_cast<int>(header.size()), offset);
}

// Between the acknowledgement and the release of the write lock no local error is told: the transaction is in the stream.
int WalFile::after_commit(int rc, const char* what) {
  if (rc == SQLITE_OK || !main_->landed()) return rc;
  OpenDatabase& database = main_->database();
  std::string sentence =
      fmt::format("The local copy {} failed after the commit was acknowledged ({}, SQLite code {}). The transaction is in the stream: open the database again.",
                  database.path(), what, rc);
  database.poison(what);
  database.reset(ResetKind::broken, sentence);
  refuse(std::move(sentence));
  return SQLITE_OK;
}

// SQLite counts the checksums of a transaction's frames anew when pages of it that were spilled have been rewritten (wal.c, walRewriteChecksums); it begins by
// reading the checksum of the frame before the first of them: 8 bytes, the only such read. SQLite up to 3.40.1 at least may be wrong about which is the first,
// after ROLLBACK TO: then frames of the transaction keep a header without checksum, and after a kill its own recovery would lose this commit and every later
// one of this WAL, although it answered that they are committed. So whatever is wrong up to that frame is set right here, and SQLite goes on from there.
int WalFile::read_checksum(void* bytes, sqlite3_int64 offset) {
  const std::uint32_t page_size = main_->database().page_size();
  const WalWrite at = classify_wal_write(page_size, offset - 16, static_cast<int>(kWalFrameHeaderBytes));
  const WalSlot last = at.kind == WalWriteKind::frame_header ? std::min(at.slot, main_->commit_frame()->slot) : 0;
  if (last <= main_->chain_begin()) return real_->pMethods->xRead(real_, bytes, 8, offset);
  WalChecksum sum = main_->chain();
  const auto [salt1, salt2] = main_->database().capture().frames().salts();
  std::array<std::uint8_t, 16> wanted{};  // salts and checksum, as they stand in a frame's header behind page number and page count
  std::vector<std::uint8_t> frame(kWalFrameHeaderBytes + page_size);
  for (WalSlot slot = main_->chain_begin() + 1; slot <= last; ++slot) {
    const sqlite3_int64 begin = wal_slot_offset(page_size, slot);
    if (const int rc = real_->pMethods->xRead(real_, frame.data(), static_cast<int>(frame.size()), begin); rc != SQLITE_OK)
      return after_commit(rc, "reading the WAL");
    const ByteView whole = std::as_bytes(std::span(frame));
    sum.add(whole.first(8), std::endian::native == std::endian::big);
    sum.add(whole.subspan(kWalFrameHeaderBytes), std::endian::native == std::endian::big);
    write_be32(&wanted[0], salt1);
    write_be32(&wanted[4], salt2);
    write_be32(&wanted[8], sum.one);
    write_be32(&wanted[12], sum.two);
    if (std::equal(wanted.begin(), wanted.end(), frame.begin() + 8)) continue;
    std::copy(wanted.begin(), wanted.end(), frame.begin() + 8);
    const int rc = real_->pMethods->xWrite(real_, frame.data(), static_cast<int>(kWalFrameHeaderBytes), begin);
    if (rc != SQLITE_OK) return after_commit(rc, "rewriting checksums of the WAL");
    if (slot != main_->commit_frame()->slot) continue;
    CommitFrameHeader header = *main_->commit_frame();
    std::copy_n(frame.begin(), header.bytes.size(), header.bytes.begin());
    main_->note_commit_frame(header);
  }
  auto* out = static_cast<std::uint8_t*>(bytes);
  std::copy_n(wanted.begin() + 8, 8, out);
  return SQLITE_OK;
}

int WalFile::read(void* bytes, int size, sqlite3_int64 offset) {
  if (size == 8 && main_->write_locked() && main_->commit_frame()) return read_checksum(bytes, offset);
  const int rc = real_->pMethods->xRead(real_, bytes, size, offset);
  return rc == SQLITE_OK ? rc : after_commit(rc, "reading the WAL");
}

int WalFile::write_captured(const std::uint8_t* bytes, int size, sqlite3_int64 offset) {
  OpenDatabase& database = main_->database();
  const std::uint32_t page_size = database.page_size();
  Capture& capture = database.capture();
  const WalWrite write = classify_wal_write(page_size, offset, size);
  // Whatever SQLite does in a mode we do not know: a commit whose beginning was not seen is never told to be one.
  if (!main_->write_locked()) return refuse(exclusive_sentence());
  if (main_->landed()) return after_commit(real_->pMethods->xWrite(real_, bytes, size, offset), "rewriting checksums of the WAL");
  if (const auto reset = database.current_reset()) return refuse(reset->message + " This transaction can only be rolled back.");
  if (database.local()) return write_local(write, bytes, size, offset);
  const auto held = std::exchange(held_, std::nullopt);
  if (held) {
    if (write.kind != WalWriteKind::frame_page || write.slot != held->slot)
      return refuse("SQLite wrote the WAL in an order that Onepen does not know; this commit was refused.");
    if (ONEPEN_FAILPOINT("capture.after_header")) return SQLITE_IOERR_WRITE;
    const int rc = capture.commit(files_, *held, std::as_bytes(std::span(bytes, page_size)), database.settings().commit_timeout);
    if (rc == SQLITE_OK) main_->note_landed();
    else if (const std::string others = landed_beside(*main_); !others.empty())
      return refuse_with(rc, last_refusal() + " But this COMMIT was of several databases, which SQLite commits one after the other: its part in " + others +
                                 " was committed before, and is in the stream.");
    return rc;
  }
  switch (write.kind) {
    case WalWriteKind::wal_header:
      if (const int rc = begin_wal(bytes); rc != SQLITE_OK) return rc;
      break;
    case WalWriteKind::frame_header:
      capture.frames().frame(write.slot, read_be32(bytes));
      if (const std::uint32_t page_count = read_be32(bytes + 4); page_count != 0) {
        CommitFrameHeader header{write.slot, read_be32(bytes), page_count, {}};
        std::memcpy(header.bytes.data(), bytes, header.bytes.size());
        held_ = header;
        main_->note_commit_frame(header);
        return SQLITE_OK;
      }
      break;
    case WalWriteKind::frame_page: break;
    case WalWriteKind::other: return refuse("SQLite wrote the WAL in pieces that Onepen does not know; this transaction was refused.");
  }
  return ONEPEN_FAILPOINT("capture.frame") ? SQLITE_FULL : real_->pMethods->xWrite(real_, bytes, size, offset);
}

// SQLite begins the WAL anew. The hold has let it, so nothing in it is pending; SQLite may also think that there is none where there is one.
int WalFile::begin_wal(const std::uint8_t* header) {
  OpenDatabase& database = main_->database();
  if (guard_on(Guard::wal_held) && database.hold().pending())
    return refuse("SQLite began the WAL anew while it holds commits that are not in the stream; this transaction was refused.");
  const std::uint32_t salt1 = read_be32(header + 16), salt2 = read_be32(header + 20);
  if (const auto begun = database.copy().wal_begun(salt1, salt2); !begun) return refuse_with(SQLITE_IOERR_WRITE, begun.error().message);
  database.capture().frames().restart({salt1, salt2});
  database.hold().restarted(salt1, salt2);
  main_->chain_from(0, {read_be32(header + 24), read_be32(header + 28)});
  return SQLITE_OK;
}

// durability=local: everything goes to the WAL as SQLite writes it. Only a commit frame is asked about first.
int WalFile::write_local(const WalWrite& write, const std::uint8_t* bytes, int size, sqlite3_int64 offset) {
  OpenDatabase& database = main_->database();
  Capture& capture = database.capture();
  switch (write.kind) {
    case WalWriteKind::wal_header:
      if (const int rc = begin_wal(bytes); rc != SQLITE_OK) return rc;
      break;
    case WalWriteKind::frame_header: {
      capture.frames().frame(write.slot, read_be32(bytes));
      const std::uint32_t page_count = read_be32(bytes + 4);
      if (page_count == 0) break;
      CommitFrameHeader header{write.slot, read_be32(bytes), page_count, {}};
      std::memcpy(header.bytes.data(), bytes, header.bytes.size());
      const int rc = capture.admit(files_, header, database.page_size(), main_->published_pages(), database.settings().commit_timeout);
      if (rc != SQLITE_OK) return rc;
      main_->note_commit_frame(header);
      break;
    }
    case WalWriteKind::frame_page: break;
    case WalWriteKind::other: return refuse("SQLite wrote the WAL in pieces that Onepen does not know; this transaction was refused.");
  }
  return ONEPEN_FAILPOINT("capture.frame") ? SQLITE_FULL : real_->pMethods->xWrite(real_, bytes, size, offset);
}

int WalFile::write(const void* bytes, int size, sqlite3_int64 offset) {
  if (main_->registry().forked()) return refuse(forked_sentence());
  if (main_->database().follower()) return refuse("This database is open read-only (mode=ro).");
  return write_captured(static_cast<const std::uint8_t*>(bytes), size, offset);
}

int WalFile::truncate(sqlite3_int64 size) {
  if (main_->registry().forked()) return refuse(forked_sentence());
  if (size == 0 && !main_->database().follower()) {  // PRAGMA wal_checkpoint(TRUNCATE), with everything in the database file
    if (!main_->wal_ends()) return SQLITE_IOERR_TRUNCATE;
    main_->database().hold().restarted(0, 0);
  }
  return after_commit(real_->pMethods->xTruncate(real_, size), "truncating the WAL");
}

int WalFile::sync(int flags) {
  if (main_->registry().forked()) return refuse(forked_sentence());
  // The sync of a commit: the commit is durable where it counts, in the stream, and the copy is checked at open (ADR "The WAL of a copy is not synced").
  if (main_->take_sync_after_commit()) return SQLITE_OK;
  const int rc = ONEPEN_FAILPOINT("capture.wal_sync") ? SQLITE_IOERR_FSYNC : real_->pMethods->xSync(real_, flags);
  if (rc == SQLITE_OK) return rc;
  if (main_->database().local()) return main_->wal_sync_failed(rc);
  return main_->landed() ? after_commit(rc, "syncing the WAL") : main_->sync_failed(rc);
}

const sqlite3_io_methods WalFile::kMethods = {
    2,
    [](sqlite3_file* f) {
      sqlite3_file* real = wal_file(f)->real();
      const int rc = real->pMethods->xClose(real);
      wal_file(f)->~WalFile();
      return rc;
    },
    [](sqlite3_file* f, void* bytes, int size, sqlite3_int64 offset) { return no_throw([&] { return wal_file(f)->read(bytes, size, offset); }); },
    [](sqlite3_file* f, const void* bytes, int size, sqlite3_int64 offset) { return no_throw([&] { return wal_file(f)->write(bytes, size, offset); }); },
    [](sqlite3_file* f, sqlite3_int64 size) { return no_throw([&] { return wal_file(f)->truncate(size); }); },
    [](sqlite3_file* f, int flags) { return no_throw([&] { return wal_file(f)->sync(flags); }); },
    [](sqlite3_file* f, sqlite3_int64* size) { return wal_file(f)->real()->pMethods->xFileSize(wal_file(f)->real(), size); },
    [](sqlite3_file*, int) { return SQLITE_OK; },
    [](sqlite3_file*, int) { return SQLITE_OK; },
    [](sqlite3_file*, int* reserved) {
      *reserved = 0;
      return SQLITE_OK;
    },
    [](sqlite3_file* f, int op, void* argument) { return wal_file(f)->real()->pMethods->xFileControl(wal_file(f)->real(), op, argument); },
    [](sqlite3_file* f) { return wal_file(f)->real()->pMethods->xSectorSize(wal_file(f)->real()); },
    [](sqlite3_file* f) { return wal_file(f)->real()->pMethods->xDeviceCharacteristics(wal_file(f)->real()); },
    // Never called on a WAL.
    [](sqlite3_file*, int, int, int, void volatile**) { return SQLITE_IOERR; },
    [](sqlite3_file*, int, int, int) { return SQLITE_IOERR; },
    [](sqlite3_file*) {},
    [](sqlite3_file*, int) { return SQLITE_OK; },
    nullptr,
    nullptr,
};

}  // namespace onepen::sqlite
