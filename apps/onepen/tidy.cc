#include "apps/onepen/tidy.h"

#include <pthread.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace onepen::app {
namespace {

constexpr int kTries = 3;  // other threads still work, and may make a file again

}  // namespace

RemovedWhenStopped::RemovedWhenStopped(std::vector<std::string> paths) : paths_(std::move(paths)) {
  sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&held_, number);
  }
  // SIGURG, which does nothing by itself, tells the watcher that it is over; held back before the watcher is there, so that it is never lost.
  sigset_t blocked = held_;
  sigaddset(&blocked, SIGURG);
  if (::pthread_sigmask(SIG_BLOCK, &blocked, &before_) != 0) return;  // then they end the process, and the files stay
  watcher_ = std::thread([this] { watch(); });
}

RemovedWhenStopped::~RemovedWhenStopped() {
  if (!watcher_.joinable()) return;
  over_ = true;
  ::pthread_kill(watcher_.native_handle(), SIGURG);
  watcher_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void RemovedWhenStopped::watch() {
  sigset_t awaited = held_;
  sigaddset(&awaited, SIGURG);
  int number = 0;
  while (number == 0 || number == SIGURG) {
    if (::sigwait(&awaited, &number) != 0 || over_) return;
  }
  for (int tries = 0; tries < kTries; ++tries) {
    for (const std::string& path : paths_) {
      std::error_code ignored;  // what stays harms nobody
      std::filesystem::remove_all(path, ignored);
    }
  }
  ::pthread_sigmask(SIG_UNBLOCK, &held_, nullptr);
  ::raise(number);
}

}  // namespace onepen::app
