// The state file of a copy: what the copy holds, or is about to hold. docs/formats/copy-state.md.
//
// Two slots, each checksummed, written in turn by one pwrite: a write torn by power loss leaves the other slot. A slot names two states, the one the copy
// has (previous) and the one it is about to have (next); after a kill the copy's real page sum is one of the two, or the copy is not trusted (I9).
// No sync: a killed process keeps its page cache, and after power loss the page sum is what decides anyway. Thread-safety: none.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "sqlite/copy.h"
#include "sqlite/copy_file.h"

namespace onepen::sqlite {

inline constexpr std::size_t kStateSlotBytes = 512;
inline constexpr std::uint64_t kStateSlotStride = 4096;  // each slot in a block of its own
inline constexpr std::size_t kMaxOffsetBytes = 96, kMaxPoisonBytes = 120;
inline constexpr std::uint16_t kCopyStateVersion = 1;

struct BootId {
  std::uint64_t hi = 0, lo = 0;
  bool operator==(const BootId&) const = default;
};
BootId current_boot_id();  // zero where the kernel does not tell

struct CopyRecord {
  CommitState previous, next;
  BootId boot;               // the boot under which it was written
  std::uint64_t inode = 0;   // of db; 0: none yet
  bool poisoned = false;
  std::string why;           // poisoned: why, cut to kMaxPoisonBytes
  bool operator==(const CopyRecord&) const = default;
};

// Errors: invalid when an offset is longer than kMaxOffsetBytes.
Result<std::array<std::byte, kStateSlotBytes>> encode_state_slot(const CopyRecord& record, std::uint64_t generation);
struct StateSlot {
  CopyRecord record;
  std::uint64_t generation = 0;
};
// Empty: not a whole slot (never written, torn, damaged). Errors: invalid when it is whole and of a newer format.
Result<std::optional<StateSlot>> decode_state_slot(ByteView bytes);

class StateFile {
 public:
  // Opens, and makes it when absent. Errors: unavailable; invalid (newer format: use a newer Onepen).
  static Result<StateFile> open(const std::string& path);
  // The newest whole slot; none: a new file, or both are damaged.
  const std::optional<CopyRecord>& record() const { return record_; }
  Result<> write(const CopyRecord& record, bool sync);  // one pwrite of 512 bytes

 private:
  std::string path_;
  File file_;
  std::uint64_t generation_ = 0;
  std::optional<CopyRecord> record_;
};

}  // namespace onepen::sqlite
