// Notices that something else wrote to the copy: another program, plain SQLite, a library that was not told. Pure.
//
// Every change of a WAL database happens under the WAL write lock and changes the wal-index header (48 bytes: change counter, frame count, checksums,
// salts). So the header at each taking of the lock must be the one at its last release by us; anything else is a foreign write, and the copy has left the
// stream's history (`diverged`). A header that is not there yet is being rebuilt by recovery: then the rebuilt one must say what the last one said.
// Thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "sqlite/wal_file.h"

namespace onepen::sqlite {

using WalIndexHeader = std::array<std::uint8_t, 48>;  // in the machine's byte order (wal.c, WalIndexHdr)

bool initialised(const WalIndexHeader& header);
std::uint32_t frame_count(const WalIndexHeader& header);  // mxFrame: the frames that count
std::uint32_t page_count(const WalIndexHeader& header);   // of the database, as published
std::pair<std::uint32_t, std::uint32_t> salts(const WalIndexHeader& header);
WalChecksum checksum(const WalIndexHeader& header);  // of the last frame that counts
bool same_content(const WalIndexHeader& a, const WalIndexHeader& b);  // frame count, page count, checksum and salts: of one and the same WAL

// Where a WAL ends, as its index would say it.
struct WalEnd {
  std::uint32_t frame = 0, page_count = 0;
  std::uint32_t checksum1 = 0, checksum2 = 0;  // of that frame
  std::uint32_t salt1 = 0, salt2 = 0;
};

class CaptureWatch {
 public:
  // A WAL was there when the database was opened: its recovery must find just that.
  void found(const WalEnd& end);
  // The write lock was taken; `header` as it is, nothing when there is none yet. False: foreign.
  [[nodiscard]] bool taken(const std::optional<WalIndexHeader>& header);
  // It is about to be released. False: recovery found something that is not ours.
  [[nodiscard]] bool releasing(const std::optional<WalIndexHeader>& header);
  // durability=local: a commit frame of ours was written, and SQLite then failed before it published the commit. If recovery brings it back, it is ours.
  void unpublished(const WalEnd& end);
  // Since the last call recovery brought such a commit back.
  [[nodiscard]] bool take_revived();
  // The WAL and its index were removed after everything was checkpointed.
  void removed();

 private:
  std::mutex mutex_;
  std::optional<WalIndexHeader> last_, unpublished_;  // of unpublished_ only the content counts
  bool only_content_ = false;  // last_ was made from the WAL, not read from the index
  bool recovering_ = false, revived_ = false;
};

}  // namespace onepen::sqlite
