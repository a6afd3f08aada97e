#include "sqlite/messages.h"

#include <fmt/format.h>

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

bool log_is_off() {
  const char* value = std::getenv("ONEPEN_LOG");
  return value != nullptr && std::string_view(value) == "off";
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

void note(std::string_view sentence) {
  const std::string text = as_utf8(sentence);
  sqlite3_log(SQLITE_NOTICE, "onepen: %s", text.c_str());
  if (log_to_stderr()) print(LogLevel::info, text);
}

void say_unsent(std::string_view sentence) {
  if (log_to_stderr() || log_is_off()) return;  // said already; or not wanted
  print(LogLevel::warn, as_utf8(sentence));
}

int refuse(std::string sentence) { return refuse_with(SQLITE_AUTH, std::move(sentence)); }

const std::string& last_refusal() { return slot(); }

Log host_log() {
  if (!log_to_stderr()) return Log();
  return Log([](LogLevel level, std::string_view line) {
    if (level != LogLevel::debug) print(level, line);
  });
}

Log spoken_log() {
  if (log_to_stderr()) return host_log();
  if (log_is_off()) return Log();
  return Log([](LogLevel level, std::string_view line) {
    if (level >= LogLevel::warn) print(level, as_utf8(line));
  });
}

std::string unsent_sentence(std::string_view what, const UnsentStory& unsent) {
  const std::string why = unsent.why.empty() ? "" : " (" + unsent.why + ")";
  if (unsent.commits == 0)
    return fmt::format("{}: every commit of '{}' was acknowledged, but that this process still owns it could not be confirmed{}.", what, unsent.database, why);
  std::string_view then;
  switch (unsent.next) {
    case UnsentStory::Next::this_handle:
      then = "This handle sends them as soon as the home takes them; if it ends before that, the next open on this machine does.";
      break;
    case UnsentStory::Next::next_open:
      then = "The next open on this machine sends them (or moves them to salvage, when somebody else has written meanwhile).";
      break;
    case UnsentStory::Next::nobody:
      then =
          "This handle is reset and sends nothing any more: the next open on this machine sends them if the stream can still take them, else it moves them "
          "to salvage (`onepen salvage list`).";
      break;
  }
  return fmt::format("{}: {} commit{} of '{}' ({} bytes of WAL) {} not in the stream yet{}. They are kept in the local copy {}. {}", what, unsent.commits,
                     unsent.commits == 1 ? "" : "s", unsent.database, unsent.bytes, unsent.commits == 1 ? "is" : "are", why, unsent.copy_folder, then);
}

}  // namespace onepen::sqlite
