#include "sqlite/open_database_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "wire/commit_frame.h"

namespace onepen::sqlite {
namespace {

// Ours, then SQLite's own. Others are refused: a typing error in `takeover` must not open a database that takes over.
constexpr std::array kOurs = {"home",        "takeover",      "notice_within", "commit_timeout", "page_size",         "owner",
                              "cache_root",  "durability",    "offline",       "reads",          "max_pending_bytes", "snapshot_after",
                              "close_flush", "max_staleness", "term",          "standby",        "max_linger",        "max_objects_per_second"};
constexpr std::array kSqlites = {"vfs", "mode", "cache", "psow", "modeof", "nolock", "immutable", "readonly_shm"};
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
constexpr std::chrono::milliseconds kLongest{std::chrono::hours(24)};

tl::unexpected<Error> bad_setting(std::string message) { return tl::unexpected(Error{Outcome::invalid, std::move(message), std::nullopt}); }

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::uint64_t> read_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<> read_duration_into(const Parameter& parameter, std::string_view key, std::chrono::milliseconds& out, std::chrono::milliseconds least,
                            std::chrono::milliseconds most = kLongest) {
  const auto text = parameter(key);
  if (!text) return {};
  const auto value = read_duration(*text);
  if (!value || *value < least || *value > most)
    return bad_setting(fmt::format("{}='{}' is no time: write 250ms, 30s or 2m ({}ms to {}).", key, *text, least.count(),
                                   most == kLongest ? std::string("24h") : fmt::format("{}s", most.count() / 1000)));
  out = *value;
  return {};
}

Result<> read_rate_into(const Parameter& parameter, std::string_view key, double& out) {
  const auto text = parameter(key);
  if (!text) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text->data() + text->size() || !(value >= kLeastObjectsPerSecond && value <= kMostObjectsPerSecond))
    return bad_setting(fmt::format("{}='{}' is no number of objects a second: write one like 10 or 0.5 ({} to {}).", key, *text, kLeastObjectsPerSecond,
                                   kMostObjectsPerSecond));
  out = value;
  return {};
}

Result<> read_size_into(const Parameter& parameter, std::string_view key, std::uint64_t& out, std::uint64_t least) {
  const auto text = parameter(key);
  if (!text) return {};
  const auto value = read_size(*text);
  if (!value || *value < least)
    return bad_setting(fmt::format("{}='{}' is no size: write a number of bytes, or one like 512K, 64M or 2G{}.", key, *text,
                                   least > 1 ? fmt::format(" (at least {})", least) : std::string()));
  out = *value;
  return {};
}

Result<> read_switch_into(const Parameter& parameter, std::string_view key, bool& out) {
  const auto text = parameter(key);
  if (!text) return {};
  if (*text != "0" && *text != "1") return bad_setting(fmt::format("{}='{}' is not known: write {}=0 (the default) or {}=1.", key, *text, key, key));
  out = *text == "1";
  return {};
}

// With durability=replicated a COMMIT waits for the bound, and gives up after commit_timeout.
Result<> read_objects_per_second(const Parameter& parameter, OpenSettings& settings) {
  if (const auto done = read_rate_into(parameter, "max_objects_per_second", settings.max_objects_per_second); !done) return done;
  const double seconds = std::chrono::duration<double>(settings.commit_timeout).count();
  if (settings.max_objects_per_second == 0 || settings.durability == DurabilityMode::local || settings.max_objects_per_second * seconds >= 1) return {};
  return bad_setting(
      fmt::format("max_objects_per_second={} lets a COMMIT wait {:.0f} s, longer than commit_timeout={}ms: raise one of them, or open with "
                  "durability=local.",
                  settings.max_objects_per_second, 1 / settings.max_objects_per_second, settings.commit_timeout.count()));
}

// When COMMIT returns, and what follows from it.
Result<> read_durability(const Parameter& parameter, OpenSettings& settings) {
  if (const auto text = parameter("durability")) {
    if (*text == "local") settings.durability = DurabilityMode::local;
    else if (*text != "replicated")
      return bad_setting(fmt::format("durability='{}' is not known: write durability=replicated (the default) or durability=local.", *text));
  }
  if (const auto done = read_switch_into(parameter, "offline", settings.offline); !done) return done;
  if (settings.offline && settings.durability != DurabilityMode::local)
    return bad_setting("offline=1 needs durability=local: with durability=replicated a COMMIT waits for the home, so there is nothing to do without it.");
  if (settings.offline && settings.confirm_reads)
    return bad_setting("offline=1 does not go with reads=confirmed: each read would have to be confirmed by the home.");
  if (const auto done = read_size_into(parameter, "max_pending_bytes", settings.max_pending_bytes, kLeastMaxPendingBytes); !done) return done;
  if (parameter("max_linger")) {
    if (const auto done = read_duration_into(parameter, "max_linger", settings.max_linger.emplace(), std::chrono::milliseconds(0), kMostLinger); !done)
      return done;
  }
  if (const auto done = read_objects_per_second(parameter, settings); !done) return done;
  if (const auto done = read_size_into(parameter, "snapshot_after", settings.snapshot_after, 0); !done) return done;
  return read_duration_into(parameter, "close_flush", settings.close_flush, std::chrono::milliseconds(0));
}

// A parameter that has exactly one supported value so far.
Result<> only(const Parameter& parameter, std::string_view key, std::string_view value) {
  const auto text = parameter(key);
  if (text && *text != value) return bad_setting(fmt::format("{}='{}' is not supported: the supported value is {}={}.", key, *text, key, value));
  return {};
}

Result<> read_choices(const Parameter& parameter, OpenSettings& settings) {
  if (const auto text = parameter("takeover")) {
    if (*text == "always") settings.takeover = owner::TakeoverMode::always;
    else if (*text == "if-dead") settings.takeover = owner::TakeoverMode::if_dead;
    else if (*text == "never") settings.takeover = owner::TakeoverMode::never;
    else return bad_setting(fmt::format("takeover='{}' is not known: write takeover=always, takeover=if-dead or takeover=never.", *text));
  }
  if (const auto text = parameter("reads")) {
    if (*text == "confirmed") settings.confirm_reads = true;
    else if (*text != "local") return bad_setting(fmt::format("reads='{}' is not known: write reads=local (the default) or reads=confirmed.", *text));
  }
  if (const auto text = parameter("page_size")) {
    const auto number = read_number(*text);
    if (!number || *number > wire::kMaxPageSize || !wire::valid_page_size(static_cast<std::uint32_t>(*number)))
      return bad_setting(fmt::format("page_size='{}' is no page size: write a power of two from 512 to 65536.", *text));
    settings.page_size = static_cast<std::uint32_t>(*number);
  }
  if (const auto text = parameter("mode")) settings.follower = *text == "ro";
  if (parameter("max_staleness")) {
    if (!settings.follower)
      return bad_setting("max_staleness= needs mode=ro: it is for readers. The owner's reads are confirmed by the home with reads=confirmed.");
    if (const auto done = read_duration_into(parameter, "max_staleness", settings.max_staleness.emplace(), std::chrono::milliseconds(1)); !done) return done;
  }
  if (const auto done = read_switch_into(parameter, "standby", settings.standby); !done) return done;
  if (settings.standby && !settings.follower)
    return bad_setting("standby=1 needs mode=ro: a standby follows, and becomes the owner when the one before it is gone.");
  if (parameter("term")) {
    if (const auto done = read_duration_into(parameter, "term", settings.term.emplace(), kLeastTerm); !done) return done;
  }
  if (const auto done = only(parameter, "nolock", "0"); !done) return done;
  if (const auto done = only(parameter, "immutable", "0"); !done) return done;
  constexpr std::chrono::milliseconds kLeast{1};
  if (parameter("notice_within")) {
    if (const auto done = read_duration_into(parameter, "notice_within", settings.notice_within.emplace(), kLeast); !done) return done;
  }
  if (const auto done = read_duration_into(parameter, "commit_timeout", settings.commit_timeout, kLeast); !done) return done;
  return read_durability(parameter, settings);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> split_parameters(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!text.empty()) {
    const auto one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (one.empty()) continue;
    const auto equals = one.find('=');
    out.emplace_back(one.substr(0, equals), equals == std::string_view::npos ? std::string_view{} : one.substr(equals + 1));
  }
  return out;
}

Result<> check_default_parameters(const std::string& home, std::string_view parameters) {
  const auto pairs = split_parameters(parameters);
  std::vector<std::string> keys;
  for (const auto& [key, value] : pairs) {
    if (key == "home" || key == "vfs" || key == "mode") return bad_setting(fmt::format("'{}' cannot be a default parameter of onepen_use().", key));
    keys.push_back(key);
  }
  const auto settings = read_settings(
      "a",
      [&](std::string_view key) -> std::optional<std::string> {
        for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
          if (pair->first == key) return pair->second;
        }
        if (key == "cache_root") return "/";
        return std::nullopt;
      },
      keys, home);
  if (!settings) return tl::unexpected(settings.error());
  return {};
}

std::string_view word(DurabilityMode mode) { return mode == DurabilityMode::local ? "local" : "replicated"; }

std::optional<std::chrono::milliseconds> read_duration(std::string_view text) {
  std::uint64_t unit = 1;
  if (text.ends_with("ms")) text.remove_suffix(2);
  else if (text.ends_with("s")) text.remove_suffix(1), unit = 1'000;
  else if (text.ends_with("m")) text.remove_suffix(1), unit = 60'000;
  const auto number = read_number(text);
  if (!number || *number > static_cast<std::uint64_t>(kLongest.count()) * 2 / unit) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(*number * unit));
}

std::optional<std::uint64_t> read_size(std::string_view text) {
  constexpr std::string_view kUnits = "KMG";
  unsigned shift = 0;
  if (!text.empty()) {
    if (const auto unit = kUnits.find(text.back()); unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = read_number(text);
  if (!number || *number > (kMostBytes >> shift)) return std::nullopt;
  return *number << shift;
}

std::string default_cache_root() {
  if (auto root = environment("ONEPEN_CACHE")) return *root;
  if (auto home = environment("HOME")) return *home + "/.cache/onepen";
  return {};
}

Result<OpenSettings> read_settings(std::string_view filename, const Parameter& parameter, const std::vector<std::string>& keys,
                                   const std::string& default_home) {
  const auto known = [](std::string_view key) {
    return std::find(kOurs.begin(), kOurs.end(), key) != kOurs.end() || std::find(kSqlites.begin(), kSqlites.end(), key) != kSqlites.end();
  };
  for (const std::string& key : keys) {
    if (!known(key))
      return bad_setting(fmt::format("Unknown parameter '{}' in the name of the database. Known ones: {}, and SQLite's mode.", key, fmt::join(kOurs, ", ")));
  }
  OpenSettings settings;
  settings.home_url = parameter("home").value_or(default_home.empty() ? environment("ONEPEN_HOME_URL").value_or("") : default_home);
  if (settings.home_url.empty())
    return bad_setting(fmt::format("No home for '{}': write file:{}?vfs=onepen&home=file:///path, call onepen_use('file:///path'), or set ONEPEN_HOME_URL.",
                                   filename, filename));
  if (filename.ends_with(kOwnSuffix)) filename.remove_suffix(kOwnSuffix.size());
  auto name = StreamName::parse(filename);
  if (!name) return tl::unexpected(name.error());
  settings.name = *name;
  settings.cache_root = parameter("cache_root").value_or(default_cache_root());
  if (settings.cache_root.empty() || settings.cache_root.front() != '/')
    return bad_setting(
        fmt::format("The folder for local copies must be an absolute path, not '{}': set ONEPEN_CACHE or cache_root=/path.", settings.cache_root));
  settings.owner_name = parameter("owner").value_or("");
  if (settings.owner_name.size() > 256) return bad_setting("owner= is longer than 256 bytes.");
  if (const auto done = read_choices(parameter, settings); !done) return tl::unexpected(done.error());
  return settings;
}

}  // namespace onepen::sqlite
