// What the pager has put into the WAL, frame by frame: which slot holds which page, for the running transaction and for the committed ones. Pure.
//
//   WAL file:  header (32 bytes) | slot 1 | slot 2 | ...        slot = frame header (24 bytes) + page
//
//        committed                 committed+1 ........ commit slot
//   |----------------------------|------------------------------------|   A commit's images are the slots after the committed ones up to the slot
//    earlier transactions          the running transaction                whose frame header names a database size; the last slot of a page wins.
//
// Facts this rests on (SQLite 3.40..3.53, wal.c sqlite3WalFrames): header and page are two writes; pages of the running transaction that were spilled
// before may be rewritten in place (the page only), but never the last one of the commit; ROLLBACK TO gives slots back and later writes overwrite them;
// a write at offset 0 begins the WAL anew; headers may be rewritten after the commit frame (checksums only).
// Thread-safety: used under SQLite's WAL write lock.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onepen::sqlite {

using WalSlot = std::uint32_t;  // from 1

enum class WalWriteKind : std::uint8_t { wal_header, frame_header, frame_page, other };
struct WalWrite {
  WalWriteKind kind = WalWriteKind::other;
  WalSlot slot = 0;
};
// What a write of `size` bytes at `offset` is.
WalWrite classify_wal_write(std::uint32_t page_size, std::int64_t offset, int size);
std::int64_t wal_slot_offset(std::uint32_t page_size, WalSlot slot);  // of its frame header
std::uint32_t read_be32(const std::uint8_t* bytes);
// Region of the wal-index (32 KiB each) that holds the entry of a slot (wal.c, walFramePage).
int wal_index_region(WalSlot slot);

struct ChangedPage {
  std::uint32_t number = 0;
  WalSlot slot = 0;  // 0: not in the WAL
};

class WalFrames {
 public:
  using Salts = std::pair<std::uint32_t, std::uint32_t>;
  // A WAL that was there when the database was opened: the page of each slot, from 1, up to the last one that commits.
  void found(Salts salts, const std::unordered_map<std::uint32_t, WalSlot>& newest, WalSlot committed);
  // The write lock was taken; `committed`: the slots that count (mxFrame of the wal-index).
  void begin(WalSlot committed);
  // A WAL header with these salts was written: no slot counts any more.
  void restart(Salts salts);
  Salts salts() const { return salts_; }
  void frame(WalSlot slot, std::uint32_t page_number);
  // The pages of the transaction that `commit_slot` commits, rising; pages past the new end of the database are left out. Nothing when a slot between
  // was never seen (then we do not know what is being committed).
  std::optional<std::vector<ChangedPage>> changes(WalSlot commit_slot, std::uint32_t page_count_after) const;
  // How many frames of pages up to page_count_after that transaction has; nothing as above.
  std::optional<std::size_t> running_pages(WalSlot commit_slot, std::uint32_t page_count_after) const;
  void land(WalSlot commit_slot, std::uint32_t page_count_after);
  // Where the newest committed image of a page is, if the WAL has one.
  std::optional<WalSlot> committed_slot(std::uint32_t page_number) const;
  WalSlot committed() const { return committed_; }

 private:
  Salts salts_{};
  WalSlot committed_ = 0;
  std::uint32_t highest_ = 0;                                 // no page above it is in committed_map_
  std::vector<std::uint32_t> running_;                        // page in slot committed_ + 1 + i; 0: not seen
  std::unordered_map<std::uint32_t, WalSlot> committed_map_;  // newest committed slot of each page
};

}  // namespace onepen::sqlite
