// The bytes of a snapshot of a database: `about`, and the parts that hold its pages. Pure; no I/O. docs/formats/snapshot.md.
//
// Concept: a part holds the images of up to kMaxPartImages bytes of pages as one zstd frame, and says which pages they are as runs of consecutive numbers.
// Numbers rise within a part and from part to part. Pages of zeros and the lock-byte page are in no part: what no part names is zeros. What the snapshot
// is of (page size, page count, page sum) stands in `about`; whether the pages fit it is the loader's to check (snapshot_load.h).
// The decoders trust nothing: every length, order and limit is checked first.
// Thread-safety: SnapshotPacker and SnapshotUnpacker are used by one thread at a time; the functions are pure.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <onepen/result.h>
#include "base/bytes.h"

namespace onepen::sqlite {

inline constexpr std::uint16_t kSnapshotVersion = 1;
inline constexpr std::size_t kMaxPartImages = 8u << 20;  // bytes of page images in a part, before compression
inline constexpr std::size_t kSnapshotAboutBytes = 40;
inline constexpr std::size_t kSnapshotPartHeaderBytes = 32;
// No part is longer: header, as many runs as pages, zstd's worst case, checksum.
inline constexpr std::size_t kMaxSnapshotPartBytes = kSnapshotPartHeaderBytes + (kMaxPartImages / 512) * 8 + kMaxPartImages + (kMaxPartImages >> 8) + 64 + 8;

// What the snapshot is of. Its position in the stream, incarnation and epoch are the home's to say (core::SnapshotInfo).
struct SnapshotAbout {
  std::uint64_t ordinal = 0;     // commits since the beginning of the stream; 0: no commit yet (then all is 0, and there are no parts)
  std::uint64_t page_sum = 0;    // page_sum.h
  std::uint32_t page_count = 0;
  std::uint32_t page_size = 0;   // bytes
  bool operator==(const SnapshotAbout&) const = default;
};
Bytes encode_snapshot_about(const SnapshotAbout& about);
// Errors: invalid (a newer version); state_mismatch (damaged: what).
Result<SnapshotAbout> decode_snapshot_about(ByteView bytes);

struct PageRun {
  std::uint32_t first = 0;  // from 1
  std::uint32_t count = 0;
  std::uint32_t last() const { return first + count - 1; }
  bool operator==(const PageRun&) const = default;
};

struct SnapshotPart {
  std::uint32_t number = 0;  // from 0
  std::uint32_t page_size = 0;
  std::uint32_t page_count = 0;  // of the database
  std::uint32_t pages = 0;       // in this part, at least one
  std::vector<PageRun> runs;     // rising, with a gap between each two
  ByteView packed;               // one zstd frame of the images in the order of the runs; into the decoded bytes
};
// Errors: invalid (a newer version); state_mismatch (damaged: what).
Result<SnapshotPart> decode_snapshot_part(ByteView bytes);

class SnapshotUnpacker {
 public:
  SnapshotUnpacker();
  ~SnapshotUnpacker();
  SnapshotUnpacker(const SnapshotUnpacker&) = delete;
  SnapshotUnpacker& operator=(const SnapshotUnpacker&) = delete;
  // The images in the order of the runs, pages × page_size bytes; valid until the next call. Errors: state_mismatch (damaged).
  Result<ByteView> unpack(const SnapshotPart& part);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

class SnapshotPacker {
 public:
  // Takes one finished part. An error ends the snapshot and is handed on.
  using Sink = std::function<Result<>(ByteView part)>;
  SnapshotPacker(std::uint32_t page_size, std::uint32_t page_count, Sink sink);
  ~SnapshotPacker();
  SnapshotPacker(const SnapshotPacker&) = delete;
  SnapshotPacker& operator=(const SnapshotPacker&) = delete;
  // Page numbers strictly rising, within the count; page_size bytes each. A page of zeros and the lock-byte page are left out. Errors: the sink's.
  Result<> add(std::uint32_t number, ByteView image);
  // Emits what is left. A database of zeros, or without pages, has no parts at all.
  Result<> finish();
  std::uint32_t parts() const { return parts_; }  // emitted so far

 private:
  struct Context;
  Result<> emit();
  const std::uint32_t page_size_, page_count_;
  Sink sink_;
  std::unique_ptr<Context> context_;
  std::vector<PageRun> runs_;
  Bytes images_;
  std::uint32_t parts_ = 0;
};

bool all_zeros(ByteView image);

}  // namespace onepen::sqlite
