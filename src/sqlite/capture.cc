#include "sqlite/capture.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>

#include "base/failpoint.h"
#include "sqlite/api.h"
#include "sqlite/apply.h"
#include "sqlite/messages.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {
namespace {

// While a COMMIT waits, sqlite3_interrupt is looked for this often.
constexpr std::chrono::milliseconds kInterruptLook{50};

constexpr std::string_view kRolledBack = "This transaction is not in the stream and was rolled back.";
constexpr std::string_view kNewHistory =
    "The stream has a new history (it was restored or adopted): try the transaction again. This handle goes on by itself when the new history has all that its "
    "copy has, and says so (rewound) when it has not.";
constexpr std::string_view kUnseenFrames =
    "The local copy was written by something else than Onepen in this process: a commit holds frames that were never seen.";
constexpr std::string_view kInTheStream = "The transaction is in the stream: opening the database again shows it.";

std::string joined(std::string text, std::string_view more) {
  if (!text.empty() && text.back() != ' ') text.push_back(' ');
  return text.append(more);
}

// fence.md, sqlite.md: after these the handle goes on; every other definite refusal is final for it.
bool stays_usable(Outcome outcome) {
  switch (outcome) {
    case Outcome::write_fenced:
    case Outcome::read_fenced:
    case Outcome::quarantined:
    case Outcome::fence_unavailable:
    case Outcome::too_large:
    case Outcome::unavailable:  // certainly not applied: nobody answered in time
    case Outcome::incarnation_changed:  // the keeper finds out whether this handle can go on
    case Outcome::invalid: return true;
    default: return false;
  }
}

// Refused here, in both modes, before anything of it is in the stream: it would stand in the way of every later one.
int can_be_sent(std::uint32_t before, std::uint32_t after, std::size_t written) {
  const std::string why = never_sendable(before, after, written);
  return why.empty() ? SQLITE_OK : refuse(joined(why, kRolledBack));
}

int out_of_step(ResetSink& sink, std::string sentence) {
  sink.reset(ResetKind::diverged, sentence);
  return refuse(joined(std::move(sentence), kRolledBack));
}

#ifdef ONEPEN_TEST_HOOKS
std::atomic<std::uint32_t> most_pages{wire::kMaxPageCount};
#else
constexpr std::uint32_t most_pages = wire::kMaxPageCount;
#endif

}  // namespace

#ifdef ONEPEN_TEST_HOOKS
void set_most_pages(std::uint32_t pages) { most_pages = pages; }
#endif

std::string never_sendable(std::uint32_t before, std::uint32_t after, std::size_t written) {
  if (after > most_pages) return fmt::format("A database of {} pages is more than a stream can hold.", after);
  if (after <= before || after - before <= kMaxGapPages || after - before - kMaxGapPages <= written) return {};
  return fmt::format("A transaction that grows the database by {} pages of which it writes only {} could never be sent: at most {} may be left unwritten.",
                     after - before, written, kMaxGapPages);
}

struct Capture::Work {
  Ownership ours;  // whom it is sent by
  CommitFrameHeader header;
  std::span<const std::byte> image;  // of the page in the commit's last slot
  std::chrono::nanoseconds timeout;
  Instant deadline;                  // moves on with every part the owner takes
  CommitState before, next;
  std::vector<ChangedPage> pages;    // rising
  std::vector<PageHash> hashes;
  owner::Ticket last_ticket = 0;
  std::optional<Error> submit_error;
  std::uint64_t sent_bytes = 0;
  bool acknowledged = false;
};

Capture::Capture(Runtime& runtime, Copy& copy, OwnerSeat& seat, WalHold& hold, ResetSink& sink, std::uint64_t max_pending_bytes)
    : runtime_(runtime), copy_(copy), seat_(seat), hold_(hold), sink_(sink), max_pending_bytes_(max_pending_bytes) {}

int Capture::refused(const Error& error, std::string_view consequence) {
  if (!stays_usable(error.outcome)) sink_.reset_after(error);
  const auto reset = sink_.current_reset();
  // No reset yet, and perhaps none: the keeper looks whether the new history has all that this copy has (OpenDatabase::on_owner_reset).
  if (!reset && error.outcome == Outcome::incarnation_changed) return refuse(joined(std::string(kNewHistory), consequence));
  return refuse(joined(reset ? reset->message : error.message, consequence));
}

int Capture::commit(CommitFiles& files, const CommitFrameHeader& header, std::span<const std::byte> image, std::chrono::nanoseconds timeout) {
  if (const auto reset = sink_.current_reset()) return refuse(joined(reset->message, kRolledBack));
  Work work{};
  try {
    return run(files, work, header, image, timeout);
  } catch (const std::exception& e) {  // no memory: what it means depends on how far the commit was
    const std::string why = fmt::format("COMMIT stopped in the middle ({})", e.what());
    if (work.acknowledged) {
      sink_.poison(why);
      sink_.reset(ResetKind::broken, joined(why + ".", kInTheStream));
      return SQLITE_OK;
    }
    if (work.last_ticket == 0) return SQLITE_NOMEM;
    sink_.reset(ResetKind::unresolved, why + ": the transaction may be in the stream. Open the database again: that tells.");
    return refuse(why + ": the transaction may be in the stream. Open the database again: that tells.");
  }
}

int Capture::run(CommitFiles& files, Work& work, const CommitFrameHeader& header, std::span<const std::byte> image, std::chrono::nanoseconds timeout) {
  work.header = header;
  work.image = image;
  work.timeout = timeout;
  work.deadline = runtime_.now() + timeout;
  work.ours = seat_.wait_for_owner(work.deadline);
  if (!work.ours.owner)
    return refused({Outcome::unavailable, "The stream has a new history, and this process could not claim it yet: COMMIT waited for that in vain.", {}},
                   kRolledBack);
  if (const int rc = collect(work); rc != SQLITE_OK) return rc;
  if (ONEPEN_FAILPOINT("capture.before_reserve")) return SQLITE_FULL;
  if (const int rc = files.reserve(header.slot, image); rc != SQLITE_OK) return rc;
  if (ONEPEN_FAILPOINT("capture.before_submit")) return refuse("A failpoint refused the commit before it was sent.");
  if (const int rc = encode(files, work); rc != SQLITE_OK) return rc;
  return decide(files, work);
}

// The pages of the commit. Pages that the database grew over without writing them are pages of zeros (wal_hold.h).
int Capture::collect(Work& work) {
  work.before = copy_.state();
  const auto page_size = static_cast<std::uint32_t>(work.image.size());
  if (work.before.page_size != page_size)
    return out_of_step(sink_, fmt::format("The local copy of the database has pages of {} bytes, but the stream has {}.", page_size, work.before.page_size));
  auto changes = frames_.changes(work.header.slot, work.header.page_count_after);
  if (!changes) return out_of_step(sink_, std::string(kUnseenFrames));
  work.pages = std::move(*changes);
  std::erase_if(work.pages, [&](const ChangedPage& page) { return page.number == lock_byte_page(page_size); });
  if (work.pages.empty()) work.pages.push_back({1, 0});  // a commit frame of a page past the new end: page 1 as it is
  if (const int rc = can_be_sent(work.before.page_count, work.header.page_count_after, work.pages.size()); rc != SQLITE_OK) return rc;
  work.next = work.before;
  work.next.incarnation = work.ours.incarnation;
  work.next.ordinal = work.before.ordinal + 1;
  work.next.page_count = work.header.page_count_after;
  for (std::uint32_t number = work.next.page_count + 1; number <= work.before.page_count; ++number) work.next.page_sum -= copy_.page_hash(number);
  auto written = work.pages.begin();
  for (std::uint32_t number = work.before.page_count + 1; number <= work.next.page_count; ++number) {
    while (written != work.pages.end() && written->number < number) ++written;
    const bool gap = written == work.pages.end() || written->number != number;
    if (gap && number != lock_byte_page(page_size)) work.next.page_sum += zero_page_hash(number, page_size);
  }
  image_.resize(page_size);
  previous_.resize(page_size);
  work.hashes.reserve(work.pages.size());
  return SQLITE_OK;
}

int Capture::encode(CommitFiles& files, Work& work) {
  const CommitState& state = work.before;
  const wire::CommitHead head{work.next.ordinal, state.page_size, work.header.page_count_after, {state.page_sum, state.page_count}};
  wire::PartEncoder encoder(codec_, head, [&](Bytes part) { return submit(work, std::move(part)); });
  for (const ChangedPage& page : work.pages) {
    if (const int rc = add_page(files, work, encoder, page); rc != SQLITE_OK) return rc;
  }
  if (const auto done = encoder.finish(work.next.page_sum); !done) return refused(work.submit_error ? *work.submit_error : done.error(), kRolledBack);
  return SQLITE_OK;
}

int Capture::add_page(CommitFiles& files, Work& work, wire::PartEncoder& encoder, const ChangedPage& page) {
  std::span<const std::byte> image = image_;
  if (page.slot == work.header.slot) {
    image = work.image;
  } else if (page.slot != 0) {
    if (const int rc = files.read_slot(page.slot, image_); rc != SQLITE_OK) return rc;
  } else if (const auto slot = frames_.committed_slot(page.number)) {
    if (const int rc = files.read_slot(*slot, image_); rc != SQLITE_OK) return rc;
  } else if (const int rc = files.read_database_page(page.number, image_); rc != SQLITE_OK) {
    return rc;
  }
  bool known = false;
  if (page.number <= work.before.page_count && !hold_.is_gap(page.number)) {
    if (const int rc = read_previous(files, page.number, known); rc != SQLITE_OK) return rc;
  }
  const std::uint64_t hash = page_hash_of(page.number, image);
  work.next.page_sum += hash - copy_.page_hash(page.number) * (page.number <= work.before.page_count ? 1 : 0);
  work.hashes.emplace_back(page.number, hash);
  const auto added = encoder.add(page.number, image, known ? ByteView(previous_) : ByteView{});
  if (!added) return refused(work.submit_error ? *work.submit_error : added.error(), kRolledBack);
  return SQLITE_OK;
}

// The page before this commit, for the delta. That it is what the stream says is checked, not assumed (I9): the copy may have been written behind us.
int Capture::read_previous(CommitFiles& files, std::uint32_t number, bool& known) {
  const auto slot = frames_.committed_slot(number);
  const int rc = slot ? files.read_slot(*slot, previous_) : files.read_database_page(number, previous_);
  if (rc != SQLITE_OK) return rc;
  if (page_hash_of(number, previous_) != copy_.page_hash(number))
    return out_of_step(
        sink_, fmt::format("Page {} of the local copy is not what the stream says: something else than Onepen wrote to {}, or the disk is damaged.", number,
                           copy_.db_path()));
  known = true;
  return SQLITE_OK;
}

Result<> Capture::submit(Work& work, Bytes part) {
  // The limit is on standing still: a commit of a gigabyte may take as long as it makes progress.
  work.deadline = runtime_.now() + work.timeout;
  work.sent_bytes += part.size();
  auto ticket = work.ours.owner->submit(std::move(part), work.deadline, core::RecordKind::data, owner::More::yes);  // until decide() waits
  if (ONEPEN_FAILPOINT("capture.after_part")) return tl::unexpected(Error{Outcome::unavailable, "A failpoint refused a part of the commit.", {}});
  if (!ticket) {
    // Parts before this one may be in the stream; without a last part they are void (commit_frame.h).
    work.submit_error = ticket.error();
    return tl::unexpected(ticket.error());
  }
  work.last_ticket = *ticket;
  work.deadline = runtime_.now() + work.timeout;
  return {};
}

int Capture::decide(CommitFiles& files, Work& work) {
  for (;;) {
    const Instant look = std::min(work.deadline, runtime_.now() + kInterruptLook);
    const owner::Fate fate = work.ours.owner->wait(work.last_ticket, look, nullptr);
    if (fate.kind == owner::Fate::Kind::acknowledged) {
      work.acknowledged = true;
      return land(files, work, fate.offset);
    }
    if (fate.kind == owner::Fate::Kind::refused) return refused(fate.error.value_or(Error{Outcome::unavailable, "The commit was refused.", {}}), kRolledBack);
    const bool interrupted = files.interrupted();
    // Told before its time: the owner's thread has ended, or the process is being stopped. Nothing will decide it here any more.
    const bool over = work.ours.owner->status().reset.has_value() || runtime_.now() < look;
    if (!interrupted && !over && runtime_.now() < work.deadline) continue;
    const std::string what = interrupted ? std::string("COMMIT was interrupted")
                             : over      ? std::string("COMMIT was given up")
                                    : fmt::format("COMMIT gave up after {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(work.timeout).count());
    // When every answer was a definite refusal (a full disk, nobody there), the append is taken back: certainly not in the stream.
    if (const owner::Fate last = work.ours.owner->withdraw(work.last_ticket); last.kind == owner::Fate::Kind::acknowledged) {
      work.acknowledged = true;
      return land(files, work, last.offset);
    } else if (last.kind == owner::Fate::Kind::refused) {
      Error error = last.error.value_or(Error{Outcome::unavailable, "the home did not take it", {}});
      if (error.outcome == Outcome::unavailable) error.message = what + ": " + error.message;
      return refused(error, kRolledBack);
    }
    // I4: unknown is never guessed. The append goes on being sent; this handle says no more about it.
    std::string sentence = fmt::format(
        "{}: the home did not say whether the transaction is in the stream{}. It may be in the stream; it was rolled back locally, and this handle is "
        "reset. Open the database again: that tells.",
        what, fate.error && !fate.error->message.empty() ? " (" + fate.error->message + ")" : "");
    sink_.reset(ResetKind::unresolved, sentence);
    return refuse(std::move(sentence));
  }
}

// ---- durability=local

int Capture::admit(CommitFiles& files, const CommitFrameHeader& header, std::uint32_t page_size, std::uint32_t page_count_before,
                   std::chrono::nanoseconds timeout) {
  if (const auto reset = sink_.current_reset()) return refuse(joined(reset->message, kRolledBack));
  const auto written = frames_.running_pages(header.slot, header.page_count_after);
  if (!written) return out_of_step(sink_, std::string(kUnseenFrames));
  if (*written == 0) return refuse(joined("SQLite made a commit without a page, which Onepen does not know.", kRolledBack));
  if (const int rc = can_be_sent(page_count_before, header.page_count_after, *written); rc != SQLITE_OK) return rc;
  const std::uint64_t frame_bytes = page_size + kWalFrameHeaderBytes;
  const WalHold::View view = hold_.view();
  const WalSlot acknowledged = view.pending() == 0 ? frames_.committed() : view.acknowledged.frame;
  const std::uint64_t own = (header.slot - frames_.committed()) * frame_bytes;
  if (own > max_pending_bytes_)
    return refuse(
        fmt::format("A transaction of {} bytes of WAL is more than max_pending_bytes={}, so it was refused. Open with a larger max_pending_bytes, or "
                    "with durability=replicated. {}",
                    own, max_pending_bytes_, kRolledBack));
  if ((header.slot - acknowledged) * frame_bytes <= max_pending_bytes_) return SQLITE_OK;
  return wait_for_room(files, own, frame_bytes, header.slot, timeout);
}

// More than max_pending_bytes would be pending. While the home takes appends, COMMIT waits for it; the sender needs nothing that SQLite's lock keeps from it.
int Capture::wait_for_room(CommitFiles& files, std::uint64_t own, std::uint64_t frame_bytes, WalSlot slot, std::chrono::nanoseconds timeout) {
  const Instant deadline = runtime_.now() + timeout;
  const auto room = [&] {
    const WalHold::View view = hold_.view();
    return view.pending() == 0 || (slot - view.acknowledged.frame) * frame_bytes <= max_pending_bytes_;
  };
  const WalHold::Urgent urgent(hold_);
  bool interrupted = false;
  while (seat_.current().owner && !sink_.current_reset() && !interrupted && runtime_.now() < deadline) {
    const Instant before = runtime_.now();
    if (hold_.changed().wait(std::min(deadline, before + kInterruptLook), room)) return SQLITE_OK;
    if (runtime_.now() == before) break;  // the process is being stopped
    interrupted = files.interrupted();
  }
  if (const auto reset = sink_.current_reset()) return refuse(joined(reset->message, kRolledBack));
  const WalHold::View view = hold_.view();
  const std::string why = !seat_.current().owner ? "the home is out of reach"
                          : interrupted
                              ? "COMMIT was interrupted while it waited for the home"
                              : fmt::format("the home did not take them within {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  return refuse(
      fmt::format("{} commits ({} bytes of WAL) wait to be sent, and {}: with {} bytes more it would be more than max_pending_bytes={}. Nothing that was "
                  "committed before is lost. Try again when the home takes them, or open with a larger max_pending_bytes. {}",
                  view.pending(), view.pending_frames() * frame_bytes, why, own, max_pending_bytes_, kRolledBack));
}

// From here on the transaction is in the stream, so the application is told success whatever the local disk does (sqlite.md, "replicated").
int Capture::land(CommitFiles& files, Work& work, const Offset& offset) {
  sink_.sent(work.sent_bytes);
  if (offset.text.empty()) {
    // It was applied just before we were fenced, and the home can no longer say where. The copy stays at the commit before; opening reads this one.
    sink_.freeze();
    frames_.land(work.header.slot, work.header.page_count_after);
    return SQLITE_OK;
  }
  work.next.offset = offset;
  bool failed = ONEPEN_FAILPOINT("capture.after_ack");
  std::string why = "a failpoint";
  if (!failed) {
    const auto [salt1, salt2] = frames_.salts();
    if (const auto noted = copy_.will_land(work.next, std::move(work.hashes), {salt1, salt2, work.header.slot}); !noted)
      failed = true, why = noted.error().message;
  }
  if (!failed) {
    failed = ONEPEN_FAILPOINT("capture.before_commit_frame");
    if (!failed) {
      const int rc = files.write_frame_header(work.header.slot, work.header.bytes);
      if (rc != SQLITE_OK) failed = true, why = fmt::format("writing the commit frame to {}-wal failed with SQLite code {}", copy_.db_path(), rc);
    }
  }
  std::vector<std::uint32_t> written;
  for (const ChangedPage& page : work.pages) written.push_back(page.number);
  hold_.note_pages(work.before.page_size, work.before.page_count, work.next.page_count, written);
  frames_.land(work.header.slot, work.header.page_count_after);
  if (failed) {
    sink_.poison(why);
    std::string sentence = joined(fmt::format("The local copy failed after the commit was acknowledged: {}.", why), kInTheStream);
    sink_.reset(ResetKind::broken, sentence);
    refuse(std::move(sentence));
  }
  if (ONEPEN_FAILPOINT("capture.after_commit_frame")) sink_.poison("a failpoint");
  return SQLITE_OK;
}

}  // namespace onepen::sqlite
