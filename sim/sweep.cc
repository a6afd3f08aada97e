#include "sim/sweep.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <tuple>

#include "base/check.h"

namespace onepen::sim {
namespace {

constexpr unsigned kHangSeconds = 60;  // of real time for one seed: something waits outside of the ports

struct Worker {
  pid_t pid = 0;
  int pipe = -1;
  std::string text;
};

void on_alarm(int) {
  constexpr std::string_view kText = "onepen_sim: a seed hangs: something waits, or holds a mutex, outside of the ports\n";
  static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
  ::_exit(3);
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// What a worker writes: "F seed text" for each violation, in the end "S" and its counts.
void work(const SweepOptions& options, std::uint64_t first, std::uint64_t* current, std::FILE* out) {
  std::signal(SIGALRM, on_alarm);
  StackPool stacks;
  Sometimes sometimes;
  std::uint64_t seeds = 0, steps = 0, records = 0;
  for (std::uint64_t seed = first; seed <= options.last; seed += options.jobs) {
    *current = seed;
    ::alarm(kHangSeconds);
    const bool twice = options.repeat_every != 0 && seed / options.jobs % options.repeat_every == 0;
    const auto violations = run_checked(Settings{seed, profile_of(options.mix, seed), false}, twice, stacks, sometimes, steps, records);
    ++seeds;
    for (const std::string& v : violations) fmt::print(out, "F {} {}\n", seed, one_line(v));
    if (!violations.empty()) std::fflush(out);
    if (!violations.empty() && options.stop_at_first) break;
  }
  fmt::print(out, "S {} {} {}", seeds, steps, records);
  for (const std::uint64_t count : sometimes.counts()) fmt::print(out, " {}", count);
  fmt::print(out, "\n");
}

void take_line(const std::string& line, const SweepOptions& options, SweepResult& result) {
  if (line.starts_with("F ")) {
    char* end = nullptr;
    const std::uint64_t seed = std::strtoull(line.c_str() + 2, &end, 10);
    result.failures.push_back(Failure{seed, profile_of(options.mix, seed), end + 1});
  } else if (line.starts_with("S ")) {
    const char* at = line.c_str() + 2;
    auto next = [&at] {
      char* end = nullptr;
      const std::uint64_t value = std::strtoull(at, &end, 10);
      at = end;
      return value;
    };
    result.seeds += next();
    result.steps += next();
    result.records += next();
    for (std::uint64_t& count : result.sometimes.counts()) count += next();
  }
}

Worker start(const SweepOptions& options, std::uint64_t first, std::uint64_t* current) {
  std::array<int, 2> ends{};
  ONEPEN_CHECK(::pipe(ends.data()) == 0, "cannot make a pipe for a worker");
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  ONEPEN_CHECK(pid >= 0, "cannot fork a worker");
  if (pid == 0) {
    ::close(ends[0]);
    std::FILE* out = ::fdopen(ends[1], "w");
    work(options, first, current, out);
    std::fclose(out);
    ::_exit(0);
  }
  ::close(ends[1]);
  return Worker{pid, ends[0], {}};
}

// Takes what the worker has to say. False: it crashed.
bool finish(Worker& worker, const SweepOptions& options, SweepResult& result) {
  std::array<char, 65536> buffer{};
  for (ssize_t n = 0; (n = ::read(worker.pipe, buffer.data(), buffer.size())) > 0;) worker.text.append(buffer.data(), static_cast<std::size_t>(n));
  ::close(worker.pipe);
  int status = 0;
  ::waitpid(worker.pid, &status, 0);
  for (std::size_t at = 0; at < worker.text.size();) {
    const std::size_t end = std::min(worker.text.find('\n', at), worker.text.size());
    take_line(worker.text.substr(at, end - at), options, result);
    at = end + 1;
  }
  return status == 0;
}

}  // namespace

Profile profile_of(Mix mix, std::uint64_t seed) {
  if (mix == Mix::directory) return Profile::directory;
  if (mix == Mix::bucket) return Profile::bucket;
  if (mix == Mix::sqlite) return Profile::sqlite;
  return seed % 2 == 0 ? Profile::directory : Profile::bucket;
}

const char* name_of(Profile profile) { return profile == Profile::directory ? "dir" : profile == Profile::bucket ? "store" : "sqlite"; }

std::optional<Profile> profile_from(std::string_view name) {
  for (const Profile profile : {Profile::directory, Profile::bucket, Profile::sqlite}) {
    if (name == name_of(profile)) return profile;
  }
  return std::nullopt;
}

std::vector<std::string> run_checked(const Settings& settings, bool twice, StackPool& stacks, Sometimes& sometimes, std::uint64_t& steps,
                                     std::uint64_t& records) {
  Verdict verdict = run_seed(settings, stacks, sometimes);
  steps += verdict.steps;
  records += verdict.records;
  if (twice) {
    Sometimes ignored;
    const Verdict again = run_seed(settings, stacks, ignored);
    if (again.trace_hash != verdict.trace_hash) verdict.violations.push_back("repeat: the same seed ran differently the second time");
  }
  return std::move(verdict.violations);
}

SweepResult sweep(const SweepOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  SweepResult result;
  const std::size_t bytes = options.jobs * sizeof(std::uint64_t);
  void* shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ONEPEN_CHECK(shared != MAP_FAILED, "cannot share memory with the workers");
  auto* current = static_cast<std::uint64_t*>(shared);
  std::vector<Worker> workers;
  for (unsigned i = 0; i < options.jobs; ++i) workers.push_back(start(options, options.first + i, current + i));
  for (std::size_t i = 0; i < workers.size(); ++i) {
    while (!finish(workers[i], options, result)) {  // it crashed: that is a result of its seed, and the next ones go on
      result.failures.push_back(Failure{current[i], profile_of(options.mix, current[i]), "crash: the worker process ended; what it said is on standard error"});
      if (options.stop_at_first || current[i] + options.jobs > options.last) break;
      workers[i] = start(options, current[i] + options.jobs, current + i);
    }
  }
  ::munmap(shared, bytes);
  std::sort(result.failures.begin(), result.failures.end(),
            [](const Failure& a, const Failure& b) { return std::tie(a.seed, a.text) < std::tie(b.seed, b.text); });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace onepen::sim
