// What a database is opened with, and how a host says it: URI parameters of `file:NAME?vfs=onepen&home=...`, the environment, onepen_use(). Pure but for
// reading the environment.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "owner/owner.h"

namespace onepen::sqlite {

inline constexpr std::uint32_t kDefaultPageSize = 4096;
inline constexpr std::string_view kOwnSuffix = ".onepen";  // names that are ours without a URI, after onepen_use()

struct OpenSettings {
  std::string home_url, cache_root;
  std::optional<StreamName> name;  // always there in settings that were read
  bool follower = false;           // mode=ro: reads only, claims nothing
  owner::TakeoverMode takeover = owner::TakeoverMode::always;
  std::chrono::milliseconds notice_within{1'000}, commit_timeout{30'000};
  std::uint32_t page_size = kDefaultPageSize;  // of a database that is made
  std::string owner_name;
  bool confirm_reads = false;
  std::function<void(const owner::Progress&)> progress{};
};

// Reads one parameter; nothing when it is not given.
using Parameter = std::function<std::optional<std::string>(std::string_view key)>;

// `filename`: what stands before the '?'. default_home: of onepen_use(); the environment's ONEPEN_HOME_URL comes after it.
// Errors (invalid): each names the parameter, what it was and what it may be.
Result<OpenSettings> read_settings(std::string_view filename, const Parameter& parameter, const std::vector<std::string>& keys,
                                   const std::string& default_home);

// "250ms", "30s", "2m"; a bare number is milliseconds.
std::optional<std::chrono::milliseconds> read_duration(std::string_view text);
std::string default_cache_root();  // ONEPEN_CACHE, else ~/.cache/onepen

}  // namespace onepen::sqlite
