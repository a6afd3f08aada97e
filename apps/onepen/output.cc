#include "apps/onepen/output.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/onepen/rooms.h"

namespace onepen::app {
namespace {

// Columns of a terminal are counted in code points; wide and combining characters are shown as they come.
std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

bool is_number(std::string_view cell) {
  if (cell.empty()) return false;
  const std::string_view digits = cell.front() == '-' && cell.size() > 1 ? cell.substr(1) : cell;
  return digits.find_first_not_of("0123456789.") == std::string_view::npos && digits.front() != '.';
}

nlohmann::json json_of(const Owner& owner) {
  return {{"incarnation", owner.token.incarnation},
          {"epoch", owner.token.epoch.value},
          {"claim_id", owner.token.claim_id},
          {"name", owner.name},
          {"host", owner.host},
          {"pid", owner.pid}};
}

int lost_errno = 0;  // why the first of what was printed was lost; 0: nothing was

void output_lost() {
  if (lost_errno == 0) lost_errno = errno != 0 ? errno : EIO;
}

int say_error(const Common& common, ExitCode code, std::string_view word, std::string_view message, const std::optional<Owner>& current,
              nlohmann::json document = nlohmann::json::object()) {
  if (common.json) {
    nlohmann::json error{{"outcome", word}, {"message", message}, {"exit_code", static_cast<int>(code)}};
    if (current) error["current"] = json_of(*current);
    document["error"] = std::move(error);
    print_json(document);
  } else {
    note("onepen: " + std::string(message));
  }
  return code;
}

}  // namespace

Table::Table(std::vector<std::string> heads) : heads_(std::move(heads)) {}

void Table::row(std::vector<std::string> cells) {
  cells.resize(heads_.size());
  for (std::string& cell : cells) cell = without_controls(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t column = 0; column < heads_.size(); ++column) {
    std::size_t width = shown_width(heads_[column]);
    bool numbers = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, shown_width(row[column]));
      numbers = numbers && (row[column].empty() || is_number(row[column]));
    }
    widths.push_back(width);
    right.push_back(numbers);
  }
  std::string out;
  const auto write = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - shown_width(cells[column]), ' ');
      if (column > 0) line += "  ";
      line += right[column] ? padding + cells[column] : cells[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  write(heads_);
  std::vector<std::string> rule;
  for (const std::size_t width : widths) rule.emplace_back(width, '-');
  write(rule);
  for (const auto& row : rows_) write(row);
  return out;
}

ExitCode exit_code(Outcome outcome, ErrorOf of) {
  switch (outcome) {
    case Outcome::applied:
    case Outcome::duplicate: return kOk;
    case Outcome::unknown: return kUnknown;
    case Outcome::unavailable: return kUnavailable;
    case Outcome::fence_unavailable:  // a log that cannot be right: damaged, missing in the middle, of another stream
      return kDamaged;
    case Outcome::not_found: return kNotFound;
    case Outcome::gone:  // a position that should be there is not; a removed database
      return of == ErrorOf::content ? kDamaged : kNotFound;
    case Outcome::invalid: return of == ErrorOf::content ? kDamaged : kUsage;
    case Outcome::state_mismatch:
    case Outcome::content_mismatch:
    case Outcome::incomplete:
    case Outcome::schema_unknown: return of == ErrorOf::content ? kDamaged : kRefused;
    default: return kRefused;
  }
}

namespace {

// Asked only where it decides: what a bucket refuses because of its URL comes up while content is read.
ExitCode exit_code_here(const Common& common, Outcome outcome, ErrorOf of) {
  return exit_code(outcome, outcome == Outcome::invalid && of == ErrorOf::content && place_is_invalid(common) ? ErrorOf::request : of);
}

}  // namespace

int report(const Common& common, const Error& error, ErrorOf of) {
  return say_error(common, exit_code_here(common, error.outcome, of), word(error.outcome), error.message, error.current);
}

int report(const Common& common, ExitCode code, std::string_view word, std::string_view message) {
  return say_error(common, code, word, message, std::nullopt);
}

int report_with(const Common& common, const Error& error, ErrorOf of, std::string_view key, const std::string& json) {
  auto document = nlohmann::json::object();
  if (common.json) document[std::string(key)] = nlohmann::json::parse(json, nullptr, false);
  return say_error(common, exit_code_here(common, error.outcome, of), word(error.outcome), error.message, error.current, std::move(document));
}

std::string local_time(std::int64_t wall_ms) {
  if (wall_ms == 0) return {};
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string iso_time(std::int64_t wall_ms) {
  if (wall_ms == 0) return {};
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t size = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text.data(), size), wall_ms % 1000);
}

std::string byte_count(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_lost();
}

int finish_output(int code) {
  std::cout.flush();  // CLI11's help
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) output_lost();
  if (lost_errno == 0) return code;
  note(fmt::format("onepen: What was printed is not complete: standard output could not be written ({}). What the command did stands.",
                   std::generic_category().message(lost_errno)));
  return code == kOk ? kUnavailable : code;
}

void note(std::string_view line) {
  if (std::fflush(stdout) != 0) output_lost();  // in the order in which it was said
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

ProgressBar::ProgressBar() : on_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(std::string_view step, std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (!on_) return;
  constexpr std::int64_t kEveryMs = 100;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (shown_ && now - last_ms_ < kEveryMs && done_bytes != total_bytes) return;
  last_ms_ = now;
  shown_ = true;
  std::string line = fmt::format("\r\033[K{:<8} ", step);
  if (total_bytes > 0) {
    constexpr std::size_t kBarWidth = 30;
    const auto filled = static_cast<std::size_t>(std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_bytes)) * kBarWidth);
    line += "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] ";
  }
  line += byte_count(done_bytes);
  if (total_bytes > 0) line += " of " + byte_count(total_bytes);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace onepen::app
