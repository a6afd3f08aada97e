// Whoever is beside the applications: a reader that follows, a caretaker that compacts and trims, an operator who looks, trims, restores, removes and adopts.
#include <fmt/format.h>

#include <algorithm>

#include "sim/sqlite_run.h"
#include "sqlite/rebuild.h"
#include "sqlite/snapshot.h"
#include "wire/commit_frame.h"

namespace onepen::sim {
namespace {

core::OwnerToken token_of(const core::StreamStat& stat) { return core::OwnerToken{stat.incarnation, stat.epoch, stat.claim_id}; }

// Ordinals of the commits a reader was shown: none is left out, whatever is trimmed meanwhile.
class Following {
 public:
  Following(SqliteRun& all, const Process& process) : all_(all), process_(process) {}
  void began_anew() { last_ = 0; }
  void take(const core::Record& record) {
    if (incarnation_ != record.incarnation) {
      incarnation_ = record.incarnation;
      last_ = 0;
    }
    if (record.kind != core::RecordKind::data || !wire::looks_like_part(record.payload)) return;
    const auto part = wire::decode_part(record.payload);
    if (!part || !part->last) return;
    if (last_ != 0 && part->head.ordinal != last_ + 1)
      all_.violated("B6", fmt::format("{} read commit {} right after commit {}", process_.name, part->head.ordinal, last_));
    last_ = part->head.ordinal;
  }

 private:
  SqliteRun& all_;
  const Process& process_;
  Incarnation incarnation_;
  std::uint64_t last_ = 0;  // 0: none yet
};

}  // namespace

void sqlite_reader(SqliteRun& all, Process& process, Machine& machine) {
  Runtime& runtime = *process.runtime;
  Random& random = all.run.world.random();
  Client client(all.run, process, machine);
  auto stream = client.stream();
  Following following(all, process);
  Offset at;
  while (!process.dead && !all.run.healing) {
    auto read = stream->read(at, core::ReadLimit{1 + random.below(4), 1u << 20});
    if (process.dead) return;
    if (!read && read.error().outcome == Outcome::gone) {
      all.run.history.sometimes.reached(Sometime::reader_gone);
      const auto snapshot = stream->newest_snapshot();
      at = snapshot && *snapshot ? (*snapshot)->offset : Offset{};
      following.began_anew();
      runtime.sleep_until(later(runtime, random.between(1, 500) * kMilli));
      continue;
    }
    if (read) {
      for (const core::Record& record : read->records) following.take(record);
      at = read->next;
    }
    if (read && !read->up_to_date) {
      if (random.chance(300)) runtime.sleep_until(later(runtime, random.between(1, 1'500) * kMilli));  // falls behind
      continue;
    }
    if (read) static_cast<void>(stream->wait(at, later(runtime, random.between(200, 3'000) * kMilli)));
    if (!read) runtime.sleep_until(later(runtime, random.between(100, 2'000) * kMilli));
  }
}

void sqlite_caretaker(SqliteRun& all, Process& process, Machine& machine) {
  Runtime& runtime = *process.runtime;
  Random& random = all.run.world.random();
  Client client(all.run, process, machine);
  auto stream = client.stream();
  std::optional<core::OwnerToken> token;
  while (!process.dead && !all.run.healing) {
    runtime.sleep_until(later(runtime, random.between(50, 3'000) * kMilli));
    const auto stat = stream->stat();
    if (process.dead || !stat) continue;
    if (!token || random.chance(700)) token = token_of(*stat);  // at times that of an owner of long ago
    core::TendRequest request;
    request.token = *token;
    request.keep_objects = 1 + random.below(8);
    request.keep_snapshots = 1 + random.below(2);
    const auto snapshots = stream->snapshots();
    if (snapshots && !snapshots->empty() && random.chance(700))
      request.trim_to = snapshots->at(std::min<std::size_t>(snapshots->size() - 1, random.below(2))).offset;
    static_cast<void>(stream->tend(request));
  }
}

namespace {

class Admin {
 public:
  Admin(SqliteRun& all, Process& process, Machine& machine)
      : all_(all),
        process_(process),
        runtime_(*process.runtime),
        random_(all.run.world.random()),
        client_(all.run, process, machine),
        stream_(client_.stream()) {}
  void restore();
  void adopt();
  void remove();
  void look();
  void trim();

 private:
  std::optional<core::HistoryReceipt> send(core::HistoryRequest& request, const core::StreamStat& stat);
  SqliteRun& all_;
  Process& process_;
  Runtime& runtime_;
  Random& random_;
  Client client_;
  std::unique_ptr<core::Stream> stream_;
  int scratch_ = 0;
};

std::optional<core::HistoryReceipt> Admin::send(core::HistoryRequest& request, const core::StreamStat& stat) {
  request.incarnation = stat.incarnation;
  request.tail = stat.tail;
  request.next = runtime_.draw<Incarnation>();
  request.attempt = runtime_.draw<PutId>();
  request.time_ms = runtime_.wall_ms();
  for (int i = 0; i < 20 && !process_.dead; ++i) {
    auto receipt = stream_->begin_history(request);
    if (receipt) {
      all_.seen_tails.push_back(stat.tail);
      return *receipt;
    }
    if (receipt.error().outcome != Outcome::unknown) return std::nullopt;
    runtime_.sleep_until(later(runtime_, 200 * kMilli));
  }
  return std::nullopt;
}

void Admin::restore() {
  const auto stat = stream_->stat();
  if (!stat) return;
  // Positions after whole commits of this history.
  std::vector<Offset> points;
  for (const auto& [offset, record] : all_.records) {
    if (record.incarnation == stat->incarnation && record.kind == core::RecordKind::data) points.push_back(record.next);
  }
  if (points.empty()) return;
  std::sort(points.begin(), points.end());
  const Offset point = points[random_.below(points.size())];
  const std::string path = fmt::format("/restore/{}", ++scratch_);
  if (!client_.disk.make_folders(path)) return;
  auto reader = client_.stream();
  sqlite::RebuildOptions options;
  options.until.offset = point;
  const auto state = sqlite::rebuild_into(runtime_, client_.disk, *reader, path + "/db", options);
  if (process_.dead) return;
  if (!state) return all_.run.world.note("restore.refused", state.error().message);
  core::HistoryRequest request;
  request.act = core::HistoryAct::restore;
  request.common = state->offset;
  request.snapshot = [&](core::SnapshotWriter& writer) -> core::Answer<Bytes> {
    auto pin = sqlite::pin_file(client_.disk, path + "/db", *state);
    if (!pin) return tl::unexpected(core::Refusal{pin.error().outcome, pin.error().message, {}});
    auto about = sqlite::write_snapshot_parts(**pin, writer);
    if (!about) return tl::unexpected(core::Refusal{about.error().outcome, about.error().message, {}});
    return *about;
  };
  all_.cuts.push_back(state->offset);  // from here on it may have happened
  all_.lost_before_step = UINT64_MAX;
  const auto receipt = send(request, *stat);
  if (process_.dead) return;
  all_.lost_before_step = all_.run.world.steps();
  if (receipt) all_.run.history.sometimes.reached(Sometime::restored);
}

// `onepen history`, `onepen list`, `onepen verify`: the whole stream, every commit checked. No change of the home.
void Admin::look() {
  const std::uint64_t before = process_.home_writes;
  static_cast<void>(client_.home().list(""));
  static_cast<void>(stream_->events());
  static_cast<void>(stream_->usage());
  const std::string path = fmt::format("/verify/{}", ++scratch_);
  if (!client_.disk.make_folders(path)) return;
  auto reader = client_.stream();
  sqlite::RebuildOptions options;
  options.from_snapshot = random_.chance(500);
  const auto state = sqlite::rebuild_into(runtime_, client_.disk, *reader, path + "/db", options);
  if (process_.dead) return;
  if (process_.home_writes != before) all_.violated("B6", process_.name + " only looked, and asked for a change of the home");
  if (!state && (state.error().outcome == Outcome::invalid || state.error().outcome == Outcome::state_mismatch))
    all_.violated("I3", fmt::format("the stream does not pass {}'s check: {}", process_.name, state.error().message));
  all_.run.world.note(state ? "verified" : "verify.refused", state ? state->offset.text : state.error().message);
}

// `onepen trim`: as the owner that is there now.
void Admin::trim() {
  const auto stat = stream_->stat();
  const auto snapshots = stream_->snapshots();
  if (process_.dead || !stat || !snapshots) return;
  core::TendRequest request;
  request.token = token_of(*stat);
  request.keep_objects = 1 + random_.below(8);
  if (!snapshots->empty()) request.trim_to = snapshots->back().offset;
  static_cast<void>(stream_->tend(request));
}

void Admin::adopt() {
  const auto stat = stream_->stat();
  if (!stat) return;
  core::HistoryRequest request;
  request.act = core::HistoryAct::adopt;
  if (send(request, *stat) && !process_.dead) all_.run.history.sometimes.reached(Sometime::adopted);
}

void Admin::remove() {
  const auto stat = stream_->stat();
  if (!stat) return;
  core::RemoveRequest request;
  request.incarnation = stat->incarnation;
  request.tail = stat->tail;
  request.attempt = runtime_.draw<PutId>();
  all_.history_lost = true;
  // Before every position of this history, and of those it began with.
  for (unsigned long history = std::stoul(stat->tail.text); history > 0; --history) all_.cuts.push_back(Offset{fmt::format("{:06}", history)});
  all_.lost_before_step = UINT64_MAX;
  for (int i = 0; i < 20 && !process_.dead; ++i) {
    const auto done = stream_->remove(request);
    if (done && !process_.dead) all_.run.history.sometimes.reached(Sometime::removed);
    if (done || done.error().outcome != Outcome::unknown) break;
    runtime_.sleep_until(later(runtime_, 200 * kMilli));
  }
  if (!process_.dead) all_.lost_before_step = all_.run.world.steps();
}

}  // namespace

void sqlite_restore(SqliteRun& all, Process& process, Machine& machine) { Admin(all, process, machine).restore(); }
void sqlite_adopt(SqliteRun& all, Process& process, Machine& machine) { Admin(all, process, machine).adopt(); }
void sqlite_remove(SqliteRun& all, Process& process, Machine& machine) { Admin(all, process, machine).remove(); }

void sqlite_operator(SqliteRun& all, Process& process, Machine& machine) {
  Random& random = all.run.world.random();
  Admin admin(all, process, machine);
  for (std::uint64_t i = 1 + random.below(2); i > 0 && !process.dead && !all.run.healing; --i) {
    process.runtime->sleep_until(later(*process.runtime, random.between(2'000, 12'000) * kMilli));
    if (process.dead || all.run.healing) return;
    if (random.chance(300)) admin.look();
    if (all.may.restores) admin.restore();
    if (all.may.removes) admin.remove();
    if (all.may.adopts) admin.adopt();
    if (random.chance(500)) admin.trim();
  }
}

}  // namespace onepen::sim
