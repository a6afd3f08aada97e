// The Copy of this machine (copy.h). Private to copy*.cc.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "owner/claim_log.h"
#include "sqlite/apply.h"
#include "sqlite/copy.h"
#include "sqlite/copy_find.h"
#include "sqlite/copy_folder.h"
#include "sqlite/copy_pages.h"
#include "sqlite/copy_salvage.h"
#include "sqlite/copy_state.h"
#include "sqlite/copy_turn.h"

namespace onepen::sqlite {

class LocalCopy final : public Copy {
 public:
  LocalCopy(Runtime& runtime, io::Disk& disk, CopyPlace place, Log log, CopyFolder folder, const std::string& replica = {});
  ~LocalCopy() override { static_cast<void>(close()); }

  Result<> load();

  Result<> go_live(const LiveLimits& limits) override;
  Result<> begin_anew(core::Stream& stream, const std::function<void(const owner::Progress&)>& progress) override;
  void rest() override;
  void own() override;
  void release() override;
  const std::string& db_path() const override { return files_.db; }
  const std::string& folder() const override { return folder_.path; }
  CommitState state() const override;
  WalPlace place() const override;
  bool behind() const override;
  std::uint64_t page_hash(std::uint32_t page_number) const override;
  const std::vector<PendingCommit>& pending() const override;
  const std::vector<std::uint32_t>& wal_pages() const override { return wal_pages_; }
  std::uint32_t wal_began_with() const override { return wal_began_with_; }
  Result<> will_land(const CommitState& next, std::vector<PageHash> hashes, const WalPlace& place) override;
  Result<> acknowledged(const CommitState& next, std::vector<PageHash> hashes, const WalPlace& place, std::optional<Sequence> sequence) override;
  Result<> record_ahead() override;
  void record_landed(Sequence sequence) override;
  Result<> nothing_was_sent() override;
  Result<> wal_restarting(bool sync) override;
  Result<> wal_begun(std::uint32_t salt1, std::uint32_t salt2) override;
  Result<> remember_owned(const core::OwnerToken& token) override;
  std::optional<core::OwnerToken> owned() const override;
  Result<std::string> salvage(std::string_view kind, std::string_view why) override;
  std::string salvaged() const override { return salvaged_; }
  Result<> poison(std::string_view why) override;
  Result<> doubt(std::string_view why) override;
  Result<> close() override;

  Offset position() const override { return state().offset; }
  Result<> begin(core::Stream& stream) override;
  Result<> apply(const core::Record& record) override;
  std::uint64_t restarts() const override { return restarts_; }
  Result<> start_over() override;
  Result<> gone_from(core::Stream& stream) override;
  Result<> settle() override;

  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation& incarnation) override { return claims_->write_ahead(request, incarnation); }
  Epoch highest() const override { return claims_->highest(); }

 private:
  // The parts of one commit of the stream, while commits of our own are pending: is it the first of them?
  struct Meeting {
    wire::CommitHead head;
    Incarnation incarnation;
    Epoch epoch;
    ClaimId claim_id;
    std::uint32_t parts = 0;
  };

  Result<> open_files();
  Result<> begin_with(FoundCopy found);
  Result<> begin_empty();
  SettleHooks hooks();
  Result<> begin_at(PageTable table, CommitState state);
  Result<> start_applier(PageTable table, CommitState state);
  Result<std::string> set_aside(std::string kind, std::string why, const std::optional<FoundDatabase>& found = std::nullopt);
  Result<std::string> move_replica(const std::string& kind, const std::string& why);
  Result<> place_scratch(const std::string& scratch, const CommitState& state, PageTable table);
  void let_go();
  Result<> drop();
  Result<> give_up(const core::Record& record, std::string_view kind, std::string why);
  Result<> land(const CommitState& next, const std::vector<PageHash>& hashes, const std::optional<WalPlace>& place, std::optional<Sequence> sequence);
  Result<> write_record(const CommitState& previous, const std::optional<WalPlace>& previous_place, const CommitState& next,
                        const std::optional<WalPlace>& next_place, bool sync = false);
  Result<> write_record_again(bool sync);
  Result<> remember_batch(const CommitState& settled, const CommitState& next, const std::optional<WalPlace>& place);
  Result<> merge_table(PageTable& table, const CommitState& state, const WalPlace& at, bool sync);
  Result<> fold_left_wal();
  Result<> meet(const core::Record& record);
  Result<> meet_part(const core::Record& record);
  bool meets(const wire::CommitHead& head) const;
  void land_first(const Offset& next, const Incarnation& incarnation);
  void saw(const core::Record& record);
  Result<bool> go_on_from_snapshot(core::Stream& stream);
  Result<> decide_trimmed(core::Stream& stream, const Offset& oldest);
  Result<> after_failure(const core::Record& record, Result<> done);
  std::vector<PendingCommit> pending_now() const;
  Result<> find_pending_again();

  Runtime& runtime_;
  io::Disk& disk_;
  CopyPlace place_of_copy_;
  Log log_;
  CopyFolder folder_;
  DatabaseFiles files_;
  BootId boot_;
  std::unique_ptr<owner::DiskClaimLog> claims_;

  CopyTurn turn_;  // who writes the files below
  std::optional<StateFile> state_file_;
  std::optional<PagesFile> pages_;
  std::uint64_t inode_ = 0;  // of db; 0: not known yet
  std::optional<std::string> poisoned_;  // why; for good
  bool doubted_ = false;  // the record names no inode: the next acquire believes nothing

  mutable Mutex mutex_;  // what other threads read: the applier's state and table, and these. Whoever has the turn changes them, under it
  std::optional<Applier> applier_;
  std::optional<WalPlace> place_;  // where state() ends, as it is written down; none: not known
  bool wal_there_ = false;         // place_ is in the WAL that there is
  std::optional<CommitState> missed_;
  std::optional<WalPlace> missed_place_;
  std::optional<core::OwnerToken> owned_;
  std::optional<SentMark> sent_;              // of owned_, at commit sent_at_
  std::uint64_t sent_at_ = 0;
  std::uint32_t records_out_ = 0;             // of other kinds, appended and not known to have landed
  std::vector<Sequence> records_landed_;      // of other kinds, behind sent_

  std::vector<WalCommit> found_pending_;
  std::size_t landed_ = 0;  // of those

  // Opening thread only.
  mutable std::vector<PendingCommit> pending_;
  bool pending_known_ = true;  // false: where the unsent commits begin could not be told
  std::string salvaged_;
  bool record_stale_ = false;  // the state file says less than is known
  std::vector<std::uint32_t> wal_pages_;
  std::uint32_t wal_began_with_ = kUnknownCount;
  std::optional<Meeting> meeting_;
  Incarnation began_incarnation_{};
  bool live_ = false;
  std::unique_ptr<CommitTarget> released_;  // of own(), until release()
  const bool replica_;  // at a path of the user's, and open in other processes perhaps
  std::uint64_t restarts_ = 0;
  std::atomic<bool> from_scratch_{false};  // holds nothing but what it read from the stream since it was acquired empty
};

}  // namespace onepen::sqlite
