#include "sqlite/messages.h"

#include <cstdio>
#include <cstdlib>

#include "sqlite/api.h"

namespace onepen::sqlite {
namespace {

std::string& slot() {
  thread_local std::string sentence;
  return sentence;
}

bool log_to_stderr() {
  // Read once: the environment may change under other threads of the host later.
  static const bool yes = [] {
    const char* value = std::getenv("ONEPEN_LOG");
    return value != nullptr && std::string_view(value) == "stderr";
  }();
  return yes;
}

const char* level_word(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warn";
    case LogLevel::error: return "error";
  }
  return "?";
}

void print(LogLevel level, std::string_view line) {
  // One write: lines of several threads do not mix.
  std::string text = "onepen ";
  text.append(level_word(level)).append(": ").append(line).append("\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// How many bytes the UTF-8 character at the beginning of `text` has; 0: it is none (Unicode, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) { return byte(i) >= low && byte(i) <= high; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4) return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

}  // namespace

std::string forked_sentence() {
  return "This process was made by fork() from the one that opened the database; an owner cannot be shared. Open the database after fork(), in the child.";
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 0) out += "\xEF\xBF\xBD";
    else out += text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

int refuse_with(int code, std::string sentence) {
  sentence = as_utf8(sentence);
  sqlite3_log(code, "onepen: %s", sentence.c_str());
  if (log_to_stderr()) print(LogLevel::warn, sentence);
  slot() = std::move(sentence);
  return code;
}

int refuse(std::string sentence) { return refuse_with(SQLITE_AUTH, std::move(sentence)); }

const std::string& last_refusal() { return slot(); }

Log host_log() {
  if (!log_to_stderr()) return Log();
  return Log([](LogLevel level, std::string_view line) {
    if (level != LogLevel::debug) print(level, line);
  });
}

}  // namespace onepen::sqlite
