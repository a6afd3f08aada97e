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

}  // namespace

int refuse_with(int code, std::string sentence) {
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
