// Sends the commits of durability=local: takes them in order from SQLite's WAL once they are published, encodes each from the WAL alone, and hands its parts to
// the owner, many before the first is decided. What is acknowledged is told to the copy and to the hold.
//
//   WAL: ... |── acknowledged ──|── in flight (submitted) ──|── published ──|
//
// The bytes of a commit follow from the WAL and from the state before it alone: a page is a delta only against an earlier frame of the same WAL, else it is
// whole. So another process, which opens the copy after this one was killed, sends the same bytes again (fence.md, "Takeover").
// It never touches SQLite, and no descriptor of the database file. Thread-safety: one thread at a time (the keeper's).
#pragma once
#include <atomic>
#include <deque>
#include <unordered_map>

#include "owner/owner.h"
#include "sqlite/page_sum.h"
#include "sqlite/wal_hold.h"
#include "sqlite/wal_tail.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

class LocalSender {
 public:
  // All outlive it. copy: its state() and place() are where sending begins.
  LocalSender(Runtime& runtime, io::Disk& disk, Copy& copy, WalHold& hold);

  // What was submitted and not acknowledged is forgotten: the next work() begins at the copy's state again, with the same bytes.
  void rewind();
  // Sends everything published and takes every answer; returns when nothing is left, or `stop`. `told`: called after each acknowledgement with the bytes that
  // went into the log. Errors: what an append was refused with (rewind() before going on); state_mismatch: the WAL is not what was published.
  Result<> work(owner::Owner& owner, const Incarnation& incarnation, const std::atomic<bool>& stop, const std::function<void(std::uint64_t)>& told = {});
  // A record of the stream, read while nothing is in flight: true when it is (a part of) the next unacknowledged commit. The last part acknowledges it.
  Result<bool> landed(const core::Record& record);
  std::uint64_t taken() const { return taken_; }  // commits encoded so far, counted as the hold counts
  // A commit was acknowledged, and the copy could not write that down: what the sender would begin from is behind the stream, so nothing is sent any more.
  bool out_of_step() const { return out_of_step_; }
  std::uint64_t last_batch() const { return last_batch_; }  // commits that the last work() sent

 private:
  struct Commit {
    CommitState next;
    std::vector<PageHash> hashes;
    WalPlace end;
    std::optional<Sequence> sequence{};  // of its last part, once it is known to have landed under the ownership of this handle
  };
  struct InFlight {
    owner::Ticket last = 0;
    std::uint64_t bytes = 0;
    std::uint32_t parts = 0;
    Commit commit;
  };
  struct Source {  // the newest frame of each page of the commit being read
    std::uint32_t page = 0;
    WalSlot slot = 0;
    std::size_t image_at = 0;  // in images_
  };

  Result<> prepare();
  Result<> read_commit(std::uint32_t end, std::uint32_t& page_count_after);
  Result<Commit> encode_next(std::uint32_t end, const wire::PartEncoder::Sink& sink);
  Result<> add_pages(wire::PartEncoder& encoder, Commit& commit);
  void move_on(const Commit& commit);
  std::uint64_t hash_now(std::uint32_t page) const;
  Result<> send_next(owner::Owner& owner, const Incarnation& incarnation, std::uint32_t end);
  Result<> drained(owner::Owner& owner, const std::function<void(std::uint64_t)>& told, const std::atomic<bool>& stop, Error error);
  Result<> take_answers(owner::Owner& owner, Instant until, const std::function<void(std::uint64_t)>& told);
  Result<> acknowledge(Commit commit);

  Runtime& runtime_;
  Copy& copy_;
  WalHold& hold_;
  WalTail tail_;
  wire::PageCodec codec_;
  bool ready_ = false;
  std::uint64_t taken_ = 0, last_batch_ = 0;
  bool out_of_step_ = false;
  CommitState base_;  // after the last encoded commit
  std::unordered_map<std::uint32_t, WalSlot> frames_;  // newest frame of each page, as of base_
  std::unordered_map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> hashes_;  // pages that unacknowledged commits changed: hash, ordinal of the last
  std::deque<InFlight> flight_;
  std::uint64_t flight_bytes_ = 0;
  std::uint32_t flight_parts_ = 0;
  std::vector<Source> sources_;
  bool whole_ = false;  // images_ holds all frames of the commit
  Bytes images_, image_, previous_;
  struct Landing {
    Commit commit;
    wire::CommitHead head;
    std::uint32_t parts = 0;
  };
  std::optional<Landing> landing_;
};

}  // namespace onepen::sqlite
