// For tests of durability=local.
#pragma once
#include "tests/sqlite/capture_support.h"

namespace onepen::testing {

class LocalTest : public CaptureTest {
 protected:
  std::string local(const std::string& process = "a", const std::string& more = "") { return uri(process, "&durability=local" + more); }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  static std::string told() { return sqlite::last_refusal(); }
  static sqlite::OpenDatabase& opened(const Sql& db) {
    sqlite::OpenDatabase* open = nullptr;
    EXPECT_EQ(sqlite3_file_control(db.get(), "main", sqlite::kDatabaseOp, &open), SQLITE_OK);
    return *open;
  }
  static std::uint64_t pending(const Sql& db) { return opened(db).status().pending_commits; }
  // The home takes no appends until it is let go again.
  void hold_home() {
    world().set_hook([](const CallInfo& call) { return call.call == Call::append ? Trouble::unavailable : Trouble::none; });
  }
  void free_home() { world().set_hook({}); }
  // For everybody but the owner that is there now: it stays cut off.
  void free_home_for_others() {
    const auto records = world().handle()->records(*StreamName::parse("app"));
    ClaimId ours;
    for (const core::Record& record : records) {
      if (record.kind == core::RecordKind::claim) ours = record.claim_id;
    }
    world().set_hook([ours](const CallInfo& call) { return call.call == Call::append && call.batch->claim_id == ours ? Trouble::unavailable : Trouble::none; });
  }
  std::string role(const Sql& db) {
    const std::string status = db.ok("SELECT onepen_status()");
    const auto at = status.find("\"role\":\"") + 8;
    return status.substr(at, status.find('"', at) - at);
  }
  // Waits, without a clock that decides anything: the test's own time limit ends it.
  template <class So>
  void until(So so) {
    Runtime& runtime = world().runtime();
    while (!so()) runtime.sleep_until(runtime.now() + std::chrono::milliseconds(2));
  }
  std::vector<core::Record> data() {
    auto records = world().handle()->records(*StreamName::parse("app"));
    std::erase_if(records, [](const core::Record& record) { return record.kind != core::RecordKind::data; });
    return records;
  }
  std::vector<std::filesystem::path> salvaged(const std::string& process) {
    std::vector<std::filesystem::path> out;
    const std::filesystem::path root = world().folder() + "/" + process + "/salvage/app";
    if (!std::filesystem::exists(root)) return out;
    for (const auto& entry : std::filesystem::directory_iterator(root)) out.push_back(entry.path());
    return out;
  }
};

}  // namespace onepen::testing
