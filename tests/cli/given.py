"""What is given on the command line wins over the environment, for every command; and what is given wrongly is named."""

import re

from cases import check, run
from harness import tree, url

OK, USAGE, REFUSED, NOT_FOUND, UNAVAILABLE = 0, 2, 3, 6, 5


class Given:
    def __init__(self, root):
        self.root = root

    def commands_with(self, option):
        """Every subcommand whose --help tells the option."""
        below = lambda text: re.findall(r"^  ([a-z-]+) ", text.split("Subcommands:")[1].split("\n\n")[0], re.M) if "Subcommands:" in text else []
        names = below(self.root.onepen("--help")[1])
        names += [f"{name} {inner}" for name in names for inner in below(self.root.onepen(name, "--help")[1])]
        return {name for name in names if f"\n  {option} " in self.root.onepen(*name.split(), "--help")[1]}

    def case_home_wins_over_the_environment(self):
        mine, other = self.root.home_folder("mine"), self.root.home_folder("other")
        user = self.root.path / "user"
        env = {"ONEPEN_HOME_URL": url(other), "ONEPEN_CACHE": self.root.cache()}
        places = ("--home", url(mine), "--cache-root", self.root.cache())
        code, _, err = self.root.onepen("sql", "app", "--write", "CREATE TABLE t(x); INSERT INTO t VALUES (1)", *places)
        check(code == OK, "made in mine", err)
        code, _, err = self.root.onepen("export", "app", user / "source.db", *places)
        check(code == OK, "a file to import", err)
        # In the other home there is nothing: what went there would end otherwise.
        table = {
            "sql": (("sql", "app", "SELECT x FROM t"), OK),
            "status": (("status", "app"), OK),
            "history": (("history", "app"), OK),
            "verify": (("verify", "app"), OK),
            "list": (("list",), OK),
            "probe": (("probe",), OK),
            "import": (("import", user / "source.db", "app"), REFUSED),
            "export": (("export", "app", user / "again.db"), OK),
            "replicate": (("replicate", "app", "--to", user / "replica.db", "--once"), OK),
            "handover": (("handover", "app"), REFUSED),
            "snapshot": (("snapshot", "app"), OK),
            "restore": (("restore", "app", "--at", "-0s"), OK),
            "adopt": (("adopt", "app"), REFUSED),
            "delete": (("delete", "app"), REFUSED),
        }
        told = self.commands_with("--home")
        check(told == set(table), "the table must hold every command that takes --home", sorted(told ^ set(table)))
        for arguments, expected in table.values():
            for line in ((*arguments, *places), (arguments[0], *places, *arguments[1:])):
                if arguments[0] == "export" and (user / "again.db").exists():
                    (user / "again.db").unlink()
                code, out, err = self.root.onepen(*line, env=env)
                check(code == expected, f"onepen {' '.join(map(str, line))} must end with {expected}, not {code}", out, err)
            check(tree(other) == {}, f"onepen {arguments[0]} touched the home of the environment")
        code, _, err = self.root.onepen("sql", "app", "--write", "INSERT INTO t VALUES (2)", *places, env=env)
        check(code == OK and tree(other) == {}, "nor does writing", err)
        check(self.root.onepen("list", env=env)[1] == "" and self.root.onepen("list", env={"ONEPEN_HOME_URL": url(mine)})[1] == "app\n", "without --home the environment is asked")

    def case_cache_root_wins_over_the_environment(self):
        home, env = self.root.home_folder(), {"ONEPEN_CACHE": "relative"}
        told = self.commands_with("--cache-root")
        check({"sql", "verify", "salvage list"} <= told, "the commands that take one", sorted(told))
        for arguments in (("sql", "app", "--write", "CREATE TABLE t(x)"), ("sql", "app", "SELECT 1"), ("verify", "app")):
            for given, expected in ((("--cache-root", self.root.cache()), OK), ((), USAGE)):
                code, _, err = self.root.onepen(*arguments, "--home", url(home), *given, env=env)
                check(code == expected, f"{arguments} {given} must end with {expected}, not {code}", err)
        for expected, given in ((OK, ("--cache-root", self.root.cache())), (USAGE, ())):
            code, _, err = self.root.onepen("salvage", "list", *given, env=env)
            check(code == expected, f"salvage list {given} must end with {expected}, not {code}", err)

    def case_empty_is_never_all(self):
        places = ("--home", url(self.root.home_folder()), "--cache-root", self.root.cache())
        for arguments in (("status", ""), ("export", "app", ""), ("sql", "", "SELECT 1"), ("history", ""), ("verify", ""), ("delete", "")):
            code, out, err = self.root.onepen(*arguments, *places)
            check(code == USAGE and out == "" and len(err) > 30, f"{arguments} must end with {USAGE}, not {code}", out, err)
        for arguments in (("list", "--home", ""), ("salvage", "list", ""), ("salvage", "list", "--cache-root", "")):
            code, out, err = self.root.onepen(*arguments, env={"ONEPEN_HOME_URL": places[1]})
            check(code == USAGE and "empty" in err, f"{arguments} must end with {USAGE}, not {code}", out, err)

    def case_the_wrong_word_is_named(self):
        for arguments, word in ((("frobnicate",), "'frobnicate'"), (("--bogus",), "'--bogus'"), (("salvage", "nono"), "'nono'"), (("list", "--bogus"), "--bogus")):
            code, _, err = self.root.onepen(*arguments)
            check(code == USAGE and word in err, f"onepen {arguments} must name {word}", err)
        code, _, err = self.root.onepen("sql", "app", "--write", "--commit-timeout", "soon", "SELECT 1", "--home", url(self.root.home_folder()))
        check(code == USAGE and "'soon'" in err and err.startswith("onepen: "), "before anything is said or done", err)

    def case_demo_says_what_it_lacks(self):
        file = self.root.path / "user/file"
        file.write_text("no folder")
        for arguments, expected, word in ((("--folder", "/proc/x"), UNAVAILABLE, "/proc/x"), (("--folder", file), UNAVAILABLE, str(file)), (("--data", "/nonexistent"), NOT_FOUND, "/nonexistent")):
            code, out, err = self.root.onepen("demo", *arguments)
            if arguments[0] == "--folder" and "unicode-data" in err:
                continue  # the package is not installed: that is said first
            check(code == expected and word in err and out == "", f"demo {arguments} must end with {expected}, not {code}", out, err)


if __name__ == "__main__":
    run(Given, "cli-given")
