// SQLite's WAL file as bytes (sqlite.org/fileformat2, "WAL-Index"/"Write-Ahead Log"): reads one as SQLite's recovery does, and writes one of our own that
// SQLite accepts. Used on a copy that no SQLite connection has open, and by tests. Thread-safety: none.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "sqlite/copy_disk.h"
#include "sqlite/wal_place.h"

namespace onepen::sqlite {

inline constexpr std::size_t kWalHeaderBytes = 32, kWalFrameHeaderBytes = 24;

struct WalChecksum {
  std::uint32_t one = 0, two = 0;
  bool operator==(const WalChecksum&) const = default;
  // bytes: a multiple of 8. big_endian: how the header's magic says words are read.
  void add(ByteView bytes, bool big_endian);
};

struct WalFrame {
  std::uint32_t page_number = 0;
  std::uint32_t page_count_after = 0;  // not 0: commits
  std::uint64_t image_at = 0;          // where its image begins in the file
  std::uint64_t hash = 0;              // page_hash_of its image, when asked for
};

// What recovery would find: the valid frames up to the last one that commits.
struct WalContent {
  std::uint32_t page_size = 0;  // 0: no valid header, nothing to recover
  std::uint32_t page_count = 0;  // after the last commit; 0: no commit
  std::uint32_t salt1 = 0, salt2 = 0;
  std::vector<WalFrame> frames;
  std::uint32_t whole = 0;  // frames that are valid, those behind the last commit included
  bool valid() const { return page_size != 0; }
};
// Errors: unavailable. An absent, empty, cut or torn WAL is no error: what is valid counts, as for SQLite.
Result<WalContent> read_wal(io::Disk& disk, const std::string& path, bool with_hashes = false);

// Commit frames as they lie in the file behind frame `after`, whatever the header and the frames before them are: told by the salts in their own headers alone.
struct RawCommit {
  std::uint32_t end = 0;  // its commit frame
  std::uint32_t page_count = 0;  // of the database after it
  std::vector<std::uint32_t> pages;  // of the frames behind the commit frame before it that lie there whole
};
// Looks no further behind `max_gap` frames in a row that are of another WAL: what an older, longer one left. Errors: unavailable.
inline constexpr std::uint32_t kNoMaxGap = 0xffffffff;
Result<std::vector<RawCommit>> raw_commits(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint32_t salt1, std::uint32_t salt2,
                                           std::uint32_t after, std::uint32_t max_gap = kNoMaxGap);

// Writes frames one after another. A commit's frames may be taken back until another commit was added (rewind).
class WalWriter {
 public:
  // Makes the file anew. salt: any 64 bits, fresh for each file.
  static Result<WalWriter> create(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint64_t salt);
  // A file that may hold an older WAL, of which nobody needs anything: its header is written over. Errors: unavailable.
  static Result<WalWriter> begin(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint32_t salt1, std::uint32_t salt2);
  // Goes on behind `end` of a WAL that is there; sum: up to it, of words read little-endian. Errors: unavailable.
  static Result<WalWriter> resume(io::Disk& disk, const std::string& path, std::uint32_t page_size, const WalPlace& end, WalChecksum sum);
  // page_count_after: 0, or the size of the database when this frame commits. Returns where the image begins.
  Result<std::uint64_t> add(std::uint32_t page_number, std::uint32_t page_count_after, ByteView image);
  struct Mark {
    std::uint64_t end;
    WalChecksum sum;
    std::uint32_t frames = 0;
  };
  Mark mark() const { return {end_, sum_, frames_}; }
  void rewind(const Mark& mark) { end_ = mark.end, sum_ = mark.sum, frames_ = mark.frames; }  // later frames overwrite; seal() cuts
  Result<> seal();  // cuts what was rewound; the file is a whole WAL
  Result<> read_image(std::uint64_t image_at, std::span<std::byte> out) const;
  std::uint64_t bytes() const { return end_; }
  io::DiskFile& file() const { return *file_; }
  std::uint32_t salt1() const { return static_cast<std::uint32_t>(salt_ >> 32); }
  std::uint32_t salt2() const { return static_cast<std::uint32_t>(salt_); }

 private:
  static Result<WalWriter> open(io::Disk& disk, const std::string& path, std::uint32_t page_size, std::uint64_t salt);
  Result<> write_header();
  std::string path_;
  DiskFilePtr file_;
  std::uint32_t page_size_ = 0;
  std::uint64_t salt_ = 0;
  std::uint64_t end_ = 0;
  std::uint32_t frames_ = 0;
  WalChecksum sum_;
  Bytes buffer_;
};

// What the database is after the last commit of a WAL: which of its frames is each page's. A shrink forgets the pages beyond the end; a page that the
// database has grown over since without a frame for it is a page of zeros, whatever an older frame or the database file has (page_sum.h).
struct WalView {
  std::uint32_t page_count = 0;  // 0: no commit
  std::unordered_map<std::uint32_t, std::uint32_t> frame_of;  // page -> number of its frame, from 1; 0: zeros. Others are as the database file has them
};
inline constexpr std::uint32_t kUnknownCount = 0xffffffff;
// after: frames up to here are in the database file. count_before: pages of the database there; kUnknownCount: taken for as many as the first commit leaves.
WalView view_of(const WalContent& wal, std::uint32_t after = 0, std::uint32_t count_before = kUnknownCount);

// Copies what a WAL holds into the database file and cuts it to its size: what a checkpoint does, when nobody has the database open. Idempotent, so a
// kill in the middle is cured by doing it again. Returns the page count, 0 when the WAL held no commit. Does not sync and does not touch the WAL.
Result<std::uint32_t> fold_wal(const WalContent& wal, const WalView& view, io::DiskFile& wal_file, io::DiskFile& db, const std::string& db_path);

}  // namespace onepen::sqlite
