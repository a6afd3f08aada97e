#include "owner/claim_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/checksum.h"
#include "io/paths.h"

namespace onepen::owner {
namespace {

constexpr char kMagic[8] = {'O', 'P', 'C', 'L', 'A', 'I', 'M', '1'};  // the last byte is the format version
constexpr std::size_t kVersionAt = 7;
constexpr std::uint8_t kConditional = 1;

Error disk_error(const std::string& path, const std::string& what) {
  return Error{Outcome::unavailable, fmt::format("the claim log {} cannot be used ({}): without it nothing is claimed", path, what), {}};
}

tl::unexpected<Error> damaged(const std::string& path, std::size_t at) {
  return tl::unexpected(Error{Outcome::invalid, fmt::format("the claim log {} is damaged at byte {}: move this copy aside and open again", path, at), {}});
}

template <class Id>
void put(ByteWriter& out, const Id& id) {
  out.u<std::uint64_t>(id.hi);
  out.u<std::uint64_t>(id.lo);
}
template <class Id>
Id take(ByteReader& in) {
  Id id;
  id.hi = in.u<std::uint64_t>();
  id.lo = in.u<std::uint64_t>();
  return id;
}

}  // namespace

Bytes encode(const WrittenClaim& claim) {
  Bytes bytes;
  bytes.reserve(kClaimRecordBytes);
  ByteWriter out(bytes);
  out.raw(as_bytes(std::string_view(kMagic, sizeof kMagic)));
  out.u<std::uint64_t>(claim.epoch.value);
  put(out, claim.claim_id);
  put(out, claim.attempt);
  put(out, claim.incarnation);
  put(out, claim.over.value_or(ClaimId{}));
  out.u<std::uint8_t>(claim.over ? kConditional : 0);
  for (int i = 0; i < 7; ++i) out.u<std::uint8_t>(0);
  out.u<std::uint64_t>(static_cast<std::uint64_t>(claim.time_ms));
  out.u<std::uint64_t>(0);
  out.u<std::uint64_t>(xxh3(bytes));
  return bytes;
}

std::optional<WrittenClaim> decode_claim(ByteView record) {
  if (record.size() != kClaimRecordBytes) return {};
  ByteReader in(record);
  if (as_text(in.raw(sizeof kMagic)) != std::string_view(kMagic, sizeof kMagic)) return {};
  WrittenClaim claim;
  claim.epoch = Epoch{in.u<std::uint64_t>()};
  claim.claim_id = take<ClaimId>(in);
  claim.attempt = take<PutId>(in);
  claim.incarnation = take<Incarnation>(in);
  const auto over = take<ClaimId>(in);
  const auto flags = in.u<std::uint8_t>();
  (void)in.raw(7);
  claim.time_ms = static_cast<std::int64_t>(in.u<std::uint64_t>());
  (void)in.u<std::uint64_t>();
  const auto checksum = in.u<std::uint64_t>();
  if (in.failed() || flags > kConditional || checksum != xxh3(record.first(kClaimRecordBytes - sizeof checksum))) return {};
  if (flags == kConditional) claim.over = over;
  return claim;
}

Result<std::unique_ptr<DiskClaimLog>> DiskClaimLog::open(io::Disk& disk, std::string path) {
  std::unique_ptr<DiskClaimLog> log(new DiskClaimLog(disk, std::move(path)));
  auto bytes = disk.read(log->path_, 0, kMaxClaimLogBytes + kClaimRecordBytes);
  if (!bytes) {
    if (bytes.error().code == ENOENT) return log;
    return tl::unexpected(disk_error(log->path_, bytes.error().message));
  }
  const ByteView all(*bytes);
  for (std::size_t at = 0; at + kClaimRecordBytes <= all.size(); at += kClaimRecordBytes) {
    const ByteView record = all.subspan(at, kClaimRecordBytes);
    auto claim = decode_claim(record);
    if (!claim) {
      const bool ours = std::memcmp(record.data(), kMagic, kVersionAt) == 0;
      if (ours && record[kVersionAt] > std::byte{'1'}) {
        return tl::unexpected(Error{Outcome::invalid, fmt::format("the claim log {} was written by a newer version of Onepen; use that one", log->path_), {}});
      }
      if (at + 2 * kClaimRecordBytes > all.size()) break;  // torn: the last one, whose sync never returned
      return damaged(log->path_, at);
    }
    // A whole record, and no claim has such an epoch: nothing could be claimed above it.
    if (claim->epoch.value == 0 || claim->epoch.value > kMaxWireNumber) return damaged(log->path_, at);
    log->size_ = at + kClaimRecordBytes;
    log->highest_ = std::max(log->highest_, claim->epoch);
    log->last_ = *claim;
  }
  const std::size_t again = std::min<std::size_t>(log->size_, kClaimsAgain * kClaimRecordBytes);
  log->again_ = to_bytes(all.subspan(log->size_ - again, again));
  return log;
}

Result<> DiskClaimLog::write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) {
  if (poisoned_) return tl::unexpected(disk_error(path_, "a sync of it failed earlier"));
  WrittenClaim claim;
  claim.epoch = request.epoch;
  claim.claim_id = request.claim_id;
  claim.attempt = request.attempt;
  claim.incarnation = incarnation;
  claim.over = request.over;
  claim.time_ms = request.time_ms;
  const Bytes record = encode(claim);
  const bool first = size_ == 0;
  io::DiskResult<> written;
  if (!again_.empty() || size_ + kClaimRecordBytes > kMaxClaimLogBytes) {
    written = begin_anew(record);
  } else {
    written = disk_.write_at(path_, size_, record, true);  // over a torn tail, if there is one
    if (written && first) written = disk_.sync_folder(io::folder_of(path_));
  }
  if (!written) {
    poisoned_ = true;
    return tl::unexpected(disk_error(path_, written.error().message));
  }
  size_ += kClaimRecordBytes;
  highest_ = std::max(highest_, claim.epoch);
  last_ = claim;
  return {};
}

// A new file takes its place, with the newest records and this one. Full: only the newest; older claims are below the stream's epoch floor by now. And with the first
// record of each process: one before it whose sync failed left a record that is read back, and that no later sync brings to the disk (Linux drops it). A loss of power
// then left a hole in front of the records of those that came after it, and a log that nobody opened any more (simulator, sqlite seeds 151 and 2832).
io::DiskResult<> DiskClaimLog::begin_anew(ByteView record) {
  const bool full = size_ + kClaimRecordBytes > kMaxClaimLogBytes;
  Bytes bytes = full ? encode(*last_) : std::move(again_);
  again_.clear();
  const std::uint64_t before = bytes.size();
  bytes.insert(bytes.end(), record.begin(), record.end());
  const std::string fresh = path_ + ".new";
  (void)disk_.remove(fresh);
  auto done = disk_.create(fresh, bytes, true);
  if (done) done = disk_.rename(fresh, path_);
  if (done) done = disk_.sync_folder(io::folder_of(path_));
  if (done) size_ = before;
  return done;
}

}  // namespace onepen::owner
