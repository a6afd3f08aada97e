"""Every subcommand on real homes: what it prints for people and for scripts, its exit code, and that inspection writes nothing to the home."""

import json
import os
import sqlite3

from cases import Asked, check, run
from harness import SqlError, Worker, log_objects, tree, uri, url

OK, USAGE, REFUSED, NOT_FOUND, DAMAGED = 0, 2, 3, 6, 7


class Commands(Asked):
    # --- how it is asked ---------------------------------------------------------------------------------------------
    def refusal(self, code, *arguments, word=None, out_of=None):
        """The command fails with this code: a sentence on standard error (after others, when out_of says why), and the same as JSON."""
        out, err = self.onepen(*arguments, expect=code)
        if out_of:
            err = err[err.find("onepen: ") :]
        check(out == "" and err.startswith("onepen: ") and len(err) > 30, f"{arguments}: one sentence on standard error is wanted", out, err)
        error = self.json(*arguments, expect=code)["error"]
        check(error["exit_code"] == code and len(error["message"]) > 20, f"{arguments}: the JSON error must carry code and sentence", error)
        if word:
            check(error["outcome"] == word, f"{arguments}: the outcome must be {word}", error)
        return error["message"]

    def value(self, name, sql, cache=None):
        rows = self.json("sql", name, sql, cache=cache)["results"][-1]["rows"]
        return list(rows[0].values())[0]

    def source(self, rows=5000, page_size=4096, name="source.db"):
        path = self.root.path / "user" / name
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA page_size={page_size}")
            db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, blob BLOB)")
            db.execute("CREATE INDEX t_body ON t(body)")
            db.executemany("INSERT INTO t(body, blob) VALUES (?, ?)", ((f"row {i}", os.urandom(40)) for i in range(rows)))
        db.close()
        self.root.give(path)
        return path

    # --- cases -------------------------------------------------------------------------------------------------------
    def case_version(self):
        code, out, _ = self.root.onepen("version")
        check(code == OK and out.startswith("onepen "), "version must name itself", out)
        code, out, _ = self.root.onepen("version", "--json")
        said = json.loads(out)
        check(code == OK and said["version"] and said["sqlite"] and said["formats"]["commit_frame"] >= 1, "version --json", said)
        check(said["test_hooks"] is False, "the product has no test hooks", said)

    def case_write_then_read(self):
        _, err = self.onepen("sql", "app", "--write", "--owner", "first", "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        check("yet" in err, "a database that is made must be told", err)
        out, _ = self.onepen("sql", "app", "SELECT x, x * 2 AS y FROM t ORDER BY x")
        check(out == "x  y\n-  -\n1  2\n2  4\n", "the table for people", out)
        said = self.json("sql", "app", "SELECT x, NULL AS n, x'00ff' AS b, 1.5 AS r, 'a' AS s FROM t LIMIT 1")
        check(said["results"][0]["rows"] == [{"x": 1, "n": None, "b": {"blob": "00ff"}, "r": 1.5, "s": "a"}], "rows as JSON", said)
        _, err = self.onepen("sql", "app", "--write", "INSERT INTO t VALUES (3)", cache=self.root.cache())
        check("'first'" in err and "epoch 1" in err, "--write must name the owner of now first", err)
        check(self.value("app", "SELECT count(*) FROM t") == 3, "the follower must see the newest commit")

    def case_reading_is_no_writing(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x)")
        sentence = self.refusal(REFUSED, "sql", "app", "INSERT INTO t VALUES (1)")
        check("--write" in sentence, "the refusal must say how to write", sentence)
        check(self.value("app", "SELECT count(*) FROM t") == 0, "nothing may have been written")

    def case_sql_errors(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x PRIMARY KEY)")
        self.refusal(USAGE, "sql", "app", "SELEC 1")
        self.refusal(USAGE, "sql", "app", "SELECT * FROM missing")
        self.onepen("sql", "app", "--write", "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)", expect=USAGE)
        check(self.value("app", "SELECT count(*) FROM t") == 1, "the first statement was committed by itself")
        _, err = self.onepen("sql", "app", "--write", "BEGIN; INSERT INTO t VALUES (2)", expect=USAGE)
        check("rolled back" in err, "a transaction that was left open must be told, and a script must see it", err)
        check(self.value("app", "SELECT count(*) FROM t") == 1, "and is not there")

    def case_takeover_modes(self):
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.root.cache(), owner="live"))
        worker.sql("CREATE TABLE t(x)")
        sentence = self.refusal(REFUSED, "sql", "app", "--write", "--takeover", "never", "SELECT 1", word="held", out_of="--write names the owner first")
        check("app" in sentence and "never" in sentence, "the refusal names the database, and what was asked", sentence)
        worker.sql("INSERT INTO t VALUES (1)")
        worker.quit()
        _, err = self.onepen("sql", "app", "--write", "--takeover", "never", "INSERT INTO t VALUES (2)")
        check("'live'" in err and "closed" in err, "an owner who closed it is nobody any more", err)
        self.onepen("sql", "app", "--write", "--commit-timeout", "soon", "SELECT 1", expect=USAGE)
        _, err = self.onepen("sql", "app", "--write", "--takeover", "perhaps", "SELECT 1", expect=USAGE)

    def case_fenced_owner_and_history(self):
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.root.cache(), owner="old"))
        worker.sql("CREATE TABLE t(x)")
        worker.sql("INSERT INTO t VALUES (1)")
        self.onepen("sql", "app", "--write", "--owner", "new", "INSERT INTO t VALUES (2)")
        worker.refused("INSERT INTO t VALUES (3)")
        worker.quit()
        check(self.value("app", "SELECT group_concat(x) FROM t") == "1,2", "exactly the acknowledged rows")
        owners = self.json("history", "app")["owners"]
        check([o["owner"] for o in owners] == ["old", "new"], "who held it, in order", owners)
        check(owners[0]["epoch"] < owners[1]["epoch"] and owners[1]["until"] is None and owners[0]["until"], "epochs rise; the newest goes on", owners)
        check(owners[1]["closed_epoch"] == owners[0]["epoch"] and owners[1]["closed_sequence"] == owners[0]["last_sequence"], "what the claim closed is the last write of the one before", owners)
        check(owners[0]["pid"] == worker.pid and owners[0]["why"], "who, and why", owners)
        out, _ = self.onepen("history", "app")
        for word in ("EPOCH", "OWNER", "old", "new", "closed", "sequence", str(worker.pid)):
            check(word in out, f"the table must show {word}", out)
        status = self.json("status", "app")
        check(status["owner"]["name"] == "new" and status["epoch"] == owners[1]["epoch"] and status["tail"], "status is of now", status)
        out, _ = self.onepen("status", "app")
        check("new" in out and "closed" in out and str(status["epoch"]) in out and status["released"], "status for people", out)

    def case_list_and_status_of_all(self):
        _, err = self.onepen("list")
        check("no database" in err, "an empty home must be told", err)
        for name in ("a", "team/b", "team/c"):
            self.onepen("sql", name, "--write", "CREATE TABLE t(x)")
        check(self.onepen("list")[0] == "a\nteam/b\nteam/c\n", "names, sorted, one a line", self.onepen("list")[0])
        check(self.json("list", "team/")["databases"] == ["team/b", "team/c"], "a prefix")
        check([d["name"] for d in self.json("status")["databases"]] == ["a", "team/b", "team/c"], "status of all")
        check(self.onepen("status")[0].count("\n") == 5, "one line each, under a head")

    def case_not_found(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x)")
        before, files = tree(self.home), tree(self.cache)
        for command in (("status", "gone"), ("history", "gone"), ("verify", "gone"), ("sql", "gone", "SELECT 1"), ("export", "gone", self.root.path / "user/out.db")):
            self.refusal(NOT_FOUND, *command, word="not-found")
        check(tree(self.home) == before, "asking for what is not there must leave nothing in the home")
        check(set(tree(self.cache)) == set(files), "nor in the cache", sorted(set(tree(self.cache)) - set(files)))
        self.refusal(NOT_FOUND, "import", self.root.path / "user/missing.db", "fresh")

    def case_usage(self):
        for arguments in ((), ("nonsense",), ("sql",), ("status", "--nonsense"), ("import", "one")):
            code, out, err = self.root.onepen(*arguments)
            check(code == USAGE and "onepen" in out + err, f"onepen {arguments} must end with {USAGE}, not {code}", out, err)
            code, out, err = self.root.onepen(*arguments, "--json")
            error = json.loads(out)["error"]
            check(code == USAGE and error["exit_code"] == USAGE and error["outcome"] == "invalid" and "--help" in error["message"], f"onepen {arguments} --json", out, err)
        code, _, err = self.root.onepen("list")
        check(code == USAGE and "ONEPEN_HOME_URL" in err, "no home: say how to name one", err)
        code, out, _ = self.root.onepen("list", env={"ONEPEN_HOME_URL": url(self.home)})
        check(code == OK, "the environment names the home", out)
        # Programs in several working folders would mean several places by a relative ONEPEN_CACHE; the extension refuses it too.
        for command in (("sql", "app", "SELECT 1"), ("sql", "app", "--write", "SELECT 1"), ("verify", "app")):
            code, _, err = self.root.onepen(*command, env={"ONEPEN_HOME_URL": url(self.home), "ONEPEN_CACHE": "relative/cache"})
            check(code == USAGE and "absolute" in err and "relative/cache" in err, f"{command}: a relative ONEPEN_CACHE", err)
        worker = Worker(self.root, hooks=False, env={"ONEPEN_CACHE": "relative/cache"})
        try:
            worker.open(uri("app", self.home))
        except SqlError:
            pass
        check("absolute" in worker.sentence(), "and the extension says the same", worker.sentence())
        worker.quit()
        check(not (self.root.path / "user/relative").exists() and tree(self.home) == {}, "nothing was made")
        code, _, err = self.root.onepen("sql", "made", "--write", "SELECT 1", "--home", url(self.home), "--cache-root", "here")
        check(code == OK and (self.root.path / "user/here").is_dir(), "--cache-root is a path of the working folder, as any on a command line", err)
        for name in ("../x", "a//b", ".hidden", "x" * 300):
            for command in (("status", name), ("history", name), ("verify", name), ("sql", name, "SELECT 1"), ("sql", name, "--write", "SELECT 1")):
                self.onepen(*command, expect=USAGE)

    def case_import_export_verify(self):
        for page_size in (512, 4096, 65536):
            name, file = f"db{page_size}", self.source(page_size=page_size, name=f"source{page_size}.db")
            said = self.json("import", file, name, "--owner", "importer")
            check(said["page_size"] == page_size and said["bytes"] >= 5000 * 40, "what was imported", said)
            elsewhere = self.root.cache()
            check(self.value(name, "SELECT count(*) FROM t", cache=elsewhere) == 5000, "every row is there, from another cache")
            copy = self.root.path / "user" / f"copy{page_size}.db"
            self.json("export", name, copy)
            with sqlite3.connect(copy) as exported, sqlite3.connect(file) as original:
                check(list(exported.iterdump()) == list(original.iterdump()), f"page size {page_size}: export and original must have one dump")
                check(exported.execute("PRAGMA journal_mode").fetchone()[0] == "delete", "the export stands alone")
            said = self.json("verify", name, cache=elsewhere)
            check(said["copy"]["same"] and said["commits"] == 1 and said["copy"]["pages_compared"] == said["page_count"], "verify compares the copy", said)
            self.refusal(USAGE, "export", name, copy)
            self.refusal(REFUSED, "import", file, name, word="held")
        check(self.json("history", "db512")["owners"][0]["why"] == "import", "history says that it was an import")

    def case_replicate(self):
        self.onepen("import", self.source(), "app")
        folder = self.root.folder("replicas")
        file = folder / "app.db"
        said = self.json("replicate", "app", "--to", file, "--once")
        check(said["name"] == "app" and said["commits"] == 1 and said["bytes"] == file.stat().st_size, "what is there now", said)
        before = tree(self.home)
        out, err = self.onepen("replicate", "app", "--to", file, "--once")
        check("is up to date" in out and "commit 1" in out and err == "" and tree(self.home) == before, "once more, for people", out, err)
        self.onepen("sql", "app", "--write", "DELETE FROM t WHERE id > 10")
        self.onepen("replicate", "app", "--to", file, "--once")
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            check(db.execute("SELECT count(*) FROM t").fetchone() == (10,), "it follows")
        db.close()
        # What is not a replica of this database is left alone.
        plain = self.source(name="plain.db")
        kept = plain.read_bytes()
        message = self.refusal(USAGE, "replicate", "app", "--to", plain, "--once", word="invalid")
        check("no replica" in message and plain.read_bytes() == kept, "a file of somebody's own", message)
        self.onepen("sql", "other", "--write", "CREATE TABLE o(x)")
        message = self.refusal(USAGE, "replicate", "other", "--to", file, "--once", word="invalid")
        check("replica of 'app'" in message, "a replica of another database", message)
        # One that was written to is moved aside, with what was written, and made anew.
        with sqlite3.connect(file) as db:
            db.execute("INSERT INTO t(body) VALUES ('of somebody')")
        db.close()
        _, err = self.onepen("replicate", "app", "--to", file, "--once")
        aside = [path for path in folder.iterdir() if path.name.endswith("-diverged")]
        check(len(aside) == 1 and str(aside[0]) in err, "where it is now must be told", err, [path.name for path in folder.iterdir()])
        for path, count in ((file, 10), (aside[0], 11)):
            db = sqlite3.connect(path)
            check(db.execute("SELECT count(*) FROM t").fetchone() == (count,), f"{path} holds {count} rows")
            db.close()

    def case_a_standby_and_a_handover_say_what_they_lack(self):
        self.onepen("import", self.source(), "app")
        before = tree(self.home)
        for told, arguments in (
            ("--to FILE", ("replicate", "app")),
            ("give --takeover", ("replicate", "app", "--to", self.root.path / "user/none.db", "--owner", "x")),
            ("give --takeover", ("replicate", "app", "--to", self.root.path / "user/none.db", "--term", "5s")),
            ("'soon'", ("replicate", "app", "--takeover", "--term", "soon")),
            ("at least 100ms", ("replicate", "app", "--takeover", "--term", "99ms")),
            ("'soon'", ("handover", "app", "--within", "soon")),
        ):
            message = self.refusal(USAGE, *arguments, word="usage")
            check(told in message, f"{arguments} must say {told}", message)
        message = self.refusal(REFUSED, "handover", "app", word="refused")
        check("ended in peace" in message, "there is nobody to ask", message)
        self.refusal(NOT_FOUND, "handover", "nothing")
        check(tree(self.home) == before, "nothing of it touched the home")

    def case_import_of_what_is_none(self):
        junk = self.root.path / "user" / "junk.db"
        junk.write_bytes(b"this is no database at all" * 100)
        self.root.give(junk)
        self.refusal(USAGE, "import", junk, "junk")
        self.refusal(USAGE, "import", junk.parent, "junk")
        self.refusal(NOT_FOUND, "status", "junk")

    def case_verify_finds_a_changed_copy(self):
        self.onepen("import", self.source(), "app")
        check(self.value("app", "SELECT count(*) FROM t") == 5000, "a warm copy")
        out, _ = self.onepen("verify", "app")
        check("none differs" in out, "a copy that fits", out)
        databases = [path for path in self.cache.rglob("db") if path.is_file()]
        check(len(databases) == 1, "one copy is there", [str(path) for path in databases])
        data = bytearray(databases[0].read_bytes())
        data[len(data) // 2] ^= 1
        databases[0].write_bytes(data)
        self.onepen("verify", "app", expect=DAMAGED)
        check(self.value("app", "SELECT count(*) FROM t") == 5000, "a copy that does not fit is replaced, not served")
        self.onepen("verify", "app")

    def case_damaged_log(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        objects = log_objects(self.home)
        victim = objects[len(objects) // 2]
        data = bytearray(victim.read_bytes())
        data[-20] ^= 1
        victim.write_bytes(data)
        before, fresh = tree(self.home), self.root.cache()
        for command in (("verify", "app"), ("history", "app"), ("sql", "app", "SELECT 1"), ("export", "app", self.root.path / "user/out.db")):
            _, err = self.onepen(*command, expect=DAMAGED, cache=fresh)
            check(len(err) > 30, f"{command}: a sentence says what is damaged", err)
        check(tree(self.home) == before, "nothing is rebuilt over it")

    def case_inspection_writes_nothing(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        before = tree(self.home)
        for command in (("list",), ("status",), ("status", "app"), ("history", "app"), ("verify", "app"), ("sql", "app", "SELECT * FROM t"), ("export", "app", self.root.path / "user/out.db")):
            self.onepen(*command, cache=self.root.cache())
            check(tree(self.home) == before, f"onepen {' '.join(map(str, command))} wrote to the home")

    def case_standard_input(self):
        import subprocess

        child = self.root.start([self.root.bin / "onepen", "sql", "app", "--write", "--json", "--home", url(self.home), "--cache-root", self.cache], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate("-- a comment\nCREATE TABLE t(x);\nINSERT INTO t\n  VALUES ('a;b');\nSELECT x FROM t;\n", timeout=120)
        check(child.returncode == OK, "statements from standard input", out, err)
        check(json.loads(out)["results"][-1]["rows"] == [{"x": "a;b"}], "a semicolon in a string ends no statement", out)


if __name__ == "__main__":
    run(Commands, "cli")
