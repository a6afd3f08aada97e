// One run with real SQLite: applications that open a database by name on simulated machines, and what each was told about its commits.
//
// A commit of the application is one row (id, who, sum), whose sum chains over the row before: a database that lost one in the middle, mixed pages of two
// histories or tore a commit does not pass its own chain. Ids are unique in a run.
#pragma once
#include <array>
#include <map>
#include <set>

#include "sim/run.h"
#include "sim/sqlite_vfs.h"

struct sqlite3;

namespace onepen::sim {

struct CommitTold {
  std::string who;           // process
  std::uint32_t machine = 0;
  std::uint32_t boots = 0;   // of the machine when COMMIT answered
  bool synced_here = false;  // synchronous=FULL: power takes it no more
  bool acknowledged = false; // COMMIT in replicated mode, or covered by a synced() that answered
  Offset covered;            // the stream reaches at least there with it
  Nanos acknowledged_at = 0;
  std::uint64_t at_step = 0;
};

// A place where one follower runs, dies and is started again, with the copy it left.
struct FollowerSeat {
  std::string name;
  Machine* machine = nullptr;
  std::string cache_root;
  int lives = 1;
  std::uint32_t starts = 0;
  Process* process = nullptr;      // its newest life
  bool died_in_batch = false;      // the life before ended between a frame of its WAL and the index that shows it
  std::set<std::uint64_t> seen{};  // rows that were shown
  Signal* at_checkpoint = nullptr;  // of a reader that begins just then
  bool arrived = false;            // in the end it showed the final database
};

// The same of the standby.
struct StandbySeat {
  Machine* machine = nullptr;
  std::string cache_root;
  int lives = 1;
  std::uint32_t starts = 0;
  Process* process = nullptr;
};

struct SqliteSettings {  // what this run may do
  bool restores = false, removes = false, adopts = false, clones = false, tends = true, offline = false, disk_faults = false, home_sync_faults = false;
};

struct SqliteRun {
  explicit SqliteRun(Run& r) : run(r), sqlite(r.world) {}
  Run& run;
  SimSqlite sqlite;
  SqliteSettings may;
  std::map<std::uint64_t, CommitTold> commits;                              // by id: COMMIT answered OK
  std::set<std::uint64_t> large_commits;                                    // … those of several parts
  std::map<std::pair<std::string, std::uint64_t>, std::string> acknowledged_by;  // (incarnation, epoch) → who was acknowledged under it (I5)
  std::vector<Offset> seen_tails;  // … and each act of an admin that succeeded saw that tail in the history it ended
  std::vector<Offset> cuts;  // a restore that succeeded kept what lies before (and no more)
  bool history_lost = false;  // raw copies were put back, or the stream was removed: commits acknowledged so far may be gone
  std::uint64_t lost_before_step = 0;
  std::uint64_t next_id = 0;
  std::vector<std::unique_ptr<FollowerSeat>> followers;
  StandbySeat standby;
  bool others_ended(const Process& process) const;  // all but this one and the followers
  FollowerSeat* follower_of(const Process& process) const {
    for (const auto& seat : followers) {
      if (seat->process == &process) return seat.get();
    }
    return nullptr;
  }
  Offset final_offset;  // the stream reaches at least there with all of them; empty: not yet
  std::set<std::uint64_t> final_ids;  // rows of the database in the end, by a cold open
  std::vector<std::string> diverged;  // handles that were told so
  std::map<std::string, core::Record> records;  // every record that anybody read, by offset

  void violated(std::string_view rule, const std::string& text) { run.history.violated(rule, text); }
};

// The bodies of processes.
void sqlite_application(SqliteRun& run, Process& process, Slot& slot);
void sqlite_healer(SqliteRun& run, Process& process, Machine& machine, bool& healed);
void sqlite_follower(SqliteRun& run, Process& process, FollowerSeat& seat);
void sqlite_standby(SqliteRun& run, Process& process, StandbySeat& seat);
void sqlite_reader(SqliteRun& run, Process& process, Machine& machine);  // follows; never sees a hole, also below a trim
void sqlite_caretaker(SqliteRun& run, Process& process, Machine& machine);  // compacts and trims with whatever token it saw last
void sqlite_operator(SqliteRun& run, Process& process, Machine& machine);  // looks at everything, trims; restores, removes, adopts
void sqlite_restore(SqliteRun& run, Process& process, Machine& machine);  // once, now, to a place of the current history
void sqlite_adopt(SqliteRun& run, Process& process, Machine& machine);  // once, now
void sqlite_remove(SqliteRun& run, Process& process, Machine& machine);  // once, now
// Whether a restore or a removal may have taken it.
bool cut_away(const SqliteRun& run, const CommitTold& told);

// Short lives of a database, without faults. All of them on one machine, with the home's directory on the same disk.
enum class Life : std::uint8_t {
  local,  // durability=local: acknowledgements, checkpoints of every kind, WAL restarts, VACUUM, snapshots, a second opening
  local_full,  // the same with synchronous=FULL: every COMMIT that returned is there
  replicated,  // the same with durability=replicated
  rivals,  // two caches by turns: one leaves unsent commits, the other commits and snapshots, the first comes back (salvage, cold rebuild)
  histories,  // restored, adopted, deleted and made anew, commits in between
};
inline constexpr std::array<std::string_view, 5> kLives = {"local", "local-full", "replicated", "rivals", "histories"};
void sqlite_life(SqliteRun& run, Process& process, Machine& machine, Life life);
// Opens what a loss of power left, reads all rows, commits one more and lets the home have it. False: `why`.
bool sqlite_reopen(SqliteRun& run, Process& process, Machine& machine, const std::string& cache_root, std::set<std::uint64_t>& ids, std::string& why);

// Reads the rows of an open database; a chain that does not fit is a violation. False: SQLite refused (busy, fenced).
bool read_rows(SqliteRun& run, sqlite3* db, const std::string& whose, std::set<std::uint64_t>& ids);
// The rows of every copy and salvage folder of a machine, read by plain SQLite.
void collect_rows(SqliteRun& run, Machine& machine, std::set<std::uint64_t>& in_copies, std::set<std::uint64_t>& in_salvage);

// sim/prefix_replay.cc: cuts the power of those lives before every sync. thorough: also in the middle of every reopening, not of some. Returns the failures.
struct PrefixOptions {
  unsigned jobs = 2;
  bool thorough = false;
  std::string life;  // of kLives; empty: all
  std::uint64_t sync = 0;  // only before this one; 0: before each
};
int replay_prefixes(const PrefixOptions& options);

Verdict run_sqlite_seed(const Settings& settings, StackPool& stacks, Sometimes& sometimes);

}  // namespace onepen::sim
