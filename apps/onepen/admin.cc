#include "apps/onepen/admin.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "apps/onepen/output.h"
#include "apps/onepen/writer.h"

namespace onepen::app {

core::OwnerInfo asking(Runtime& runtime, std::string why) {
  const ProcessIdentity us = runtime.identity();
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  const std::string user = found != nullptr ? std::string(found->pw_name) : fmt::format("uid {}", ::geteuid());
  return {user, us.host, ONEPEN_VERSION, us.pid, us.started_ms, std::move(why), ""};
}

std::string what_becomes_of_owner(const core::StreamStat& stat, std::string_view then) {
  return owned_now(stat) ? fmt::format("It is written by {} now; that process {}.", owner_phrase(stat), then) : std::string();
}

int ask_for_yes_to(const Common& common, const std::string& sentences, const std::string& plan_json) {
  const std::string message = sentences + " Nothing was changed; with --yes it is done.";
  if (!common.json) return report(common, kRefused, "not-confirmed", message);
  const nlohmann::json error{
      {"outcome", "not-confirmed"}, {"message", message}, {"exit_code", static_cast<int>(kRefused)}, {"plan", nlohmann::json::parse(plan_json)}};
  print_json(nlohmann::json{{"error", error}});
  return kRefused;
}

}  // namespace onepen::app
