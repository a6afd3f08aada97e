#include "tests/support/memory_home.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "core/fence.h"
#include "core/fence_view.h"

namespace onepen::testing {
namespace {

constexpr std::chrono::milliseconds kPoll{10};

struct Log {
  core::StreamState state;
  std::vector<core::Record> records;  // the n-th ends at position (history, n)
  std::string endpoint;
  std::optional<Outcome> refuse_data;
  std::uint64_t histories = 0;
};

Offset offset_of(core::Position position) {
  char text[40];
  std::snprintf(text, sizeof text, "%08llx-%016llx", static_cast<unsigned long long>(position.high), static_cast<unsigned long long>(position.low));
  return Offset{text};
}

std::optional<core::Position> position_of(const Offset& offset) {
  unsigned long long high = 0, low = 0;
  if (std::sscanf(offset.text.c_str(), "%8llx-%16llx", &high, &low) != 2) return {};
  return core::Position{high, low};
}

std::string endpoint_in(ByteView payload) {
  const auto json = nlohmann::json::parse(as_text(payload), nullptr, false);
  if (!json.is_object() || json.value("record", "") != "ready") return {};
  return json.value("endpoint", "");
}

core::Position next_of(const Log& log) { return {log.state.tail.high, log.state.tail.low + 1}; }

}  // namespace

struct MemoryHome::Shared {
  std::mutex mutex;
  std::map<std::string, Log> logs;
  std::map<std::string, Bytes> pulses;
};

std::shared_ptr<MemoryHome::Shared> MemoryHome::make_shared_state() { return std::make_shared<Shared>(); }

class MemoryHome::Session : public core::Stream {
 public:
  Session(MemoryHome& home, StreamName name) : home_(home), name_(std::move(name)) {}
  const StreamName& name() const override { return name_; }

  core::Answer<core::StreamStat> stat() override {
    return with_trouble<core::StreamStat>({Call::stat}, [this] { return do_stat(); });
  }
  core::Answer<core::ClaimReceipt> claim(const core::ClaimRequest& request) override {
    return with_trouble<core::ClaimReceipt>({Call::claim, &request}, [this, request] { return do_claim(request); });
  }
  core::Answer<core::AppendReceipt> append(const core::AppendBatch& batch) override {
    return with_trouble<core::AppendReceipt>({Call::append, nullptr, &batch}, [this, batch] { return do_append(batch); });
  }
  core::Answer<core::ReadResult> read(const Offset& from, const core::ReadLimit& limit) override {
    return with_trouble<core::ReadResult>({Call::read}, [this, from, limit] { return do_read(from, limit); });
  }
  core::Answer<bool> wait(const Offset& from, Instant deadline) override {
    return with_trouble<bool>({Call::wait}, [this, from, deadline] { return do_wait(from, deadline); });
  }
  core::Answer<bool> beat(const std::string& liveness, ByteView content) override {
    Bytes bytes = to_bytes(content);
    return with_trouble<bool>({Call::beat}, [this, liveness, bytes] {
      const std::lock_guard lock(home_.shared_->mutex);
      home_.shared_->pulses[name_.text() + "/" + liveness] = bytes;
      return core::Answer<bool>(true);
    });
  }
  core::Answer<std::optional<Bytes>> pulse(const std::string& liveness) override {
    return with_trouble<std::optional<Bytes>>({Call::pulse}, [this, liveness] {
      const std::lock_guard lock(home_.shared_->mutex);
      const auto at = home_.shared_->pulses.find(name_.text() + "/" + liveness);
      return core::Answer<std::optional<Bytes>>(at == home_.shared_->pulses.end() ? std::nullopt : std::optional<Bytes>(at->second));
    });
  }

 private:
  template <class T>
  core::Answer<T> with_trouble(const CallInfo& info, std::function<core::Answer<T>()> run) {
    Hook hook;
    {
      const std::lock_guard lock(home_.mutex_);
      ++home_.calls_[info.call];
      hook = home_.hook_;
    }
    const Trouble trouble = hook ? hook(info) : Trouble::none;
    switch (trouble) {
      case Trouble::none: return run();
      case Trouble::unavailable: return tl::unexpected(core::Refusal{Outcome::unavailable, "the memory home is out of reach"});
      case Trouble::lost_request: break;
      case Trouble::lost_answer: (void)run(); break;
      case Trouble::late_request: {
        const std::lock_guard lock(home_.mutex_);
        home_.late_.push_back([run] { (void)run(); });
        break;
      }
      case Trouble::repeated: (void)run(); return run();
    }
    return tl::unexpected(core::Refusal{Outcome::unknown, "the answer of the memory home was lost"});
  }

  core::Refusal missing(const Log* log) const {
    const bool soft = log != nullptr && log->state.presence == core::Presence::soft_deleted;
    return core::Refusal{soft ? Outcome::gone : Outcome::not_found, "there is no stream '" + name_.text() + "' in the memory home"};
  }
  Log* find() {
    const auto at = home_.shared_->logs.find(name_.text());
    return at == home_.shared_->logs.end() ? nullptr : &at->second;
  }
  static bool present(const Log* log) { return log != nullptr && log->state.presence == core::Presence::present; }

  core::Refusal refusal(Log& log, const core::Decision& decision, Epoch ours) const {
    core::Refusal refusal = core::refusal_of(name_.text(), log.state, decision, ours);
    if (decision.outcome == Outcome::base_mismatch) refusal.tail = offset_of(log.state.tail);
    if (refusal.current) refusal.current->endpoint = log.endpoint;
    return refusal;
  }

  core::Answer<core::StreamStat> do_stat() {
    const std::lock_guard lock(home_.shared_->mutex);
    Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    core::StreamStat stat = core::stat_of(log->state);
    stat.tail = offset_of(log->state.tail);
    stat.endpoint = log->endpoint;
    return stat;
  }

  core::Answer<core::ClaimReceipt> do_claim(const core::ClaimRequest& request) {
    const std::lock_guard lock(home_.shared_->mutex);
    if (!present(find())) {
      if (!request.create) return tl::unexpected(missing(find()));
      Log& made = home_.shared_->logs[name_.text()];
      core::CreateCommand create;
      create.incarnation = request.first_incarnation;
      create.tail = {++made.histories, 0};
      create.time_ms = request.time_ms;
      if (const auto decision = core::apply(made.state, create); !decision.ok()) return tl::unexpected(refusal(made, decision, request.epoch));
    }
    Log& log = *find();
    core::ClaimCommand command;
    command.incarnation = request.incarnation;
    command.epoch = request.epoch;
    command.claim_id = request.claim_id;
    command.over = request.over;
    if (request.if_tail) command.if_tail = position_of(*request.if_tail).value_or(core::Position{~0ull, ~0ull});
    const std::uint64_t content[] = {request.attempt.hi, request.attempt.lo, static_cast<std::uint64_t>(request.time_ms)};
    command.digest = Digest{xxh3(std::as_bytes(std::span(content)))};
    command.next = next_of(log);
    command.time_ms = request.time_ms;
    command.owner = request.owner;
    const auto decision = core::apply(log.state, command);
    if (!decision.ok() || !decision.receipt) return tl::unexpected(refusal(log, decision, request.epoch));
    core::ClaimReceipt receipt = core::claim_receipt_of(decision);
    receipt.offset = offset_of(*decision.receipt);
    receipt.requests = 1;
    if (decision.outcome == Outcome::applied) {
      log.endpoint.clear();
      core::Record record;
      record.kind = core::RecordKind::claim;
      record.owner = request.owner;
      record.closed_epoch = receipt.closed_epoch;
      record.closed_sequence = receipt.closed_sequence;
      put(log, std::move(record), request.epoch, request.claim_id, Sequence{0}, request.time_ms);
    }
    return receipt;
  }

  void put(Log& log, core::Record record, Epoch epoch, ClaimId claim_id, Sequence sequence, std::int64_t time_ms) {
    record.incarnation = log.state.incarnation;
    record.epoch = epoch;
    record.claim_id = claim_id;
    record.sequence = sequence;
    record.time_ms = time_ms;
    record.next = offset_of(log.state.tail);
    log.records.push_back(std::move(record));
  }

  // One append after the other, as a home without batches does: the answer is the prefix that was applied, or why not even the first was.
  core::Answer<core::AppendReceipt> do_append(const core::AppendBatch& batch) {
    const std::lock_guard lock(home_.shared_->mutex);
    Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    core::AppendReceipt receipt;
    for (std::size_t i = 0; i < batch.appends.size(); ++i) {
      const auto outcome = append_one(*log, batch, i, receipt);
      if (outcome) continue;
      if (i == 0) return tl::unexpected(outcome.error());
      break;
    }
    return receipt;
  }

  core::Answer<bool> append_one(Log& log, const core::AppendBatch& batch, std::size_t i, core::AppendReceipt& receipt) {
    const core::Append& append = batch.appends[i];
    core::AppendCommand command;
    command.kind = append.kind;
    command.producer = core::kOwnerProducer;
    command.incarnation = batch.incarnation;
    command.epoch = batch.epoch;
    command.sequence = Sequence{batch.first.value + i};
    command.claim_id = batch.claim_id;
    command.digest = digest_of(append.payload);
    command.size = append.payload.size();
    command.next = next_of(log);
    command.time_ms = batch.time_ms;
    core::StreamState next = log.state;
    const auto decision = core::apply(next, command);
    if (decision.outcome == Outcome::applied && append.kind == core::RecordKind::data && log.refuse_data)
      return tl::unexpected(core::Refusal{*log.refuse_data, "'" + name_.text() + "' takes no data now: " + std::string(word(*log.refuse_data))});
    log.state = std::move(next);
    if (!decision.ok() || !decision.receipt) return tl::unexpected(refusal(log, decision, batch.epoch));
    receipt.offsets.push_back(offset_of(*decision.receipt));
    if (decision.outcome == Outcome::duplicate) return true;
    if (append.kind == core::RecordKind::control) {
      if (std::string endpoint = endpoint_in(append.payload); !endpoint.empty()) log.endpoint = std::move(endpoint);
    }
    core::Record record;
    record.kind = append.kind;
    record.payload = append.payload;
    put(log, std::move(record), batch.epoch, batch.claim_id, *command.sequence, batch.time_ms);
    return true;
  }

  core::Answer<core::ReadResult> do_read(const Offset& from, const core::ReadLimit& limit) {
    const std::lock_guard lock(home_.shared_->mutex);
    Log* log = find();
    if (!present(log)) return tl::unexpected(missing(log));
    core::Position at{log->state.tail.high, 0};
    if (!from.text.empty()) {
      const auto position = position_of(from);
      if (!position) return tl::unexpected(core::Refusal{Outcome::invalid, "'" + from.text + "' is no offset of the memory home"});
      at = *position;
    }
    if (at.high != log->state.tail.high || at.low > log->records.size())
      return tl::unexpected(core::Refusal{Outcome::gone, "'" + from.text + "' is no position of this history of '" + name_.text() + "'"});
    core::ReadResult result;
    std::uint64_t bytes = 0;
    while (at.low < log->records.size() && result.records.size() < limit.records && (result.records.empty() || bytes < limit.bytes)) {
      result.records.push_back(log->records[at.low]);
      bytes += result.records.back().payload.size();
      ++at.low;
    }
    result.next = offset_of(at);
    result.up_to_date = at.low == log->records.size();
    return result;
  }

  core::Answer<bool> do_wait(const Offset& from, Instant deadline) {
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

  MemoryHome& home_;
  const StreamName name_;
};

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
  log.records.clear();
}

void MemoryHome::restore(const StreamName& name) {
  const std::lock_guard lock(shared_->mutex);
  Log& log = shared_->logs.at(name.text());
  core::AdminCommand restore{core::AdminAct::restore, log.state.incarnation, log.state.tail};
  restore.next_incarnation = runtime_.draw<Incarnation>();
  restore.next_tail = {++log.histories, log.state.tail.low};
  (void)core::apply(log.state, restore);
  for (core::Record& record : log.records) record.next = offset_of({log.histories, position_of(record.next)->low});
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

std::uint64_t MemoryHome::calls(Call call) const {
  const std::lock_guard lock(mutex_);
  const auto at = calls_.find(call);
  return at == calls_.end() ? 0 : at->second;
}

}  // namespace onepen::testing
