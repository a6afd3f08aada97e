#include "sqlite/capture.h"

#include <fmt/format.h>

#include <exception>

#include "base/failpoint.h"
#include "sqlite/api.h"
#include "sqlite/messages.h"
#include "sqlite/page_sum.h"

namespace onepen::sqlite {
namespace {

// While a COMMIT waits, sqlite3_interrupt is looked for this often.
constexpr std::chrono::milliseconds kInterruptLook{50};

constexpr std::string_view kRolledBack = "This transaction is not in the stream and was rolled back.";
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
    case Outcome::invalid: return true;
    default: return false;
  }
}

int out_of_step(ResetSink& sink, std::string sentence) {
  sink.reset(ResetKind::diverged, sentence);
  return refuse(joined(std::move(sentence), kRolledBack));
}

}  // namespace

struct Capture::Work {
  CommitFrameHeader header;
  std::span<const std::byte> image;  // of the page in the commit's last slot
  std::chrono::nanoseconds timeout;
  Instant deadline;                  // moves on with every part the owner takes
  CommitState next;
  std::vector<ChangedPage> pages;    // rising; those without a slot are read as a reader would
  std::vector<PageHash> hashes;
  owner::Ticket last_ticket = 0;
  std::optional<Error> submit_error;
  bool acknowledged = false;
};

Capture::Capture(Runtime& runtime, Copy& copy, owner::Owner& owner, ResetSink& sink, Incarnation incarnation)
    : runtime_(runtime), copy_(copy), owner_(owner), sink_(sink), incarnation_(incarnation) {}

int Capture::refused(const Error& error, std::string_view consequence) {
  if (!stays_usable(error.outcome)) sink_.reset_after(error);
  const auto reset = sink_.current_reset();
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
  if (const int rc = collect(work); rc != SQLITE_OK) return rc;
  if (ONEPEN_FAILPOINT("capture.before_reserve")) return SQLITE_FULL;
  if (const int rc = files.reserve(header.slot, image); rc != SQLITE_OK) return rc;
  if (ONEPEN_FAILPOINT("capture.before_submit")) return refuse("A failpoint refused the commit before it was sent.");
  if (const int rc = encode(files, work); rc != SQLITE_OK) return rc;
  return decide(files, work);
}

// The pages of the commit, and those the database grew over without writing them: a reader of the copy sees whatever is there, so the stream says it too.
int Capture::collect(Work& work) {
  const CommitState& state = copy_.state();
  const auto page_size = static_cast<std::uint32_t>(work.image.size());
  if (state.page_size != page_size)
    return out_of_step(sink_, fmt::format("The local copy of the database has pages of {} bytes, but the stream has {}.", page_size, state.page_size));
  auto changes = frames_.changes(work.header.slot, work.header.page_count_after);
  if (!changes)
    return out_of_step(sink_, "The local copy was written by something else than Onepen in this process: a commit holds frames that were never seen.");
  work.pages = std::move(*changes);
  if (work.header.page_count_after > state.page_count) {
    std::vector<ChangedPage> all;
    auto it = work.pages.begin();
    while (it != work.pages.end() && it->number <= state.page_count) all.push_back(*it++);
    for (std::uint32_t number = state.page_count + 1; number <= work.header.page_count_after; ++number) {
      if (it != work.pages.end() && it->number == number) {
        all.push_back(*it++);
      } else if (number != lock_byte_page(page_size)) {
        all.push_back({number, 0});
      }
    }
    work.pages = std::move(all);
  }
  std::erase_if(work.pages, [&](const ChangedPage& page) { return page.number == lock_byte_page(page_size); });
  if (work.pages.empty()) work.pages.push_back({1, 0});  // a commit frame of a page past the new end: page 1 as it is
  work.next = state;
  work.next.incarnation = incarnation_;
  work.next.ordinal = state.ordinal + 1;
  work.next.page_count = work.header.page_count_after;
  for (std::uint32_t number = work.header.page_count_after + 1; number <= state.page_count; ++number) work.next.page_sum -= copy_.page_hash(number);
  image_.resize(page_size);
  previous_.resize(page_size);
  work.hashes.reserve(work.pages.size());
  return SQLITE_OK;
}

int Capture::encode(CommitFiles& files, Work& work) {
  const CommitState& state = copy_.state();
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
  if (const int rc = read_previous(files, page.number, known); rc != SQLITE_OK) return rc;
  const std::uint64_t hash = page_hash_of(page.number, image);
  work.next.page_sum += hash - copy_.page_hash(page.number) * (page.number <= copy_.state().page_count ? 1 : 0);
  work.hashes.emplace_back(page.number, hash);
  const auto added = encoder.add(page.number, image, known ? ByteView(previous_) : ByteView{});
  if (!added) return refused(work.submit_error ? *work.submit_error : added.error(), kRolledBack);
  return SQLITE_OK;
}

// The page before this commit, for the delta. That it is what the stream says is checked, not assumed (I9): the copy may have been written behind us.
int Capture::read_previous(CommitFiles& files, std::uint32_t number, bool& known) {
  known = false;
  if (number > copy_.state().page_count) return SQLITE_OK;
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
  auto ticket = owner_.submit(std::move(part), work.deadline);
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
    const owner::Fate fate = owner_.wait(work.last_ticket, look, nullptr);
    if (fate.kind == owner::Fate::Kind::acknowledged) {
      work.acknowledged = true;
      return land(files, work, fate.offset);
    }
    if (fate.kind == owner::Fate::Kind::refused) return refused(fate.error.value_or(Error{Outcome::unavailable, "The commit was refused.", {}}), kRolledBack);
    const bool interrupted = files.interrupted();
    if (!interrupted && runtime_.now() < work.deadline) continue;
    // I4: unknown is never guessed. The append goes on being sent; this handle says no more about it.
    std::string sentence = fmt::format(
        "{}: the home did not say whether the transaction is in the stream{}. It may be in the stream; it was rolled back locally, and this handle is "
        "reset. Open the database again: that tells.",
        interrupted ? "COMMIT was interrupted"
                    : fmt::format("COMMIT gave up after {} ms", std::chrono::duration_cast<std::chrono::milliseconds>(work.timeout).count()),
        fate.error && !fate.error->message.empty() ? " (" + fate.error->message + ")" : "");
    sink_.reset(ResetKind::unresolved, sentence);
    return refuse(std::move(sentence));
  }
}

// From here on the transaction is in the stream, so the application is told success whatever the local disk does (sqlite.md, "replicated").
int Capture::land(CommitFiles& files, Work& work, const Offset& offset) {
  if (offset.text.empty()) {
    // It was applied just before we were fenced, and the home can no longer say where. The copy stays at the commit before; opening reads this one.
    sink_.freeze();
    frames_.land(work.header.slot);
    return SQLITE_OK;
  }
  work.next.offset = offset;
  bool failed = ONEPEN_FAILPOINT("capture.after_ack");
  std::string why = "a failpoint";
  if (!failed) {
    if (const auto noted = copy_.will_land(work.next, std::move(work.hashes)); !noted) failed = true, why = noted.error().message;
  }
  if (!failed) {
    failed = ONEPEN_FAILPOINT("capture.before_commit_frame");
    if (!failed) {
      const int rc = files.write_frame_header(work.header.slot, work.header.bytes);
      if (rc != SQLITE_OK) failed = true, why = fmt::format("writing the commit frame to {}-wal failed with SQLite code {}", copy_.db_path(), rc);
    }
  }
  frames_.land(work.header.slot);
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
