// `onepen`: parses the command line and starts one subcommand. Wiring only.
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <vector>

#include "apps/onepen/commands.h"
#include "apps/onepen/demo.h"
#include "apps/onepen/output.h"
#include "sqlite/open_database_settings.h"

namespace onepen::app {
namespace {

constexpr const char* kAbout =
    "Onepen: every database has exactly one writer, and the data itself enforces it.\n"
    "A database is opened by name at a home (a directory or a bucket); the last process to open it is its writer.";

constexpr const char* kAfterHelp =
    "Start here:\n"
    "  onepen demo                                   four real processes, a takeover, nothing lost\n"
    "  export ONEPEN_HOME_URL=file:///srv/pen        the default of --home; or s3://bucket/prefix\n"
    "  onepen import app.db app                      an existing SQLite file becomes the database 'app'\n"
    "  onepen sql app \"SELECT count(*) FROM t\"       reads; never disturbs the writer\n"
    "  onepen history app                            who held the pen, and when\n\n"
    "Exit codes: 0 ok, 2 usage, 3 fenced or refused, 4 unknown (may or may not have been applied), 5 unavailable,\n"
    "6 not found, 7 damaged, 70 a bug of Onepen.";

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : "onepen";
}

std::string extension_beside(const std::string& program) {  // build/bin/onepen.so, or <prefix>/lib/onepen/onepen.so for <prefix>/bin/onepen
  const std::string folder = program.substr(0, program.rfind('/'));
  for (const std::string& path : {folder + "/onepen.so", folder + "/../lib/onepen/onepen.so"}) {
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return "onepen.so";
}

class CommandLine {
 public:
  CommandLine() : app_(kAbout, "onepen") {
    app_.footer(kAfterHelp);
    app_.require_subcommand(1);
    app_.set_help_flag("-h,--help", "This text");
    add_reading();
    add_moving();
    add_keeping();
    add_mending();
    add_demo();
    auto* version = add("version", "Which build this is", [this] { return run_version(common_); }, "onepen version --json");
    version->add_flag("--json", common_.json, "Answer as JSON");
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // help is no error
      common_.json = std::find(argv + 1, argv + argc, std::string_view("--json")) != argv + argc;  // what was parsed before the error may not have come to it
      return report(common_, kUsage, word(Outcome::invalid), what_is_wrong(error) + ". See onepen --help, or --help after a command.");
    }
    // What is given on the command line wins, whatever it is and whichever command it was given to; the environment is asked only then. (CLI11's envname()
    // fills a variable that several commands share once more for each command that was not given.)
    if (!given(home_options_)) {
      const char* url = std::getenv("ONEPEN_HOME_URL");
      common_.home = url == nullptr ? "" : url;
    }
    // A path on the command line is one of the working folder. ONEPEN_CACHE is read by programs in many working folders: it stays as it is, and a relative
    // one is refused (copy_place), as the extension does.
    common_.cache_root = given(cache_options_) ? std::filesystem::absolute(common_.cache_root).string() : sqlite::default_cache_root();
    return action_();
  }

 private:
  static bool given(const std::vector<CLI::Option*>& options) {
    return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
  }

  // CLI11 says only that a command is missing where it met a word that is none.
  std::string what_is_wrong(const CLI::ParseError& error) const {
    const auto left = app_.remaining(true);
    if (left.empty() || dynamic_cast<const CLI::RequiredError*>(&error) == nullptr) return error.what();
    const std::string& word = left.front();
    return (word.starts_with('-') ? "There is no option '" : "There is no command '") + word + "'";
  }

  // An empty argument is a variable that was not set in a script, and never means "all" or "here".
  static CLI::Validator not_empty(const std::string& what) {
    return CLI::Validator([what](const std::string& text) { return text.empty() ? what + " is empty" : std::string(); }, "");
  }

  CLI::App* add(const std::string& name, const std::string& about, std::function<int()> action, const std::string& examples) {
    CLI::App* sub = app_.add_subcommand(name, about);
    sub->footer("Examples:\n  " + examples);
    sub->callback([this, action = std::move(action)] { action_ = action; });
    return sub;
  }

  CLI::App* add_places(CLI::App* sub) {  // of what needs no home
    cache_options_.push_back(sub->add_option("--cache-root", common_.cache_root, "Folder of the local copies (default: ONEPEN_CACHE, or ~/.cache/onepen)")
                                 ->check(not_empty("The path"))
                                 ->type_name("DIR"));
    sub->add_flag("--json", common_.json, "Answer as one JSON document");
    return sub;
  }

  CLI::App* add_common(CLI::App* sub) {
    home_options_.push_back(
        sub->add_option("--home", common_.home, "Where the databases live: file:///dir, s3://bucket/prefix, az://container/prefix (default: ONEPEN_HOME_URL)")
            ->check(not_empty("The URL"))
            ->type_name("URL"));
    return add_places(sub);
  }

  void add_reading() {
    auto* sql = add_common(add(
        "sql", "Run SQL on a database; reads unless --write is given", [this] { return run_sql(common_, sql_); },
        "onepen sql app \"SELECT count(*) FROM t\"\n  onepen sql app --json \"SELECT * FROM t\"\n  onepen sql app < report.sql\n"
        "  onepen sql app --write \"INSERT INTO t VALUES (1)\"   takes the pen: the live owner is named first, and fenced"));
    sql->add_option("name", sql_.name, "The database")->required()->type_name("NAME");
    sql->add_option("sql", sql_.statements, "Statements; without any they are read from standard input")->type_name("SQL");
    sql->add_flag("--write", sql_.write, "Become the writer. Whoever is the writer now is refused from its next write on");
    sql->add_option("--takeover", sql_.takeover, "With --write, when somebody owns it: always, if-dead or never")
        ->check(CLI::IsMember({"always", "if-dead", "never"}))
        ->type_name("WHEN");
    sql->add_option("--owner", sql_.owner, "With --write: a name for people, shown by history")->type_name("TEXT");
    sql->add_option(
           "--commit-timeout", sql_.commit_timeout,
           "With --write: how long a COMMIT waits for the home; then it is taken back, or, when the home was silent, may or may not be there (default: 30s)")
        ->type_name("TIME");

    auto* status = add_common(add(
        "status", "Who owns a database, since when, and how far its log is", [this] { return run_status(common_, status_); },
        "onepen status app\n  onepen status              every database of the home\n  onepen status app --json"));
    status->add_option("name", status_.name, "The database; without it, all of them")->check(not_empty("The name"))->type_name("NAME");

    auto* history = add_common(add(
        "history", "Who held the pen, when, and what each one's last write was", [this] { return run_history(common_, history_); },
        "onepen history app\n  onepen history app --json | jq '.owners[-1]'"));
    history->add_option("name", history_.name, "The database")->required()->type_name("NAME");

    auto* verify = add_common(add(
        "verify", "Check the local copy against the log, end to end", [this] { return run_verify(common_, verify_); },
        "onepen verify app           every log object, every commit's checksums, every page of the copy"));
    verify->add_option("name", verify_.name, "The database")->required()->type_name("NAME");

    auto* list = add_common(add(
        "list", "Databases of a home", [this] { return run_list(common_, list_); }, "onepen list\n  onepen list team/           those whose name begins so"));
    list->add_option("prefix", list_.prefix, "Only names that begin with it")->type_name("PREFIX");

    auto* probe = add_common(add(
        "probe", "Ask a place to prove that it keeps two writers apart", [this] { return run_probe(common_, probe_); },
        "onepen probe s3://bucket/prefix\n  onepen probe --json                 the home of the environment\n"
        "  onepen probe \"s3://bucket/prefix?endpoint=https://s3.example.net:9000\"   another store that speaks S3"));
    probe->add_option("url", probe_.url, "The place; without it, the home")->check(not_empty("The URL"))->type_name("URL");
  }

  void add_moving() {
    auto* import = add_common(add(
        "import", "Make a database of a home from a SQLite file", [this] { return run_import(common_, import_); },
        "onepen import app.db app --home file:///srv/pen"));
    import->add_option("file", import_.file, "An existing SQLite database; it is only read")->required()->type_name("FILE");
    import->add_option("name", import_.name, "The new database; refused when it exists")->required()->type_name("NAME");
    import->add_option("--owner", import_.owner, "A name for people, shown by history")->type_name("TEXT");

    auto* out = add_common(add(
        "export", "Write a database to a plain SQLite file", [this] { return run_export(common_, export_); },
        "onepen export app app.db    what the log holds now; the writer goes on"));
    out->add_option("name", export_.name, "The database")->required()->type_name("NAME");
    out->add_option("file", export_.file, "The new file; refused when it exists")->required()->check(not_empty("The name of the file"))->type_name("FILE");

    auto* replicate = add_common(add(
        "replicate", "Keep a SQLite file up to date with a database, for any program to read", [this] { return run_replicate(common_, replicate_); },
        "onepen replicate app --to app.db           until it is stopped (Ctrl-C); started again, it goes on from where it was\n"
        "  onepen replicate app --to app.db --once    what is there now\n"
        "  sqlite3 -readonly app.db                   meanwhile: readers never wait, and see whole transactions only\n"
        "  onepen replicate app --takeover && exec service   a standby: ends when the owner is gone, and the service opens a warm copy"));
    replicate->add_option("name", replicate_.name, "The database")->required()->type_name("NAME");
    replicate->add_option("--to", replicate_.file, "The file: a new one, or a replica of this database; FILE-onepen beside it holds what is known of it")
        ->check(not_empty("The name of the file"))
        ->type_name("FILE");
    auto* once = replicate->add_flag("--once", replicate_.once, "Bring it up to date and end");
    auto* takeover = replicate->add_flag(
        "--takeover", replicate_.takeover,
        "Stand by: when the owner ends, hands over or is silent for the term, claim, let go and end; without --to the local copy is kept warm");
    takeover->excludes(once);
    replicate
        ->add_option("--term", replicate_.term, "With --takeover: an owner that is silent so long is gone (an owner that told a longer term= is given that)")
        ->capture_default_str()
        ->type_name("TIME");
    replicate->add_option("--owner", replicate_.owner, "With --takeover: a name for people, shown by history")->type_name("TEXT");

    auto* handover = add_common(add(
        "handover", "Ask the owner to hand a database over to a standby", [this] { return run_handover(common_, handover_); },
        "onepen handover app    the owner sends what is pending and lets go, the standby claims; refused commits are made once more, there"));
    handover->add_option("name", handover_.name, "The database")->required()->type_name("NAME");
    handover
        ->add_option("--within", handover_.within,
                     "Give up when it has not happened so soon; then nothing has changed (default: 10s, in a bucket half the owner's term more)")
        ->type_name("TIME");
  }

  void add_mending() {
    auto* restore = add_common(add(
        "restore", "Go back to what a database was at an offset or a time", [this] { return run_restore(common_, restore_); },
        "onepen restore app --at -2h                     says what would be lost, and changes nothing\n"
        "  onepen restore app --at -2h --yes               does it\n"
        "  onepen restore app --at \"2026-11-29 17:05\"      local time; with Z or +01:00 behind it another one\n"
        "  onepen restore app --at 000001.0000000000000007.00001.3c1f20aa   an offset, as history shows it"));
    restore->add_option("name", restore_.name, "The database")->required()->type_name("NAME");
    restore->add_option("--at", restore_.at, "The point to go back to: an offset, a time, or how long ago (-2h, -90s, -1d12h)")->required()->type_name("POINT");
    restore->add_flag("--yes", restore_.yes, "Do it although commits are lost; without it they are told, and nothing is changed");

    auto* adopt = add_common(add(
        "adopt", "Accept a log as it is, after a raw copy of a home was put back", [this] { return run_adopt(common_, adopt_); },
        "onepen adopt app             shows the evidence against the log, and what it holds\n  onepen adopt app --yes       accepts it: a new incarnation"));
    adopt->add_option("name", adopt_.name, "The database")->required()->type_name("NAME");
    adopt->add_flag("--yes", adopt_.yes, "Do it; without it the evidence is shown, and nothing is changed");

    auto* remove = add_common(add(
        "delete", "Delete a database", [this] { return run_delete(common_, delete_); },
        "onepen delete app            says what it would mean, and changes nothing\n  onepen delete app --yes"));
    remove->add_option("name", delete_.name, "The database")->required()->type_name("NAME");
    remove->add_flag("--yes", delete_.yes, "Do it; without it nothing is changed");
  }

  void add_keeping() {
    auto* snapshot = add_common(add(
        "snapshot", "Make a snapshot now", [this] { return run_snapshot(common_, snapshot_); },
        "onepen snapshot app            when nobody owns it; an owner makes snapshots by itself as its log grows\n"
        "  onepen snapshot app --write    takes the pen: the live owner is named first, and fenced"));
    snapshot->add_option("name", snapshot_.name, "The database")->required()->type_name("NAME");
    snapshot->add_flag("--write", snapshot_.write, "Also when somebody owns it. Whoever is the writer now is refused from its next write on");
    snapshot->add_option("--owner", snapshot_.owner, "A name for people, shown by history")->type_name("TEXT");

    auto* salvage = app_.add_subcommand("salvage", "Copies that were moved aside on this machine, and what they hold that the log does not");
    salvage->footer(
        "Examples:\n  onepen salvage list app\n  onepen salvage list --json\n"
        "  onepen salvage show app/20261129T170511Z-fenced     why, and which commits were never sent\n"
        "  onepen salvage export app/20261129T170511Z-fenced lost.db\n"
        "  onepen salvage remove app/20261129T170511Z-fenced   says what would be lost, and changes nothing");
    salvage->require_subcommand(1);
    auto* list = salvage->add_subcommand("list", "What was moved aside, oldest first")->callback([this] {
      action_ = [this] { return run_salvage_list(common_, salvage_); };
    });
    list->add_option("name", salvage_.name, "Only of this database")->check(not_empty("The name"))->type_name("NAME");
    list->footer("Examples:\n  onepen salvage list\n  onepen salvage list app --json");
    auto* show = salvage->add_subcommand("show", "Why, and which commits were never sent")->callback([this] {
      action_ = [this] { return run_salvage_show(common_, salvage_); };
    });
    show->add_option("entry", salvage_.entry, "An entry, or a database: all entries of it")->required()->type_name("ENTRY|NAME");
    show->footer("Examples:\n  onepen salvage show app\n  onepen salvage show app/20261129T170511Z-fenced");
    auto* out = salvage->add_subcommand("export", "Its database as a plain SQLite file, with what was never sent")->callback([this] {
      action_ = [this] { return run_salvage_export(common_, salvage_); };
    });
    out->add_option("entry", salvage_.entry, "An entry")->required()->type_name("ENTRY");
    out->add_option("file", salvage_.file, "The new file; refused when it exists")->required()->check(not_empty("The name of the file"))->type_name("FILE");
    out->footer("Examples:\n  onepen salvage export app/20261129T170511Z-fenced lost.db");
    auto* remove = salvage->add_subcommand("remove", "Delete one, with what was never sent")->callback([this] {
      action_ = [this] { return run_salvage_remove(common_, salvage_); };
    });
    remove->add_option("entry", salvage_.entry, "An entry")->required()->type_name("ENTRY");
    remove->add_flag("--yes", salvage_.yes, "Do it; without it nothing is changed");
    remove->footer(
        "Examples:\n  onepen salvage remove app/20261129T170511Z-fenced            says what it would mean, and changes nothing\n"
        "  onepen salvage remove app/20261129T170511Z-fenced --yes");
    for (auto* each : {list, show, out, remove}) add_places(each);
  }

  void add_demo() {
    auto* demo = add(
        "demo", "Show the whole idea on real data with real processes, in under a minute",
        [this] {
          demo_.program = own_path();
          demo_.extension = extension_beside(demo_.program);
          return run_demo(demo_);
        },
        "onepen demo\n  onepen demo --folder /tmp/pen-demo");
    demo->add_option("--folder", demo_.folder, "Where the home and the caches are made (default: a new temporary folder)")->type_name("DIR");
    demo->add_option("--data", demo_.data_file, "UnicodeData.txt (default: Debian's unicode-data)")->type_name("FILE");
    // One of the demo's processes; talked to by lines, not by people.
    auto* worker = add("demo-worker", "", [this] { return run_demo_worker(worker_); }, "")->group("");
    worker->add_option("--home", worker_.home)->required();
    worker->add_option("--cache-root", worker_.cache_root)->required();
    worker->add_option("--name", worker_.name)->required();
    worker->add_option("--who", worker_.who)->required();
  }

  CLI::App app_;
  Common common_{};
  std::vector<CLI::Option*> home_options_{}, cache_options_{};  // of every command that takes one
  SqlOptions sql_{};
  StatusOptions status_{};
  HistoryOptions history_{};
  VerifyOptions verify_{};
  ImportOptions import_{};
  ExportOptions export_{};
  ReplicateOptions replicate_{};
  HandoverOptions handover_{};
  ListOptions list_{};
  ProbeOptions probe_{};
  SnapshotOptions snapshot_{};
  SalvageOptions salvage_{};
  RestoreOptions restore_{};
  AdoptOptions adopt_{};
  DeleteOptions delete_{};
  DemoOptions demo_{};
  DemoWorkerOptions worker_{};
  std::function<int()> action_{};
};

// A process that was started without standard streams (`>&-`) would get their numbers for the first files it opens, and print into a database. The wrong
// direction each, so that using one fails as it would have.
void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));  // gets the lowest free number: fd
  }
}

}  // namespace
}  // namespace onepen::app

int main(int argc, char** argv) {
  onepen::app::hold_standard_streams();
  try {
    return onepen::app::finish_output(onepen::app::CommandLine().run(argc, argv));
  } catch (const std::exception& error) {  // ours never throw; a library's that came this far is a fault of ours
    std::cerr << "onepen: a bug: " << error.what() << "\n";
    return onepen::app::kBug;
  }
}
