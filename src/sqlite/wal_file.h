// SQLite's WAL file as bytes (sqlite.org/fileformat2, "WAL-Index"/"Write-Ahead Log"): reads one as SQLite's recovery does, and writes one of our own that
// SQLite accepts. Used on a copy that no SQLite connection has open, and by tests. Thread-safety: none.
#pragma once
#include <string>
#include <unordered_map>

#include "sqlite/copy_file.h"

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
};

// What recovery would find: the valid frames up to the last one that commits.
struct WalContent {
  std::uint32_t page_size = 0;  // 0: no valid header, nothing to recover
  std::uint32_t page_count = 0;  // after the last commit; 0: no commit
  std::vector<WalFrame> frames;
};
// Errors: unavailable. An absent, empty, cut or torn WAL is no error: what is valid counts, as for SQLite.
Result<WalContent> read_wal(const std::string& path);

// Writes frames one after another. A commit's frames may be taken back until another commit was added (rewind).
class WalWriter {
 public:
  // Makes the file anew. salt: any 64 bits, fresh for each file.
  static Result<WalWriter> create(const std::string& path, std::uint32_t page_size, std::uint64_t salt);
  // page_count_after: 0, or the size of the database when this frame commits. Returns where the image begins.
  Result<std::uint64_t> add(std::uint32_t page_number, std::uint32_t page_count_after, ByteView image);
  struct Mark {
    std::uint64_t end;
    WalChecksum sum;
  };
  Mark mark() const { return {end_, sum_}; }
  void rewind(const Mark& mark) { end_ = mark.end, sum_ = mark.sum; }  // later frames overwrite; seal() cuts
  Result<> seal();                                                     // cuts what was rewound; the file is a whole WAL
  Result<> read_image(std::uint64_t image_at, std::span<std::byte> out) const;
  std::uint64_t bytes() const { return end_; }
  int fd() const { return file_.fd(); }

 private:
  std::string path_;
  File file_;
  std::uint32_t page_size_ = 0;
  std::uint64_t salt_ = 0;
  std::uint64_t end_ = 0;
  WalChecksum sum_;
  Bytes buffer_;
};

// Copies what a WAL holds into the database file and cuts it to its size: what a checkpoint does, when nobody has the database open. Idempotent, so a
// kill in the middle is cured by doing it again. Returns the page count, 0 when the WAL held no commit. Does not sync and does not touch the WAL.
Result<std::uint32_t> fold_wal(const WalContent& wal, int wal_fd, const std::string& wal_path, int db_fd, const std::string& db_path);

}  // namespace onepen::sqlite
