// The fencer: a client at the Home port that claims at odd moments, conditionally and not, appends as the owner it then is, and breaks every rule that a
// client can break. What breaks a rule is entered as illegal first: it must be nowhere in the end.
#include <fmt/format.h>

#include "base/checksum.h"
#include "sim/run.h"
#include "wire/log_object.h"

namespace onepen::sim {
namespace {

constexpr int kResends = 4;

class Fencer {
 public:
  Fencer(Run& run, Process& process, Machine& machine, bool database)
      : run_(run), process_(process), runtime_(*process.runtime), database_(database), client_(run, process, machine), stream_(client_.stream()) {}
  void turn();

 private:
  struct Mine {  // the newest claim that is ours
    Incarnation incarnation;
    Epoch epoch;
    ClaimId claim_id;
    Sequence last;
    Bytes last_payload;
  };
  void claim(bool conditional);
  void claim_not_above();
  bool append();
  void misuse();
  void stray();
  core::AppendBatch batch(const Mine& as, Sequence first, Bytes payload);
  void send_illegal(core::AppendBatch batch);
  Bytes payload() { return toy_payload(run_.next_payload(), 1, 1, run_.world.random().below(40)); }
  void new_session() { stream_ = client_.stream(); }  // like a client started again: nothing of the old one is still out but what is on its way

  Run& run_;
  Process& process_;
  Runtime& runtime_;
  const bool database_;  // in the stream are a database's commits: what it may append is no data
  Client client_;
  std::unique_ptr<core::Stream> stream_;
  std::optional<Mine> mine_;
  std::vector<Mine> past_;
};

void Fencer::claim(bool conditional) {
  Random& random = run_.world.random();
  auto stat = stream_->stat();
  if (process_.dead || (!stat && stat.error().outcome != Outcome::not_found)) return;
  if (conditional && !stat) return;
  if (random.chance(500)) runtime_.sleep_until(later(runtime_, random.between(1, 1'500) * kMilli));  // the base may be gone meanwhile
  core::ClaimRequest request;
  request.epoch = Epoch{(stat ? stat->epoch.value : 0) + 1 + random.below(3)};
  request.claim_id = runtime_.draw<ClaimId>();
  request.attempt = runtime_.draw<PutId>();
  request.owner.name = process_.name;
  request.owner.why = conditional && !database_ ? "self-claim" : "takeover";
  request.create = !stat;
  request.first_incarnation = runtime_.draw<Incarnation>();
  if (conditional) {
    request.over = stat->claim_id;
    request.incarnation = stat->incarnation;
    if (random.chance(400)) request.if_tail = stat->tail;
  }
  run_.history.written_ahead.insert(request.claim_id);  // it has no claim log; what it claims it knows
  if (mine_) past_.push_back(*mine_);
  mine_.reset();
  for (int i = 0; i < kResends && !process_.dead; ++i) {
    auto answer = stream_->claim(request);
    if (process_.dead) return;
    if (answer) {
      if (answer->claim_id == request.claim_id) mine_ = Mine{answer->incarnation, answer->epoch, answer->claim_id, Sequence{0}, {}};
      return;
    }
    if (answer.error().outcome != Outcome::unknown && answer.error().outcome != Outcome::unavailable) return;
    runtime_.sleep_until(later(runtime_, random.between(10, 800) * kMilli));
  }
  new_session();  // gives up; the claim may still land
}

// An epoch that is not above the current one (S28, "claim rises"): it must never become an owner.
void Fencer::claim_not_above() {
  auto stat = stream_->stat();
  if (process_.dead || !stat || stat->epoch.value == 0) return;
  core::ClaimRequest request;
  request.epoch = Epoch{stat->epoch.value - run_.world.random().below(2)};
  if (request.epoch.value == 0) request.epoch.value = 1;
  request.claim_id = runtime_.draw<ClaimId>();
  request.attempt = runtime_.draw<PutId>();
  request.owner.name = process_.name;
  request.owner.why = "takeover";
  run_.history.written_ahead.insert(request.claim_id);
  auto answer = stream_->claim(request);
  if (process_.dead) return;
  if (answer && answer->claim_id == request.claim_id) {
    run_.history.violated("I1", fmt::format("a claim of epoch {} was answered, but epoch {} was there before", request.epoch.value, stat->epoch.value));
  }
  if (!answer && answer.error().outcome == Outcome::unknown) new_session();
  if (!answer) run_.history.sometimes.reached(Sometime::misuse_refused);
}

core::AppendBatch Fencer::batch(const Mine& as, Sequence first, Bytes bytes) {
  core::AppendBatch b;
  b.incarnation = as.incarnation;
  b.epoch = as.epoch;
  b.claim_id = as.claim_id;
  b.first = first;
  b.attempt = runtime_.draw<PutId>();
  b.time_ms = runtime_.wall_ms();
  b.appends.push_back(core::Append{core::RecordKind::data, std::move(bytes)});
  return b;
}

bool Fencer::append() {
  if (!mine_) return false;
  core::AppendBatch b = batch(*mine_, Sequence{mine_->last.value + 1}, payload());
  if (database_) b.appends.front().kind = core::RecordKind::control;
  for (int i = 0; i < kResends && !process_.dead; ++i) {
    auto answer = stream_->append(b);
    if (process_.dead) return false;
    if (answer) {
      mine_->last = b.first;
      mine_->last_payload = b.appends.front().payload;
      return true;
    }
    if (answer.error().outcome != Outcome::unknown && answer.error().outcome != Outcome::unavailable) break;
    runtime_.sleep_until(later(runtime_, run_.world.random().between(10, 800) * kMilli));
  }
  past_.push_back(*mine_);  // undecided or refused: this claim is not used any more
  mine_.reset();
  new_session();
  return false;
}

void Fencer::send_illegal(core::AppendBatch b) {
  for (const core::Append& a : b.appends) run_.history.illegal.insert(digest_of(a.payload).value);
  run_.world.note("misuse", {}, b.epoch.value, b.first.value);
  auto answer = stream_->append(b);
  if (process_.dead) return;
  if (answer)
    run_.history.violated("I4", fmt::format("an append that breaks the rules was answered applied (epoch {}, sequence {})", b.epoch.value, b.first.value));
  if (!answer) run_.history.sometimes.reached(Sometime::misuse_refused);
  if (!answer && answer.error().outcome == Outcome::unknown) {  // as by somebody else: our own claim goes on in another session
    if (mine_) past_.push_back(*mine_);
    mine_.reset();
    new_session();
  }
}

void Fencer::misuse() {
  Random& random = run_.world.random();
  if (random.chance(500)) new_session();  // a session that does not yet know the stream must refuse as well
  if (!past_.empty() && random.chance(300)) {  // of a closed epoch
    const Mine& old = past_[random.below(past_.size())];
    if (!mine_ || mine_->claim_id == old.claim_id) return;
    send_illegal(batch(old, Sequence{old.last.value + 1}, payload()));
    return;
  }
  if (!mine_) return;
  Mine as = *mine_;
  switch (random.below(5)) {
    case 0: return send_illegal(batch(as, Sequence{as.last.value + 2 + random.below(2)}, payload()));  // skips
    case 1: {                                                                                          // another claim of the same epoch
      as.claim_id = runtime_.draw<ClaimId>();
      return send_illegal(batch(as, Sequence{as.last.value + 1}, payload()));
    }
    case 2: {  // another history
      as.incarnation = runtime_.draw<Incarnation>();
      return send_illegal(batch(as, Sequence{as.last.value + 1}, payload()));
    }
    case 3:  // other bytes under a sequence that is taken
      if (as.last.value != 0) send_illegal(batch(as, as.last, payload()));
      return;
    default: {  // the same append again, as another object: never a second time in the stream
      if (as.last.value == 0) return;
      core::AppendBatch again = batch(as, as.last, as.last_payload);
      if (database_) again.appends.front().kind = core::RecordKind::control;
      auto answer = stream_->append(again);
      if (!process_.dead && !answer && answer.error().outcome == Outcome::unknown) {
        past_.push_back(*mine_);
        mine_.reset();
        new_session();
      }
    }
  }
}

// A writer that keeps to none of the home's rules (an old build, a script): it takes the lowest absent id and puts a well-formed object of a closed epoch, of
// a sequence that skips, or of a claim that lost. Void for everybody, for ever; the writers around it go on (B4, B2).
void Fencer::stray() {
  Random& random = run_.world.random();
  if (past_.empty() && !mine_) return;
  const bool of_mine = past_.empty() || (mine_ && random.chance(400));
  const Mine as = of_mine ? *mine_ : past_[random.below(past_.size())];
  if (!of_mine && !mine_) return;  // the older one is closed for certain only under a claim of our own
  auto names = client_.raw().list("db/@log", "", SIZE_MAX);
  if (process_.dead || !names || names->empty()) return;
  const Bytes bytes = payload();
  wire::LogObject object{.kind = wire::ObjectKind::appends, .stream = StreamName::parse("db").value()};
  object.id = std::stoull(names->back()) + 1;
  object.incarnation = as.incarnation;
  object.epoch = as.epoch;
  object.claim_id = as.claim_id;
  object.put_id = runtime_.draw<PutId>();
  object.first = Sequence{as.last.value + (of_mine ? 2 + random.below(3) : 1)};
  object.claim_at = 1;
  object.appends.push_back({core::RecordKind::data, digest_of(bytes), bytes});
  run_.history.illegal.insert(digest_of(bytes).value);
  run_.world.note("misuse.stray", names->back(), object.epoch.value, object.first.value);
  static_cast<void>(client_.raw().put_if_absent(fmt::format("db/@log/{:020}", object.id), wire::encode(object)));
  if (of_mine && mine_) {
    past_.push_back(*mine_);
    mine_.reset();
  }
  new_session();
}

void Fencer::turn() {
  switch (run_.world.random().below(8)) {
    case 0:
    case 1: return claim(false);
    case 2: return claim(true);
    case 3: return claim_not_above();
    case 4: static_cast<void>(append()); return;
    default:
      if (!mine_) claim(true);
      if (!mine_ || !append()) return;
      if (run_.world.random().chance(250)) stray();
      else misuse();
      if (mine_) static_cast<void>(append());
  }
}

}  // namespace

void fencer(Run& run, Process& process, Machine& machine, bool database) {
  Fencer fencer(run, process, machine, database);
  Random& random = run.world.random();
  const auto turns = 1 + random.below(database ? 4 : 5);
  for (std::uint64_t i = 0; i < turns && !process.dead && !run.healing; ++i) {
    process.runtime->sleep_until(later(*process.runtime, random.between(100, 5'000) * kMilli));
    if (!process.dead && !run.healing) fencer.turn();
  }
}

void reader(Run& run, Process& process, Machine& machine) {
  Runtime& runtime = *process.runtime;
  Client client(run, process, machine);
  auto stream = client.stream();
  Offset at;
  std::uint64_t count = 0, sum = 0;
  while (!process.dead && !run.healing) {
    auto read = stream->read(at, core::ReadLimit{1 + run.world.random().below(20), 1u << 20});
    if (process.dead) return;
    if (read) {
      for (const core::Record& record : read->records) {
        sum = chain(sum, identity(record));
        ++count;
        if (record.kind == core::RecordKind::claim && record.closed_epoch.value != 0) run.history.sometimes.reached(Sometime::reader_saw_claim);
      }
      at = read->next;
      run.history.folds.push_back(FoldSeen{process.name, count, sum});
      if (!read->up_to_date) continue;
    }
    if (read) static_cast<void>(stream->wait(at, later(runtime, run.world.random().between(200, 3'000) * kMilli)));
    if (!read) runtime.sleep_until(later(runtime, run.world.random().between(100, 2'000) * kMilli));
  }
  if (!process.dead && process.writes != 0) run.history.violated("B6", fmt::format("the reader asked for {} changes of the home", process.writes));
}

}  // namespace onepen::sim
