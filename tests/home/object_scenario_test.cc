// tests/scenarios/object/*.txt: processes over one bucket, by the real code of the object home. Every command names its process first.
//
//   claim A epoch=2 [over=A1|none] [again] [nocreate]    append A x y [again]    read A [anew]    stat A    beat A    pulse A of=B
//   snapshot A text="1 2"        part A text= / finish A   (a snapshot in pieces)             tend A [keep=2] [to=<snapshot number>]
//   see A                        what an admin looks at;   adopt A / remove A / restore A to=<append number>   act upon what was seen
//   suspect A what=
//   fault A lost-answer|lost-request|late|twice|refused|none ...     of the coming creates        blind A gets=1    the coming gets fail
//   deliver A                    what was late arrives
//   park A before|after create|put|get|list|erase [@log/5]   start append A x   go A   kill A   restart A (the same claim, a new session)
//   forge key=@log/5 as=A1 seq=2 text=   an append under that claim, put there past the home, by somebody who breaks every rule but the format
//   write key=@log/5 [bytes=] / erase key=@log/5    by nobody      objects    what is in the bucket      message    the last refusal, in words
//
// `again` resends the request that was sent last, byte for byte. Claims are named by process and epoch (A2); objects by folder and number (@log/5).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "base/checksum.h"
#include "home/object/object_home.h"
#include "home/object/position.h"
#include "tests/home/parking_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/manual_runtime.h"
#include "tests/support/scenario.h"
#include "wire/log_object.h"

namespace onepen::testing {
namespace {

struct ScriptedProcess {
  std::string name;
  std::shared_ptr<Worker> worker = std::make_shared<Worker>();
  FaultStore* faults = nullptr;
  std::unique_ptr<core::Home> home;
  std::unique_ptr<core::Stream> stream;
  core::ClaimRequest claim;
  core::ClaimReceipt receipt{};
  core::AppendBatch batch;
  Sequence next{1};
  Offset read_at;
  core::StreamStat seen;
  std::unique_ptr<core::SnapshotWriter> writer;
  core::OwnerToken token() const { return {receipt.incarnation, receipt.epoch, receipt.claim_id}; }
};

class Place {
 public:
  ~Place() {
    for (auto& [name, process] : processes_) process->worker->kill();
  }

  std::string answer(const ScenarioStep& step) {
    if (step.command == "objects") return objects();
    if (step.command == "message") return message_;
    if (step.command == "write") return told(bucket_->put(long_key(step.get("key")), as_bytes(step.get("bytes", "what nobody can read"))));
    if (step.command == "forge") return forge(step);
    if (step.command == "erase") return told(bucket_->erase(long_key(step.get("key"))));
    if (step.command == "start") {
      ScenarioStep inner = step;
      if (step.words.empty()) return "start what?";
      inner.command = step.words[0];
      inner.words.erase(inner.words.begin());
      return answer(inner);
    }
    if (step.words.empty()) return "which process?";
    auto& p = process(step.words[0]);
    if (step.command == "go") return p.worker->go();
    if (step.command == "kill") return p.worker->kill(), "ok";
    if (step.command == "restart") return begin(p), "ok";
    if (step.command == "read" && says(step, "anew")) {
      begin(p);
      p.read_at = {};
    }
    if (step.command == "park") return p.worker->park_at(fmt::format("{}", fmt::join(step.words.begin() + 1, step.words.end(), " "))), "ok";
    if (step.command == "fault") return faults(p, step);
    if (step.command == "blind") return p.faults->fail_gets(step.number("gets", 1)), "ok";
    if (step.command == "deliver") return fmt::format("landed={}", p.faults->deliver_late());
    return p.worker->start([this, &p, step] { return call(p, step); });
  }

 private:
  // ---- names
  ScriptedProcess& process(const std::string& name) {
    auto& p = processes_[name];
    if (p) return *p;
    p = std::make_unique<ScriptedProcess>();
    p->name = name;
    begin(*p);
    return *p;
  }
  void begin(ScriptedProcess& p) {
    p.worker->kill();
    p.worker->revive();
    p.writer.reset();
    p.stream.reset();
    auto faults = std::make_unique<FaultStore>(bucket_);
    p.faults = faults.get();
    auto looks = [bucket = bucket_](const std::string& key) { return bucket->get(key).has_value(); };
    p.home = home::make_object_home(runtime_, std::make_unique<ParkingStore>(std::move(faults), p.worker, std::move(looks)), {.url = "test:"});
    p.stream = p.home->stream(StreamName::parse("app").value());
  }
  static std::string long_key(const std::string& key) {
    const auto slash = key.find('/');
    return "app/" + key.substr(0, slash + 1) + home::object_name(std::stoull(key.substr(slash + 1)));
  }
  std::string claim_name(ClaimId id) const {
    const auto found = names_.find(id);
    return id.nil() ? "none" : found == names_.end() ? "?" : found->second;
  }
  static std::string place_of(const Offset& offset) {
    const auto at = home::parse_offset(offset);
    return at ? fmt::format("{}.{}", at->at.high, at->at.low) : "0";
  }
  static std::string told(const Result<>& done) { return done ? "ok" : done.error().message; }

  std::string objects() const {
    std::map<std::string, std::vector<std::string>> folders;
    for (const auto& key : bucket_->keys()) {
      const auto text = short_key(key);
      const auto slash = text.find('/');
      folders[text.substr(0, slash)].push_back(text.substr(slash + 1));
    }
    std::vector<std::string> lines;
    for (const auto& [folder, names] : folders) lines.push_back(fmt::format("{} {}", folder, fmt::join(names, " ")));
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  std::string forge(const ScenarioStep& step) {
    const auto owner =
        std::find_if(processes_.begin(), processes_.end(), [&](const auto& one) { return one.second->receipt.claim_id == ids_[step.get("as")]; });
    if (owner == processes_.end()) return "nobody owns by " + step.get("as");
    const auto& receipt = owner->second->receipt;
    wire::LogObject object{.kind = wire::ObjectKind::appends, .stream = StreamName::parse("app").value()};
    object.id = std::stoull(step.get("key").substr(step.get("key").find('/') + 1));
    object.incarnation = receipt.incarnation;
    object.epoch = receipt.epoch;
    object.claim_id = receipt.claim_id;
    object.put_id = runtime_.draw<PutId>();
    object.first = Sequence{step.number("seq")};
    const Bytes payload = to_bytes(as_bytes(step.get("text")));
    object.appends.push_back({core::RecordKind::data, Digest{xxh3(payload)}, payload});
    return told(bucket_->put(long_key(step.get("key")), wire::encode(object)));
  }

  static std::string faults(ScriptedProcess& p, const ScenarioStep& step) {
    static const std::map<std::string, PutFault> kFaults = {
        {"none", PutFault::none}, {"lost-answer", PutFault::lost_answer}, {"lost-request", PutFault::lost_request},
        {"late", PutFault::late}, {"twice", PutFault::sent_twice},        {"refused", PutFault::refused}};
    std::deque<PutFault> faults;
    for (std::size_t i = 1; i < step.words.size(); ++i) {
      if (!kFaults.contains(step.words[i])) return "there is no fault " + step.words[i];
      faults.push_back(kFaults.at(step.words[i]));
    }
    p.faults->next_creates(std::move(faults));
    return "ok";
  }

  static bool says(const ScenarioStep& step, const std::string& word) { return std::find(step.words.begin(), step.words.end(), word) != step.words.end(); }

  // ---- what a process asks of the home
  std::string call(ScriptedProcess& p, const ScenarioStep& step) {
    const auto& what = step.command;
    if (what == "claim") return claim(p, step);
    if (what == "append") return append(p, step);
    if (what == "read") return read(p);
    if (what == "stat") return stat(p);
    if (what == "see") return see(p);
    if (what == "beat") return yes(p.stream->beat("alive-" + p.name, as_bytes(step.get("text", "here"))));
    if (what == "pulse") return pulse(p, step);
    if (what == "suspect") return yes(p.stream->report_suspect(p.token(), step.get("what")));
    if (what == "remove") return yes(p.stream->remove({p.seen.incarnation, p.seen.tail, runtime_.draw<PutId>(), {}, 0}));
    if (what == "adopt" || what == "restore") return history(p, step);
    if (what == "tend") return tend(p, step);
    if (what == "snapshot" || what == "part" || what == "finish") return snapshot(p, step);
    return "there is no command " + what;
  }

  std::string claim(ScriptedProcess& p, const ScenarioStep& step) {
    if (!says(step, "again")) {
      core::ClaimRequest r;
      r.epoch = {step.number("epoch")};
      r.claim_id = runtime_.draw<ClaimId>();
      r.attempt = runtime_.draw<PutId>();
      r.owner.name = p.name;
      r.create = !says(step, "nocreate");
      r.first_incarnation = runtime_.draw<Incarnation>();
      r.time_ms = static_cast<std::int64_t>(step.number("time"));
      if (step.has("over")) r.over = step.get("over") == "none" ? ClaimId{} : ids_[step.get("over")];
      const auto name = fmt::format("{}{}", p.name, r.epoch.value);
      names_[r.claim_id] = name;
      ids_[name] = r.claim_id;
      p.claim = r;
    }
    auto claimed = p.stream->claim(p.claim);
    if (!claimed) return refused(claimed.error());
    p.receipt = *claimed;
    p.next = {1};
    return fmt::format("owner epoch={} claim={} at={} closed={}/{}", claimed->epoch.value, claim_name(claimed->claim_id), place_of(claimed->offset),
                       claimed->closed_epoch.value, claimed->closed_sequence.value);
  }

  std::string append(ScriptedProcess& p, const ScenarioStep& step) {
    if (!says(step, "again")) {
      p.batch = core::AppendBatch{p.receipt.incarnation, p.receipt.epoch, p.receipt.claim_id, p.next, runtime_.draw<PutId>(), 0, {}};
      for (std::size_t i = 1; i < step.words.size(); ++i) p.batch.appends.push_back({core::RecordKind::data, to_bytes(as_bytes(step.words[i]))});
    }
    auto sent = p.stream->append(p.batch);
    if (!sent) return refused(sent.error());
    p.next = {p.batch.first.value + p.batch.appends.size()};
    std::vector<std::string> at;
    for (const auto& offset : sent->offsets) at.push_back(place_of(offset));
    return fmt::format("applied at={}", fmt::join(at, ","));
  }

  // What a reader is shown: the snapshot it begins with in {…}, claims in […], then payloads.
  std::string read(ScriptedProcess& p) {
    std::vector<std::string> shown;
    for (int calls = 0; calls < 100; ++calls) {
      auto r = p.stream->read(p.read_at, {});
      if (!r && r.error().outcome == Outcome::gone && p.read_at.text.empty()) {
        auto newest = p.stream->newest_snapshot();
        if (!newest) return refused(newest.error());
        if (!*newest) return refused(r.error());
        std::string text;
        for (std::uint32_t part = 0; part < (*newest)->parts; ++part) {
          auto bytes = p.stream->snapshot_part(**newest, part);
          if (!bytes) return refused(bytes.error());
          text += as_text(*bytes);
        }
        shown.push_back("{" + text + "}");
        p.read_at = (*newest)->offset;
        continue;
      }
      if (!r) {
        shown.push_back(refused(r.error()));
        break;
      }
      for (const auto& record : r->records) {
        if (record.kind == core::RecordKind::claim) shown.push_back("[" + claim_name(record.claim_id) + "]");
        else shown.emplace_back(as_text(record.payload));
      }
      p.read_at = r->next;
      if (r->up_to_date) break;
    }
    return shown.empty() ? "nothing more" : fmt::format("{}", fmt::join(shown, " "));
  }

  std::string stat(ScriptedProcess& p) {
    auto stat = p.stream->stat();
    if (!stat) return refused(stat.error());
    return fmt::format("epoch={} claim={} last={} tail={} floor={}{}", stat->epoch.value, claim_name(stat->claim_id), stat->last_sequence.value,
                       place_of(stat->tail), stat->floor.value, stat->suspect.empty() ? "" : " suspect");
  }
  std::string see(ScriptedProcess& p) {
    auto stat = p.stream->stat();
    if (!stat) return refused(stat.error());
    p.seen = *stat;
    return fmt::format("tail={}", place_of(stat->tail));
  }
  std::string pulse(ScriptedProcess& p, const ScenarioStep& step) {
    auto there = p.stream->pulse("alive-" + step.get("of"));
    if (!there) return refused(there.error());
    return *there ? std::string(as_text(**there)) : "none";
  }

  std::string history(ScriptedProcess& p, const ScenarioStep& step) {
    core::HistoryRequest r;
    r.act = step.command == "adopt" ? core::HistoryAct::adopt : core::HistoryAct::restore;
    r.incarnation = p.seen.incarnation;
    r.tail = p.seen.tail;
    r.next = runtime_.draw<Incarnation>();
    r.attempt = runtime_.draw<PutId>();
    if (step.has("to")) {  // the state after that many appends, and the snapshot that the new history begins with
      auto all = p.stream->read({}, {});
      if (!all) return refused(all.error());
      std::uint64_t count = 0;
      std::string state;
      for (const auto& record : all->records) {
        if (record.kind != core::RecordKind::data || count == step.number("to")) continue;
        state += (state.empty() ? "" : " ") + std::string(as_text(record.payload));
        if (++count == step.number("to")) r.common = record.next;
      }
      r.snapshot = [state](core::SnapshotWriter& writer) -> core::Answer<Bytes> {
        if (auto ok = writer.add(as_bytes(state)); !ok) return tl::unexpected(ok.error());
        return Bytes{};
      };
    }
    auto begun = p.stream->begin_history(r);
    if (!begun) return refused(begun.error());
    return fmt::format("begun at={} floor={}", place_of(begun->offset), begun->floor.value);
  }

  std::string tend(ScriptedProcess& p, const ScenarioStep& step) {
    core::TendRequest r{.token = p.token(), .trim_to = {}, .keep_snapshots = 1, .keep_objects = step.number("keep", 2)};
    if (step.has("to")) r.trim_to = snapshots_.at(step.number("to") - 1);
    auto tended = p.stream->tend(r);
    if (!tended) return refused(tended.error());
    return fmt::format("compacted={} removed={}", tended->compacted, tended->removed);
  }

  std::string snapshot(ScriptedProcess& p, const ScenarioStep& step) {
    if (!p.writer && step.command != "finish") {
      auto stat = p.stream->stat();
      if (!stat) return refused(stat.error());
      auto writer = p.stream->begin_snapshot(p.token(), stat->tail);
      if (!writer) return refused(writer.error());
      p.writer = std::move(*writer);
    }
    if (!p.writer) return "it makes no snapshot";
    if (step.command != "finish")
      if (auto added = p.writer->add(as_bytes(step.get("text"))); !added) return refused(added.error());
    if (step.command == "part") return "ok";
    auto info = p.writer->finish({});
    p.writer.reset();
    if (!info) return refused(info.error());
    snapshots_.push_back(info->offset);
    return fmt::format("snapshot {} at={}", snapshots_.size(), place_of(info->offset));
  }

  // ---- refusals
  std::string yes(const core::Answer<bool>& answer) { return answer ? "ok" : refused(answer.error()); }
  std::string refused(const core::Refusal& r) {
    message_ = r.message;
    std::string text(word(r.outcome));
    if (r.outcome == Outcome::epoch_closed)
      text += fmt::format(" applied={}", r.applied == core::Applied::yes ? "true" : r.applied == core::Applied::no ? "false" : "unknown");
    if (r.closed_sequence) text += fmt::format(" closed-seq={}", r.closed_sequence->value);
    if (r.expected_sequence) text += fmt::format(" expected={}", r.expected_sequence->value);
    if (r.current) text += fmt::format(" owner={}/{}", r.current->name, r.current->token.epoch.value);
    if (r.tail) text += fmt::format(" tail={}", place_of(*r.tail));
    if (r.floor) text += fmt::format(" floor={}", r.floor->value);
    return text;
  }

  ManualRuntime runtime_;
  std::shared_ptr<Bucket> bucket_ = std::make_shared<Bucket>();
  std::map<std::string, std::unique_ptr<ScriptedProcess>> processes_;
  std::map<ClaimId, std::string> names_;
  std::map<std::string, ClaimId> ids_;
  std::vector<Offset> snapshots_;
  std::string message_;
};

class ObjectScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(ObjectScenario, Holds) {
  run_scenario(GetParam(), [] { return Answer([place = std::make_shared<Place>()](const ScenarioStep& step) { return place->answer(step); }); });
}

std::vector<std::string> object_files() {
  auto found = scenario_files(ONEPEN_SOURCE_DIR "/tests/scenarios/object");
  if (found.empty()) std::abort();  // a suite that runs nothing would pass
  return found;
}

INSTANTIATE_TEST_SUITE_P(Files, ObjectScenario, ::testing::ValuesIn(object_files()), [](const auto& file) { return scenario_case(file.param); });

}  // namespace
}  // namespace onepen::testing
