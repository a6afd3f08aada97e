#include "owner/catch_up.h"

#include <fmt/format.h>

#include "owner/carry.h"

namespace onepen::owner {
namespace {

constexpr unsigned kMaxFirstReads = 1024;  // before the first look; each is a batch, so this is gigabytes

Error as_error(const core::Refusal& refusal) { return Error{refusal.outcome, refusal.message, refusal.current}; }

// To whoever has begun with the stream.
Error away_error(const core::Refusal& refusal) {
  Error error = as_error(refusal);
  if (core::out_of_sight(refusal)) error.outcome = Outcome::unavailable;
  return error;
}

bool left_to_the_look(Outcome outcome) { return outcome == Outcome::not_found || outcome == Outcome::gone || outcome == Outcome::fence_unavailable; }

}  // namespace

CatchUp::CatchUp(Runtime& runtime, core::Stream& stream, Fold& fold, const Options& options)
    : stream_(stream), fold_(fold), options_(options), ask_(runtime, options.open_within), fold_restarts_(fold.restarts()) {}

Result<> CatchUp::first_reads(const StopsAt& stops) {
  for (unsigned reads = 0; reads < kMaxFirstReads; ++reads) {
    const auto near = read_on("warm", stops);
    if (near && *near) return {};
    if (near) continue;
    if (left_to_the_look(near.error().outcome) && !keeps_fold_) return {};
    return tl::unexpected(near.error());
  }
  return {};
}

// An empty fold begins with the newest snapshot, where there is one.
Result<> CatchUp::begin() {
  if (begun_ || !reached().text.empty()) return {};
  if (auto begun = ask_([&] { return fold_.begin(stream_); }); !begun) return begun;
  begun_ = true;
  return {};
}

Result<> CatchUp::start_over() {
  if (auto again = fold_.start_over(); !again) return again;
  return began_anew();
}

Result<> CatchUp::began_anew() {
  cursor_ = {};
  stat_.reset();
  begun_ = at_tail_ = false;
  fold_restarts_ = fold_.restarts();
  if (++restarts_ <= kMaxFoldRestarts) return {};
  return tl::unexpected(Error{Outcome::state_mismatch,
                              fmt::format("the local copy of '{}' had to begin anew {} times while it was opened: what the home gives never fits together. "
                                          "Run `onepen verify` on it.",
                                          stream_.name().text(), restarts_),
                              {}});
}

// A fold may move aside what it had.
Result<bool> CatchUp::fold_one(const core::Record& record) {
  if (auto applied = fold_.apply(record); !applied) return tl::unexpected(applied.error());
  if (fold_.restarts() != fold_restarts_) {
    if (auto again = began_anew(); !again) return tl::unexpected(again.error());
    return false;
  }
  cursor_ = record.next;
  return true;
}

Result<bool> CatchUp::take(const Offset& follows, const core::Record& record) {
  if (reached() != follows) return false;
  stat_.reset();
  return fold_one(record);
}

Result<bool> CatchUp::read_on(std::string_view step, const StopsAt& stops) {
  if (auto begun = begin(); !begun) return tl::unexpected(begun.error());
  auto read = ask_([&] { return stream_.read(reached(), kReadLimit); });
  if (!read && read.error().outcome == Outcome::gone && !keeps_fold_ && restarts_ < kMaxFoldRestarts) {
    // Trimmed, or another history: the fold's position is none of this stream any more.
    if (auto again = fold_.gone_from(stream_); !again) return tl::unexpected(again.error());
    if (auto anew = began_anew(); !anew) return tl::unexpected(anew.error());
    return false;
  }
  at_tail_ = false;
  stat_.reset();
  if (!read && keeps_fold_) return tl::unexpected(away_error(read.error()));
  if (!read) return tl::unexpected(as_error(read.error()));
  std::uint64_t bytes = 0;
  for (const core::Record& record : read->records) {
    if (stops && stops(record)) return true;
    bytes += record.payload.size();
    const auto folded = fold_one(record);
    if (!folded) return tl::unexpected(folded.error());
    if (!*folded) return keeps_fold_;
  }
  read_bytes_ += bytes;
  if (options_.progress) options_.progress({step, read_bytes_, 0});
  at_tail_ = read->up_to_date;
  if (at_tail_) stat_ = read->stat;
  return read->up_to_date || (read->records.size() < kReadLimit.records && bytes < options_.max_batch_bytes);
}

}  // namespace onepen::owner
