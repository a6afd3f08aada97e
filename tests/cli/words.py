"""What is said when something is only here, or out of reach: nobody is told "none" or "not found" of commits that this machine alone has."""

import json
import shutil
import sqlite3

from cases import Asked, check, run
from harness import Worker, tree, uri

OK, REFUSED, UNAVAILABLE, NOT_FOUND, DAMAGED = 0, 3, 5, 6, 7


class Words(Asked):
    def salvage(self, *arguments, expect=OK):
        code, out, err = self.root.onepen("salvage", *arguments, "--cache-root", self.cache)
        check(code == expect, f"salvage {arguments} must end with {expect}, not {code}", out, err)
        return out, err

    def write(self, sql, cache=None):
        return self.json("sql", "app", "--write", sql, "SELECT onepen_synced() AS o", cache=cache)["results"][-1]["rows"][0]["o"]

    def unsent(self, *values):
        """Commits of durability=local that the home does not get: it is away while they are made, and back afterwards."""
        self.away()
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.cache, durability="local", offline=1, commit_timeout="300ms"))
        for value in values:
            worker.sql(f"INSERT INTO t VALUES ({value})")
        return worker

    def away(self):
        self.home.rename(self.home.with_name("away"))

    def back(self):
        self.home.with_name("away").rename(self.home)

    # --- A1: what a stream dropped -----------------------------------------------------------------------------------
    def case_a_dropped_commit_is_not_told_as_none(self):
        point = self.write("CREATE TABLE t(x)")
        self.write("INSERT INTO t VALUES (1)")
        self.onepen("restore", "app", "--at", point, "--yes", cache=self.root.cache())
        _, err = self.onepen("sql", "app", "SELECT count(*) FROM t")
        check("moved to" in err and "salvage" in err, "a read that moves a copy aside says so, without ONEPEN_LOG", err)
        listed = json.loads(self.salvage("list", "--json")[0])["entries"]
        check(len(listed) == 1 and listed[0]["kind"] == "rewound" and listed[0]["unsent"] == [], "one copy, and nothing of it was never sent", listed)
        commits = listed[0]["acknowledged"]["commits"]
        check(listed[0]["perhaps_dropped_commits"] == commits >= 2, "scripts are told how far the dropped ones may reach", listed)
        entry, word = listed[0]["entry"], f"up to commit {commits}"
        out, _ = self.salvage("list")
        check(word in out and "nowhere else" in out, "the list says it", out)
        out, _ = self.salvage("show", entry)
        check("only place" in out and f"up to {commits}" in out and "in the stream " not in out, "show says it, and does not say that the stream has them", out)
        _, err = self.salvage("remove", entry, expect=REFUSED)
        check("only place" in err and f"up to {commits}" in err, "remove says it", err)
        plan = json.loads(self.salvage("remove", entry, "--json", expect=REFUSED)[0])["error"]["plan"]
        check(plan["perhaps_dropped_commits"] == commits and plan["unsent_commits"] == 0, "also in the plan", plan)
        out, _ = self.onepen("status", "app")
        check("acknowledged commits" in out, "and status points there", out)

    def case_a_fenced_copy_lost_nothing_that_was_acknowledged(self):
        self.write("CREATE TABLE t(x)")
        worker = self.unsent(1)
        worker.kill()
        self.back()
        self.write("INSERT INTO t VALUES (2)", cache=self.root.cache())
        _, err = self.onepen("sql", "app", "--write", "SELECT count(*) FROM t")
        check("moved to" in err and "salvage show app" in err, "a writer's copy that was moved aside is told", err)
        listed = json.loads(self.salvage("list", "--json")[0])["entries"]
        check([e["kind"] for e in listed] == ["fenced"] and len(listed[0]["unsent"]) == 1 and listed[0]["perhaps_dropped_commits"] == 0, "only what was never sent", listed)

    # --- B6 ----------------------------------------------------------------------------------------------------------
    def case_relative_names(self):
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        check(self.json("status", "app")["growth"]["newest_snapshot"] is None, "the log is read from its beginning")
        user = self.root.path / "user"
        self.onepen("export", "app", "bare.db", cache=self.root.cache())
        with sqlite3.connect(user / "bare.db") as db:
            check(db.execute("SELECT x FROM t").fetchall() == [(1,)], "in the working folder")
        self.onepen("import", "bare.db", "again")
        check(not [p.name for p in user.iterdir() if p.name.startswith("bare.db") and p.name != "bare.db"], "nothing is left beside it", list(user.iterdir()))

    # --- A3: under another URL ---------------------------------------------------------------------------------------
    def case_unsent_commits_under_another_url_are_told(self):
        self.write("CREATE TABLE t(x)")
        self.unsent(1, 2).kill()
        self.back()
        _, err = self.onepen("export", "app", "before.db")
        check("Not in before.db" in err and "2 commits not in the stream" in err, "an export says what it lacks", err)
        old, self.home = self.home, self.home.with_name("renamed")
        old.rename(self.home)
        out, _ = self.onepen("status", "app")
        check("2 commits not in the stream" in out and "another URL" in out, "status finds them under the old URL", out)
        local = self.json("status", "app")["local"]
        check([c["unsent_commits"] for c in local["elsewhere"]] == [2] and local["copies"] == [], "for scripts", local)
        _, err = self.onepen("export", "app", "after.db")
        check("Not in after.db" in err and "another URL" in err, "so does export", err)
        old.symlink_to(self.home)  # the old path leads to the home again
        self.home = old
        check(self.json("sql", "app", "--write", "SELECT count(*) AS n FROM t")["results"][0]["rows"] == [{"n": 2}], "opened by the old URL they are sent")
        self.home = old.resolve()
        check(self.json("status", "app")["local"]["elsewhere"] == [], "and nothing is left behind")
        _, err = self.onepen("export", "app", "last.db")
        check("Not in" not in err, "nothing is said then", err)

    # --- C7, C8: the home is away ------------------------------------------------------------------------------------
    def case_a_home_out_of_reach_is_no_missing_database(self):
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        self.unsent(2, 3).kill()
        before = tree(self.cache)
        for make_empty in (False, True):
            if make_empty:
                self.root.give(self.home_made())
            for command in (("status", "app"), ("history", "app"), ("verify", "app"), ("sql", "app", "SELECT 1"), ("sql", "app", "--write", "SELECT 1"), ("snapshot", "app"),
                            ("export", "app", "out.db"), ("restore", "app", "--at", "-1h"), ("adopt", "app"), ("delete", "app"), ("list",), ("status",)):
                out, err = self.onepen(*command, expect=UNAVAILABLE)
                check("Is the home mounted, and the right one?" in out + err and "it is made" not in err and "no database" not in err.lower(), f"{command} must say what it is", out, err)
                check("2 commits not in the stream yet" in out + err, f"{command} must not hide what is only here", out, err)
            said = self.json("status", "app", expect=UNAVAILABLE)
            check(said["error"]["outcome"] == "unavailable" and [c["unsent_commits"] for c in said["local"]["copies"]] == [2], "scripts get the local part", said)
            said = self.json("list", expect=UNAVAILABLE)
            check(said["databases"] == [] and [o["name"] for o in said["out_of_sight"]] == ["app"], "list too", said)
        check(tree(self.cache).keys() == before.keys(), "looking made nothing here")
        shutil.rmtree(self.home)
        self.back()
        check(self.json("sql", "app", "--write", "SELECT group_concat(x) AS s FROM t")["results"][0]["rows"] == [{"s": "1,2,3"}], "and when it is back nothing is lost")

    def home_made(self):
        self.home.mkdir()
        return self.home

    def case_a_deleted_database_is_not_out_of_reach(self):
        self.write("CREATE TABLE t(x)")
        self.onepen("delete", "app", "--yes")
        for command in (("status", "app"), ("sql", "app", "SELECT 1"), ("verify", "app")):
            out, err = self.onepen(*command, expect=NOT_FOUND)
            check("mounted" not in out + err, f"{command}: it was deleted", out, err)
        _, err = self.onepen("list")
        check("no database" in err, "nothing is missed", err)

    # --- E: history, verify ------------------------------------------------------------------------------------------
    def case_history_knows_the_last_write_of_an_epoch_that_adopt_ended(self):
        self.write("CREATE TABLE t(x)")
        before = self.json("history", "app")["owners"][-1]["last_sequence"]
        check(before, "while it is the newest")
        self.onepen("adopt", "app", "--yes", cache=self.root.cache())
        history = self.json("history", "app")
        check(history["owners"][-1]["last_sequence"] == before, "and after a new history ended it", before, history)
        self.onepen("delete", "app", "--yes")
        check("not known" in self.onepen("history", "app")[0], "what is not known is said to be so", self.onepen("history", "app")[0])

    def case_verify_says_that_a_copy_is_open(self):
        self.write("CREATE TABLE t(x)")
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.cache))
        out, _ = self.onepen("verify", "app")
        check("open in a process" in out and "no local copy" not in out, "it is there, and in use", out)
        check(len(self.json("verify", "app")["copies_in_use"]) == 1, "for scripts")
        worker.quit()

    def case_verify_says_suspect(self):
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.cache))
        worker.sql("CREATE TABLE t(x)")
        backup = self.root.path / "backup"
        shutil.copytree(self.home, backup)
        worker.sql("INSERT INTO t VALUES (1)")
        worker.sql("INSERT INTO t VALUES (2)")
        self.onepen("verify", "app", cache=self.root.cache())
        for path in list(self.home.iterdir()):
            shutil.rmtree(path)
        for path in backup.iterdir():
            shutil.copytree(path, self.home / path.name)
        for path in [self.home, *self.home.rglob("*")]:
            self.root.give(path)
        worker.refused("INSERT INTO t VALUES (3)")
        worker.quit()
        check(self.json("status", "app")["suspect"], "the stream is suspect")
        _, err = self.onepen("verify", "app", cache=self.root.cache(), expect=DAMAGED)
        check("suspect" in err and "onepen adopt" in err, "verify does not call it whole without a word", err)

    # --- D10: who sends what is left ---------------------------------------------------------------------------------
    def case_what_is_left_names_the_database_and_who_sends_it(self):
        self.write("CREATE TABLE t(x)")
        worker = self.unsent(1)
        try:
            worker.sql("SELECT onepen_synced()")
            check(False, "the home is away")
        except Exception as error:  # noqa: BLE001
            check("'app'" in str(error) + worker.sentence() and "This handle sends them" in worker.sentence(), "a live handle sends them itself", worker.sentence())
        self.back()
        self.write("INSERT INTO t VALUES (2)", cache=self.root.cache())
        try:
            worker.sql("SELECT onepen_synced()")
        except Exception:  # noqa: BLE001
            pass
        check("reset" in json.loads(worker.sql("SELECT onepen_status()")[0][0])["role"], "fenced")
        worker.quit()


if __name__ == "__main__":
    run(Words, "cli-words")
