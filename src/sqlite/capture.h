// A COMMIT on its way into the stream: the images the pager has put into the WAL become a commit frame in parts, the owner sends them, and only when the
// stream has acknowledged the last part does the frame header that commits reach the WAL. So SQLite's own commit point comes after the stream's.
//
//   pager writes frames (headers and pages, as they come)                                    -> WAL, noted in WalFrames
//   pager writes the frame header that commits                                               -> held
//   pager writes that frame's page: reserve space -> parts -> owner -> wait for the answer
//        acknowledged -> Copy::will_land -> frame header -> WAL                              -> SQLITE_OK, whatever the local disk says from here on
//        refused      -> nothing more is written; the pager rolls back                       -> SQLITE_AUTH, and the sentence
//        undecided    -> as refused, and the handle resets `unresolved`                      -> SQLITE_AUTH
//
// With durability=local nothing is held back: admit() only says no to a commit that could never be sent, or that there is no room for, before its frame header
// is written; the rest is the LocalSender's, after SQLite has published the commit.
//
// Thread-safety: used under SQLite's WAL write lock; the lock is what orders the connections.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>

#include "base/log.h"
#include "base/runtime.h"
#include "owner/owner.h"
#include "sqlite/copy.h"
#include "sqlite/keeper.h"
#include "sqlite/wal_frames.h"
#include "sqlite/wal_hold.h"
#include "wire/commit_frame.h"

namespace onepen::sqlite {

// The files of the connection that commits. Every function returns an SQLite code and touches only the platform VFS.
class CommitFiles {
 public:
  virtual ~CommitFiles() = default;
  virtual int read_slot(WalSlot slot, std::span<std::byte> image) = 0;
  virtual int read_database_page(std::uint32_t number, std::span<std::byte> image) = 0;  // zeros beyond the end of the file
  // Makes room so that writing the frame header cannot fail for want of it: the page and an empty header in the WAL, the region of the wal-index.
  virtual int reserve(WalSlot slot, std::span<const std::byte> image) = 0;
  virtual int write_frame_header(WalSlot slot, std::span<const std::uint8_t> header) = 0;
  virtual bool interrupted() = 0;  // sqlite3_interrupt was called on the connection
};

// What a handle's owner of record does with a commit's fate.
class ResetSink {
 public:
  virtual ~ResetSink() = default;
  virtual void reset(ResetKind kind, std::string message) = 0;
  virtual void reset_after(const Error& refusal) = 0;  // the owner resets for this; the handle must not begin anything until its thread has said so
  virtual std::optional<Reset> current_reset() const = 0;
  virtual void poison(std::string_view why) = 0;
  virtual void sent(std::uint64_t bytes) = 0;  // so many bytes of log were acknowledged
  virtual void freeze() = 0;  // checkpoints write nothing more: the database file stays as it is
};

struct CommitFrameHeader {
  WalSlot slot = 0;
  std::uint32_t page_number = 0, page_count_after = 0;
  std::array<std::uint8_t, 24> bytes{};
};

// Why a commit would stand in the stream's way for ever, since no reader takes it; empty: readers take it. Of a database of `before` pages, which has `after`
// then; the commit holds `written` of them.
std::string never_sendable(std::uint32_t before, std::uint32_t after, std::size_t written);
#ifdef ONEPEN_TEST_HOOKS
void set_most_pages(std::uint32_t pages);  // of a database; a test makes it less than what a stream can hold, to reach it
#endif

class Capture {
 public:
  // All outlive the Capture.
  Capture(Runtime& runtime, Copy& copy, OwnerSeat& seat, WalHold& hold, ResetSink& sink, std::uint64_t max_pending_bytes);

  WalFrames& frames() { return frames_; }
  // Brings one commit into the stream and, once it is there, its frame header into the WAL. SQLITE_OK: it is in the stream.
  int commit(CommitFiles& files, const CommitFrameHeader& header, std::span<const std::byte> image, std::chrono::nanoseconds timeout);
  // durability=local: may this commit be made? page_count_before: of the database as SQLite has published it. SQLITE_OK, or SQLITE_AUTH and the sentence.
  int admit(CommitFiles& files, const CommitFrameHeader& header, std::uint32_t page_size, std::uint32_t page_count_before, std::chrono::nanoseconds timeout);

 private:
  struct Work;
  int wait_for_room(CommitFiles& files, std::uint64_t bytes, std::uint64_t frame_bytes, WalSlot slot, std::chrono::nanoseconds timeout);
  int run(CommitFiles& files, Work& work, const CommitFrameHeader& header, std::span<const std::byte> image, std::chrono::nanoseconds timeout);
  int collect(Work& work);
  int encode(CommitFiles& files, Work& work);
  int add_page(CommitFiles& files, Work& work, wire::PartEncoder& encoder, const ChangedPage& page);
  int read_previous(CommitFiles& files, std::uint32_t number, bool& known);
  Result<> submit(Work& work, Bytes part);
  int decide(CommitFiles& files, Work& work);
  int land(CommitFiles& files, Work& work, const Offset& offset);
  int refused(const Error& error, std::string_view consequence);

  Runtime& runtime_;
  Copy& copy_;
  OwnerSeat& seat_;
  WalHold& hold_;
  ResetSink& sink_;
  const std::uint64_t max_pending_bytes_;
  WalFrames frames_;
  wire::PageCodec codec_;
  Bytes image_, previous_;
};

}  // namespace onepen::sqlite
