#include "support/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/guard.h"

namespace onepen::testing {
namespace {

constexpr std::string_view kGuardMark = "# guard:", kMutantMark = "# mutant:", kNoGuardMark = "# no guard:";

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(" \t") - from + 1));
}

std::string after(const std::string& line, std::string_view mark) { return trimmed(std::string_view(line).substr(mark.size())); }

// Splits a command line at spaces outside "...". False when a quote does not end.
bool split_words(const std::string& line, std::vector<std::string>& words) {
  std::string word;
  bool quoted = false, any = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (c == ' ' && !quoted) {
      if (any) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (any) words.push_back(word);
  return !quoted;
}

bool parse_command(ScenarioStep& step) {
  std::vector<std::string> words;
  if (!split_words(step.command_line, words) || words.empty()) return false;
  step.command = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string::npos || equals == 0) step.words.push_back(words[i]);
    else if (!step.args.emplace(words[i].substr(0, equals), words[i].substr(equals + 1)).second) return false;
  }
  return true;
}

std::string where(const std::string& path, int line) { return path + ":" + std::to_string(line); }

std::vector<std::string> answers_of(const Scenario& scenario, const Answer& answer) {
  std::vector<std::string> answers;
  for (const ScenarioStep& step : scenario.steps) answers.push_back(answer(step));
  return answers;
}

bool holds(const Scenario& scenario, const std::vector<std::string>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] != scenario.steps[i].expected) return false;
  }
  return true;
}

bool holds_without(const Scenario& scenario, const std::function<Answer()>& make, Guard guard) {
  set_guard(guard, false);
  const bool still = holds(scenario, answers_of(scenario, make()));
  set_guard(guard, true);
  return still;
}

constexpr Guard kAllGuards[] = {
#define ONEPEN_GUARD(name) Guard::name,
    ONEPEN_GUARDS(ONEPEN_GUARD)
#undef ONEPEN_GUARD
};

}  // namespace

std::string ScenarioStep::get(const std::string& key, const std::string& otherwise) const {
  const auto found = args.find(key);
  return found == args.end() ? otherwise : found->second;
}

std::uint64_t ScenarioStep::number(const std::string& key, std::uint64_t otherwise) const {
  const auto found = args.find(key);
  if (found == args.end()) return otherwise;
  const std::string& text = found->second;
  const bool digits = !text.empty() && text.size() < 20 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    ADD_FAILURE() << "line " << line << ": '" << key << "=" << text << "' is not a number";
    return otherwise;
  }
  return std::strtoull(text.c_str(), nullptr, 10);
}

std::optional<std::string> parse_scenario(const std::string& path, std::string_view text, Scenario& out) {
  out = Scenario{};
  out.path = path;
  const std::vector<std::string> lines = split_lines(text);
  std::vector<std::string> comments;
  std::size_t i = 0;
  while (i < lines.size()) {
    if (lines[i].empty() || lines[i][0] == '#') {
      if (lines[i].starts_with(kGuardMark)) out.guards.push_back(after(lines[i], kGuardMark));
      if (lines[i].starts_with(kMutantMark)) out.mutants.push_back(after(lines[i], kMutantMark));
      if (lines[i].starts_with(kNoGuardMark)) out.no_guard = after(lines[i], kNoGuardMark);
      comments.push_back(lines[i++]);
      continue;
    }
    ScenarioStep step;
    step.line = static_cast<int>(i) + 1;
    step.comments = std::move(comments);
    comments.clear();
    step.command_line = lines[i++];
    if (!parse_command(step)) return where(path, step.line) + ": not a command line";
    while (i < lines.size() && lines[i] != "----") {
      if (lines[i].empty()) return where(path, step.line) + ": a step needs a line ---- before its answer";
      step.body.push_back(lines[i++]);
    }
    if (i == lines.size()) return where(path, step.line) + ": a step needs a line ---- before its answer";
    ++i;
    for (bool first = true; i < lines.size() && !lines[i].empty(); ++i, first = false) step.expected += (first ? "" : "\n") + lines[i];
    out.steps.push_back(std::move(step));
    if (i < lines.size()) ++i;  // the empty line
  }
  out.trailing = std::move(comments);
  if (out.steps.empty()) return path + ": no steps";
  return std::nullopt;
}

std::optional<std::string> load_scenario(const std::string& path, Scenario& out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return path + ": cannot be read";
  std::ostringstream text;
  text << in.rdbuf();
  return parse_scenario(path, text.str(), out);
}

std::string print_scenario(const Scenario& scenario, const std::vector<std::string>& answers) {
  std::string text;
  for (std::size_t i = 0; i < scenario.steps.size(); ++i) {
    const ScenarioStep& step = scenario.steps[i];
    for (const std::string& comment : step.comments) text += comment + "\n";
    text += step.command_line + "\n";
    for (const std::string& line : step.body) text += line + "\n";
    text += "----\n";
    if (!answers[i].empty()) text += answers[i] + "\n";
    if (i + 1 < scenario.steps.size() || !scenario.trailing.empty()) text += "\n";
  }
  for (const std::string& comment : scenario.trailing) text += comment + "\n";
  return text;
}

std::vector<std::string> scenario_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void run_scenario(const std::string& path, const std::function<Answer()>& make) {
  Scenario scenario;
  if (const auto error = load_scenario(path, scenario)) {
    ADD_FAILURE() << *error;
    return;
  }
  const std::vector<std::string> answers = answers_of(scenario, make());
  if (const char* rewrite = std::getenv("ONEPEN_REWRITE"); rewrite != nullptr && std::string_view(rewrite) == "1") {
    std::ofstream(path, std::ios::binary) << print_scenario(scenario, answers);
    for (std::size_t i = 0; i < answers.size(); ++i) scenario.steps[i].expected = answers[i];
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(scenario.steps[i].expected, answers[i]) << where(path, scenario.steps[i].line) << ": " << scenario.steps[i].command_line;
  }
  EXPECT_NE(scenario.guards.empty() && scenario.mutants.empty(), scenario.no_guard.empty())
      << path << " names no guard or mutant, nor why there is none (or both): how can it fail?";
  for (const std::string& name : scenario.guards) {
    Guard guard{};
    if (!guard_from_name(name.c_str(), guard)) {
      ADD_FAILURE() << path << ": there is no guard '" << name << "'";
      continue;
    }
    EXPECT_FALSE(holds_without(scenario, make, guard)) << path << " says the same with guard " << name << " off: it does not test that rule";
  }
  if (std::getenv("ONEPEN_TRY_GUARDS") == nullptr) return;
  for (const Guard guard : kAllGuards) {
    if (!holds_without(scenario, make, guard)) std::cout << path << " is red without " << guard_name(guard) << "\n";
  }
}

std::string scenario_case(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name) c = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return name;
}

}  // namespace onepen::testing
