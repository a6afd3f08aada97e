// The state file of a copy: what the copy holds, or is about to hold. docs/formats/copy-state.md.
//
// Two slots, each checksummed, written in turn by one pwrite: a write torn by power loss leaves the other slot. A slot names two states and where each is
// in the WAL, the one the copy has (previous) and the one it is about to have (next); after a kill one of the two is found there, or the copy is not
// trusted (I9). No sync: a killed process keeps its page cache, and after power loss the page sums decide anyway. Thread-safety: none.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "sqlite/copy.h"
#include "sqlite/copy_disk.h"

namespace onepen::sqlite {

inline constexpr std::size_t kStateSlotBytes = 512;
inline constexpr std::uint64_t kStateSlotStride = 4096;  // each slot in a block of its own
inline constexpr std::size_t kMaxOffsetBytes = 96, kMaxPoisonBytes = 96;
inline constexpr std::uint16_t kCopyStateVersion = 3;

struct BootId {
  std::uint64_t hi = 0, lo = 0;
  bool operator==(const BootId&) const = default;
};
BootId current_boot_id(io::Disk& disk);  // zero where the kernel does not tell

// How far the appends of an ownership are known to have landed.
struct SentMark {
  Sequence sequence{};       // of the newest append of which it is known
  std::uint32_t others = 0;  // at most so many appends behind it are no commits
  bool operator==(const SentMark&) const = default;
};

struct CopyRecord {
  CommitState previous, next;
  std::optional<WalPlace> previous_place, next_place;  // where they end; none: not known (as in version 1), so the sum at the end of the WAL decides
  std::optional<core::OwnerToken> owned;               // the ownership last answered to this copy
  std::optional<SentMark> sent;  // of `owned`, at `next`; none: not known
  BootId boot;               // the boot under which it was written
  std::uint64_t inode = 0;   // of db; 0: none yet, or it is in doubt: every page is hashed
  bool poisoned = false;
  std::string why;           // poisoned: why, cut to kMaxPoisonBytes
};
bool operator==(const CopyRecord& a, const CopyRecord& b);

// Errors: invalid when an offset is longer than kMaxOffsetBytes.
Result<std::array<std::byte, kStateSlotBytes>> encode_state_slot(const CopyRecord& record, std::uint64_t generation);
struct StateSlot {
  CopyRecord record;
  std::uint64_t generation = 0;
};
// Empty: not a whole slot (never written, torn, damaged). Errors: invalid when it is whole and of a newer format.
Result<std::optional<StateSlot>> decode_state_slot(ByteView bytes);

// A commit state as bytes; the file `pages` uses it too.
inline constexpr std::size_t kMaxStateBytes = 4 + kMaxOffsetBytes + 16 + 8 + 8 + 4 + 4;
void put_state(ByteWriter& out, const CommitState& state);
CommitState get_state(ByteReader& in);

class StateFile {
 public:
  // Opens, and makes it when absent. Errors: unavailable; invalid (newer format: use a newer Onepen).
  static Result<StateFile> open(io::Disk& disk, const std::string& path);
  // The newest whole slot of a file that is not touched; none: there is none, or no file. Errors: as above.
  static Result<std::optional<CopyRecord>> look(io::Disk& disk, const std::string& path);
  // The newest whole slot; none: a new file, or both are damaged.
  const std::optional<CopyRecord>& record() const { return record_; }
  Result<> write(const CopyRecord& record, bool sync);  // one pwrite of 512 bytes

 private:
  Result<> read();
  std::string path_;
  DiskFilePtr file_;
  std::uint64_t generation_ = 0;
  std::optional<CopyRecord> record_;
};

}  // namespace onepen::sqlite
