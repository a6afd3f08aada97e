#include "sqlite/functions.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sqlite/messages.h"
#include "sqlite/vfs.h"

namespace onepen::sqlite {
namespace {

void answer_text(sqlite3_context* context, const std::string& text) { sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8); }

void answer_error(sqlite3_context* context, int code, const std::string& sentence) {
  refuse_with(code, sentence);
  sqlite3_result_error(context, last_refusal().c_str(), -1);
  sqlite3_result_error_code(context, code);
}

// No exception leaves a function of ours: SQLite is C.
template <class Body>
void guarded(sqlite3_context* context, Body&& body) noexcept {
  try {
    body();
  } catch (...) {
    sqlite3_result_error_nomem(context);
  }
}

OpenDatabase* database_of(sqlite3_context* context, int count, sqlite3_value** values) {
  const char* schema = "main";
  if (count > 0 && sqlite3_value_type(values[0]) != SQLITE_NULL) schema = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
  OpenDatabase* database = nullptr;
  if (schema != nullptr && sqlite3_file_control(sqlite3_context_db_handle(context), schema, kDatabaseOp, &database) == SQLITE_OK) return database;
  return nullptr;
}

std::string not_ours(int count, sqlite3_value** values) {
  const char* schema = count > 0 ? reinterpret_cast<const char*>(sqlite3_value_text(values[0])) : "main";
  return fmt::format("'{}' is no database of Onepen: open one with file:NAME?vfs=onepen&home=file:///path.", schema != nullptr ? schema : "main");
}

nlohmann::json owner_json(const Owner& owner) {
  return {{"name", owner.name}, {"host", owner.host}, {"pid", owner.pid}, {"epoch", owner.token.epoch.value}, {"claim_id", owner.token.claim_id}};
}

nlohmann::json status_json(const DatabaseStatus& status) {
  nlohmann::json json = {{"role", status.reset      ? "reset"
                                  : status.follower ? "follower"
                                  : status.offline  ? "offline"
                                                    : "owner"},
                         {"name", status.name},
                         {"home", status.home_url},
                         {"durability", std::string(word(status.durability))},
                         {"offset", status.copy.offset.text},
                         {"commits", status.copy.ordinal},
                         {"incarnation", to_text(status.copy.incarnation)},
                         {"page_size", status.copy.page_size},
                         {"page_count", status.copy.page_count},
                         {"copy", status.copy_path}};
  if (status.follower) {
    json["standby"] = status.standby;
    json["staleness_ms"] = status.contact_age ? nlohmann::json(status.contact_age->count()) : nlohmann::json(nullptr);
    json["trouble"] = status.trouble.empty() ? nlohmann::json(nullptr) : nlohmann::json(as_utf8(status.trouble));
  }
  if (!status.follower) {
    json["epoch"] = status.owner.token.epoch.value;
    json["incarnation"] = status.owner.token.incarnation;
    json["claim_id"] = status.owner.token.claim_id;
    if (!status.owner.acknowledged.text.empty()) json["offset"] = status.owner.acknowledged.text;
    json["pending"] = status.pending_commits;
    json["pending_bytes"] = status.pending_bytes;
    json["trouble"] = status.trouble.empty() ? nlohmann::json(nullptr) : nlohmann::json(as_utf8(status.trouble));
    json["claim_requests"] = status.owner.claim_requests;
    json["opening_requests"] = status.opening_requests;
  }
  json["requests"] = nullptr;
  for (const auto& [kind, sent] : status.requests) json["requests"][kind] = sent;
  if (!status.follower) {
    const GrowthStatus& growth = status.growth;
    json["growth"] = {{"log_bytes", growth.log_bytes},
                      {"next_snapshot_at", growth.next_snapshot_at},
                      {"busy", growth.busy},
                      {"newest_snapshot", growth.newest ? nlohmann::json(growth.newest->offset.text) : nlohmann::json(nullptr)},
                      {"trouble", growth.trouble.empty() ? nlohmann::json(nullptr) : nlohmann::json(as_utf8(growth.trouble))}};
  }
  json["salvaged"] = status.salvaged.empty() ? nlohmann::json(nullptr) : nlohmann::json(as_utf8(status.salvaged));
  json["reset"] = nullptr;
  if (status.reset) {
    json["reset"] = {{"kind", std::string(word(status.reset->kind))}, {"message", status.reset->message}, {"epoch", status.reset->ours.value}};
    json["reset"]["salvage_path"] = status.reset->salvage_path.empty() ? nlohmann::json(nullptr) : nlohmann::json(as_utf8(status.reset->salvage_path));
    if (status.reset->current) json["reset"]["owner"] = owner_json(*status.reset->current);
  }
  return json;
}

void synced(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&] {
    OpenDatabase* database = database_of(context, count, values);
    if (database == nullptr) return answer_error(context, SQLITE_ERROR, not_ours(count, values));
    const auto confirmed = database->confirm(database->settings().commit_timeout);
    if (!confirmed) return answer_error(context, SQLITE_AUTH, confirmed.error().message);
    answer_text(context, confirmed->text);
  });
}

void status(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&] {
    OpenDatabase* database = database_of(context, count, values);
    if (database == nullptr) return answer_error(context, SQLITE_ERROR, not_ours(count, values));
    answer_text(context, status_json(database->status()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
}

void wait_for(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&] {
    OpenDatabase* database = database_of(context, 0, values);
    if (database == nullptr) return answer_error(context, SQLITE_ERROR, not_ours(0, values));
    const auto* offset = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
    if (offset == nullptr || *offset == '\0')
      return answer_error(context, SQLITE_ERROR, "onepen_wait_for() needs an offset, as onepen_synced() of the writer returned it.");
    const auto limit = count > 1 ? std::chrono::milliseconds(std::max<sqlite3_int64>(0, sqlite3_value_int64(values[1]))) : database->settings().commit_timeout;
    if (const auto there = database->wait_for(Offset{offset}, limit); !there) return answer_error(context, SQLITE_AUTH, there.error().message);
    answer_text(context, database->status().copy.offset.text);
  });
}

void error(sqlite3_context* context, int, sqlite3_value**) {
  guarded(context, [&] {
    if (last_refusal().empty()) return sqlite3_result_null(context);
    answer_text(context, last_refusal());
  });
}

void use(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&] {
    const auto* url = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
    if (url == nullptr || *url == '\0') return answer_error(context, SQLITE_ERROR, "onepen_use() needs the URL of a home, like 'file:///srv/onepen'.");
    // Look now: a home that cannot be used is told here, not at each open.
    const auto home = process_registry()->environment().open_home(url);
    if (!home) return answer_error(context, SQLITE_CANTOPEN, home.error().message);
    const auto* parameters = count > 1 ? reinterpret_cast<const char*>(sqlite3_value_text(values[1])) : nullptr;
    if (const auto used = check_default_parameters(url, parameters != nullptr ? parameters : ""); !used)
      return answer_error(context, SQLITE_ERROR, used.error().message);
    if (use_home(url, parameters != nullptr ? parameters : "") != SQLITE_OK)
      return answer_error(context, SQLITE_ERROR, "The VFS could not be made the default.");
    answer_text(context, url);
  });
}

}  // namespace

int register_functions(sqlite3* connection) {
  struct Function {
    const char* name;
    int arguments;
    void (*call)(sqlite3_context*, int, sqlite3_value**);
  };
  // Never from inside a view or trigger of a schema that somebody else wrote (SQLITE_DIRECTONLY).
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
  for (const Function& function : {Function{"onepen_synced", 0, synced}, Function{"onepen_synced", 1, synced}, Function{"onepen_status", 0, status},
                                   Function{"onepen_status", 1, status}, Function{"onepen_wait_for", 1, wait_for}, Function{"onepen_wait_for", 2, wait_for},
                                   Function{"onepen_error", 0, error}, Function{"onepen_use", 1, use}, Function{"onepen_use", 2, use}}) {
    const int rc = sqlite3_create_function_v2(connection, function.name, function.arguments, kFlags, nullptr, function.call, nullptr, nullptr, nullptr);
    if (rc != SQLITE_OK) return rc;
  }
  return SQLITE_OK;
}

}  // namespace onepen::sqlite
