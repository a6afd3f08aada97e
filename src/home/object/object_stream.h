// One session at one stream of the object home. Inside home/object only.
//
//   cold ──► (LIST, GET from the beginning, or GET the object a given offset lies in) ──► folded up to next_id, the lowest absent id it knows of
//    ▲                                                                                     │  catch_up: LIST from next_id, GET what is new
//    │ a fault of the log, a mark above the base (B6)                                      │  claim, append: create next_id
//    └──────────────────────────────────────────────────────────────────────────────────────┘
//                                        folded ──► undecided: a create whose answer was lost; the same bytes go to the same id until it is decided (B2)
#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "home/object/fold.h"
#include "home/object/object_home.h"
#include "home/object/position.h"

namespace onepen::home {

inline constexpr std::size_t kListPage = 1000;
inline constexpr std::uint64_t kMaxBatchPayload = 48u << 20;
inline constexpr int kTriesBeforeRace = 4;     // ids a claim may lose to data before it races each create (B3)
inline constexpr int kMaxClaimTries = 1000;    // then `claim_races`

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
  core::Answer<core::StreamStat> stat() override;
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override;
  core::Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override;
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override;
  core::Answer<bool> wait(const Offset& from, Instant deadline) override;
  core::Answer<bool> beat(const std::string& liveness, ByteView content) override;
  core::Answer<std::optional<Bytes>> pulse(const std::string& liveness) override;

 private:
  template <class T = void>
  using Step = tl::expected<T, core::Refusal>;

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
    bool answer_lost = false;  // at least once: no definite refusal of a later attempt decides it (I4)
  };
  enum class Landed { ours, other, undecided };

  // object_stream.cc: reading
  std::string key(std::uint64_t id) const { return log_folder_ + "/" + object_name(id); }
  Step<std::optional<Fetched>> fetch(std::uint64_t id);  // none: absent
  Step<> take(std::uint64_t id, const wire::LogObject& object, std::vector<core::Record>* out);
  Step<std::vector<std::uint64_t>> list_from(std::uint64_t id, std::size_t limit);
  // Folds what is there from next_id on, until `records` or `bytes` of `out` are reached. True: everything that was there when it asked.
  Step<bool> catch_up(std::vector<core::Record>* out, const core::ReadLimit& limit);
  Step<> catch_up_all();
  Step<> take_next(std::uint64_t listed, std::vector<core::Record>* out);
  Step<> check_mark();
  Step<> begin(const std::optional<ParsedOffset>& from, const Offset& text);
  Step<> begin_in_the_middle(const ParsedOffset& from, const Offset& text);
  Step<bool> reread(std::uint64_t id, std::size_t skip, const core::ReadLimit& limit, std::vector<core::Record>& out, std::uint64_t& bytes);
  Step<> nothing_at(const ParsedOffset& from);
  Step<std::optional<core::Position>> position_of(const Offset& from);
  void forget();

  // object_change.cc: claims and appends
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
  tl::unexpected<core::Refusal> refused(const core::Decision& decision, Epoch ours) const;
  tl::unexpected<core::Refusal> undecided(std::string_view why) const;

  Place& place_;
  ObjectStore& store_;
  const StreamName name_;
  const std::string log_folder_, mark_folder_, alive_folder_;
  LogFold fold_;
  bool begun_ = false;
  std::optional<core::Position> last_end_;  // the end of an object that read() handed out: nothing of it is left to read
  std::uint64_t unchecked_from_ = 1;      // objects from here on were folded, or taken as absent, since the mark was last read (B6)
  std::optional<Flight> flight_;
  std::uint32_t requests_ = 0;
};

}  // namespace onepen::home
