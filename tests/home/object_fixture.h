// What the tests of the object home's compaction, trim and histories share: processes over one bucket in memory, short words.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "base/guard.h"
#include "home/object/file_store.h"
#include "home/object/object_home.h"
#include "home/object/position.h"
#include "io/posix_disk.h"
#include "io/system_runtime.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_folder.h"

namespace onepen::testing {

using home::object_name;

class ObjectFixture : public ::testing::Test {
 protected:
  struct Process {
    std::unique_ptr<core::Home> home;
    std::unique_ptr<core::Stream> stream;
    FaultStore* store = nullptr;
    core::ClaimReceipt receipt{};
    Sequence next{1};
    core::OwnerToken token() const { return {receipt.incarnation, receipt.epoch, receipt.claim_id}; }
  };
  Process over(std::unique_ptr<home::ObjectStore> store) {
    Process p;
    p.home = home::make_object_home(*runtime, std::move(store), {.url = "test:"});
    p.stream = p.home->stream(StreamName::parse("app").value());
    return p;
  }
  Process process() {
    auto store = std::make_unique<FaultStore>(bucket);
    auto* faults = store.get();
    auto p = over(std::move(store));
    p.store = faults;
    return p;
  }
  core::ClaimRequest claim_request(std::uint64_t epoch, std::string who = "p") {
    core::ClaimRequest r;
    r.epoch = {epoch};
    r.claim_id = runtime->draw<ClaimId>();
    r.attempt = runtime->draw<PutId>();
    r.owner.name = std::move(who);
    r.create = true;
    r.first_incarnation = runtime->draw<Incarnation>();
    return r;
  }
  void claim(Process& p, std::uint64_t epoch) {
    auto claimed = p.stream->claim(claim_request(epoch));
    ASSERT_TRUE(claimed) << claimed.error().message;
    p.receipt = *claimed;
    p.next = {1};
  }
  core::AppendBatch batch(const Process& p, std::string_view payload) {
    core::AppendBatch b{p.receipt.incarnation, p.receipt.epoch, p.receipt.claim_id, p.next, runtime->draw<PutId>(), 0, {}};
    b.appends.push_back({core::RecordKind::data, to_bytes(as_bytes(payload))});
    return b;
  }
  core::Answer<core::AppendReceipt> append(Process& p, std::string_view payload) {
    auto answer = p.stream->append(batch(p, payload));
    if (answer) ++p.next.value;
    return answer;
  }
  void appends(Process& p, int from, int to) {
    for (int i = from; i <= to; ++i) {
      auto sent = append(p, std::to_string(i));
      ASSERT_TRUE(sent) << sent.error().message;
    }
  }
  core::SnapshotInfo snapshot(Process& p, std::string_view state) {
    auto writer = p.stream->begin_snapshot(p.token(), p.stream->stat()->tail);
    EXPECT_TRUE(writer) << (writer ? "" : writer.error().message);
    EXPECT_TRUE((*writer)->add(as_bytes(state)));
    return (*writer)->finish({}).value();
  }
  core::TendRequest request(const Process& p, std::optional<Offset> trim_to = {}) {
    return {.token = p.token(), .trim_to = std::move(trim_to), .keep_snapshots = 1, .keep_objects = 2};
  }
  // The payloads a process that knows nothing is shown: with a snapshot's state before, when the beginning is gone.
  std::string text(home::ObjectStore* store = nullptr) {
    auto p = store == nullptr ? process() : over(std::unique_ptr<home::ObjectStore>(store));
    std::string out;
    Offset at;
    for (;;) {
      auto r = p.stream->read(at, {});
      if (!r && r.error().outcome == Outcome::gone && at.text.empty()) {
        auto newest = p.stream->newest_snapshot();
        if (!newest || !*newest) return "!no snapshot";
        out = std::string(as_text(p.stream->snapshot_part(**newest, 0).value()));
        at = (*newest)->offset;
        continue;
      }
      if (!r) return out + "!" + std::string(word(r.error().outcome)) + ": " + r.error().message;
      for (auto& record : r->records)
        if (record.kind == core::RecordKind::data) out += std::string(as_text(record.payload)) + " ";
      at = r->next;
      if (r->up_to_date) return out;
    }
  }
  std::size_t objects() {
    auto keys = bucket->keys();
    return static_cast<std::size_t>(std::count_if(keys.begin(), keys.end(), [](const auto& k) { return k.starts_with("app/@log/"); }));
  }

  std::unique_ptr<Runtime> runtime = io::make_system_runtime();
  std::shared_ptr<Bucket> bucket = std::make_shared<Bucket>();
};

inline const std::string kState = "1 2 3 4 5 6 7 8 9 10 ", kAll = kState + "11 12 13 14 15 16 17 18 19 20 ";

}  // namespace onepen::testing
