// One commit of a database as bytes in the stream: one or more *parts*, each one append; the last part commits. Pure; no I/O. docs/formats/commit-frame.md.
//
// Concept: PartEncoder takes the final image of every changed page once, in rising page order, and emits parts of at most kMaxPartImageBytes of images,
// so that a VACUUM of a gigabyte never sits in memory. A part names the commit's ordinal, its own number, and the running checksum (page sum and page
// count) before and after the commit. It holds no epoch and no sequence (fence.md: a pending commit is sent again under a new epoch, bytes unchanged).
// A part number 1 voids an unfinished earlier run; so does a claim. The decoder trusts nothing: every length, order and limit is checked first.
// Thread-safety: PageCodec and PartEncoder are used by one thread at a time; decode_part is a pure function.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include <onepen/result.h>
#include "base/bytes.h"

namespace onepen::wire {

inline constexpr std::size_t kMaxPartImageBytes = 1u << 20;  // uncompressed images in a part: this, or one page, whichever is larger
inline constexpr std::size_t kPartHeaderBytes = 56;
inline constexpr std::size_t kPageHeaderBytes = 9;
inline constexpr std::size_t kPartTrailerBytes = 8;
inline constexpr std::uint32_t kMinPageSize = 512, kMaxPageSize = 65536;
inline constexpr std::uint32_t kMaxPageCount = 0xfffffffe;  // SQLite's own limit
inline constexpr std::uint32_t kMaxParts = 1u << 24;
inline constexpr std::uint16_t kCommitFrameVersion = 1;
// No part is longer; checked before anything else is read.
inline constexpr std::size_t kMaxPartBytes = kPartHeaderBytes + kMaxPartImageBytes + (kMaxPartImageBytes / kMinPageSize) * kPageHeaderBytes + kPartTrailerBytes;

bool valid_page_size(std::uint32_t page_size);  // a power of two, 512..65536

// The running checksum of a database: sqlite/page_sum.h says how the sum is made.
struct RunningSum {
  std::uint64_t page_sum = 0;
  std::uint32_t page_count = 0;
  bool operator==(const RunningSum&) const = default;
};

// What every part of one commit says.
struct CommitHead {
  std::uint64_t ordinal = 0;    // of this commit, from 1
  std::uint32_t page_size = 0;  // bytes
  std::uint32_t page_count_after = 0;
  RunningSum before;
  bool operator==(const CommitHead&) const = default;
};

enum class PageEncoding : std::uint8_t {
  raw = 0,    // the image
  zstd = 1,   // the image, compressed
  delta = 2,  // image XOR the page's image before this commit (the same length), compressed
};

struct PageEntry {
  std::uint32_t number = 0;  // from 1
  PageEncoding encoding = PageEncoding::raw;
  ByteView data;  // into the decoded payload
};

struct Part {
  CommitHead head;
  std::uint32_t number = 0;     // from 1
  bool last = false;
  std::uint64_t sum_after = 0;  // last part only; the page count after is head.page_count_after
  std::vector<PageEntry> pages;  // at least one, rising
};

// Reads one part; its entries are views into `payload`, which must outlive them. Errors: invalid (a newer version; damaged: what and where).
Result<Part> decode_part(ByteView payload);
// True when the payload begins like a part (magic): used to tell commits from other data.
bool looks_like_part(ByteView payload);

// Compresses and expands page images; keeps its contexts and buffers between calls.
class PageCodec {
 public:
  PageCodec();
  ~PageCodec();
  PageCodec(const PageCodec&) = delete;
  PageCodec& operator=(const PageCodec&) = delete;

  struct Packed {
    PageEncoding encoding;
    ByteView data;  // into the codec or `image`; until the next call
  };
  // previous: the page's image before the commit, of the same length; empty: not known (no delta).
  Packed pack(ByteView image, ByteView previous);
  // Writes the page's image to `out` (exactly page_size bytes). previous is needed for a delta only. Errors: invalid (damaged).
  Result<> unpack(const PageEntry& entry, ByteView previous, std::span<std::byte> out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

class PartEncoder {
 public:
  // Takes one finished part. An error ends the commit and is handed on.
  using Sink = std::function<Result<>(Bytes part)>;
  // `codec` outlives the encoder. before.page_count may be 0 (first commit).
  PartEncoder(PageCodec& codec, const CommitHead& head, Sink sink);
  // Pages strictly rising, each 1..page_count_after, each image of page_size bytes. Errors: invalid (the caller broke these), the sink's.
  Result<> add(std::uint32_t number, ByteView image, ByteView previous = {});
  // Emits the last part. At least one page must have been added. sum_after: page sum of the database after this commit.
  Result<> finish(std::uint64_t sum_after);
  std::uint32_t parts() const { return part_number_; }  // emitted so far
  static std::uint32_t parts_of(std::uint32_t pages, std::uint32_t page_size);  // that a commit of so many pages takes

 private:
  Result<> emit(bool last, std::uint64_t sum_after);
  PageCodec& codec_;
  CommitHead head_;
  Sink sink_;
  Bytes body_;
  std::uint32_t pages_in_part_ = 0;
  std::uint32_t part_number_ = 0;
  std::uint32_t last_page_ = 0;
};

}  // namespace onepen::wire
