// The subcommands of `onepen`. main.cc parses (CLI11 stays there) and wires; each run_x does one thing and returns the exit code of the process.
//
// People first: tables and sentences on standard output, errors and progress on standard error; with --json one JSON document on standard output, and
// an error as {"error": ...} there. Inspection (list, status, history, verify, export, sql without --write) writes nothing to the home.
#pragma once
#include <onepen/result.h>

#include <cstdint>
#include <string>
#include <vector>

namespace onepen::app {

// Scripts rely on these; the table stands in `onepen --help` and docs/onepen.1.
enum ExitCode : int {
  kOk = 0,
  kUsage = 2,        // the command line, a name, a URL or the SQL is wrong
  kRefused = 3,      // fenced, or refused by the home
  kUnknown = 4,      // may or may not have been applied
  kUnavailable = 5,  // the home or the local disk did not serve
  kNotFound = 6,
  kDamaged = 7,  // what is stored is not what was written
  kBug = 70,
};

struct Common {
  std::string home;        // URL; empty: none given
  std::string cache_root;  // folder of the local copies
  bool json = false;
};

struct SqlOptions {
  std::string name;
  std::vector<std::string> statements;  // empty: read from standard input
  bool write = false;
  std::string takeover = "always";  // always | if-dead | never; with write
  std::string owner;                // a name for people; with write
  std::string commit_timeout;       // "30s": how long a COMMIT waits for the home; with write. Empty: the default
};
struct StatusOptions {
  std::string name;  // empty: every database of the home
};
struct HistoryOptions {
  std::string name;
};
struct VerifyOptions {
  std::string name;
};
struct ImportOptions {
  std::string file, name, owner;
};
struct ExportOptions {
  std::string name, file;
};
struct ReplicateOptions {
  std::string name, file;  // no file, with takeover: the local copy of this machine
  bool once = false;       // up to what is there now, and no further
  bool takeover = false;   // a standby: claims when the owner is gone, and ends
  std::string term = "30s", owner;  // with takeover
};
struct HandoverOptions {
  std::string name, within{};  // within: empty: as long as it takes at such a home
};
struct ProbeOptions {
  std::string url;  // empty: the home
};
struct ListOptions {
  std::string prefix;
};

struct SnapshotOptions {
  std::string name, owner;
  bool write = false;  // also when somebody owns it
};
struct RestoreOptions {
  std::string name, at;
  bool yes = false;
};
struct AdoptOptions {
  std::string name;
  bool yes = false;
};
struct DeleteOptions {
  std::string name;
  bool yes = false;
};
struct SalvageOptions {
  std::string name;   // list: only of this database; show: a database or an entry
  std::string entry, file;
  bool yes = false;  // remove
};

int run_sql(const Common&, const SqlOptions&);
int run_status(const Common&, const StatusOptions&);
int run_history(const Common&, const HistoryOptions&);
int run_verify(const Common&, const VerifyOptions&);
int run_import(const Common&, const ImportOptions&);
int run_export(const Common&, const ExportOptions&);
int run_replicate(const Common&, const ReplicateOptions&);
int run_handover(const Common&, const HandoverOptions&);
int run_list(const Common&, const ListOptions&);
int run_probe(const Common&, const ProbeOptions&);
int run_snapshot(const Common&, const SnapshotOptions&);
int run_restore(const Common&, const RestoreOptions&);
int run_adopt(const Common&, const AdoptOptions&);
int run_delete(const Common&, const DeleteOptions&);
int run_salvage_list(const Common&, const SalvageOptions&);
int run_salvage_show(const Common&, const SalvageOptions&);
int run_salvage_export(const Common&, const SalvageOptions&);
int run_salvage_remove(const Common&, const SalvageOptions&);
int run_version(const Common&);

}  // namespace onepen::app
