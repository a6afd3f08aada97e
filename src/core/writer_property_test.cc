// Random answers against a naive home: what the writer says of an append is true, whatever happened to requests and answers on the way.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

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

  static Offset offset(std::uint64_t sequence) { return Offset{"o" + std::string(1, static_cast<char>('A' + sequence / 676 % 26)) + static_cast<char>('A' + sequence / 26 % 26) + static_cast<char>('A' + sequence % 26)}; }
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
    RC_ASSERT(at->second == all);
  }

  void step(Event event) {
    ++ids;
    Effects effects = writer.step(Moment{now, 0, ClaimId{0, ids}, PutId{0, ids}, kHistory}, std::move(event));
    RC_ASSERT(!(effects.request && request));
    if (effects.request) request = std::move(effects.request);
    for (Decided& decided : effects.decided) {
      const auto at = fates.find(decided.ticket);
      RC_ASSERT(at == fates.end() || at->second.kind == Fate::Kind::undecided);  // decided once; what was left undecided may be decided later
      fates[decided.ticket] = decided.fate;
    }
    resets += effects.reset ? 1 : 0;
    RC_ASSERT(resets <= 1);
    RC_ASSERT(request || effects.wake_at || std::holds_alternative<Finished>(writer.state()) || std::holds_alternative<Claiming>(writer.state()));
  }

  void judge() const {
    std::map<std::string, int> times;
    std::uint64_t before = 0;
    for (const NaiveHome::Row& row : home.rows) {
      const std::string text(as_text(row.payload));
      ++times[text];
      RC_ASSERT(std::stoull(text) > before);  // in the order they were queued
      before = std::stoull(text);
    }
    for (Ticket ticket = 1; ticket <= tickets; ++ticket) {
      const int there = times.count(std::to_string(ticket)) != 0 ? times.at(std::to_string(ticket)) : 0;
      RC_ASSERT(there <= 1);
      const auto fate = fates.find(ticket);
      if (fate == fates.end()) continue;
      if (fate->second.kind == Fate::Kind::acknowledged) RC_ASSERT(there == 1);
      if (fate->second.kind == Fate::Kind::refused) RC_ASSERT(there == 0);
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
  int resets = 0;
};

RC_GTEST_PROP(WriterProperty, WhatItSaysOfAnAppendIsTrue, ()) {
  Run run;
  const auto lucks = *rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, 1u << 16));
  for (const unsigned luck : lucks) {
    run.happen(luck);
    run.judge();
  }
  // The faults stop. Whatever was still under way lands now, or is refused.
  run.home.write_fenced = false;
  while (!run.home.under_way.empty()) run.deliver();
  for (int i = 0; i < 200; ++i) run.answer(7 + 8 * 300);
  run.judge();
  // Then everything is decided, except what was in flight when the front broke the handle, or the home contradicted itself.
  if (std::holds_alternative<Owning>(run.writer.state())) RC_ASSERT(run.fates.size() == run.tickets);
  RC_CLASSIFY(std::holds_alternative<Finished>(run.writer.state()), "finished");
  RC_CLASSIFY(run.home.rows.size() > 3, "appended");
}

}  // namespace
}  // namespace onepen::core
