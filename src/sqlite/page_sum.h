// The page sum of a database, and the hash of each of its pages. Pure but for scan_pages. Capture, apply and the scan at open agree by using only this.
//
// hash of page n = XXH3-64(image, seed = n); page sum = sum of the hashes modulo 2^64 over pages 1..page_count, without the lock-byte page (the page
// that holds byte 2^30, which SQLite never writes). A page that the database has grown over without ever writing it counts as a page of zeros.
// With the page count the sum is the "running checksum" of every commit frame.
// Thread-safety: none.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "io/disk.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

// Number of the page that holds byte 2^30.
constexpr std::uint32_t lock_byte_page(std::uint32_t page_size) { return static_cast<std::uint32_t>((std::uint64_t{1} << 30) / page_size + 1); }

std::uint64_t page_hash_of(std::uint32_t page_number, ByteView image);

using PageHash = std::pair<std::uint32_t, std::uint64_t>;  // page number, hash of its image

// 8 bytes a page, in memory.
class PageTable {
 public:
  PageTable() = default;
  explicit PageTable(std::uint32_t page_size) : page_size_(page_size) {}
  PageTable(std::uint32_t page_size, std::vector<std::uint64_t> hashes);  // of pages 1, 2, ...
  std::uint32_t page_size() const { return page_size_; }  // 0: no commit yet
  std::uint32_t page_count() const { return static_cast<std::uint32_t>(hashes_.size()); }
  std::uint64_t sum() const { return sum_; }
  wire::RunningSum running() const { return {sum_, page_count()}; }
  std::uint64_t hash(std::uint32_t page_number) const;  // 0 beyond the end
  // Grows by pages of zeros, or cuts. Cut pages are forgotten: when they come back unwritten they are zeros.
  void resize(std::uint32_t page_count);
  void set(std::uint32_t page_number, std::uint64_t hash);  // within the count; the lock-byte page is ignored
  // The sum after a commit, without making it. `changed`: each page once; those beyond page_count are ignored. The caller's page size when empty.
  std::uint64_t sum_after(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size) const;
  // Makes the commit.
  void commit(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size);
  std::uint64_t zero_hash(std::uint32_t page_number, std::uint32_t page_size) const;  // of a page of zeros

  // Keeps account of which pages changed, from here on (copy_pages.h writes them).
  void track_changes();
  const std::vector<std::uint32_t>& changed() const { return changed_; }  // each once, in no order; some may be beyond the end by now
  void forget_changes();

 private:
  void mark(std::uint32_t page_number);
  std::uint32_t page_size_ = 0;
  std::uint64_t sum_ = 0;
  std::vector<std::uint64_t> hashes_;
  bool tracking_ = false;
  std::vector<bool> marked_;
  std::vector<std::uint32_t> changed_;
};

// Commits on top of a table, counted without making them in it: those of a WAL that are not known to be in the stream.
class PagesAhead {
 public:
  explicit PagesAhead(const PageTable& under) : under_(under), page_size_(under.page_size()), count_(under.page_count()), sum_(under.sum()) {}
  wire::RunningSum running() const { return {sum_, count_}; }
  std::uint64_t hash(std::uint32_t page_number) const;
  void commit(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size);

 private:
  void put(std::uint32_t page_number, std::uint64_t hash);
  const PageTable& under_;
  std::uint32_t page_size_, count_;
  std::uint64_t sum_;
  std::unordered_map<std::uint32_t, std::uint64_t> over_;
};

// Reads a database file from end to end. page_count: how many pages it should have; a shorter file's missing pages count as zeros, a longer file is
// not read further. Errors: unavailable.
Result<PageTable> scan_pages(io::DiskFile& file, std::uint32_t page_size, std::uint32_t page_count);

}  // namespace onepen::sqlite
