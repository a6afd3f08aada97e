// The application: opens a stream for writing through the real Owner, submits commits of several parts, waits, gives up, confirms, closes.
#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "sim/run.h"

namespace onepen::sim {
namespace {

constexpr std::size_t kMaxParts = 5, kMaxFiller = 120;

// One Owner and what was submitted to it.
class Session {
 public:
  Session(Run& run, Process& process, owner::Owner& owner)
      : run_(run), process_(process), runtime_(*process.runtime), owner_(owner), id_(run.next_session()), epoch_(owner.status().token.epoch) {
    owner_.on_reset([this](const Reset& reset) { told(reset); });
  }
  void work(int steps, bool busy);
  void commit();
  void confirm();
  void close();
  bool reset_told() const { return resets_ > 0; }

 private:
  struct Mine {
    owner::Ticket ticket;
    std::size_t at;  // in history.submitted
  };
  void told(const Reset& reset);
  void record(const Mine& mine, const core::Fate& fate);
  void settle_all();

  Run& run_;
  Process& process_;
  Runtime& runtime_;
  owner::Owner& owner_;
  std::uint64_t id_;
  Epoch epoch_;
  std::vector<Mine> mine_;
  int resets_ = 0;
};

void Session::told(const Reset& reset) {
  ++resets_;
  if (process_.dead) return;
  run_.world.note("reset", word(reset.kind), reset.ours.value, reset.current ? reset.current->token.epoch.value : 0);
  if (resets_ > 1) run_.history.violated("I7", process_.name + " was told of its reset twice");
  if (reset.kind != ResetKind::fenced) return;
  bool pending = false;
  for (const Mine& mine : mine_) pending = pending || run_.history.submitted[mine.at].fate == FateSeen::none;
  if (pending) run_.history.sometimes.reached(Sometime::fenced_with_pending);
  if (process_.paused_until != 0) run_.history.sometimes.reached(Sometime::fenced_after_pause);
}

void Session::record(const Mine& mine, const core::Fate& fate) {
  if (process_.dead) return;
  Submitted& s = run_.history.submitted[mine.at];
  using Kind = core::Fate::Kind;
  const FateSeen seen = fate.kind == Kind::acknowledged ? FateSeen::acknowledged : fate.kind == Kind::refused ? FateSeen::refused : FateSeen::undecided;
  run_.world.note("fate", fate.kind == Kind::acknowledged ? "acknowledged" : fate.kind == Kind::refused ? "refused" : "undecided", mine.ticket);
  const bool decided = s.fate == FateSeen::acknowledged || s.fate == FateSeen::refused;
  if (decided && seen != FateSeen::undecided && seen != s.fate) {
    run_.history.violated("I4", fmt::format("the fate of ticket {} of {} changed after it was decided", mine.ticket, process_.name));
  }
  if (!decided) s.fate = seen;
}

void Session::commit() {
  Random& random = run_.world.random();
  const auto parts = static_cast<std::uint32_t>(1 + random.below(kMaxParts));
  const std::uint64_t id = run_.next_payload();
  std::vector<Mine> parts_mine;
  const bool was_reset = reset_told();
  for (std::uint32_t part = 1; part <= parts; ++part) {
    Bytes payload = toy_payload(id, part, parts, random.below(kMaxFiller));
    const Digest digest = digest_of(payload);
    // Entered before the call: a process killed inside submit() may have it on its way.
    const std::size_t at = run_.history.submitted.size();
    run_.history.submitted.push_back(Submitted{process_.name, id_, UINT64_MAX, digest});
    auto ticket = owner_.submit(std::move(payload), later(runtime_, random.between(100, 5'000) * kMilli));
    if (process_.dead) return;
    if (!ticket) {
      run_.world.note("submit.refused", ticket.error().message, static_cast<std::uint64_t>(ticket.error().outcome));
      run_.history.submitted[at].fate = FateSeen::refused;  // it was never queued
      break;
    }
    if (was_reset) run_.history.violated("I7", process_.name + " was reset and its handle accepted another append");
    run_.history.submitted[at].ticket = *ticket;
    mine_.push_back(Mine{*ticket, at});
    parts_mine.push_back(mine_.back());
  }
  if (parts_mine.empty() || random.chance(100)) return;
  std::atomic<bool> interrupted{random.chance(50)};
  const core::Fate fate = owner_.wait(parts_mine.back().ticket, later(runtime_, random.between(50, 8'000) * kMilli), &interrupted);
  record(parts_mine.back(), fate);
  for (const Mine& part : parts_mine) record(part, owner_.wait(part.ticket, runtime_.now(), nullptr));
}

void Session::confirm() {
  const Epoch claimed_before = run_.history.newest_answered_claim;
  const std::vector<Mine> before = mine_;
  auto confirmed = owner_.confirm(later(runtime_, run_.world.random().between(100, 8'000) * kMilli));
  if (process_.dead) return;
  if (!confirmed) {
    run_.world.note("confirm.refused", confirmed.error().message, static_cast<std::uint64_t>(confirmed.error().outcome));
    return;
  }
  run_.world.note("confirmed", confirmed->text);
  if (epoch_ < claimed_before) {
    run_.history.violated(
        "I8", fmt::format("{} confirmed that it owns epoch {}, but epoch {} was claimed before it asked", process_.name, epoch_.value, claimed_before.value));
  }
  for (const Mine& mine : before) {
    if (run_.history.submitted[mine.at].fate != FateSeen::refused) record(mine, core::Fate{core::Fate::Kind::acknowledged, *confirmed, {}});
  }
}

void Session::settle_all() {
  for (const Mine& mine : mine_) record(mine, owner_.wait(mine.ticket, runtime_.now(), nullptr));
}

void Session::work(int steps, bool busy) {
  Random& random = run_.world.random();
  for (int i = 0; i < steps && !process_.dead && !run_.healing; ++i) {
    switch (random.below(8)) {
      case 0: confirm(); break;
      case 1: runtime_.sleep_until(later(runtime_, random.between(100, 4'000) * kMilli)); break;
      default: commit();
    }
    if (owner_.status().reset) {
      commit();  // must be refused
      if (random.chance(700)) break;
    }
    if (!busy) runtime_.sleep_until(later(runtime_, random.between(1, 700) * kMilli));
  }
  if (random.chance(20)) owner_.reset(ResetKind::unresolved, "the simulated application gave up");
}

void Session::close() {
  Random& random = run_.world.random();
  if (random.chance(600)) {
    auto stopped = owner_.stop(later(runtime_, random.between(0, 5'000) * kMilli));
    if (!process_.dead && !stopped) run_.world.note("stop.refused", stopped.error().message);
  }
  if (!process_.dead) settle_all();
}

owner::Options options_for(Run& run, const Process& process, std::string_view why) {
  Random& random = run.world.random();
  owner::Options options;
  options.info.name = process.name;
  options.info.host = "m" + std::to_string(process.machine);
  options.info.pid = process.id;
  options.info.why = why;
  const std::uint64_t mode = random.below(10);
  options.takeover = mode < 7 ? owner::TakeoverMode::always : mode < 9 ? owner::TakeoverMode::if_dead : owner::TakeoverMode::never;
  options.term = std::chrono::milliseconds(random.between(500, 8'000));
  options.notice_within = std::chrono::milliseconds(random.between(200, 3'000));
  options.liveness = random.chance(300);
  options.max_undecided = 1 + random.below(8);
  options.max_batch_bytes = random.chance(300) ? 200 : 8u << 20;
  options.open_within = std::chrono::milliseconds(random.between(2'000, 30'000));
  if (run.world.tracing()) {
    options.log = Log([&world = run.world](LogLevel, std::string_view line) { world.note("log", line); });
  }
  return options;
}

std::unique_ptr<RecordingClaimLog> claim_log(Run& run, Process& process, Client& client, const Slot& slot) {
  const std::string folder = "/cache/" + slot.name;
  if (!client.disk.make_folders(folder)) return nullptr;
  auto log = owner::DiskClaimLog::open(client.disk, folder + "/claims");
  if (!log) {
    run.world.note("claims.refused", log.error().message);
    return nullptr;
  }
  return std::make_unique<RecordingClaimLog>(run.history, process, std::move(*log));
}

void began_to_own(Run& run, Process& process, const owner::Owner& owner, const ToyFold& fold) {
  const Token token = owner.status().token;
  Incarnation incarnation;
  ClaimId claim_id;
  if (!parse(token.incarnation, incarnation) || !parse(token.claim_id, claim_id)) run.history.violated("I5", process.name + " owns without a token");
  run.history.saw_epoch(process.name, incarnation, token.epoch, claim_id);
  const auto& sent = run.history.claims_sent;
  const bool ours = std::any_of(sent.begin(), sent.end(), [&](const ClaimSent& s) { return s.who == process.name && s.claim_id == claim_id; });
  if (!ours) run.history.violated("I5", process.name + " began to own by a claim that it never sent");
  run.history.folds.push_back(FoldSeen{process.name, fold.state().count, fold.state().sum, claim_id});
  run.history.sometimes.reached(Sometime::opened);
}

}  // namespace

void application(Run& run, Process& process, Slot& slot) {
  Runtime& runtime = *process.runtime;
  Random& random = run.world.random();
  Client client(run, process, *slot.machine);
  const auto opens = 1 + random.below(3);
  for (std::uint64_t i = 0; i < opens && !process.dead && !run.healing; ++i) {
    runtime.sleep_until(later(runtime, random.between(0, 2'000) * kMilli));
    auto claims = claim_log(run, process, client, slot);
    if (!claims) continue;
    if (random.chance(200)) slot.copy = Copy{};  // another cache root: cold
    ToyFold fold(run.history, process, slot.copy);
    if (fold.state().count > 0) run.history.sometimes.reached(Sometime::warm_open);
    auto options = options_for(run, process, "open");
    auto opened = owner::Owner::open(runtime, client.stream(), *claims, fold, options);
    if (process.dead) return;
    if (!opened) {
      run.world.note("open.refused", opened.error().message, static_cast<std::uint64_t>(opened.error().outcome));
      if (opened.error().outcome == Outcome::held && options.takeover == owner::TakeoverMode::if_dead) run.history.sometimes.reached(Sometime::held_if_dead);
      continue;
    }
    began_to_own(run, process, **opened, fold);
    Session session(run, process, **opened);
    slot.busy ? session.work(40, true) : session.work(static_cast<int>(1 + random.below(7)), false);
    session.close();
    opened->reset();
  }
}

void healer(Run& run, Process& process, Slot& slot, bool& healed) {
  Runtime& runtime = *process.runtime;
  Client client(run, process, *slot.machine);
  std::unique_ptr<RecordingClaimLog> claims;
  while (!healed && !process.dead) {
    if (!claims) claims = claim_log(run, process, client, slot);
    ToyFold fold(run.history, process, slot.copy);
    auto options = options_for(run, process, "heal");
    options.takeover = owner::TakeoverMode::always;
    Result<std::unique_ptr<owner::Owner>> opened = tl::unexpected(Error{Outcome::unavailable, "no claim log", {}});
    if (claims) opened = owner::Owner::open(runtime, client.stream(), *claims, fold, options);
    if (!opened) {
      run.world.note("heal.refused", opened.error().message, static_cast<std::uint64_t>(opened.error().outcome));
      runtime.sleep_until(later(runtime, kSecond));
      continue;
    }
    began_to_own(run, process, **opened, fold);
    Session session(run, process, **opened);
    for (int i = 0; i < 2; ++i) session.commit();
    auto confirmed = (*opened)->confirm(later(runtime, 60 * kSecond));
    healed = confirmed.has_value() && !process.dead;
    if (!healed) run.world.note("heal.again", confirmed ? "dead" : confirmed.error().message);
    if (healed) run.history.sometimes.reached(Sometime::healed);
    session.close();
  }
}

}  // namespace onepen::sim
