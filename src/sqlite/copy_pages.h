// The file `pages` of a copy: the hash of every page of the database as it was at one place, the beginning of the current WAL. docs/formats/copy-state.md.
//
//     header slots (two, written in turn)  what state the entries are, at which place        8 bytes a page, page 1 first
//
// Hashes of pages that change are kept in memory (PageTable) and written here only when the WAL they are in is about to go (merge). A merge first says so in
// the header: a kill in the middle leaves entries of either time, and the WAL, which is still there, repeats all of the later ones. That the entries are
// whole is told by their sum, which the header names. Thread-safety: none; the caller lets one at a time.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sqlite/copy_disk.h"
#include "sqlite/copy_state.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {

inline constexpr std::uint16_t kPagesVersion = 1;
inline constexpr std::size_t kPagesSlotBytes = 512;
inline constexpr std::uint64_t kPagesSlotStride = 4096, kPagesEntriesAt = 8192;

struct PagesHeader {
  CommitState state;  // of the entries; its page_size and page_count say how many there are
  WalPlace at;        // where that state ended in the WAL it came from; frame 0 and no salts: in none
  bool merging = false;
  CommitState target;  // merging: entries may be those of this state already
  WalPlace target_at;
  std::optional<std::pair<std::uint32_t, std::uint32_t>> begun{};  // salts of the WAL that SQLite was about to begin on top of it
  FileStamp database{};                                            // the database file when the entries were written
};

Result<std::array<std::byte, kPagesSlotBytes>> encode_pages_slot(const PagesHeader& header, std::uint64_t generation);
// Empty: not a whole slot, or one of another format: it is only a table, which can be counted anew.
std::optional<std::pair<PagesHeader, std::uint64_t>> decode_pages_slot(ByteView bytes);

class PagesFile {
 public:
  struct Found {
    PagesHeader header;
    PageTable table;
  };
  // Opens, and makes it when absent. Errors: unavailable.
  static Result<PagesFile> open(io::Disk& disk, const std::string& path);
  // What may be true of the entries, newest first, none when the table is damaged. One that is not `merging` is whole: its sum was counted. Whether one that
  // is merging is, shows when the WAL was walked up to its target. Reads the file. Errors: unavailable.
  Result<std::vector<Found>> load();

  // The header that was written or chosen last.
  const PagesHeader& header() const { return header_; }
  void choose(const PagesHeader& header) { header_ = header; }

  // Writes the pages of `table` that changed since the last time, and says that they are the state `state` at `at`. Errors: unavailable: then the table in
  // memory is as it was, and merging again is right.
  Result<> merge(PageTable& table, const CommitState& state, const WalPlace& at, const FileStamp& database, bool sync);
  // Writes all of it, whatever was there before.
  Result<> write_all(PageTable& table, const CommitState& state, const WalPlace& at, const FileStamp& database, bool sync);
  // SQLite is about to begin a WAL upon the entries. Synced before it does: a WAL that this file does not name when power is lost is none of this database's.
  Result<> note_begun(std::uint32_t salt1, std::uint32_t salt2);
  // Says `header` of the same entries.
  Result<> say(const PagesHeader& header, bool sync);

 private:
  Result<> write_header(const PagesHeader& header);
  Result<> write_entries(const PageTable& table, std::vector<std::uint32_t> pages);
  std::string path_;
  DiskFilePtr file_;
  std::uint64_t generation_ = 0;
  PagesHeader header_;
};

}  // namespace onepen::sqlite
