// Folds a stream run by run, from the fold's position (or the stream's newest snapshot) on, so that each record, and each object below it, is read once.
#pragma once
#include "owner/takeover.h"

namespace onepen::owner {

// How often one open may begin its fold anew, because its position is gone or because it found that it cannot be continued (Fold::restarts).
inline constexpr unsigned kMaxFoldRestarts = 3;

class CatchUp {
 public:
  CatchUp(Runtime& runtime, core::Stream& stream, Fold& fold, const Options& options);

  // Asked before each record is folded. True: reading ends before it.
  using StopsAt = std::function<bool(const core::Record&)>;

  // Before the first look at the stream: then the home's fold begins where ours ends (or at the snapshot), and what follows costs the same however long the
  // log is. Asked the other way round, the home would read its log from the beginning, and then once more for us (bench/takeover). What it answers to a
  // position that it does not have, and to a stream that is not there, is left to the look.
  Result<> first_reads(const StopsAt& stops = {});
  // Folds the next run of records. True: at the tail, within one batch of it, or stopped. A position that is gone begins the fold anew.
  Result<bool> read_on(std::string_view step, const StopsAt& stops = {});

  // Folds a record that was told another way, when nothing lies between it and what was read. False: read_on() must get it.
  Result<bool> take(const Offset& follows, const core::Record& record);

  // Behind the last record that the fold was given. Its own position stays before the first part of an unfinished commit, which may be larger than any
  // read; reading from there would never see the last part.
  Offset reached() const { return std::max(cursor_, fold_.position()); }
  bool at_tail() const { return at_tail_; }                  // of the last read: nothing more was there
  const Seen& stat() const { return stat_; }                 // of the last read, where the home told it along
  std::uint64_t restarts() const { return restarts_; }       // of the fold, in this open: what was read before is read again
  // The stream is another one now, which has nothing of what the fold holds.
  Result<> start_over();
  // A fold that may not be given up: a position that is gone is an error (gone), and so is a fold that restarts itself (epoch_closed).
  void keep_fold() { keeps_fold_ = true; }

 private:
  Result<> begin();
  Result<> began_anew();
  Result<bool> fold_one(const core::Record& record);  // false: the fold began anew, and knows nothing of it

  core::Stream& stream_;
  Fold& fold_;
  const Options& options_;
  Persistence ask_;
  Offset cursor_;  // see reached()
  bool begun_ = false;
  bool keeps_fold_ = false;
  bool at_tail_ = false;
  Seen stat_;
  unsigned restarts_ = 0;
  std::uint64_t fold_restarts_;  // Fold::restarts() as last seen
  std::uint64_t read_bytes_ = 0;
};

}  // namespace onepen::owner
