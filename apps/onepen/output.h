// What people and scripts see: tables, times, errors, exit codes, the progress bar. Not thread-safe.
#pragma once
#include <onepen/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/onepen/commands.h"

namespace onepen::app {

// Columns as wide as their content; a column whose every cell is a number is right-aligned. Control characters are shown escaped.
class Table {
 public:
  explicit Table(std::vector<std::string> heads);
  void row(std::vector<std::string> cells);  // as many as heads
  bool empty() const { return rows_.empty(); }
  std::string text() const;  // with a final newline; heads underlined by their own row of dashes

 private:
  std::vector<std::string> heads_;
  std::vector<std::vector<std::string>> rows_;
};

// Where an outcome came from decides what it means for the exit code: `invalid` of a request is a usage error, of stored content it is damage.
enum class ErrorOf : std::uint8_t { request, content };

ExitCode exit_code(Outcome, ErrorOf);
// Says the error once (sentence on standard error, or JSON on standard output) and returns its exit code.
int report(const Common&, const Error&, ErrorOf = ErrorOf::request);
int report(const Common&, ExitCode, std::string_view word, std::string_view message);
// With one more member beside "error" in the JSON; `json` is its text.
int report_with(const Common&, const Error&, ErrorOf, std::string_view key, const std::string& json);

std::string local_time(std::int64_t wall_ms);  // "2026-11-29 17:05:11", in the local zone; empty for 0
std::string iso_time(std::int64_t wall_ms);    // "2026-11-29T17:05:11.123Z"; empty for 0
std::string byte_count(std::uint64_t bytes);   // "12.3 MiB"
void print(std::string_view text);             // standard output; that it failed is told by finish_output()
// At the end of a command: what was printed is on its way, or a sentence says that it is lost, and a command that went well ends with kUnavailable.
int finish_output(int code);
// A JSON document, on standard output; bytes that are no UTF-8 become U+FFFD. (A template, so that this header needs no JSON library.)
template <class Json>
void print_json(const Json& document) {
  print(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}
void note(std::string_view line);              // standard error, with a newline

// A bar on standard error while something long runs; silent when that is no terminal. total 0: not known.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(std::string_view step, std::uint64_t done_bytes, std::uint64_t total_bytes);

 private:
  bool on_, shown_ = false;
  std::int64_t last_ms_ = 0;
};

}  // namespace onepen::app
