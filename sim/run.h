// One run: a world, a home (directory or bucket), machines, the actors in it, and the faults that strike them.
#pragma once
#include <memory>
#include <string>

#include "core/home.h"
#include "sim/disk.h"
#include "sim/history.h"
#include "sim/store.h"
#include "sim/toy.h"

namespace onepen::sim {

enum class Profile : std::uint8_t {
  directory,  // ObjectHome over FileStore over SimDisk
  bucket,     // ObjectHome over SimStore
  sqlite,     // real SQLite on simulated machines over one of the two (sim/sqlite_run.h)
};

struct Settings {
  std::uint64_t seed = 0;
  Profile profile = Profile::directory;
  bool print_trace = false;
};

struct Machine {
  Machine(World& world, std::uint32_t n) : number(n), local(world, "m" + std::to_string(n)) {}
  std::uint32_t number;
  SimFs local;
};

// A place where one application runs, dies and is started again.
struct Slot {
  std::string name;
  Machine* machine;
  Copy copy;
  int lives = 1;
  bool busy = false;  // commits without a pause
  std::uint32_t starts = 0;
};

class Run {
 public:
  Run(const Settings& settings, StackPool& stacks, Sometimes& sometimes);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const Settings settings;
  World world;
  History history;
  SimFs home_fs;
  Bucket bucket;
  bool one_machine = false;  // the directory is on the machine where everybody runs: its power takes all
  bool on_bucket = false;
  bool home_is_local = false;  // the home's directory is on the machine's own filesystem
  bool healing = false;      // the faults are over; whoever is still there finishes
  std::vector<std::unique_ptr<Machine>> machines;
  std::vector<std::unique_ptr<Slot>> slots;

  std::uint64_t next_payload() { return ++payloads_; }
  std::uint64_t next_session() { return ++sessions_; }
  void power_loss(std::uint32_t machine);

 private:
  std::uint64_t payloads_ = 0, sessions_ = 0;
};

// What one process has of the home: its disk, a store and the real ObjectHome over it.
class Client {
 public:
  Client(Run& run, Process& process, Machine& machine);
  ~Client();
  SimDisk disk;
  std::unique_ptr<core::Stream> stream();  // a fresh session, recorded
  core::Home& home() { return *home_; }     // not recorded
  home::ObjectStore& raw() { return *raw_; }  // the place itself, for a client that does not keep to the home's rules

 private:
  Run& run_;
  Process& process_;
  std::unique_ptr<core::Home> home_;
  std::unique_ptr<home::ObjectStore> raw_;
};

// How the world of every seed begins: the machines, and `least_slots` up to two more slots for applications on them, so many per mille of them busy.
void lay_out(Run& run, std::uint64_t machines, std::uint64_t least_slots, std::uint32_t busy_per_mille);

inline Instant later(Runtime& runtime, Nanos delay) { return runtime.now() + std::chrono::nanoseconds(delay); }

// The actors: bodies of processes.
void application(Run& run, Process& process, Slot& slot);      // opens, commits, gives up, closes, opens again
void fencer(Run& run, Process& process, Machine& machine, bool database = false);  // claims at odd moments, and breaks every rule that a client can break
void reader(Run& run, Process& process, Machine& machine);     // follows; writes nothing
void healer(Run& run, Process& process, Slot& slot, bool& healed);

inline constexpr std::string_view kHomeRoot = "/home";
inline constexpr std::string_view kStream = "db";

// Runs one seed from beginning to end. What was violated is in the result; empty: nothing.
struct Verdict {
  std::vector<std::string> violations;
  std::uint64_t trace_hash = 0, steps = 0;
  std::uint64_t records = 0;
};
Verdict run_seed(const Settings& settings, StackPool& stacks, Sometimes& sometimes);

}  // namespace onepen::sim
