// The claim log on disk: an append-only file with one checksummed record per claim, synced before the claim is sent (docs/formats/claim-log.md).
// After a crash the process then knows which claims it may own. A torn tail (the record whose sync never returned) is ignored, and the next record is
// written over it: the claim it was for was never sent.
// Thread-safety: none of its own. Blocking.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "io/disk.h"
#include "owner/owner.h"

namespace onepen::owner {

// What one record says.
struct WrittenClaim {
  Epoch epoch;
  ClaimId claim_id;
  PutId attempt;
  Incarnation incarnation;       // the history it was meant for; the new stream's when it was to be made; nil: whichever was current
  std::optional<ClaimId> over{};  // conditional: over this claim (nil: over none)
  std::int64_t time_ms = 0;
  bool operator==(const WrittenClaim&) const = default;
};

inline constexpr std::size_t kClaimRecordBytes = 112;  // docs/formats/claim-log.md
inline constexpr std::size_t kClaimsAgain = 64;
inline constexpr std::size_t kMaxClaimLogBytes = kClaimRecordBytes * 4096;  // at this size the file is begun anew with its last record

Bytes encode(const WrittenClaim& claim);                       // exactly kClaimRecordBytes
std::optional<WrittenClaim> decode_claim(ByteView record);     // empty: not one of ours, or damaged

class DiskClaimLog : public ClaimLog {
 public:
  // Reads the file when it is there. Errors: unavailable (disk), invalid (a whole record that is damaged before the last one, or a newer format).
  static Result<std::unique_ptr<DiskClaimLog>> open(io::Disk& disk, std::string path);

  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) override;
  Epoch highest() const override { return highest_; }
  const std::optional<WrittenClaim>& last() const { return last_; }  // the newest claim written ahead; it may or may not have been answered

 private:
  DiskClaimLog(io::Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  io::DiskResult<> begin_anew(ByteView record);
  io::Disk& disk_;
  std::string path_;
  std::uint64_t size_ = 0;  // up to the end of the last whole record
  Epoch highest_{};
  std::optional<WrittenClaim> last_{};
  Bytes again_;  // the newest records of processes before this one, until it writes its first
  bool poisoned_ = false;  // a sync failed: nothing about the file is known any more
};

}  // namespace onepen::owner
