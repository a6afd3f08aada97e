// A forwarder before a bucket server on loopback, that gives each request to it a fixed time later and counts them: a bucket that is so far away. For benchmarks.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "measure.h"

namespace onepen::bench {

// Ends with the process, as its threads do; nothing of it is given back before.
class SlowWire {
 public:
  SlowWire(int server_port, std::chrono::milliseconds delay);
  int port() const { return port_; }
  struct Counts {
    std::uint64_t requests = 0, log_puts = 0;  // log_puts: creates of log objects
  };
  Counts counts() const { return {requests_.load(), log_puts_.load()}; }

 private:
  void accept_all();
  void carry(int client);
  void count(std::string_view bytes);

  const int server_port_;
  const std::chrono::milliseconds delay_;
  int listener_ = -1, port_ = 0;
  std::atomic<std::uint64_t> requests_{0}, log_puts_{0};
};

}  // namespace onepen::bench
