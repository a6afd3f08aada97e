// For the owner's tests: several owners of one stream in one process, each with its own home handle, fold and claim log, in a test's own time.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "owner/owner.h"
#include "tests/support/manual_runtime.h"
#include "tests/support/memory_home.h"

namespace onepen::owner {

using testing::Call;
using testing::CallInfo;
using testing::ManualRuntime;
using testing::MemoryHome;
using testing::Trouble;
using namespace std::chrono_literals;

class ListFold : public Fold {
 public:
  Offset position() const override { return position_; }
  Result<> begin(core::Stream& stream) override {
    ++begun;
    const auto snapshot = stream.newest_snapshot();
    if (!snapshot) return tl::unexpected(Error{snapshot.error().outcome, snapshot.error().message, {}});
    if (!*snapshot) return {};
    from_snapshot = std::string(as_text((*snapshot)->about));
    position_ = (*snapshot)->offset;
    return {};
  }
  std::uint64_t restarts() const override { return moved_aside; }
  Result<> apply(const core::Record& record) override {
    if (does_not_fit && does_not_fit(record)) {  // as a copy with commits of its own that never landed
      ++moved_aside;
      records.clear();
      from_snapshot.clear();
      position_ = {};
      return {};
    }
    records.push_back(record);
    position_ = record.next;
    settled = false;
    return {};
  }
  Result<> start_over() override {
    ++started_over;
    records.clear();
    from_snapshot.clear();
    position_ = {};
    return {};
  }
  Result<> settle() override {
    settled = true;
    return {};
  }
  std::vector<std::string> data() const {
    std::vector<std::string> out;
    for (const auto& record : records) {
      if (record.kind == core::RecordKind::data) out.emplace_back(as_text(record.payload));
    }
    return out;
  }
  std::vector<core::Record> records;
  std::function<bool(const core::Record&)> does_not_fit;
  std::string from_snapshot;  // its `about`; empty: from the first record
  bool settled = false;
  int started_over = 0, begun = 0;
  std::uint64_t moved_aside = 0;

 private:
  Offset position_;
};

class ListClaims : public ClaimLog {
 public:
  Result<> write_ahead(const core::ClaimRequest& request, const Incarnation&) override {
    if (fails) return tl::unexpected(Error{Outcome::unavailable, "the disk is full", {}});
    written.push_back(request);
    return {};
  }
  Epoch highest() const override { return highest_epoch; }
  std::vector<core::ClaimRequest> written;
  Epoch highest_epoch{};
  bool fails = false;
};

// One process: its own handle of the shared home.
struct Process {
  Process(ManualRuntime& runtime_in, std::shared_ptr<MemoryHome::Shared> shared, const std::string& name_in, std::int64_t pid)
      : runtime(runtime_in), home(runtime_in, std::move(shared)), options(options_for(name_in, pid)) {
    options.log = Log([this](LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    });
  }
  static Options options_for(const std::string& name, std::int64_t pid) {
    Options options;
    options.info.name = name;
    options.info.host = "host-" + name;
    options.info.pid = pid;
    options.endpoint = "at-" + name;
    return options;
  }
  Result<std::unique_ptr<Owner>> open() { return Owner::open(runtime, home.stream(*StreamName::parse("app")), claims, fold, options); }
  // Opens, and the test ends when that fails.
  std::unique_ptr<Owner> must_open() {
    auto owner = open();
    EXPECT_TRUE(owner) << owner.error().message;
    return owner ? std::move(*owner) : nullptr;
  }
  std::vector<std::string> log() {
    const std::lock_guard lock(mutex);
    return lines;
  }

  ManualRuntime& runtime;
  MemoryHome home;
  ListClaims claims;
  ListFold fold;
  Options options;
  std::mutex mutex;
  std::vector<std::string> lines;
};

class OwnerTest : public ::testing::Test {
 protected:
  Instant in(std::chrono::nanoseconds time) { return runtime.now() + time; }
  static Bytes bytes(std::string_view text) { return to_bytes(as_bytes(text)); }
  Fate commit(Owner& owner, std::string_view text) {
    auto ticket = owner.submit(bytes(text), in(30s));
    if (!ticket) return Fate{Fate::Kind::refused, {}, ticket.error()};
    return owner.wait(*ticket, in(30s), nullptr);
  }
  // A snapshot of everything that is there now, made by `owner` through `process`'s home; what it covers is trimmed.
  void snapshot_and_trim(Process& process, const Owner& owner, std::string_view about) {
    const Status status = owner.status();
    core::OwnerToken token{{}, status.token.epoch, {}};
    ASSERT_TRUE(parse(status.token.incarnation, token.incarnation) && parse(status.token.claim_id, token.claim_id));
    const auto stream = process.home.stream(app);
    auto writer = stream->begin_snapshot(token, process.home.records(app).back().next);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->add(bytes("part")));
    const auto made = (*writer)->finish(bytes(about));
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE(stream->tend(core::TendRequest{token, made->offset}));
  }
  // What stands in the stream, data only.
  std::vector<std::string> data() {
    std::vector<std::string> out;
    for (const auto& record : a.home.records(app)) {
      if (record.kind == core::RecordKind::data) out.emplace_back(as_text(record.payload));
    }
    return out;
  }

  const StreamName app = *StreamName::parse("app");
  ManualRuntime runtime;
  std::shared_ptr<MemoryHome::Shared> shared = MemoryHome::make_shared_state();
  Process a{runtime, shared, "a", 1001};
  Process b{runtime, shared, "b", 4711};
  Process c{runtime, shared, "c", 77};
};

// An append that carries more than the `ready` record.
inline bool has_data(const CallInfo& info) { return info.call == Call::append && info.batch->appends.back().kind == core::RecordKind::data; }

// Counts resets; asked by several threads.
struct ResetCount {
  std::atomic<int> count{0};
  std::function<void(const Reset&)> listener() {
    return [this](const Reset&) { ++count; };
  }
};

}  // namespace onepen::owner
