// Scenario files: commands and what they must answer, as text. One file per rule or interleaving.
//
//   # Says what the file shows and why. Lines beginning with '#' belong to the step after them.
//   # guard: fence_epoch            with this guard (src/base/guard.h) off the file must no longer hold
//
//   claim epoch=2 id=B why="a standby"
//   ----
//   applied epoch=2 closed=1/5
//
// Every file names what shows that it can fail: `# guard:` (more than one may stand there), or `# mutant:`, a name in tests/mutants.txt (source text whose
// removal turns this file red, tried by the nightly run), or `# no guard:` with the reason why there is neither.
//
// A step is a command line (word, then bare words and key=value, quoted with "..."), optional further lines, "----", the expected answer, an empty line.
// ONEPEN_REWRITE=1 writes the answers that came into the file instead of comparing; read the diff before you commit it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onepen::testing {

struct ScenarioStep {
  int line = 0;                            // of the command, for messages
  std::vector<std::string> comments;       // whole lines before it
  std::string command_line;                // as written
  std::string command;                     // first word
  std::vector<std::string> words;          // bare words after it
  std::map<std::string, std::string> args; // key=value
  std::vector<std::string> body;           // further lines before "----"
  std::string expected;                    // without the last newline

  bool has(const std::string& key) const { return args.count(key) != 0; }
  std::string get(const std::string& key, const std::string& otherwise = {}) const;
  std::uint64_t number(const std::string& key, std::uint64_t otherwise = 0) const;  // digits only; anything else stops the test with the line
};

struct Scenario {
  std::string path;
  std::vector<ScenarioStep> steps;
  std::vector<std::string> guards;         // of "# guard:" lines
  std::vector<std::string> mutants;        // of "# mutant:" lines
  std::string no_guard;                    // the reason of a "# no guard:" line
  std::vector<std::string> trailing;       // comments after the last step
};

// A file that cannot be parsed gives an error text.
std::optional<std::string> parse_scenario(const std::string& path, std::string_view text, Scenario& out);
std::optional<std::string> load_scenario(const std::string& path, Scenario& out);
std::string print_scenario(const Scenario& scenario, const std::vector<std::string>& answers);

// Every *.txt of a folder, sorted. An empty folder is an error of the caller: tests must check it.
std::vector<std::string> scenario_files(const std::string& folder);

// Runs one file: answers every step with `answer` (a fresh machine per call of `make`), compares or rewrites, then runs it once more with each named
// guard off and requires a difference. Reports through GoogleTest. ONEPEN_TRY_GUARDS=1 prints which guards of all turn the file red.
using Answer = std::function<std::string(const ScenarioStep&)>;
void run_scenario(const std::string& path, const std::function<Answer()>& make);

// The name of a test case for a file: its stem, with '_' for what GoogleTest does not take.
std::string scenario_case(const std::string& path);

}  // namespace onepen::testing
