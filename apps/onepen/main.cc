// `onepen`: parses the command line and starts one subcommand. Wiring only.
#include <limits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>

#include "apps/onepen/commands.h"
#include "apps/onepen/demo.h"
#include "apps/onepen/output.h"

namespace onepen::app {
namespace {

constexpr const char* kAbout =
    "Onepen: every database has exactly one writer, and the data itself enforces it.\n"
    "A database is opened by name at a home (a directory); the last process to open it is its writer.";

constexpr const char* kAfterHelp =
    "Start here:\n"
    "  onepen demo                                   four real processes, a takeover, nothing lost\n"
    "  export ONEPEN_HOME_URL=file:///srv/pen        the default of --home\n"
    "  onepen import app.db app                      an existing SQLite file becomes the database 'app'\n"
    "  onepen sql app \"SELECT count(*) FROM t\"       reads; never disturbs the writer\n"
    "  onepen history app                            who held the pen, and when\n\n"
    "Exit codes: 0 ok, 2 usage, 3 fenced or refused, 4 unknown (may or may not have been applied), 5 unavailable,\n"
    "6 not found, 7 damaged, 70 a bug of Onepen.";

std::string default_cache_root() {
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/onepen";
}

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
    common_.cache_root = default_cache_root();
    add_reading();
    add_moving();
    add_demo();
    auto* version = add("version", "Which build this is", [this] { return run_version(common_); }, "onepen version --json");
    version->add_flag("--json", common_.json, "Answer as JSON");
  }

  int run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // help is no error
      note("onepen: " + std::string(error.what()) + ". See onepen --help, or --help after a command.");
      return kUsage;
    }
    if (!common_.cache_root.empty()) common_.cache_root = std::filesystem::absolute(common_.cache_root).string();
    return action_();
  }

 private:
  CLI::App* add(const std::string& name, const std::string& about, std::function<int()> action, const std::string& examples) {
    CLI::App* sub = app_.add_subcommand(name, about);
    sub->footer("Examples:\n  " + examples);
    sub->callback([this, action = std::move(action)] { action_ = action; });
    return sub;
  }

  CLI::App* add_common(CLI::App* sub) {
    sub->add_option("--home", common_.home, "Where the databases live: file:///dir (default: ONEPEN_HOME_URL)")->envname("ONEPEN_HOME_URL")->type_name("URL");
    sub->add_option("--cache-root", common_.cache_root, "Folder of the local copies (default: ONEPEN_CACHE, or ~/.cache/onepen)")
        ->envname("ONEPEN_CACHE")
        ->type_name("DIR");
    sub->add_flag("--json", common_.json, "Answer as one JSON document");
    return sub;
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

    auto* status = add_common(add(
        "status", "Who owns a database, since when, and how far its log is", [this] { return run_status(common_, status_); },
        "onepen status app\n  onepen status              every database of the home\n  onepen status app --json"));
    status->add_option("name", status_.name, "The database; without it, all of them")->type_name("NAME");

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
    out->add_option("file", export_.file, "The new file; refused when it exists")->required()->type_name("FILE");
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
  SqlOptions sql_{};
  StatusOptions status_{};
  HistoryOptions history_{};
  VerifyOptions verify_{};
  ImportOptions import_{};
  ExportOptions export_{};
  ListOptions list_{};
  DemoOptions demo_{};
  DemoWorkerOptions worker_{};
  std::function<int()> action_{};
};

}  // namespace
}  // namespace onepen::app

int main(int argc, char** argv) {
  try {
    return onepen::app::CommandLine().run(argc, argv);
  } catch (const std::exception& error) {  // ours never throw; a library's that came this far is a fault of ours
    std::cerr << "onepen: a bug: " << error.what() << "\n";
    return onepen::app::kBug;
  }
}
