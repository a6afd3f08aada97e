// Random answers against a naive home: what the writer says of an append is true, whatever happened to requests and answers on the way.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>

#include "base/guard.h"
#include "core/writer.h"

namespace onepen::core {
namespace {

constexpr Incarnation kHistory{1, 1};

// A stream as a list; one epoch of ours, then perhaps a newer claim. Requests of ours may stay under way and land later.
class NaiveHome {
 public:
  struct Row {
    std::uint64_t sequence;
    Bytes payload;
  };
  std::vector<Row> rows;
  bool closed = false;
  bool write_fenced = false;
  bool forgets = false;  // answers epoch-closed without saying what became of the request
  std::vector<std::shared_ptr<const AppendBatch>> under_way;

  static Offset offset(std::uint64_t sequence) {
    return Offset{"o" + std::string(1, static_cast<char>('A' + sequence / 676 % 26)) + static_cast<char>('A' + sequence / 26 % 26) +
                  static_cast<char>('A' + sequence % 26)};
  }
  std::uint64_t last() const { return rows.empty() ? 0 : rows.back().sequence; }

  Answer<AppendReceipt> apply(const AppendBatch& batch) {
    AppendReceipt receipt;
    for (std::size_t i = 0; i < batch.appends.size(); ++i) {
      const std::uint64_t sequence = batch.first.value + i;
      if (closed) {
        if (i > 0) break;
        const bool landed = sequence <= last() && rows[sequence - 1].payload == batch.appends[i].payload;
        Refusal refusal{Outcome::epoch_closed, "closed", Owner{Token{to_text(kHistory), Epoch{2}, ""}, "", "b", "", 2}};
        refusal.applied = forgets ? Applied::unknown : landed ? Applied::yes : Applied::no;
        if (!forgets) refusal.closed_sequence = Sequence{last()};
        return tl::unexpected(refusal);
      }
      if (sequence <= last()) {
        if (rows[sequence - 1].payload != batch.appends[i].payload) return tl::unexpected(Refusal{Outcome::cloned, "other bytes"});
      } else if (sequence > last() + 1) {
        Refusal gap{Outcome::sequence_gap, "gap"};
        gap.expected_sequence = Sequence{last() + 1};
        return tl::unexpected(gap);
      } else if (write_fenced) {
        if (i > 0) break;
        return tl::unexpected(Refusal{Outcome::write_fenced, "fenced for a move"});
      } else {
        rows.push_back({sequence, batch.appends[i].payload});
      }
      receipt.offsets.push_back(offset(sequence));
    }
    return receipt;
  }

  ReadResult read() const {
    ReadResult result;
    for (const Row& row : rows) {
      Record record;
      record.kind = RecordKind::data;
      record.epoch = Epoch{1};
      record.claim_id = ClaimId{0, 1};
      record.sequence = Sequence{row.sequence};
      record.payload = row.payload;
      record.next = offset(row.sequence);
      result.records.push_back(record);
    }
    if (closed) {
      Record claim;
      claim.kind = RecordKind::claim;
      claim.epoch = Epoch{2};
      result.records.push_back(claim);
    }
    result.up_to_date = true;
    return result;
  }

  StreamStat stat() const {
    StreamStat stat;
    stat.incarnation = kHistory;
    stat.epoch = Epoch{closed ? 2u : 1u};
    stat.claim_id = ClaimId{0, closed ? 2u : 1u};
    stat.last_sequence = Sequence{closed ? 0 : last()};
    return stat;
  }
};

class Run {
 public:
  Run() {
    step(ClaimNow{Epoch{0}});
    request.reset();
    step(ClaimAnswered{ClaimReceipt{kHistory, Epoch{1}, ClaimId{0, 1}, Epoch{}, Sequence{}, NaiveHome::offset(0), 1}});
  }

  void queue(std::size_t count) {
    Queued queued;
    for (std::size_t i = 0; i < count; ++i) queued.appends.push_back({++tickets, RecordKind::data, to_bytes(as_bytes(std::to_string(tickets)))});
    step(std::move(queued));
  }

  // One thing happens; `luck` chooses what.
  void happen(unsigned luck) {
    const unsigned kind = luck % 16;
    if (kind == 0) queue(1 + luck / 16 % 4);
    else if (kind == 1) home.write_fenced = !home.write_fenced;
    else if (kind == 2 && luck / 16 % 8 == 0) home.closed = true;
    else if (kind == 3) deliver();
    else if (kind == 4 && luck / 16 % 16 == 0) step(GiveUp{luck / 256 % 2 == 0 ? ResetKind::unresolved : ResetKind::broken, "the front"});
    else if (kind == 6 && tickets != 0) step(Withdraw{1 + luck / 16 % tickets, Error{Outcome::unavailable, "taken back", {}}});
    else if (kind == 5) home.forgets = !home.forgets;
    else answer(luck / 16);
  }

  void deliver() {
    if (home.under_way.empty()) return;
    const auto batch = home.under_way.front();
    home.under_way.erase(home.under_way.begin());
    (void)home.apply(*batch);
  }

  // The request that is out meets its fate; without one, time passes.
  void answer(unsigned luck) {
    if (!request) {
      now += std::chrono::milliseconds(luck % 2000);
      step(Tick{});
      return;
    }
    const Request sent = *std::exchange(request, {});
    const unsigned trouble = luck % 8;
    const auto unknown = tl::unexpected(Refusal{Outcome::unknown, "lost"});
    const auto unavailable = tl::unexpected(Refusal{Outcome::unavailable, "out of reach"});
    if (const auto* batch = std::get_if<std::shared_ptr<const AppendBatch>>(&sent)) {
      same_bytes(**batch);
      if (trouble == 0) return step(BatchAnswered{unavailable});
      if (trouble == 1) return step(BatchAnswered{unknown});
      if (trouble == 2) home.under_way.push_back(*batch);
      if (trouble == 3) (void)home.apply(**batch);
      if (trouble == 2 || trouble == 3) return step(BatchAnswered{unknown});
      return step(BatchAnswered{home.apply(**batch)});
    }
    if (std::holds_alternative<AskRead>(sent)) {
      if (trouble < 2) return step(ReadAnswered{trouble == 0 ? Answer<ReadResult>(unknown) : Answer<ReadResult>(unavailable)});
      return step(ReadAnswered{home.read()});
    }
    step(StatAnswered{trouble == 0 ? Answer<StreamStat>(unavailable) : Answer<StreamStat>(home.stat())});
  }

  // One attempt id, one content.
  void same_bytes(const AppendBatch& batch) {
    std::string all = std::to_string(batch.first.value);
    for (const Append& append : batch.appends) all += "," + std::string(as_text(append.payload));
    const auto [at, fresh] = sent_bytes.try_emplace(batch.attempt.lo, all);
    require(at->second == all, "other bytes under one attempt");
  }

  void step(Event event) {
    ++ids;
    Effects effects = writer.step(Moment{now, 0, ClaimId{0, ids}, PutId{0, ids}, kHistory}, std::move(event));
    require(!(effects.request && request), "two requests out");
    if (effects.request) request = std::move(effects.request);
    for (Decided& decided : effects.decided) {
      const auto at = fates.find(decided.ticket);
      require(at == fates.end() || at->second.kind == Fate::Kind::undecided, "decided twice");  // what was left undecided may be decided later
      taken_back += decided.fate.error && decided.fate.error->message == "taken back" ? 1 : 0;
      fates[decided.ticket] = decided.fate;
    }
    resets += effects.reset ? 1 : 0;
    require(resets <= 1, "reset twice");
    require(request || effects.wake_at || std::holds_alternative<Finished>(writer.state()), "waits for nothing");
  }

  void require(bool so, const char* what) {
    if (!so && wrong.empty()) wrong = what;
  }

  void judge() {
    std::map<std::string, int> times;
    std::uint64_t before = 0;
    for (const NaiveHome::Row& row : home.rows) {
      const std::string text(as_text(row.payload));
      ++times[text];
      require(std::stoull(text) > before, "not in the order they were queued");
      before = std::stoull(text);
    }
    for (Ticket ticket = 1; ticket <= tickets; ++ticket) {
      const int there = times.count(std::to_string(ticket)) != 0 ? times.at(std::to_string(ticket)) : 0;
      require(there <= 1, "twice in the stream");
      const auto fate = fates.find(ticket);
      if (fate == fates.end()) continue;
      if (fate->second.kind == Fate::Kind::acknowledged) require(there == 1, "acknowledged and not in the stream");
      if (fate->second.kind == Fate::Kind::refused) require(there == 0, "refused and in the stream");
    }
  }

  NaiveHome home;
  Writer writer{[] {
    WriterConfig config;
    config.stream = "app";
    config.max_undecided = 3;
    return config;
  }()};
  Instant now{std::chrono::seconds(1)};
  std::optional<Request> request;
  std::uint64_t ids = 0;
  Ticket tickets = 0;
  std::map<Ticket, Fate> fates;
  std::map<std::uint64_t, std::string> sent_bytes;
  int resets = 0, taken_back = 0;
  std::string wrong;  // the first thing that was
};

// Everything that happens, then the faults stop: whatever was still under way lands now, or is refused.
void play(Run& run, const std::vector<unsigned>& lucks) {
  for (const unsigned luck : lucks) {
    run.happen(luck);
    run.judge();
  }
  run.home.write_fenced = false;
  while (!run.home.under_way.empty()) run.deliver();
  for (int i = 0; i < 200; ++i) run.answer(7 + 8 * 300);
  run.judge();
  if (std::holds_alternative<Owning>(run.writer.state())) run.require(run.fates.size() == run.tickets, "the faults stopped and something stays undecided");
}

RC_GTEST_PROP(WriterProperty, WhatItSaysOfAnAppendIsTrue, ()) {
  Run run;
  play(run, *rc::gen::scale(4, rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, 1u << 16))));
  if (!run.wrong.empty()) RC_FAIL(run.wrong);
  RC_CLASSIFY(std::holds_alternative<Finished>(run.writer.state()), "finished");
  RC_CLASSIFY(run.home.rows.size() > 3, "appended");
}

// The first seed of 2,000 whose run goes wrong, and how; and that the runs came to the points that matter.
std::string first_wrong(std::map<std::string, int>& reached) {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<unsigned> lucks(150);
    for (unsigned& luck : lucks) luck = random() % (1u << 16);
    Run run;
    play(run, lucks);
    if (!run.wrong.empty()) return "seed " + std::to_string(seed) + ": " + run.wrong;
    reached["taken back"] += run.taken_back;
    for (const auto& [ticket, fate] : run.fates)
      ++reached[fate.kind == Fate::Kind::acknowledged ? "acknowledged" : fate.kind == Fate::Kind::refused ? "refused" : "undecided"];
    ++reached[run.resets == 0 ? "owning" : "reset"];
    reached["closed"] += run.home.closed ? 1 : 0;
  }
  return {};
}

TEST(WriterProperty, ManySeedsReachEveryEnd) {
  std::map<std::string, int> reached;
  EXPECT_EQ(first_wrong(reached), "");
  for (const char* what : {"acknowledged", "refused", "undecided", "owning", "reset", "closed", "taken back"}) EXPECT_GT(reached[what], 20) << what;
}

TEST(WriterProperty, IsRedWhenWhatMayHaveLandedIsTakenBack) {
  std::map<std::string, int> reached;
  set_guard(Guard::withdraw_only_unsent, false);
  const std::string wrong = first_wrong(reached);
  set_guard(Guard::withdraw_only_unsent, true);
  EXPECT_NE(wrong, "");
}

TEST(WriterProperty, IsRedWhenUnknownIsTakenForARefusal) {
  std::map<std::string, int> reached;
  set_guard(Guard::unknown_resend, false);
  const std::string wrong = first_wrong(reached);
  set_guard(Guard::unknown_resend, true);
  EXPECT_NE(wrong, "");
}

}  // namespace
}  // namespace onepen::core
