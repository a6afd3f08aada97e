// What was seen at the ports during one run, and what the stream held in the end: all that the checkers judge.
//
// Nothing is recorded for a process that is already dead: what a zombie believes was never seen by anybody.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/home.h"
#include "sim/sometimes.h"
#include "sim/world.h"

namespace onepen::sim {

std::uint64_t identity(const core::Record& record);          // of everything that must be the same for every reader
std::uint64_t chain(std::uint64_t before, std::uint64_t id);  // running checksum of a fold

struct ClaimSent {
  std::string who;
  Epoch epoch;
  ClaimId claim_id;
  std::optional<ClaimId> over;
  std::optional<Offset> if_tail;
};
struct ClaimSeen {  // answered to its sender
  std::string who;
  core::ClaimReceipt receipt;
};
struct AppendSeen {  // answered applied
  std::string who;
  core::AppendBatch batch;
  std::vector<Offset> offsets;
};
struct FoldSeen {
  std::string who;
  std::uint64_t count, sum;
  std::optional<ClaimId> owner{};  // set: with this fold its process began to own
};
enum class FateSeen : std::uint8_t { none, undecided, refused, acknowledged };
struct Submitted {  // one append given to an Owner, by payload
  std::string who;
  std::uint64_t session;  // one Owner
  std::uint64_t ticket;
  Digest digest;
  FateSeen fate = FateSeen::none;
};

// What a standby was told of the owner, by process: it may claim by itself only after a term of silence, of which no gap between two looks counts for more than a
// quarter, or when the owner ended in peace; and only upon what it saw.
struct StandbyWatch {
  Nanos term = 0;  // of its own clock
  bool asks = false;  // somebody asks it to claim now
  ClaimId claim{};
  Offset tail{};
  std::optional<Bytes> pulse{};
  ClaimId released{};  // the claim whose owner was seen to have ended in peace
  Instant looked{};
  Nanos silence = -1;  // -1: it has not looked
};

class History {
 public:
  History(World& w, Sometimes& s) : world(w), sometimes(s) {}
  World& world;
  Sometimes& sometimes;

  // At the Home port.
  std::vector<ClaimSent> claims_sent;
  std::vector<ClaimSeen> claims;
  std::vector<AppendSeen> appends;
  bool claims_logged_elsewhere = false;  // by the copy of a database: not seen here
  std::map<Incarnation, Offset> cut;  // histories that may be over, and up to where they lead on in the next
  bool rolled_back = false;  // raw copies of the log were put back: what was answered may be gone
  std::map<std::string, StandbyWatch> standbys;
  std::map<std::string, std::uint64_t> from_nothing;  // by process: how often it began at a stream's beginning, or looked for a snapshot
  bool answers_as_stored = false;  // claims that lost are answered with the stored claim's receipt, as a node may
  std::map<std::string, std::uint64_t> records;  // by offset: identity of the record that was read there
  std::map<std::string, std::string> records_text;  // for messages
  std::map<std::pair<Incarnation, Epoch>, ClaimId> epochs;  // I5, from everything seen
  std::set<ClaimId> claims_read;  // I6: claims that somebody saw in the stream
  std::set<std::uint64_t> illegal;  // payload digests that must be nowhere
  std::set<std::uint64_t> refused_first;  // payload digests refused for certain at their first and only attempt
  Offset newest_acknowledged;  // I8: a current read begun now reaches this far
  // What landed just before its history ended may be answered after that began: no reader owes it any more.
  void answered(const Incarnation& incarnation, const Offset& offset) {
    const auto over = cut.find(incarnation);
    if (over == cut.end() || !(over->second < offset)) newest_acknowledged = std::max(newest_acknowledged, offset);
  }
  Epoch newest_answered_claim;

  // At the Owner's API.
  std::set<ClaimId> written_ahead;
  std::vector<Submitted> submitted;
  std::vector<FoldSeen> folds;

  void saw_record(const std::string& who, const core::Record& record);
  void saw_epoch(const std::string& who, const Incarnation& incarnation, Epoch epoch, const ClaimId& claim_id);
  std::function<void(const core::Record&)> on_record;  // each record that somebody read
  void violated(std::string_view rule, const std::string& text);  // seen at once, while the run goes on

  std::vector<std::string> violations;
};

// The stream at the end, read by a fresh client after the faults stopped.
struct Final {
  std::vector<core::Record> records;
  std::vector<std::uint64_t> sums;  // sums[n]: of the first n records
  std::map<std::string, std::size_t> by_offset;  // offset just after it → index
  std::map<std::uint64_t, std::vector<std::size_t>> by_digest;  // payload digest → where
  std::optional<Outcome> refused{};  // the read ended with this
  std::map<std::uint64_t, Bytes> objects;  // the raw objects of the log, by id
  void build();
};

struct Evidence {
  History& history;
  const Final& stream;
};
// One file each in sim/checkers/. Each adds what it finds to history.violations.
void check_i1(const Evidence&);
void check_i2(const Evidence&);
void check_i3(const Evidence&);
void check_i4(const Evidence&);
void check_i5(const Evidence&);
void check_i6(const Evidence&);
void check_i9(const Evidence&);
void check_judge(const Evidence&);  // the raw log, folded by a rule of its own

}  // namespace onepen::sim
