#include "measure.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace onepen::bench {
namespace {

double quantile_of(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::llround(at))];
}
double rounded(double value) { return std::round(value * 100) / 100; }

std::string field_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const auto from = line.find_first_not_of(" \t", line.find(':') + 1);
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

// The mount with the longest point above the working folder.
std::string filesystem_here() {
  const std::string here = std::filesystem::current_path();
  std::ifstream file("/proc/self/mounts");
  std::string device, point, type, options, rest, best, found;
  while (file >> device >> point >> type >> options && std::getline(file, rest)) {
    const bool above = point == "/" || here == point || here.starts_with(point + "/");
    if (above && point.size() >= best.size()) best = point, found = type + " (" + options + ")";
  }
  return found;
}

}  // namespace

Arguments::Arguments(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--") || i + 1 == argc) give_up("usage: " + std::string(argv[0]) + " [--name value]...; '" + name + "' is not such a pair");
    given_[name.substr(2)] = argv[i + 1];
  }
}
std::string Arguments::text(const std::string& name, const std::string& otherwise) {
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  std::string value = std::move(found->second);
  given_.erase(found);
  return value;
}
std::int64_t Arguments::number(const std::string& name, std::int64_t otherwise) {
  const std::string value = text(name, std::to_string(otherwise));
  char* end = nullptr;
  const auto number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0') give_up("--" + name + " takes a number, not '" + value + "'");
  return number;
}
void Arguments::finish() const {
  for (const auto& [name, value] : given_) give_up("there is no option --" + name);
}

void give_up(const std::string& why) {
  std::fprintf(stderr, "benchmark: %s\n", why.c_str());
  std::exit(1);
}

std::size_t Samples::count() const {
  std::size_t n = 0;
  for (const auto& round : rounds_) n += round.size();
  return n;
}
double Samples::quantile(double q) const {
  std::vector<double> all;
  for (const auto& round : rounds_) all.insert(all.end(), round.begin(), round.end());
  return quantile_of(std::move(all), q);
}
double Samples::median_of_round(std::size_t r) const { return quantile_of(rounds_[r], 0.5); }
double Samples::per_second() const {
  double total = 0;
  for (const auto& round : rounds_)
    for (const double value : round) total += value;
  return total == 0 ? 0 : static_cast<double>(count()) * 1e6 / total;
}
Json Samples::json() const {
  return {{"count", count()}, {"p50_us", rounded(quantile(0.5))}, {"p99_us", rounded(quantile(0.99))}, {"per_second", std::round(per_second())}};
}

Json ratio(const Samples& a, const Samples& b) {
  std::vector<double> by_round;
  for (std::size_t r = 0; r < std::min(a.rounds(), b.rounds()); ++r) {
    const double below = b.median_of_round(r);
    if (below > 0) by_round.push_back(a.median_of_round(r) / below);
  }
  const double below = b.quantile(0.5);
  return {{"p50", below > 0 ? rounded(a.quantile(0.5) / below) : 0},
          {"rounds_p25", rounded(quantile_of(by_round, 0.25))},
          {"rounds_p50", rounded(quantile_of(by_round, 0.5))},
          {"rounds_p75", rounded(quantile_of(by_round, 0.75))}};
}

Usage usage_of_process() {
  rusage now{};
  ::getrusage(RUSAGE_SELF, &now);
  const auto us = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return {us(now.ru_utime), us(now.ru_stime), now.ru_nvcsw, now.ru_nivcsw};
}
Usage operator-(const Usage& a, const Usage& b) { return {a.user_us - b.user_us, a.system_us - b.system_us, a.waits - b.waits, a.preempted - b.preempted}; }

std::string load_average() {
  double load[3] = {0, 0, 0};
  if (::getloadavg(load, 3) != 3) return "not known";
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %.2f %.2f", load[0], load[1], load[2]);
  return text;
}

Json machine() {
  utsname kernel{};
  ::uname(&kernel);
  return {{"processor", field_of("/proc/cpuinfo", "model name")},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory", field_of("/proc/meminfo", "MemTotal")},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release},
          {"filesystem", filesystem_here()}};
}

Scratch::Scratch(const std::string& parent) {
  std::string name = parent + "/onepen-bench-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) give_up("cannot make a folder in " + parent);
  path_ = name;
}
Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// What vanishes while it is counted (a trim goes on) is left out: an exception of recursive_directory_iterator ended a run of an hour.
FolderSize size_of(const std::string& folder) {
  FolderSize size;
  std::error_code error;
  std::vector<std::filesystem::path> below;
  for (auto at = std::filesystem::directory_iterator(folder, error); !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code gone;
    if (at->is_directory(gone)) below.push_back(at->path());
    else if (const auto bytes = at->file_size(gone); !gone) {
      ++size.files;
      size.bytes += bytes;
    }
  }
  for (const auto& path : below) {
    const FolderSize inner = size_of(path.string());
    size.files += inner.files;
    size.bytes += inner.bytes;
  }
  return size;
}

std::string noise(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : text) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    c = static_cast<char>(x >> 32);
  }
  return text;
}

}  // namespace onepen::bench
