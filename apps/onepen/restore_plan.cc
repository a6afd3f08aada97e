#include "apps/onepen/restore_plan.h"

#include <fmt/format.h>
#include <time.h>

#include <array>
#include <charconv>

#include "wire/commit_frame.h"

namespace onepen::app {
namespace {

constexpr std::int64_t kSecondMs = 1000, kMinuteMs = 60 * kSecondMs, kHourMs = 60 * kMinuteMs, kDayMs = 24 * kHourMs;
constexpr std::int64_t kMostOfOneUnit = 1'000'000'000;  // so that no sum overflows

tl::unexpected<Error> no_point(std::string_view text) {
  return tl::unexpected(
      Error{Outcome::invalid,
            fmt::format("'{}' is no offset and no time. Write an offset that Onepen printed (history, export, onepen_synced), a time like 2026-11-29 17:05, "
                        "2026-11-29T17:05:11Z, or how long ago: -2h, -90s, -1d12h.",
                        text),
            {}});
}

bool looks_like_offset(std::string_view text) {  // docs/formats/log-object.md, "Offset": three dots between digits, hex digits at the end
  std::size_t dots = 0;
  for (const char c : text) {
    if (c == '.') ++dots;
    else if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
  }
  return dots == 3;
}

// A number of exactly `digits` digits at the front, taken away.
bool take_number(std::string_view& text, std::size_t digits, int& out) {
  if (text.size() < digits) return false;
  const std::string_view number = text.substr(0, digits);
  const auto [end, error] = std::from_chars(number.begin(), number.end(), out);
  if (error != std::errc() || end != number.end() || out < 0) return false;
  text.remove_prefix(digits);
  return true;
}

bool take_char(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::int64_t> read_ago(std::string_view text) {  // "2h", "1d12h"
  std::int64_t sum = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || value > kMostOfOneUnit) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (take_char(text, "s")) sum += value * kSecondMs;
    else if (take_char(text, "m")) sum += value * kMinuteMs;
    else if (take_char(text, "h")) sum += value * kHourMs;
    else if (take_char(text, "d")) sum += value * kDayMs;
    else return std::nullopt;
  }
  return sum;
}

bool take_milliseconds(std::string_view& text, int& out) {  // ".5", ".123"
  int scale = 100;
  out = 0;
  bool any = false;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), scale /= 10) {
    out += (text.front() - '0') * scale;
    any = true;
  }
  return any;
}

// Seconds east of Greenwich; none: the local zone. False: what stands there is no zone.
bool take_zone(std::string_view& text, std::optional<long>& out) {
  if (text.empty()) return true;
  if (take_char(text, "Zz")) {
    out = 0;
    return true;
  }
  const bool west = text.front() == '-';
  int hours = 0, minutes = 0;
  if (!take_char(text, "+-") || !take_number(text, 2, hours)) return false;
  take_char(text, ":");
  if (!text.empty() && !take_number(text, 2, minutes)) return false;
  if (hours > 14 || minutes > 59) return false;
  out = (west ? -1L : 1L) * (hours * 3600L + minutes * 60L);
  return true;
}

std::optional<std::int64_t> read_calendar(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, milliseconds = 0;
  std::optional<long> zone;
  if (!take_number(text, 4, year) || !take_char(text, "-") || !take_number(text, 2, month) || !take_char(text, "-") || !take_number(text, 2, day))
    return std::nullopt;
  if (take_char(text, "Tt ")) {
    if (!take_number(text, 2, hour) || !take_char(text, ":") || !take_number(text, 2, minute)) return std::nullopt;
    if (take_char(text, ":") && !take_number(text, 2, second)) return std::nullopt;
    if (take_char(text, ".") && !take_milliseconds(text, milliseconds)) return std::nullopt;
  }
  if (!take_zone(text, zone) || !text.empty()) return std::nullopt;
  if (month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  tm parts{};
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  parts.tm_isdst = -1;  // the zone's own rule for that day
  tm given = parts;
  const time_t seconds = zone ? timegm(&given) - *zone : mktime(&given);
  if (given.tm_mday != day || given.tm_mon != month - 1) return std::nullopt;  // February 30th
  return std::int64_t{seconds} * kSecondMs + milliseconds;
}

std::string owner_of(const core::OwnerInfo& owner) {
  const std::string process = fmt::format("pid {} on host {}", owner.pid, owner.host);
  return owner.name.empty() ? process : fmt::format("'{}', {}", owner.name, process);
}

}  // namespace

Result<RestorePoint> read_restore_point(std::string_view text, std::int64_t now_ms) {
  RestorePoint point;
  if (text.empty()) return no_point(text);
  if (looks_like_offset(text)) {
    point.offset = Offset{std::string(text)};
    return point;
  }
  const auto time = text.front() == '-' ? read_ago(text.substr(1)) : read_calendar(text);
  if (!time) return no_point(text);
  point.time_ms = text.front() == '-' ? now_ms - *time : *time;
  return point;
}

void CommitSpan::add(const core::Record& record, std::uint64_t commit_bytes, const std::string& owner) {
  if (count == 0) first_ms = record.time_ms;
  ++count;
  bytes += commit_bytes;
  last_ms = record.time_ms;
  if (!owner.empty()) owners.insert(owner);
}

bool RestorePlan::within(const core::Record& record) const { return point_.offset ? record.next <= *point_.offset : record.time_ms <= point_.time_ms; }

void RestorePlan::commit(const core::Record& record) {
  if (first_ms_ == 0) first_ms_ = record.time_ms;
  if (!past_ && !within(record)) past_ = true;
  (past_ ? lost_ : kept_).add(record, run_bytes_, owner_);
  run_begin_.reset();
  run_bytes_ = 0;
  if (!past_) common_ = record.next;
}

void RestorePlan::take(const core::Record& record) {
  if (record.kind == core::RecordKind::data) {
    // A front without parts commits with every append.
    const auto part = wire::looks_like_part(record.payload) ? wire::decode_part(record.payload) : Result<wire::Part>(tl::unexpected(Error{}));
    if (part && part->number == 1) run_begin_.reset(), run_bytes_ = 0;  // voids an unfinished run before it (docs/formats/commit-frame.md)
    if (!run_begin_) run_begin_ = previous_;
    run_bytes_ += record.payload.size();
    if (!part || part->last) commit(record);
  } else {
    if (record.kind == core::RecordKind::claim) {
      owner_ = owner_of(record.owner);
      run_begin_.reset();  // parts without their last one before a claim are void
      run_bytes_ = 0;
    }
    if (!past_ && !run_begin_) common_ = record.next;
  }
  previous_ = record.next;
}

}  // namespace onepen::app
