// What a database is opened with, and how a host says it: URI parameters of `file:NAME?vfs=onepen&home=...`, the environment, onepen_use(). Pure but for
// reading the environment.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "owner/owner.h"

namespace onepen::sqlite {

inline constexpr std::uint32_t kDefaultPageSize = 4096;
inline constexpr std::string_view kOwnSuffix = ".onepen";  // names that are ours without a URI, after onepen_use()

enum class DurabilityMode : std::uint8_t { replicated, local };  // when COMMIT returns: after the stream's acknowledgement, or SQLite's own

std::string_view word(DurabilityMode mode);

inline constexpr std::chrono::milliseconds kDefaultTerm{30'000}, kLeastTerm{100};
inline constexpr std::chrono::milliseconds kDefaultNoticeWithin{1'000};
inline constexpr std::chrono::milliseconds kMostLinger{60'000};
inline constexpr double kLeastObjectsPerSecond = 0.1, kMostObjectsPerSecond = 10'000;
inline constexpr std::uint64_t kLeastMaxPendingBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kDefaultMaxPendingBytes = std::uint64_t{1} << 30;

struct OpenSettings {
  std::string home_url, cache_root;
  std::optional<StreamName> name;  // always there in settings that were read
  bool follower = false;           // mode=ro: reads only, claims nothing
  owner::TakeoverMode takeover = owner::TakeoverMode::always;
  // How soon an idle owner notices that it was fenced. None: kDefaultNoticeWithin, and at a metered home it does not look.
  std::optional<std::chrono::milliseconds> notice_within{};
  std::chrono::milliseconds commit_timeout{30'000};
  std::uint32_t page_size = kDefaultPageSize;  // of a database that is made
  std::string owner_name;
  bool confirm_reads = false;
  DurabilityMode durability = DurabilityMode::replicated;
  bool offline = false;  // when the home is out of reach, open from the local copy alone (durability=local only)
  std::uint64_t max_pending_bytes = kDefaultMaxPendingBytes;  // of the WAL, in commits that are not in the stream yet; above it COMMIT waits, then is refused
  // durability=local: how long a commit waits for others before it is sent. None: as keeper.h says, by home.
  std::optional<std::chrono::milliseconds> max_linger{};
  double max_objects_per_second = 0;  // of the log; 0: no bound
  std::uint64_t snapshot_after = 0;  // bytes of log since the newest snapshot that make a new one; 0: as many as the database has, at least 8 MiB
  // An owner: gives signs of life, so that a standby, or an open with takeover=if-dead, can tell within it that it is gone. A standby, and takeover=if-dead: watches so
  // long. None: an owner gives no signs; kDefaultTerm.
  std::optional<std::chrono::milliseconds> term{};
  bool standby = false;  // of a follower: takes over by itself when the owner is gone
  std::shared_ptr<const OpenSettings> as_owner{};  // what a standby is the owner with; none: these
  std::optional<std::chrono::milliseconds> max_staleness{};  // of a follower: reads are refused when the home was last heard longer ago
  std::chrono::milliseconds close_flush{5'000};  // how long the last close goes on sending
  std::function<void(const owner::Progress&)> progress{};
};

// Reads one parameter; nothing when it is not given.
using Parameter = std::function<std::optional<std::string>(std::string_view key)>;

// `filename`: what stands before the '?'. default_home: of onepen_use(); the environment's ONEPEN_HOME_URL comes after it.
// Errors (invalid): each names the parameter, what it was and what it may be.
Result<OpenSettings> read_settings(std::string_view filename, const Parameter& parameter, const std::vector<std::string>& keys,
                                   const std::string& default_home);

// "a=1&b=2", as onepen_use() takes it (nothing is percent-encoded). Later ones of the same name count.
std::vector<std::pair<std::string, std::string>> split_parameters(std::string_view text);
// May such parameters be the default ones? Errors: as read_settings.
Result<> check_default_parameters(const std::string& home, std::string_view parameters);
// "250ms", "30s", "2m"; a bare number is milliseconds.
std::optional<std::chrono::milliseconds> read_duration(std::string_view text);
// "4096", "512K", "64M", "2G" (powers of 1,024).
std::optional<std::uint64_t> read_size(std::string_view text);
std::string default_cache_root();  // ONEPEN_CACHE, else ~/.cache/onepen

}  // namespace onepen::sqlite
