#include "sqlite/page_sum.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "sqlite/copy_disk.h"

namespace onepen::sqlite {
namespace {
constexpr std::size_t kScanBytes = 1u << 20;
}  // namespace

std::uint64_t page_hash_of(std::uint32_t page_number, ByteView image) { return xxh3(image, page_number); }

PageTable::PageTable(std::uint32_t page_size, std::vector<std::uint64_t> hashes) : page_size_(page_size), hashes_(std::move(hashes)) {
  ONEPEN_CHECK(page_size_ != 0 || hashes_.empty(), "a database with pages has a page size");
  if (page_size_ != 0 && lock_byte_page(page_size_) <= hashes_.size()) hashes_[lock_byte_page(page_size_) - 1] = 0;
  for (const std::uint64_t hash : hashes_) sum_ += hash;
}

void PageTable::track_changes() { tracking_ = true; }

void PageTable::mark(std::uint32_t page_number) {
  if (!tracking_) return;
  if (marked_.size() <= page_number) marked_.resize(std::max<std::size_t>(page_number + 1, hashes_.size() + 1));
  if (marked_[page_number]) return;
  marked_[page_number] = true;
  changed_.push_back(page_number);
}

void PageTable::forget_changes() {
  for (const std::uint32_t page : changed_) marked_[page] = false;
  changed_.clear();
}

std::uint64_t PageTable::zero_hash(std::uint32_t page_number, std::uint32_t page_size) const {
  static const Bytes zeros(wire::kMaxPageSize);
  if (page_number == lock_byte_page(page_size)) return 0;
  return page_hash_of(page_number, ByteView(zeros).first(page_size));
}

std::uint64_t PageTable::hash(std::uint32_t page_number) const { return page_number == 0 || page_number > hashes_.size() ? 0 : hashes_[page_number - 1]; }

void PageTable::resize(std::uint32_t page_count) {
  ONEPEN_CHECK(page_size_ != 0 || page_count == 0, "a database with pages has a page size");
  while (hashes_.size() > page_count) {
    sum_ -= hashes_.back();
    hashes_.pop_back();
  }
  hashes_.reserve(page_count);
  while (hashes_.size() < page_count) {
    hashes_.push_back(zero_hash(static_cast<std::uint32_t>(hashes_.size() + 1), page_size_));
    sum_ += hashes_.back();
    mark(static_cast<std::uint32_t>(hashes_.size()));
  }
}

void PageTable::set(std::uint32_t page_number, std::uint64_t hash) {
  ONEPEN_CHECK(page_number >= 1 && page_number <= hashes_.size(), "a page within the database");
  if (page_number == lock_byte_page(page_size_)) return;
  std::uint64_t& slot = hashes_[page_number - 1];
  sum_ += hash - slot;
  slot = hash;
  mark(page_number);
}

std::uint64_t PageTable::sum_after(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size) const {
  std::uint64_t sum = sum_;
  for (std::uint32_t n = page_count + 1; n <= this->page_count() && n != 0; ++n) sum -= hash(n);
  for (std::uint32_t n = this->page_count() + 1; n <= page_count && n != 0; ++n) sum += zero_hash(n, page_size);
  for (const auto& [number, now] : changed) {
    if (number == 0 || number > page_count || number == lock_byte_page(page_size)) continue;
    sum += now - (number <= this->page_count() ? hash(number) : zero_hash(number, page_size));
  }
  return sum;
}

void PageTable::commit(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size) {
  if (page_size_ == 0) page_size_ = page_size;
  resize(page_count);
  for (const auto& [number, now] : changed) {
    if (number >= 1 && number <= page_count) set(number, now);
  }
}

std::uint64_t PagesAhead::hash(std::uint32_t page_number) const {
  if (page_number == 0 || page_number > count_) return 0;
  const auto found = over_.find(page_number);
  return found != over_.end() ? found->second : under_.hash(page_number);
}

void PagesAhead::put(std::uint32_t page_number, std::uint64_t hash) {
  if (page_number == lock_byte_page(page_size_)) return;
  sum_ += hash - this->hash(page_number);
  over_[page_number] = hash;
}

void PagesAhead::commit(std::uint32_t page_count, const std::vector<PageHash>& changed, std::uint32_t page_size) {
  if (page_size_ == 0) page_size_ = page_size;
  for (std::uint32_t n = page_count + 1; n <= count_ && n != 0; ++n) sum_ -= hash(n);
  const std::uint32_t before = count_;
  for (std::uint32_t n = before + 1; n <= page_count && n != 0; ++n) {
    over_[n] = under_.zero_hash(n, page_size_);
    sum_ += over_[n];
  }
  count_ = page_count;
  for (const auto& [number, now] : changed) {
    if (number >= 1 && number <= page_count) put(number, now);
  }
}

Result<PageTable> scan_pages(io::DiskFile& file, std::uint32_t page_size, std::uint32_t page_count) {
  PageTable table(page_size);
  table.resize(page_count);
  Bytes buffer(std::max<std::size_t>(kScanBytes, page_size));
  const auto per_read = static_cast<std::uint32_t>(buffer.size() / page_size);
  for (std::uint32_t first = 1; first <= page_count;) {
    const std::uint32_t many = std::min(per_read, page_count - first + 1);
    const std::span<std::byte> want = std::span(buffer).first(std::size_t{many} * page_size);
    auto got = file.read_at((std::uint64_t{first} - 1) * page_size, buffer);
    if (!got) return tl::unexpected(of_disk(got.error()));
    if (*got < want.size()) std::fill(want.begin() + static_cast<std::ptrdiff_t>(*got), want.end(), std::byte{0});
    for (std::uint32_t i = 0; i < many; ++i) {
      table.set(first + i, page_hash_of(first + i, ByteView(buffer).subspan(std::size_t{i} * page_size, page_size)));
    }
    if (*got < want.size()) break;  // the rest is zeros already
    first += many;
  }
  return table;
}

}  // namespace onepen::sqlite
