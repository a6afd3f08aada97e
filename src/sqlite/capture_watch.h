// Notices that something else wrote to the copy: another program, plain SQLite, a library that was not told. Pure.
//
// Every change of a WAL database happens under the WAL write lock and changes the wal-index header (48 bytes: change counter, frame count, checksums,
// salts). So the header at each taking of the lock must be the one at its last release by us; anything else is a foreign write, and the copy has left the
// stream's history (`diverged`). A header that is not there yet is being rebuilt by recovery: then the rebuilt one must say what the last one said.
// Thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

namespace onepen::sqlite {

using WalIndexHeader = std::array<std::uint8_t, 48>;  // in the machine's byte order (wal.c, WalIndexHdr)

bool initialised(const WalIndexHeader& header);
std::uint32_t frame_count(const WalIndexHeader& header);  // mxFrame: the frames that count

class CaptureWatch {
 public:
  // The write lock was taken; `header` as it is, nothing when there is none yet. False: foreign.
  [[nodiscard]] bool taken(const std::optional<WalIndexHeader>& header);
  // It is about to be released. False: recovery found something that is not ours.
  [[nodiscard]] bool releasing(const std::optional<WalIndexHeader>& header);
  // The WAL and its index were removed after everything was checkpointed.
  void removed();

 private:
  std::mutex mutex_;
  std::optional<WalIndexHeader> last_;
  bool recovering_ = false;
};

}  // namespace onepen::sqlite
