// What an onepen::Home shares with everything opened through it: the process's runtime and disk, and the home.
#pragma once
#include <memory>

#include "base/runtime.h"
#include "core/home.h"
#include "io/disk.h"

namespace onepen {

// Thread-safe: so are its parts. Members are destroyed from the last to the first: the home before what it runs on.
class HomePort {
 public:
  HomePort(std::unique_ptr<Runtime> runtime, std::unique_ptr<io::Disk> disk, std::unique_ptr<core::Home> home)
      : runtime_(std::move(runtime)), disk_(std::move(disk)), home_(std::move(home)) {}
  Runtime& runtime() { return *runtime_; }
  io::Disk& disk() { return *disk_; }
  core::Home& home() { return *home_; }

 private:
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<io::Disk> disk_;
  std::unique_ptr<core::Home> home_;
};

}  // namespace onepen
