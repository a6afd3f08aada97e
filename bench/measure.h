// What the benchmarks share: options, samples and their quantiles, what the machine says of itself, a scratch folder, JSON on standard output.
// A benchmark prints one JSON object; bench/run makes tables of it. Nothing here is product code.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace onepen::bench {

using Json = nlohmann::ordered_json;

// "--name value" pairs. A name that is not asked for is a mistake of the caller: finish() says so and ends the program.
class Arguments {
 public:
  Arguments(int argc, char** argv);
  std::int64_t number(const std::string& name, std::int64_t otherwise);
  std::string text(const std::string& name, const std::string& otherwise);
  void finish() const;

 private:
  std::map<std::string, std::string> given_;
};

using Clock = std::chrono::steady_clock;
inline double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

// Ends the program with a sentence: a benchmark whose work failed has nothing to report.
[[noreturn]] void give_up(const std::string& why);

// Times of single operations, in microseconds, in rounds; the peers of one round ran right after each other.
class Samples {
 public:
  void add(double value) { rounds_.back().push_back(value); }
  void begin_round() { rounds_.emplace_back(); }
  double quantile(double q) const;              // over all rounds
  double median_of_round(std::size_t r) const;
  std::size_t rounds() const { return rounds_.size(); }
  std::size_t count() const;
  double per_second() const;                    // of one thread doing nothing else
  Json json() const;                            // count, p50_us, p99_us, per_second

 private:
  std::vector<std::vector<double>> rounds_;
};

// p50(a) / p50(b), and the quartiles of the same ratio taken round by round, which shows how much the machine's other work moved it.
Json ratio(const Samples& a, const Samples& b);

// Processor time and switches of this process since the last call, for telling waiting from working.
struct Usage {
  double user_us = 0, system_us = 0;
  std::int64_t waits = 0, preempted = 0;
};
Usage usage_of_process();
Usage operator-(const Usage& a, const Usage& b);

std::string load_average();  // of 1, 5 and 15 minutes
Json machine();              // processor, cores, memory, kernel, filesystem of `.`, load

// A folder under `parent`, removed with what is in it at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct FolderSize {
  std::uint64_t files = 0, bytes = 0;
};
FolderSize size_of(const std::string& folder);

// Bytes that do not compress; the same every time.
std::string noise(std::size_t bytes, std::uint64_t seed);

}  // namespace onepen::bench
