// `onepen demo`: the whole idea on real data, with real processes, in well under a minute. Each step says what it did and what it verified; the first
// thing that does not verify ends the demo with exit code 70.
#pragma once
#include <string>

namespace onepen::app {

struct DemoOptions {
  std::string folder;        // where home and caches are made; empty: a new one under the temporary folder
  std::string data_file;     // UnicodeData.txt; empty: Debian's unicode-data
  std::string program;       // path of this binary, started again for each process
  std::string extension;     // path of onepen.so for "try next"; empty: not named
};
int run_demo(const DemoOptions& options);

// One of the demo's processes: obeys commands on standard input (see demo_worker.cc).
struct DemoWorkerOptions {
  std::string home, cache_root, name, who;
};
int run_demo_worker(const DemoWorkerOptions& options);

// Checksum of the data set, computed from the file by the demo and from the database by a worker: the sum of XXH3 over its lines.
unsigned long long demo_line_sum(const std::string& line);

}  // namespace onepen::app
