#include "apps/onepen/demo.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/onepen/commands.h"
#include "apps/onepen/output.h"
#include "io/child_process.h"

namespace onepen::app {
namespace {
using io::ChildProcess;
using namespace std::chrono_literals;

constexpr auto kAnswerLimit = 30s;  // a demo process that is silent for longer has failed
constexpr const char* kDatabase = "codepoints";

struct Failed {  // thrown and caught inside this file only: the demo ends at the first thing that does not verify
  std::string what;
};

void line(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}
void step(int number, const std::string& text) { line(fmt::format("\n{}. {}", number, text)); }
void verified(const std::string& text) { line("   \u2713 " + text); }
void told(const std::string& text) { line("     " + text); }
void require(bool holds, const std::string& what) {
  if (!holds) throw Failed{what};
}
std::string milliseconds(const std::string& micros) { return fmt::format("{:.1f} ms", std::stod(micros) / 1000); }

std::vector<std::string> words(const std::string& text, std::size_t limit) {  // the last word takes the rest
  std::vector<std::string> out;
  std::istringstream in(text);
  std::string word;
  while (out.size() + 1 < limit && in >> word) out.push_back(word);
  std::string rest;
  if (std::getline(in >> std::ws, rest) && !rest.empty()) out.push_back(rest);
  return out;
}

// What the demo knows of every transaction: begun (COMMIT was called), acknowledged (COMMIT returned success), refused (COMMIT said no).
struct Ledger {
  std::set<long long> begun, acknowledged, refused;
  long long next = 1;
};

class Machine {  // one process with a cache root of its own, as if on a machine of its own
 public:
  Machine(std::string who, const DemoOptions& options, const std::string& folder, Ledger& ledger) : who_(std::move(who)), ledger_(ledger) {
    auto child = ChildProcess::start(
        {options.program, "demo-worker", "--home", "file://" + folder + "/home", "--cache-root", folder + "/cache-" + who_, "--name", kDatabase, "--who", who_},
        {});
    require(child.has_value(), child ? "" : child.error().message);
    child_.emplace(std::move(*child));
  }

  const std::string& who() const { return who_; }
  std::string label() const { return fmt::format("{} (pid {})", who_, child_->pid()); }
  void send(const std::string& command) { require(child_->send_line(command), label() + " does not listen any more"); }
  void signal(int number) { child_->signal(number); }
  void end() { child_.reset(); }

  std::vector<std::string> answer(std::size_t fields) {
    auto text = child_->read_line(kAnswerLimit);
    require(text.has_value(), label() + " did not answer");
    auto out = words(*text, fields);
    require(!out.empty() && out[0] != "failed", label() + ": " + *text);
    note(out);
    return out;
  }
  std::vector<std::string> ask(const std::string& command, std::size_t fields) {
    send(command);
    return answer(fields);
  }
  // Reads what a `work` says until `count` more are acknowledged; the refusal ends it early.
  std::optional<std::string> follow(std::size_t count) {
    for (std::size_t seen = 0; seen < count;) {
      auto said = answer(3);
      if (said[0] == "refused") return said.size() > 2 ? said[1] + " " + said[2] : said[1];
      if (said[0] == "done") return std::nullopt;
      if (said[0] == "ack") ++seen;
    }
    return std::nullopt;
  }
  std::optional<std::string> drain(std::chrono::milliseconds limit) {  // whatever is still in the pipe of a dead process
    auto text = child_->read_line(limit);
    if (text) note(words(*text, 3));
    return text;
  }
  int reap() { return child_->wait(); }
  void work(long long count, long long size) {
    send(fmt::format("work {} {} {}", ledger_.next, count, size));
    ledger_.next += count;
  }

 private:
  void note(const std::vector<std::string>& said) {
    if (said[0] == "begin") ledger_.begun.insert(committing_ = std::stoll(said[1]));
    if (said[0] == "ack") ledger_.acknowledged.insert(std::exchange(committing_, 0));
    if (said[0] == "refused" && committing_ != 0) ledger_.refused.insert(std::exchange(committing_, 0));
  }
  std::string who_;
  Ledger& ledger_;
  long long committing_ = 0;  // COMMIT was called and has not answered; 0: none
  std::optional<ChildProcess> child_{};
};

class Demo {
 public:
  Demo(const DemoOptions& options, std::string folder) : options_(options), folder_(std::move(folder)) {}

  void run() {
    line("Onepen: every database has exactly one writer, and the data itself enforces it.");
    line(fmt::format("The database '{}' lives in the directory {}/home. Processes A to D below are real; each has a cache of its own,", kDatabase, folder_));
    line("as if on a machine of its own. Nothing between them but that directory: no server, no lock service, no clock.");
    Machine a("A", options_, folder_, ledger_), b("B", options_, folder_, ledger_), c("C", options_, folder_, ledger_), d("D", options_, folder_, ledger_);
    load(a);
    take_over(a, b);
    pause(b, c);
    kill(c, d);
    finish(d);
  }

 private:
  void load(Machine& a) {
    step(1, a.label() + " opens it by name, and loads real data through plain SQLite");
    open(a);
    std::ifstream in(options_.data_file);
    require(in.good(), "cannot read " + options_.data_file + " (Debian package unicode-data)");
    for (std::string text; std::getline(in, text); ++rows_) sum_ += demo_line_sum(text);
    const auto loaded = a.ask("load " + options_.data_file, 4);
    verified(fmt::format("{} rows in {} commits, {}; each COMMIT returned only when it was in the directory, synced", loaded.at(1), loaded.at(2),
                         milliseconds(loaded.at(3))));
    same_data(a);
  }

  void take_over(Machine& a, Machine& b) {
    step(2, fmt::format("{} opens the same name while {} is writing", b.label(), a.who()));
    a.work(1'000'000, 100);
    a.follow(200);
    open(b);
    const auto refusal = a.follow(1'000'000);
    require(refusal.has_value() && refusal->starts_with("23 "), "A was not refused: " + refusal.value_or("it went on writing"));
    verified("A's next COMMIT was refused with SQLite's code 23 (authorization denied). What A is told:");
    told(refusal->substr(3));
    every_commit(b);
    same_data(b);
  }

  void pause(Machine& b, Machine& c) {
    step(3, fmt::format("{} is paused in mid-work (SIGSTOP), {} takes over, {} wakes (SIGCONT)", b.label(), c.label(), b.who()));
    b.work(1'000'000, 100);
    b.follow(100);
    b.signal(SIGSTOP);
    open(c);
    c.work(50, 100);
    c.follow(51);
    verified("C wrote 50 transactions while B was asleep and still believed to be the writer");
    b.signal(SIGCONT);
    const auto refusal = b.follow(1'000'000);
    require(refusal.has_value() && refusal->starts_with("23 "), "B was not refused after it woke: " + refusal.value_or("it went on writing"));
    verified("B woke, went on writing, and was refused by the data:");
    told(refusal->substr(3));
    every_commit(c);
  }

  void kill(Machine& c, Machine& d) {
    step(4, fmt::format("{} is killed (SIGKILL) in the middle of a COMMIT; {} opens elsewhere", c.label(), d.label()));
    c.work(1000, 4'000'000);
    c.follow(2);
    while (c.answer(3)[0] != "begin") continue;  // COMMIT of 4 MB has begun
    std::this_thread::sleep_for(4ms);
    c.signal(SIGKILL);
    c.reap();
    while (c.drain(100ms)) continue;
    open(d);
    every_commit(d);
    same_data(d);
  }

  void finish(Machine& d) {
    step(5, "the log remembers who held the pen, and the copy is checked against it from end to end");
    d.end();
    command({"history", kDatabase});
    command({"verify", kDatabase, "--cache-root", folder_ + "/cache-D"});
    const std::string home = "file://" + folder_ + "/home";
    line("\nEverything verified. Try next, in two terminals (the second one fences the first):\n");
    line(fmt::format("   sqlite3 -cmd '.load {}' -cmd \".open 'file:{}?vfs=onepen&home={}'\"", options_.extension, kDatabase, home));
    line("   sqlite> SELECT name FROM codepoint WHERE name LIKE '%FENCE%' OR name LIKE '%FOUNTAIN PEN%';");
    line("   sqlite> INSERT INTO event VALUES (0, 'me', NULL);   SELECT onepen_status();   SELECT onepen_error();\n");
    line(fmt::format("   {} status {} --home {}\n   {} sql {} \"SELECT count(*) FROM event\" --home {}", options_.program, kDatabase, home, options_.program,
                     kDatabase, home));
  }

  void open(Machine& machine) {
    const auto opened = machine.ask("open", 3);

    require(std::stoull(opened.at(1)) > last_epoch_, "epochs did not rise");
    last_epoch_ = std::stoull(opened.at(1));
    verified(fmt::format("{} owns it: epoch {}, opened in {}", machine.who(), opened.at(1), milliseconds(opened.at(2))));
  }

  void same_data(Machine& machine) {
    const auto sum = machine.ask("sum", 3);
    require(std::stoull(sum.at(1)) == rows_ && std::stoull(sum.at(2)) == sum_, machine.label() + " does not have the rows of the file");
    verified(fmt::format("{} has {} rows of {}, checksum {:016x}: the file's", machine.who(), rows_,
                         std::filesystem::path(options_.data_file).filename().string(), sum_));
  }

  // Every transaction whose COMMIT returned success is there (its id is the primary key, so exactly once); none that was refused; nothing from nowhere.
  void every_commit(Machine& machine) {
    const auto said = machine.ask("ids", 2);
    std::set<long long> there;
    std::istringstream in(said.size() > 1 ? said[1] : "");
    for (std::string id; std::getline(in, id, ',');) there.insert(std::stoll(id));
    for (long long id : ledger_.acknowledged) require(there.contains(id), fmt::format("acknowledged transaction {} is lost", id));
    for (long long id : there) require(ledger_.begun.contains(id), fmt::format("transaction {} appeared from nowhere", id));
    for (long long id : ledger_.refused) require(!there.contains(id), fmt::format("refused transaction {} is in the stream", id));
    verified(fmt::format("{} sees all {} acknowledged transactions, each once, and none of the {} refused", machine.who(), ledger_.acknowledged.size(),
                         ledger_.refused.size()));
    std::size_t silent = 0, landed = 0;
    for (long long id : ledger_.begun) {
      if (ledger_.acknowledged.contains(id) || ledger_.refused.contains(id)) continue;
      ++silent;
      if (there.contains(id)) ++landed;
    }
    if (silent > 0) verified(fmt::format("{} had no answer when its process was killed: {} there whole, {} not there at all", silent, landed, silent - landed));
  }

  void command(std::vector<std::string> arguments) {
    std::string shown = "onepen";
    for (const std::string& argument : arguments) shown += " " + argument;
    told("$ " + shown);
    arguments.insert(arguments.begin(), options_.program);
    arguments.insert(arguments.end(), {"--home", "file://" + folder_ + "/home"});
    auto child = ChildProcess::start(arguments, {});
    require(child.has_value(), child ? "" : child.error().message);
    while (auto text = child->read_line(kAnswerLimit)) told(*text);
    require(child->wait() == 0, shown + " failed");
  }

  const DemoOptions& options_;
  std::string folder_;
  Ledger ledger_{};
  unsigned long long rows_ = 0, sum_ = 0, last_epoch_ = 0;
};

// What is asked for must be there before four processes start. The exit code; says what is missing.
int prepare(DemoOptions& options) {
  const Common people;
  std::error_code error;
  if (options.data_file.empty()) options.data_file = "/usr/share/unicode/UnicodeData.txt";
  options.data_file = std::filesystem::absolute(options.data_file).string();
  if (std::ifstream in(options.data_file); !std::filesystem::is_regular_file(options.data_file, error) || !in.good()) {
    return report(
        people, kNotFound, "not-found",
        fmt::format("{} is no file that can be read. The demo loads UnicodeData.txt, of Debian's package unicode-data; --data names another place of it.",
                    options.data_file));
  }
  if (options.folder.empty()) {
    std::string pattern = (std::filesystem::temp_directory_path(error) / "onepen-demo-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return report(people, kUnavailable, "unavailable", fmt::format("No folder like {} can be made: {}.", pattern, std::generic_category().message(errno)));
    options.folder = pattern;
    return kOk;
  }
  options.folder = std::filesystem::absolute(options.folder).string();
  std::filesystem::create_directories(options.folder, error);
  if (!error && !std::filesystem::is_directory(options.folder, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(options.folder.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  if (!error) return kOk;
  return report(people, kUnavailable, "unavailable",
                fmt::format("The demo cannot work in the folder {}: {}. --folder names another one.", options.folder, error.message()));
}

}  // namespace

int run_demo(const DemoOptions& given) {
  DemoOptions options = given;
  if (const int code = prepare(options); code != kOk) return code;
  const auto start = std::chrono::steady_clock::now();
  try {
    Demo(options, options.folder).run();
  } catch (const Failed& failed) {
    line("\n   \u2717 " + failed.what + "\n\nThe demo did not verify. Its files are in " + options.folder + ".");
    return 70;
  }
  line(fmt::format("\n({:.1f} s; files are kept in {})", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), options.folder));
  return 0;
}

}  // namespace onepen::app
