// The parameters of a database's name, and those of onepen_use(): each is taken or refused with a sentence; what is taken is within its limits.
#include "fuzz/fuzz_input.h"
#include "sqlite/open_database_settings.h"

using namespace onepen;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto mark = text.find('?');
  const auto pairs = sqlite::split_parameters(mark == std::string::npos ? std::string_view{} : std::string_view(text).substr(mark + 1));
  std::vector<std::string> keys;
  for (const auto& [key, value] : pairs) keys.push_back(key);
  const auto parameter = [&](std::string_view wanted) -> std::optional<std::string> {
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair)
      if (pair->first == wanted) return pair->second;
    if (wanted == "cache_root") return "/cache";
    return std::nullopt;
  };
  const auto settings = sqlite::read_settings(text.substr(0, mark), parameter, keys, "file:///home");
  if (!settings) {
    require(!settings.error().message.empty() && settings.error().outcome == Outcome::invalid, "a refusal says why");
  } else {
    require(settings->name.has_value() && settings->cache_root.front() == '/' && !settings->home_url.empty(), "settings that are whole");
    require(settings->notice_within.value_or(std::chrono::milliseconds(1)).count() >= 1 && settings->commit_timeout.count() >= 1 &&
                settings->close_flush.count() >= 0,
            "durations within limits");
    require(settings->page_size >= 512 && settings->page_size <= 65536 && (settings->page_size & (settings->page_size - 1)) == 0, "a page size");
    require(settings->max_pending_bytes >= sqlite::kLeastMaxPendingBytes, "room for pending commits");
    require(!settings->offline || settings->durability == sqlite::DurabilityMode::local, "offline needs durability=local");
  }
  const auto checked = sqlite::check_default_parameters("file:///home", text);
  if (!checked) require(!checked.error().message.empty(), "a refusal says why");
  return 0;
}
