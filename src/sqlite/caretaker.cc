#include "sqlite/caretaker.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "sqlite/snapshot.h"
#include "sqlite/snapshot_load.h"

namespace onepen::sqlite {
namespace {

// A log that is shorter since its newest snapshot is not worth the requests when an owner begins.
constexpr std::uint64_t kWorthTending = 1u << 20;
constexpr std::size_t kKeptSnapshots = 2;  // should the newest turn out to be damaged

tl::unexpected<Error> home_said(const core::Refusal& refusal) { return tl::unexpected(Error{refusal.outcome, refusal.message, refusal.current}); }
Error closing() { return {Outcome::unavailable, "no snapshot was made: the database is being closed", std::nullopt}; }

// Somebody who waits in snapshot_now().
struct Asked {
  explicit Asked(std::unique_ptr<Signal> signal) : answered(std::move(signal)) {}
  std::unique_ptr<Signal> answered;
  std::optional<Result<core::SnapshotInfo>> answer;  // under Work::mutex
};

Bytes snapshot_record(const core::SnapshotInfo& info, std::uint64_t commits) {
  const nlohmann::ordered_json json{{"kind", "snapshot"}, {"at", info.offset.text}, {"id", info.id}, {"bytes", info.bytes}, {"commits", commits}};
  return to_bytes(as_bytes(json.dump()));
}

}  // namespace

struct Caretaker::Work {
  Work(Runtime& r, CaretakerSeat& s, CaretakerOptions o, Log l) : runtime(r), seat(s), options(o), log(std::move(l)), wake(r.make_signal()) {}

  void run();
  void look_after(bool asked);
  void set_busy(bool busy);
  Result<> look();
  Result<core::Stream*> opened_session();
  Result<core::SnapshotInfo> make();
  Result<core::SnapshotInfo> write(const core::OwnerToken& token, std::uint64_t& commits);
  Result<> tidy(const std::optional<Offset>& trim_to);
  void give_way();
  void note(const Result<>& done);
  void answer(const Result<core::SnapshotInfo>& made);
  bool asleep();
  bool due() const ONEPEN_REQUIRES(mutex) { return appends != 0 && (!looked || appends >= kTendObjects || status.log_bytes > status.next_snapshot_at); }

  Runtime& runtime;
  CaretakerSeat& seat;
  const CaretakerOptions options;
  const Log log;
  const std::unique_ptr<Signal> wake;
  std::atomic<bool> stopping{false};

  mutable Mutex mutex;
  std::unique_ptr<Thread> thread ONEPEN_GUARDED_BY(mutex);
  GrowthStatus status ONEPEN_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<Asked>> asked ONEPEN_GUARDED_BY(mutex);
  std::uint32_t appends ONEPEN_GUARDED_BY(mutex) = 0;  // since the last look
  bool looked ONEPEN_GUARDED_BY(mutex) = false;        // status.log_bytes was once asked for
  bool resting ONEPEN_GUARDED_BY(mutex) = false;       // after a failure
  bool ended ONEPEN_GUARDED_BY(mutex) = false;

  // The thread's own.
  std::unique_ptr<core::Stream> session;
  std::optional<core::SnapshotInfo> unfit;  // the newest one, when it was read back and did not fit
  std::size_t unfit_kept = 0;               // of the snapshots that are kept; the two that count are kept beside them
  std::uint32_t failures = 0;
  std::optional<Instant> again;  // after a failure
};

// A session that stands at the copy's position: what is before it is not read.
Result<core::Stream*> Caretaker::Work::opened_session() {
  if (session) return session.get();
  auto fresh = seat.session();
  if (!fresh) return tl::unexpected(Error{Outcome::unavailable, "there is no session at the home", std::nullopt});
  if (const Offset at = seat.position(); !at.text.empty()) {
    if (auto begun = fresh->read(at, {.records = 1, .bytes = 1}); !begun) return home_said(begun.error());
  }
  session = std::move(fresh);
  return session.get();
}

// How much log there is since the newest snapshot, and how much there may be.
Result<> Caretaker::Work::look() {
  auto stream = opened_session();
  if (!stream) return tl::unexpected(stream.error());
  std::uint32_t seen = 0;
  {
    const Lock lock(mutex);
    seen = appends;
  }
  auto stat = (*stream)->stat();
  if (!stat) return home_said(stat.error());
  auto newest = (*stream)->newest_snapshot();
  if (!newest) return home_said(newest.error());
  const std::uint64_t most = options.snapshot_after != 0 ? options.snapshot_after : std::max(seat.database_bytes(), kLeastSnapshotAfter);
  const Lock lock(mutex);
  const std::uint64_t covered = *newest ? (*newest)->log_bytes : 0;
  status.log_bytes = stat->log_bytes > covered ? stat->log_bytes - covered : 0;
  status.next_snapshot_at = most;
  status.newest = std::move(*newest);
  appends -= std::min(appends, seen);
  looked = true;
  return {};
}

// Writes the pages of a commit held still and reads them back; the pin is let go in between.
Result<core::SnapshotInfo> Caretaker::Work::write(const core::OwnerToken& token, std::uint64_t& commits) {
  core::SnapshotInfo info;
  {
    auto pin = seat.pin();
    if (!pin) return tl::unexpected(pin.error());
    const CommitState state = (*pin)->state();
    commits = state.ordinal;
    if (state.page_count == 0)
      return tl::unexpected(Error{Outcome::invalid, "there is nothing to make a snapshot of: the database has no commit yet", std::nullopt});
    auto writer = session->begin_snapshot(token, state.offset);
    if (!writer) return home_said(writer.error());
    auto written = write_snapshot(**pin, **writer, {}, &stopping);
    if (!written) return written;
    info = std::move(*written);
  }
  if (ONEPEN_FAILPOINT("caretaker.made")) return tl::unexpected(Error{Outcome::unavailable, "failpoint caretaker.made", std::nullopt});
  // The log before the last snapshot but one is deleted because there are two; so that there really are, nothing is taken for written that was not read.
  SnapshotLoad reading;
  reading.stop = &stopping;
  reading.helpers = 1;  // nobody waits for it, and the owner works meanwhile
  if (auto read = check_snapshot(runtime, {*session}, info, reading); !read) {
    if (read.error().outcome == Outcome::state_mismatch) unfit = info, ++unfit_kept;
    return tl::unexpected(read.error());
  }
  return info;
}

Result<core::SnapshotInfo> Caretaker::Work::make() {
  const auto token = seat.token();
  if (!token) return tl::unexpected(Error{Outcome::not_owner, "no snapshot was made: this process does not own the database", std::nullopt});
  std::optional<core::SnapshotInfo> before;
  {
    const Lock lock(mutex);
    before = status.newest;
  }
  // What does not fit is no snapshot: another one is made, and the log is kept for it.
  if (before && unfit && before->id == unfit->id) before.reset();
  if (before && before->offset == seat.position()) return *before;
  std::uint64_t commits = 0;
  auto made = write(*token, commits);
  if (!made) return made;
  log(LogLevel::info, fmt::format("snapshot {} of commit {}: {} bytes in {} parts", made->id, commits, made->bytes, made->parts));
  {
    const Lock lock(mutex);
    status.newest = *made;
    status.log_bytes = 0;  // until the next look; what was committed meanwhile is told by committed()
  }
  auto recorded = seat.append_record(core::RecordKind::snapshot, snapshot_record(*made, commits));
  if (!recorded) return tl::unexpected(recorded.error());
  if (ONEPEN_FAILPOINT("caretaker.recorded")) return tl::unexpected(Error{Outcome::unavailable, "failpoint caretaker.recorded", std::nullopt});
  const auto trim_to = before ? std::optional(before->offset) : std::nullopt;
  if (before) unfit_kept = 0;  // the newest two are good
  if (auto tidied = tidy(trim_to); !tidied) return tl::unexpected(tidied.error());
  if (auto seen = look(); !seen) return tl::unexpected(seen.error());
  return made;
}

Result<> Caretaker::Work::tidy(const std::optional<Offset>& trim_to) {
  while (!stopping.load(std::memory_order_acquire)) {
    const auto token = seat.token();
    if (!token) return {};
    auto stream = opened_session();
    if (!stream) return tl::unexpected(stream.error());
    auto tended = (*stream)->tend({.token = *token, .trim_to = trim_to, .keep_snapshots = kKeptSnapshots + unfit_kept});
    if (!tended) return home_said(tended.error());
    if (!tended->more) return {};
  }
  return {};
}

// A failure is told and tried again later; it never reaches the owner.
void Caretaker::Work::note(const Result<>& done) {
  if (done) {
    failures = 0;
    again.reset();
    const Lock lock(mutex);
    status.trouble.clear();
    resting = false;
    return;
  }
  session.reset();
  if (stopping.load(std::memory_order_acquire)) return;
  const auto rest = std::min(kLastRetry, kFirstRetry * (1u << std::min(failures, 12u)));
  ++failures;
  again = runtime.now() + rest;
  if (!seat.token()) return;  // fenced: what it asked for was refused for that reason, which others tell better
  const bool damage = done.error().outcome == Outcome::state_mismatch;
  log(damage ? LogLevel::error : LogLevel::warn,
      fmt::format("keeping the log short: {}. Next attempt in {} s", done.error().message, std::chrono::duration_cast<std::chrono::seconds>(rest).count()));
  const Lock lock(mutex);
  status.trouble = done.error().message;
  resting = true;
}

void Caretaker::Work::answer(const Result<core::SnapshotInfo>& made) {
  std::vector<std::shared_ptr<Asked>> waiting;
  {
    const Lock lock(mutex);
    waiting.swap(asked);
    for (const auto& one : waiting) one->answer = made;
  }
  for (const auto& one : waiting) one->answered->notify();
}

// Not the owner (any more): the next one does it.
void Caretaker::Work::give_way() {
  again.reset();
  failures = 0;
  const Lock lock(mutex);
  appends = 0;
  resting = false;
}

// One round: looks, and does what is due.
void Caretaker::Work::look_after(bool wanted) {
  bool many = false;
  {
    const Lock lock(mutex);
    many = appends >= kTendObjects;
  }
  if (!wanted && !seat.token()) return give_way();
  auto done = look();
  bool too_long = false;
  {
    const Lock lock(mutex);
    too_long = status.log_bytes > status.next_snapshot_at;
    many = many || status.log_bytes >= kWorthTending;
  }
  if (wanted || (done && too_long)) {
    Result<core::SnapshotInfo> made = done ? make() : tl::unexpected(done.error());
    if (!made) done = tl::unexpected(made.error());
    if (wanted) answer(made);
  } else if (done && many) {
    done = tidy({});
  }
  note(done);
}

void Caretaker::Work::set_busy(bool busy) {
  const Lock lock(mutex);
  status.busy = busy;
}

// False: the process is being stopped.
bool Caretaker::Work::asleep() {
  const Instant before = runtime.now(), until = again.value_or(Instant::max());
  if (until <= before) return true;
  return wake->wait_until(until) || runtime.now() > before;
}

void Caretaker::Work::run() {
  while (!stopping.load(std::memory_order_acquire)) {
    const bool rested = again && runtime.now() >= *again;
    bool wanted = false, woken = false;
    {
      const Lock lock(mutex);
      wanted = !asked.empty();
      woken = again ? rested : due();
    }
    if (wanted || woken) {
      set_busy(true);
      look_after(wanted);
      set_busy(false);
    } else if (!asleep()) {
      break;
    }
  }
  {
    const Lock lock(mutex);
    ended = true;
  }
  answer(tl::unexpected(closing()));
}

Caretaker::Caretaker(Runtime& runtime, CaretakerSeat& seat, CaretakerOptions options, Log log)
    : work_(std::make_unique<Work>(runtime, seat, options, std::move(log))) {
  auto thread = runtime.spawn("caretaker", [work = work_.get()] { work->run(); });
  const Lock lock(work_->mutex);
  work_->thread = std::move(thread);
}
Caretaker::~Caretaker() { stop(); }

void Caretaker::committed(std::uint64_t bytes) {
  Work& w = *work_;
  bool due = false;
  {
    const Lock lock(w.mutex);
    w.status.log_bytes += bytes;
    ++w.appends;
    due = !w.resting && w.due();
  }
  if (due) w.wake->notify();
}

Result<core::SnapshotInfo> Caretaker::snapshot_now() {
  auto one = std::make_shared<Asked>(work_->runtime.make_signal());
  {
    const Lock lock(work_->mutex);
    if (work_->ended) return tl::unexpected(closing());
    work_->asked.push_back(one);
  }
  work_->wake->notify();
  while (true) {
    const Instant before = work_->runtime.now();
    const bool stopped = !one->answered->wait_until(Instant::max()) && work_->runtime.now() == before;  // no time passed: the process is being stopped
    const Lock lock(work_->mutex);
    if (one->answer) return *one->answer;
    if (stopped) return tl::unexpected(closing());
  }
}

GrowthStatus Caretaker::status() const {
  const Lock lock(work_->mutex);
  return work_->status;
}

void Caretaker::stop() {
  work_->stopping.store(true, std::memory_order_release);
  work_->wake->notify();
  std::unique_ptr<Thread> ending;
  {
    const Lock lock(work_->mutex);
    ending = std::move(work_->thread);
  }
}

}  // namespace onepen::sqlite
