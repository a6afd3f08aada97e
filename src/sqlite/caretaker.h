// Keeps a log from growing without bound while its owner works: snapshots, compaction, trim. One thread beside each open database that owns.
//
//   log since the newest snapshot > max(database, 8 MiB), or snapshot_after ──▶ pin ──▶ parts ──▶ read back ──▶ `snapshot` record ──▶ trim to the one before
//   every kTendObjects objects of the log                                  ──▶ Stream::tend (compaction)
//
// It works on a session of its own. Nothing depends on it: what it leaves undone the next owner does; an owner that was fenced does no harm (homes.md, B5).
// Thread-safety: all functions from any thread.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/runtime.h"
#include "core/home.h"
#include "sqlite/pin.h"

namespace onepen::sqlite {

// What the caretaker needs of the open database. Called on its thread; outlives it.
class CaretakerSeat {
 public:
  virtual ~CaretakerSeat() = default;
  virtual std::unique_ptr<core::Stream> session() = 0;                   // a session of its own at the stream
  virtual std::optional<core::OwnerToken> token() = 0;                   // none: not the owner (any more)
  virtual std::uint64_t database_bytes() = 0;                            // size of the database as of its last commit; what the policy compares with
  // Of the newest commit known to be in the stream: where a session begins, so that it need not read the log. Empty: not known.
  virtual Offset position() { return {}; }
  virtual Result<std::unique_ptr<PinnedCopy>> pin() = 0;
  // Waits until it is in the stream; ends, with an error, when the database is being closed or was reset (stop() waits for it).
  virtual Result<Offset> append_record(core::RecordKind kind, Bytes payload) = 0;
};

struct CaretakerOptions {
  std::uint64_t snapshot_after = 0;  // bytes of log; 0: as many as the database has, at least kLeastSnapshotAfter
};
inline constexpr std::uint64_t kLeastSnapshotAfter = 8u << 20;
inline constexpr std::uint32_t kTendObjects = 1024;
// After a failure it waits this long, twice as long after each further one.
inline constexpr std::chrono::nanoseconds kFirstRetry{std::chrono::seconds(1)}, kLastRetry{std::chrono::minutes(1)};

struct GrowthStatus {  // for onepen_status()
  std::uint64_t log_bytes = 0;              // since the newest snapshot
  std::uint64_t next_snapshot_at = 0;       // log_bytes that make the next one
  std::optional<core::SnapshotInfo> newest{};
  bool busy = false;                        // it is looking, or a snapshot, a compaction or a trim is under way
  std::string trouble{};                    // why the last attempt failed; empty: it did not
};

class Caretaker {
 public:
  Caretaker(Runtime& runtime, CaretakerSeat& seat, CaretakerOptions options, Log log);
  ~Caretaker();  // stop()
  // An append of about so many bytes was acknowledged. Cheap; the first one wakes the caretaker up, which until then asks the home for nothing.
  void committed(std::uint64_t bytes);
  // `onepen snapshot`: makes one whatever the policy says, or answers the newest when nothing was committed since; waits for it. Errors: not_owner;
  // unavailable (being closed; the pin); state_mismatch (the copy is damaged); what the home refused.
  Result<core::SnapshotInfo> snapshot_now();
  GrowthStatus status() const;
  void stop();  // cancels a snapshot that is being made, and waits; idempotent

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace onepen::sqlite
