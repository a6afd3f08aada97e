// One session at one stream of the object home. Inside home/object only.
//
//   cold ──► (LIST, GET from the beginning; or the state that a snapshot or pack kept; or GET the object a given offset lies in) ──► folded up to next_id,
//    ▲                                                                                     the lowest absent id it knows of
//    │ a fault of the log, a mark above the base (B6)                                      │  catch_up: LIST from next_id, GET what is new
//    │                                                                                     │  claim, append: create next_id
//    └──────────────────────────────────────────────────────────────────────────────────────┘
//                                        folded ──► undecided: a create whose answer was lost; the same bytes go to the same id until it is decided (B2)
//
// Below the trim mark only packs count (object_reading.cc): what lies in the log folder there is looked at only when a pack names it. Whatever was read
// above the mark, or taken as absent, counts once the mark was read again and is not above it (check_mark); else the session forgets it and does the same
// again from the packs (steadily).
#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "home/object/fold.h"
#include "home/object/log_ahead.h"
#include "home/object/object_home.h"
#include "home/object/position.h"
#include "wire/pack.h"

namespace onepen::home {

inline constexpr std::size_t kListPage = 1000;
inline constexpr std::uint64_t kMaxBatchPayload = 48u << 20;
inline constexpr std::size_t kLeastReadAhead = 64;  // records that somebody reads at a time for whom it is worth to fetch objects ahead
inline constexpr int kUnlistedReads = 64;       // of a reader of a directory, between two listings
inline constexpr int kTriesBeforeRace = 4;     // ids a claim may lose to data before it races each create (B3)
inline constexpr int kMaxClaimTries = 1000;    // then `claim_races`
inline constexpr int kTriesWhileTrimmed = 16;  // of one call whose ground was trimmed away under it

// What the sessions of one home share; outlives them.
struct Place {
  Runtime& runtime;
  ObjectStore& store;
  const ObjectHomeOptions& options;
  std::atomic<bool> may_write{false};  // prepare_writing succeeded
};

class ObjectStream final : public core::Stream {
 public:
  ObjectStream(Place& place, StreamName name);

  const StreamName& name() const override { return name_; }
  std::unique_ptr<core::Stream> another() override { return std::make_unique<ObjectStream>(place_, name_); }
  core::Answer<core::StreamStat> stat() override;
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override;
  core::Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override;
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override;
  core::Answer<bool> wait(const Offset& from, Instant deadline) override;
  core::Answer<bool> beat(const std::string& liveness, ByteView content) override;
  core::Answer<std::optional<Bytes>> pulse(const std::string& liveness) override;
  core::Answer<std::optional<core::SnapshotInfo>> newest_snapshot() override;
  core::Answer<std::vector<core::SnapshotInfo>> snapshots() override;
  core::Answer<Bytes> snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) override;
  core::Answer<std::unique_ptr<core::SnapshotWriter>> begin_snapshot(const core::OwnerToken& token, const Offset& at) override;
  core::Answer<core::Tended> tend(const core::TendRequest& request) override;
  core::Answer<core::Usage> usage() override;
  core::Answer<std::vector<core::HistoryEvent>> events() override;
  core::Answer<core::HistoryReceipt> begin_history(const core::HistoryRequest& request) override;
  core::Answer<bool> remove(const core::RemoveRequest& request) override;
  core::Answer<bool> report_suspect(const core::OwnerToken& token, std::string_view what) override;

 private:
  template <class T = void>
  using Step = tl::expected<T, core::Refusal>;
  class Writer;  // of a snapshot

  struct Fetched {  // an object and the bytes it looks into
    Bytes bytes;
    wire::LogObject object;
  };
  // A create that was sent and is not decided: the same bytes to the same id, whatever is asked meanwhile (B1, B2).
  struct Flight {
    std::uint64_t id = 0;
    PutId attempt;
    Bytes bytes;
    Epoch epoch;
    ClaimId claim_id;
    std::uint64_t prev = 0;    // appends: the object before it that counts
    bool answer_lost = false;  // at least once: no definite refusal of a later attempt decides it (I4)
  };
  enum class Landed { ours, other, undecided };

  struct KeptPack {
    std::string name;
    Bytes bytes;
    wire::Pack pack;  // looks into bytes
  };
  struct PlacedClaim {  // ours, as it was folded
    Offset follows;     // the tail before it
    core::Record record;
  };
  struct Start {  // where a read goes on
    std::uint64_t id = 1;
    std::size_t skip = 0;  // appends of that object
    std::optional<core::Position> at;
  };

  // Runs one call, and again when its ground was trimmed away meanwhile (moved_).
  template <class F>
  auto steadily(F&& run) -> decltype(run()) {
    for (int i = 0;; ++i) {
      moved_ = false;
      auto answer = run();
      if (answer || !moved_ || i == kTriesWhileTrimmed) return answer;
    }
  }

  // object_stream.cc: what is asked
  core::Answer<core::ReadResult> read_once(const Offset& from, const core::ReadLimit& limit);
  core::Answer<core::StreamStat> stat_once();
  core::StreamStat told();  // of a fold that is at the tail, its mark checked
  Step<Start> start_of(const Offset& from);
  Step<Start> start_of_content();
  Step<bool> reread(std::uint64_t id, std::size_t skip, const core::ReadLimit& limit, std::vector<core::Record>& out, std::uint64_t& bytes);
  tl::unexpected<core::Refusal> absent();

  // object_reading.cc: objects, packs, the mark; object_begin.cc: where a fold begins
  std::string key(std::uint64_t id) const { return log_folder_ + "/" + object_name(id); }
  Step<std::optional<Fetched>> fetch(std::uint64_t id);   // from the log folder; none: absent
  Step<Fetched> decoded(std::uint64_t id, Bytes bytes);
  Step<std::optional<Fetched>> unpack(std::uint64_t id);  // below the mark; none: void. gone: no pack has it any more
  Step<std::optional<Fetched>> in_place(std::uint64_t id, std::uint64_t checksum);
  Step<const KeptPack*> pack_of(std::uint64_t id);        // null: none has it
  Step<> take(std::uint64_t id, const wire::LogObject& object, std::vector<core::Record>* out);
  Step<std::vector<std::uint64_t>> list_from(std::uint64_t id, std::size_t limit);
  // Folds what is there from next_id on, with `out` until one of these.
  enum class Reach {
    end,    // everything that was there when it asked
    limit,  // `records` or `bytes` of `out`
    turn,   // a history or a tombstone: what lies before it may be no part of the stream any more, and what follows it decides
  };
  struct Batch {
    std::vector<core::Record>* out;  // null: only folded
    const core::ReadLimit& limit;
    std::uint64_t bytes = 0;
    bool turned = false;
    bool full() const;
    Reach so_far() const { return turned ? Reach::turn : Reach::limit; }
  };
  template <typename TakeOne>
  Step<> add(Batch& batch, TakeOne&& take_one);
  Step<std::optional<Reach>> ask_for_next(Batch& batch);
  Step<Reach> catch_up(std::vector<core::Record>* out, const core::ReadLimit& limit);
  Step<> catch_up_all();
  void look_ahead(std::uint64_t last, const Batch& batch);
  Step<> take_next(std::uint64_t listed, std::vector<core::Record>* out);
  Step<> take_packed(std::vector<core::Record>* out);
  Step<> look_at_marks();
  Step<> check_mark();
  Step<> begin_cold();
  Step<> begin_at(const ParsedOffset& from, const Offset& text);
  Step<> begin_in_the_middle(const ParsedOffset& from, const Offset& text);
  Step<> nothing_at(const ParsedOffset& from, const Offset& text);
  void forget();

  // object_snapshot.cc
  Step<std::vector<std::string>> snapshot_ids();                                    // newest first, whole or not
  Step<std::optional<wire::SnapshotHead>> head_of(const std::string& id);           // none: it is not whole, or never came to count
  Step<bool> begin_at_snapshot(const ParsedOffset& from, const Offset& text);       // false: there is none at that offset
  Step<> begin_with(const wire::SnapshotHead& head);
  Step<bool> history_counts(const wire::SnapshotHead& head);
  Step<> begin_before(std::uint64_t id);
  Step<LogFold> fold_to(const ParsedOffset& at, const Offset& text);
  Step<std::vector<wire::SnapshotHead>> heads(std::size_t most);  // of what the stream holds now, newest first
  Step<> put_whole(const std::string& file, ByteView bytes);

  // object_tend.cc
  struct Run {  // of objects that become a pack
    wire::Pack pack;
    std::vector<Bytes> bytes;  // what its entries look into
    std::uint64_t objects = 0;
    bool more = false;
  };
  core::Answer<core::Tended> tend_once(const core::TendRequest& request);
  Step<std::optional<Run>> read_run(const core::TendRequest& request, std::uint64_t newest, std::uint64_t trim_id);
  Step<std::uint64_t> compact(Run& run);
  Step<std::uint64_t> erase_objects(const wire::Pack& pack, bool in_place_too);
  Step<std::uint64_t> trim_packs(std::uint64_t trim_id);
  Step<std::uint64_t> trim_snapshots(std::size_t keep);
  Step<> prune_marks();
  Step<std::uint64_t> forget_earlier_lives();

  // object_admin.cc
  Step<> may_write();
  Step<bool> place(const wire::LogObject& object);
  core::Decision judge(core::AdminAct act, const Incarnation& seen, const Offset& tail, const Incarnation& next);
  core::Answer<core::HistoryReceipt> begin_history_once(const core::HistoryRequest& request);
  Step<bool> leads_here(const ParsedOffset& at, const Offset& text);
  Step<> put_first_snapshot(const core::HistoryRequest& request, const wire::LogObject& object);
  core::Answer<bool> remove_once(const core::RemoveRequest& request);
  tl::unexpected<core::Refusal> lost(std::uint64_t id, const core::OwnerToken& token);
  Step<> still_stands(std::uint64_t prev, bool first_of_epoch, const core::OwnerToken& token, bool placed);

  // object_tell.cc: for people
  Step<std::vector<core::HistoryEvent>> events_once();
  Step<> kept_events(std::vector<core::HistoryEvent>& out);
  core::Answer<core::Usage> usage_once();
  Step<> owns(const core::OwnerToken& token);

  // object_change.cc: claims and appends
  core::Answer<core::ClaimReceipt> claim_once(const core::ClaimRequest& request);
  core::Answer<core::AppendReceipt> append_once(const core::AppendBatch& batch);
  Step<wire::LogObject> claim_object(const core::ClaimRequest& request);
  Step<std::optional<core::ClaimReceipt>> claim_allowed(const core::ClaimRequest& request, const wire::LogObject& object);
  Step<> place_claim(const core::ClaimRequest& request, const wire::LogObject& object, bool racing);
  Step<core::ClaimReceipt> owned(const core::ClaimRequest& request);
  Step<std::optional<core::AppendReceipt>> append_allowed(const core::AppendBatch& batch, const wire::LogObject& object);
  Step<Landed> send();             // the flight
  Step<Landed> look(bool exists);  // what became of it
  Step<> settle(ByteView own);     // folds what lies below our object, then it
  core::ClaimReceipt receipt_of(const core::Decision& decision) const;

  tl::unexpected<core::Refusal> refuse(Outcome outcome, std::string message) const;
  tl::unexpected<core::Refusal> refuse(const Error& error) const;
  tl::unexpected<core::Refusal> damaged(std::uint64_t id, std::string_view what);
  tl::unexpected<core::Refusal> nothing_left() const;
  Step<bool> all_gone();     // nothing at all of the stream is at the place
  std::string begin_again();  // how to go on when what was asked for was trimmed
  tl::unexpected<core::Refusal> bad_file(const std::string& key, const wire::ObjectFault& fault);  // a pack or a head
  tl::unexpected<core::Refusal> not_here(const Offset& offset, std::string_view why) const;
  tl::unexpected<core::Refusal> refused(const core::Decision& decision, Epoch ours) const;
  tl::unexpected<core::Refusal> undecided(std::string_view why) const;

  Place& place_;
  ObjectStore& store_;
  const StreamName name_;
  const std::string log_folder_, mark_folder_, alive_folder_, pack_folder_, snapshot_folder_;
  LogFold fold_;
  bool begun_ = false;
  bool seen_ = false;   // something of the stream was folded by this session
  bool wrote_ = false;  // this session created an object of it: what is denied to it now was allowed before
  std::optional<core::Position> last_end_;  // the end of an object that read() handed out: nothing of it is left to read
  std::uint64_t mark_ = 0;                // the highest mark seen: below it only packs count. 0: none seen
  std::uint64_t cut_ = 0;                 // the highest id at which a history may have cut the one before (cut_name)
  bool moved_ = false;                    // the call failed because the mark moved above what it stood on
  int unlisted_reads_ = 0;                // reads that may still go without a listing
  std::uint64_t unchecked_from_ = 1;      // objects from here on were folded, or taken as absent, since the mark was last read (B6)
  std::unique_ptr<KeptPack> pack_;        // the one looked into last
  std::optional<wire::SnapshotHead> head_;  // the one read last
  std::unique_ptr<LogAhead> ahead_;       // objects of the newest listing, behind next_id
  std::optional<Flight> flight_;
  std::optional<PlacedClaim> placed_;  // the newest of this session
  bool at_tail_ = false;  // the call before this one read up to the tail
  std::uint32_t requests_ = 0;
};

}  // namespace onepen::home
