#include "tests/support/memory_home.h"

#include <algorithm>

#include "core/fence_view.h"
#include "tests/support/memory_session.h"

namespace onepen::testing {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

}  // namespace

std::shared_ptr<MemoryHome::Shared> MemoryHome::make_shared_state() { return std::make_shared<Shared>(); }

MemoryHome::MemoryHome(Runtime& runtime, std::shared_ptr<Shared> shared) : runtime_(runtime), shared_(std::move(shared)) {}
MemoryHome::~MemoryHome() = default;

std::unique_ptr<core::Stream> MemoryHome::stream(const StreamName& name) { return std::make_unique<Session>(*this, name); }

Result<std::vector<std::string>> MemoryHome::list(const std::string& prefix) {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, log] : shared_->logs) {
    if (log.state.presence == core::Presence::present && name.starts_with(prefix)) names.push_back(name);
  }
  return names;
}

const std::string& MemoryHome::url() const {
  static const std::string url = "memory:";
  return url;
}

void MemoryHome::set_hook(Hook hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

std::size_t MemoryHome::deliver_late() {
  std::deque<std::function<void()>> late;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
  }
  for (const auto& run : late) run();
  return late.size();
}

void MemoryHome::erase(const StreamName& name) {
  const std::lock_guard lock(shared_->mutex);
  Log& log = shared_->logs.at(name.text());
  core::AdminCommand remove{core::AdminAct::remove, log.state.incarnation, log.state.tail};
  (void)core::apply(log.state, remove);
  empty(log);
}

void MemoryHome::restore(const StreamName& name) {
  new_history(name);
  const std::lock_guard lock(shared_->mutex);
  shared_->logs.at(name.text()).common.clear();
}

void MemoryHome::new_history(const StreamName& name, std::optional<std::size_t> records) {
  const std::lock_guard lock(shared_->mutex);
  Log& log = shared_->logs.at(name.text());
  core::AdminCommand adopt{core::AdminAct::adopt, log.state.incarnation, log.state.tail};
  adopt.next_incarnation = runtime_.draw<Incarnation>();
  (void)history_of(log, adopt, records.value_or(log.records.size()));
}

void MemoryHome::put_back(const StreamName& name, std::size_t records) {
  const std::lock_guard lock(shared_->mutex);
  Log& log = shared_->logs.at(name.text());
  for (; records > 0; --records) {
    const core::Record& last = log.records.back();
    if (last.epoch == log.state.owner.epoch) log.state.owner.last = Sequence{last.sequence.value - 1};
    log.records.pop_back();
    --log.state.tail.low;
  }
}

bool MemoryHome::suspect(const StreamName& name) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->logs.at(name.text()).state.suspect;
}

std::vector<core::Record> MemoryHome::records(const StreamName& name) const {
  const std::lock_guard lock(shared_->mutex);
  const auto at = shared_->logs.find(name.text());
  return at == shared_->logs.end() ? std::vector<core::Record>{} : at->second.records;
}

void MemoryHome::refuse_data(const StreamName& name, std::optional<Outcome> outcome) {
  const std::lock_guard lock(shared_->mutex);
  shared_->logs.at(name.text()).refuse_data = outcome;
}

void MemoryHome::tell_along(bool on) { tells_along_ = on; }

std::uint64_t MemoryHome::calls(Call call) const {
  const std::lock_guard lock(mutex_);
  const auto at = calls_.find(call);
  return at == calls_.end() ? 0 : at->second;
}

Log* MemoryHome::Session::find() {
  const auto at = home_.shared_->logs.find(name_.text());
  return at == home_.shared_->logs.end() ? nullptr : &at->second;
}

bool MemoryHome::Session::present(const Log* log) { return log != nullptr && log->state.presence == core::Presence::present; }

core::Refusal MemoryHome::Session::missing(const Log* log) const {
  const bool soft = log != nullptr && log->state.presence == core::Presence::soft_deleted;
  core::Refusal refusal{soft ? Outcome::gone : Outcome::not_found, "there is no stream '" + name_.text() + "' in the memory home"};
  if (log != nullptr && log->state.presence == core::Presence::deleted) refusal.floor = log->state.owner.epoch;
  return refusal;
}

core::Refusal MemoryHome::Session::refusal(Log& log, const core::Decision& decision, Epoch ours) const {
  core::Refusal refusal = core::refusal_of(name_.text(), log.state, decision, ours);
  if (decision.outcome == Outcome::base_mismatch) refusal.tail = offset_of(log.state.tail);
  if (refusal.current) refusal.current->endpoint = log.endpoint;
  return refusal;
}

core::Answer<core::StreamStat> MemoryHome::Session::stat() {
  return with_trouble<core::StreamStat>({Call::stat}, [this] { return do_stat(); });
}

core::Answer<core::ReadResult> MemoryHome::Session::read(const Offset& from, const core::ReadLimit& limit) {
  return with_trouble<core::ReadResult>({Call::read}, [this, from, limit] { return do_read(from, limit); });
}

core::Answer<bool> MemoryHome::Session::wait(const Offset& from, Instant deadline) {
  return with_trouble<bool>({Call::wait}, [this, from, deadline] { return do_wait(from, deadline); });
}

core::Answer<std::optional<Bytes>> MemoryHome::Session::pulse(const std::string& liveness) {
  return with_trouble<std::optional<Bytes>>({Call::pulse}, [this, liveness] {
    const std::lock_guard lock(home_.shared_->mutex);
    const auto at = home_.shared_->pulses.find(name_.text() + "/" + liveness);
    return core::Answer<std::optional<Bytes>>(at == home_.shared_->pulses.end() ? std::nullopt : std::optional<Bytes>(at->second));
  });
}

core::Answer<std::optional<core::SnapshotInfo>> MemoryHome::Session::newest_snapshot() {
  using Found = std::optional<core::SnapshotInfo>;
  return with_trouble<Found>({Call::snapshot}, [this]() -> core::Answer<Found> {
    const std::lock_guard lock(home_.shared_->mutex);
    const Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    return log->snapshots.empty() ? Found() : Found(log->snapshots.back().info);
  });
}

core::Answer<std::vector<core::SnapshotInfo>> MemoryHome::Session::snapshots() {
  using All = std::vector<core::SnapshotInfo>;
  return with_trouble<All>({Call::snapshot}, [this]() -> core::Answer<All> {
    const std::lock_guard lock(home_.shared_->mutex);
    const Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    All all;
    for (auto at = log->snapshots.rbegin(); at != log->snapshots.rend(); ++at) all.push_back(at->info);
    return all;
  });
}

core::Answer<core::Usage> MemoryHome::Session::usage() {
  return with_trouble<core::Usage>({Call::stat}, [this]() -> core::Answer<core::Usage> {
    const std::lock_guard lock(home_.shared_->mutex);
    const Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    core::Usage usage;
    usage.log_bytes = log->bytes;
    usage.log_objects = log->records.size() - log->trimmed;
    usage.snapshots = log->snapshots.size();
    for (const Snapshot& snapshot : log->snapshots) usage.snapshot_bytes += snapshot.info.bytes;
    return usage;
  });
}

core::Answer<Bytes> MemoryHome::Session::snapshot_part(const core::SnapshotInfo& info, std::uint32_t part) {
  return with_trouble<Bytes>({Call::snapshot}, [this, info, part]() -> core::Answer<Bytes> {
    const std::lock_guard lock(home_.shared_->mutex);
    const Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    for (const Snapshot& snapshot : log->snapshots) {
      if (snapshot.info.id == info.id && part < snapshot.parts.size()) return snapshot.parts[part];
    }
    return tl::unexpected(core::Refusal{Outcome::gone, "the snapshot " + info.id + " is not kept any more"});
  });
}

core::Answer<core::StreamStat> MemoryHome::Session::do_stat() {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  return stat_now(*log);
}

core::StreamStat MemoryHome::Session::stat_now(const Log& log_now) {
  const Log* log = &log_now;
  core::StreamStat stat = core::stat_of(log->state);
  stat.tail = offset_of(log->state.tail);
  stat.endpoint = log->endpoint;
  stat.released = log->released;
  if (stat.claims_since_data >= log->calm_at) stat.claims_since_data -= log->calm_at;
  if (!log->state.suspect) stat.suspect.clear();
  else stat.suspect = "its owner saw it end early";
  stat.log_bytes = log->bytes;
  return stat;
}

core::Answer<core::ReadResult> MemoryHome::Session::do_read(const Offset& from, const core::ReadLimit& limit) {
  const std::lock_guard lock(home_.shared_->mutex);
  Log* log = find();
  if (!present(log)) return tl::unexpected(missing(log));
  core::Position at{log->state.tail.high, 0};
  if (!from.text.empty()) {
    const auto position = position_of(from);
    if (!position) return tl::unexpected(core::Refusal{Outcome::invalid, "'" + from.text + "' is no offset of the memory home"});
    at = *position;
  }
  const auto place = place_of(*log, at);
  if (!place) return tl::unexpected(core::Refusal{Outcome::gone, "'" + from.text + "' is no position of this history of '" + name_.text() + "'"});
  at = {log->state.tail.high, *place};
  core::ReadResult result;
  std::uint64_t bytes = 0;
  while (at.low < log->records.size() && result.records.size() < limit.records && (result.records.empty() || bytes < limit.bytes)) {
    result.records.push_back(log->records[at.low]);
    bytes += result.records.back().payload.size();
    ++at.low;
  }
  result.next = offset_of(at);
  result.up_to_date = at.low == log->records.size();
  if (result.up_to_date && home_.tells_along_) result.stat = stat_now(*log);
  return result;
}

core::Answer<bool> MemoryHome::Session::do_wait(const Offset& from, Instant deadline) {
  while (true) {
    {
      const std::lock_guard lock(home_.shared_->mutex);
      const Log* log = find();
      if (!present(log)) return true;
      if (offset_of(log->state.tail) > from) return true;
    }
    const Instant now = home_.runtime_.now();
    if (now >= deadline) return false;
    home_.runtime_.sleep_until(std::min<Instant>(deadline, now + kPoll));
    if (home_.runtime_.now() == now) return false;  // the process is being stopped
  }
}

}  // namespace onepen::testing
