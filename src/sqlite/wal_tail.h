// Reads the WAL of an open database frame by frame, each checked against SQLite's own running checksum, without SQLite and without a lock: what the wal-index
// has published, and what is held (wal_hold.h), does not change any more. It has a descriptor of its own on db-wal, never on db: closing that one would drop
// SQLite's locks. Thread-safety: none.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "io/disk.h"
#include "sqlite/copy.h"
#include "sqlite/wal_file.h"
#include "sqlite/wal_frames.h"

namespace onepen::sqlite {

inline constexpr std::uint32_t kMaxWalFrames = 0xffffffff;

struct TailFrame {
  std::uint32_t page_number = 0;
  std::uint32_t page_count_after = 0;  // not 0: commits
};

class WalTail {
 public:
  WalTail(io::Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  // Opens the file anew, before its first frame. False: there is none, or it has no whole header. Errors: unavailable.
  Result<bool> open();
  std::uint32_t page_size() const { return page_size_; }
  WalPlace place() const { return {salt1_, salt2_, frame_}; }  // of the frame last read
  const WalChecksum& checksum() const { return sum_; }         // up to it
  // The next frame, not behind frame `end`. None: it is not there, or not whole. Errors: unavailable.
  Result<std::optional<TailFrame>> next(std::uint32_t end);
  ByteView image() const { return image_; }  // of the frame last read, until the next call
  Result<> read_image(WalSlot slot, std::span<std::byte> out) const;

 private:
  Result<bool> fill(std::uint32_t end);

  io::Disk& disk_;
  std::string path_;
  std::unique_ptr<io::DiskFile> file_;
  std::uint32_t page_size_ = 0, salt1_ = 0, salt2_ = 0, frame_ = 0;
  bool big_endian_ = false;
  WalChecksum sum_;
  Bytes buffer_;                  // whole frames, from buffer_first_ on
  std::uint32_t buffer_first_ = 1, buffer_frames_ = 0;
  ByteView image_;
};

// What SQLite's recovery would find: the frames up to the last one that commits.
struct WalScan {
  std::uint32_t page_size = 0;  // 0: no WAL with a whole header
  WalPlace end;                 // frame 0: no commit
  std::uint32_t page_count = 0;
  WalChecksum checksum;             // up to `end`
  std::vector<TailFrame> frames;    // 1..end.frame
};
Result<WalScan> scan_wal(io::Disk& disk, const std::string& path);

}  // namespace onepen::sqlite
