"""What a user does when something went wrong, by the command line alone: snapshots, going back, raw copies put back, deleting, what was moved aside."""

import shutil
import sqlite3
import time

from cases import Asked, check, run
from harness import HANG_SECONDS, SqlError, Worker, reset_kind, tree, uri

USAGE, REFUSED, NOT_FOUND, DAMAGED = 2, 3, 6, 7


class Recovery(Asked):
    # --- how it is asked ---------------------------------------------------------------------------------------------
    def refusal(self, code, *arguments, word=None, cache=None, home=True):
        out, err = self.onepen(*arguments, expect=code, cache=cache, home=home)
        check(out == "" and err.startswith("onepen: ") and len(err) > 30, f"{arguments}: a sentence on standard error is wanted", out, err)
        error = self.json(*arguments, expect=code, cache=cache, home=home)["error"]
        check(error["exit_code"] == code and (word is None or error["outcome"] == word), f"{arguments}: the outcome must be {word}", error)
        return error

    def rows(self, name="app", cache=None):
        """Everything in t, as a follower with this cache sees it."""
        said = self.json("sql", name, "SELECT group_concat(x) AS all_of_it FROM (SELECT x FROM t ORDER BY x)", cache=cache)
        return said["results"][0]["rows"][0]["all_of_it"]

    def write(self, sql, name="app", cache=None):
        """Writes and returns the offset after it."""
        said = self.json("sql", name, "--write", sql, "SELECT onepen_synced() AS o", cache=cache)
        return said["results"][-1]["rows"][0]["o"]

    def worker(self, name="app", cache=None, env=None, **parameters):
        worker = Worker(self.root, hooks=False, env=env)
        worker.open(uri(name, self.home, cache or self.cache, **parameters))
        return worker

    def backup(self):
        """A raw copy of the home, as cp -a makes it."""
        folder = self.root.path / "backup"
        shutil.copytree(self.home, folder, copy_function=shutil.copy2)
        return folder

    def put_back(self, backup):
        for path in sorted(self.home.iterdir()):
            shutil.rmtree(path)
        for path in sorted(backup.iterdir()):
            shutil.copytree(path, self.home / path.name, copy_function=shutil.copy2)
        for path in [self.home, *self.home.rglob("*")]:
            self.root.give(path)

    def reset_of(self, worker):
        """The worker's writes are refused, and soon it knows for good why: the kind of its reset."""
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            worker.refused("INSERT INTO t VALUES (99)")
            kind = reset_kind(worker.status())
            if kind:
                return kind
        return None

    # --- snapshots ---------------------------------------------------------------------------------------------------
    def case_snapshot(self):
        self.refusal(NOT_FOUND, "snapshot", "app", word="not-found")
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        check(self.json("status", "app")["growth"]["newest_snapshot"] is None and "none yet" in self.onepen("status", "app")[0], "none yet")
        said = self.json("snapshot", "app", "--owner", "keeper")
        check(said["bytes"] > 0 and said["parts"] >= 1 and said["offset"], "what was made", said)
        growth = self.json("status", "app")["growth"]
        check(growth["newest_snapshot"]["offset"] == said["offset"] and growth["snapshots"] == 1 and growth["snapshot_bytes"] > 0, "status shows it", growth)
        check(growth["next_snapshot_at"] >= 8 << 20 and growth["since_snapshot"] < 4096, "and when the next one comes", growth)
        out, _ = self.onepen("status", "app")
        check(said["offset"] in out and "growth" in out and "snapshots" in out, "also for people", out)
        history = self.json("history", "app")
        check([s["offset"] for s in history["snapshots"]] == [said["offset"]] and history["owners"][-1]["owner"] == "keeper", "history shows it", history)
        self.write("INSERT INTO t VALUES (2)")
        elsewhere = self.root.cache()
        check(self.rows(cache=elsewhere) == "1,2", "a machine that begins with it sees everything after it as well")
        said = self.json("verify", "app", cache=elsewhere)
        check(len(said["snapshots"]) == 1 and said["snapshots"][0]["against_log"] and said["copy"]["same"], "verify checks it against the log", said)
        check("what the log makes there" in self.onepen("verify", "app")[0], "and says so")

    def case_snapshot_never_takes_the_pen_silently(self):
        worker = self.worker(owner="live")
        worker.sql("CREATE TABLE t(x)")
        error = self.refusal(REFUSED, "snapshot", "app", word="held", cache=self.root.cache())
        check("'live'" in error["message"] and "--write" in error["message"], "it names the owner and how", error)
        worker.sql("INSERT INTO t VALUES (1)")
        _, err = self.onepen("snapshot", "app", "--write", cache=self.root.cache())
        check("'live'" in err and "epoch 1" in err, "with --write it names whom it fences first", err)
        worker.refused("INSERT INTO t VALUES (2)")
        worker.quit()
        check(self.rows(cache=self.root.cache()) == "1", "nothing else came of it")

    def case_a_damaged_snapshot_is_found(self):
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (randomblob(20000))")
        self.json("snapshot", "app")
        parts = sorted(path for path in (self.home / "app" / "@snap").rglob("part-*"))
        check(parts, "a part is there", [str(p) for p in (self.home / "app").rglob("*")])
        data = bytearray(parts[0].read_bytes())
        data[len(data) // 2] ^= 1
        parts[0].write_bytes(data)
        error = self.refusal(DAMAGED, "verify", "app", cache=self.root.cache())
        check("snapshot" in error["message"], "the sentence says what is damaged", error)

    # --- going back --------------------------------------------------------------------------------------------------
    def case_restore_to_an_offset(self):
        self.write("CREATE TABLE t(x)")
        point = self.write("INSERT INTO t VALUES (1)")
        worker = self.worker(owner="busy")
        for x in (2, 3):
            worker.sql(f"INSERT INTO t VALUES ({x})")
        old = self.json("status", "app")["incarnation"]
        reader, before = self.root.cache(), tree(self.home)
        check(self.rows(cache=reader) == "1,2,3", "a reader that has it all")
        error = self.refusal(REFUSED, "restore", "app", "--at", point, word="not-confirmed")
        check("2 commits" in error["message"] and "'busy'" in error["message"] and "--yes" in error["message"], "it says what would be lost and whom it hits", error)
        check(error["plan"]["dropped"]["commits"] == 2 and error["plan"]["incarnation"]["old"] == old, "scripts are told the same", error)
        check(tree(self.home) == before, "and nothing was changed")
        said = self.json("restore", "app", "--at", point, "--yes")
        new = said["incarnation"]["new"]
        check(new != old and said["dropped"]["commits"] == 2 and said["kept"]["commits"] >= 2, "what was done", said)
        kind = self.reset_of(worker)
        check(kind == "rewound", f"the owner with dropped commits is told, not {kind}", worker.sentence())
        worker.quit()
        for cache in (self.cache, reader, self.root.cache()):
            check(self.rows(cache=cache) == "1", "every reader sees what it was then")
        status = self.json("status", "app")
        check(status["incarnation"] == new and status["owner"] is None, "a new history, and nobody owns it", status)
        self.write("INSERT INTO t VALUES (5)", cache=self.root.cache())
        for cache in (self.cache, reader, self.root.cache()):
            check(self.rows(cache=cache) == "1,5", "it goes on from there")
            self.onepen("verify", "app", cache=cache)
        history = self.json("history", "app")
        check([e["kind"] for e in history["events"]] == ["restore"] and history["events"][0]["incarnation"] == new, "history tells it", history)
        check(point in history["events"][0]["why"] and history["events"][0]["by"] and history["events"][0]["host"] and history["events"][0]["pid"], "who, from where, why", history)
        epochs = [o["epoch"] for o in history["owners"]]
        check(epochs == sorted(set(epochs)) and history["owners"][-1]["incarnation"] == new, "epochs rise through it", history)
        out, _ = self.onepen("history", "app")
        check("restore --at" in out and new in out, "also for people", out)
        # The point itself is before everything the new history keeps; where that begins is the same state.
        error = self.refusal(NOT_FOUND, "restore", "app", "--at", point, "--yes")
        begins = history["oldest"]
        check(begins and begins in error["message"], "the refusal names where the log begins now", error, history)
        self.onepen("restore", "app", "--at", begins, "--yes")
        check(self.rows() == "1", "again, to where the newest history began")

    def case_restore_to_a_time(self):
        self.write("CREATE TABLE t(x)")
        self.write("INSERT INTO t VALUES (1)")
        between = self.json("history", "app")["owners"][-1]["last_write"]
        # The next commit is of a later millisecond: wait for its own clock to say so, by writing until it does.
        x = 2
        while True:
            self.write(f"INSERT INTO t VALUES ({x})")
            if self.json("history", "app")["owners"][-1]["last_write"] > between:
                break
            x += 1
        for wrong in ("tomorrow", "2026-02-30", ""):
            self.onepen("restore", "app", "--at", wrong, expect=USAGE)
        self.refusal(NOT_FOUND, "restore", "app", "--at", "-3650d", word="not-found")
        self.refusal(NOT_FOUND, "restore", "gone", "--at", "-1h", word="not-found")
        out, _ = self.onepen("restore", "app", "--at", between, "--yes")
        check("is again what it was" in out and "dropped" in out and "incarnation" in out, "what was done, in sentences", out)
        check(self.rows(cache=self.root.cache()).split(",")[0] == "1" and self.rows() == self.rows(cache=self.root.cache()), "as of that time")
        check(str(x) not in self.rows().split(","), "what was made later is gone", self.rows())

    def case_restore_to_the_newest_does_nothing(self):
        worker = self.worker()
        worker.sql("CREATE TABLE t(x)")
        worker.sql("INSERT INTO t VALUES (1)")
        tail, before = worker.sql("SELECT onepen_synced()")[0][0], tree(self.home)
        for at in ("-0s", "2099-01-01", tail):
            for yes in ((), ("--yes",)):
                out, _ = self.onepen("restore", "app", "--at", at, *yes, cache=self.root.cache())
                check("nothing to undo" in out and "Nothing was changed" in out, "it says so", out)
                said = self.json("restore", "app", "--at", at, *yes, cache=self.root.cache())
                check(said["restored"] is False and said["dropped"]["commits"] == 0 and "new" not in said["incarnation"], "also to scripts", said)
        check(tree(self.home) == before, "nothing was changed")
        worker.sql("INSERT INTO t VALUES (2)")
        worker.quit()

    def case_history_and_export_print_offsets(self):
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        snapshot = self.json("snapshot", "app")["offset"]
        self.write("INSERT INTO t VALUES (2)")
        history, (out, _) = self.json("history", "app"), self.onepen("history", "app")
        check(snapshot in out and all(owner["offset"] in out for owner in history["owners"]), "of each claim and each snapshot", out)
        out, _ = self.onepen("export", "app", self.root.path / "user/now.db")
        point = self.json("export", "app", self.root.path / "user/again.db")["offset"]
        check(point in out, "of the commit that was exported", out)
        self.write("INSERT INTO t VALUES (3)")
        self.onepen("restore", "app", "--at", point, "--yes")
        check(self.rows(cache=self.root.cache()) == "1,2", "and it is one to go back to")

    def case_a_new_history_is_told_as_what_it_is(self):
        """The first COMMIT after an adopt was not made, and the handle goes on by itself: nobody is sent to open the database again."""
        worker = self.worker(notice_within="3600s")
        worker.sql("CREATE TABLE t(x)")
        self.onepen("adopt", "app", "--yes", cache=self.root.cache())
        worker.refused("INSERT INTO t VALUES (1)")
        sentence = worker.sentence()
        check("try the transaction again" in sentence and "not in the stream" in sentence and "Open the database again" not in sentence, "the truth", sentence)
        deadline = time.monotonic() + HANG_SECONDS
        while True:  # its claim of the new history is made on another thread
            try:
                worker.sql("INSERT INTO t VALUES (2)")
                break
            except SqlError:
                check("try the transaction again" in worker.sentence() and time.monotonic() < deadline, "it goes on by itself", worker.sentence())
        check(self.rows(cache=self.root.cache()) == "2", "once, and only what was acknowledged")
        worker.quit()

    def case_restore_over_a_trimmed_log(self):
        points = {}
        for name in ("between", "there"):
            self.write("CREATE TABLE t(x); INSERT INTO t VALUES (1)", name)
            first = self.json("snapshot", name)["offset"]
            self.write("INSERT INTO t VALUES (2)", name)
            points[name] = {"between": self.write("INSERT INTO t VALUES (3)", name), "there": first}[name]
            self.json("snapshot", name)
            self.write("INSERT INTO t VALUES (4)", name)
            check(len(self.json("verify", name, cache=self.root.cache())["snapshots"]) == 2, "two snapshots")
            self.onepen("restore", name, "--at", points[name], "--yes")
            check("nothing to undo" in self.onepen("restore", name, "--at", "-0s")[0], "what begins with a snapshot and has no commit yet")
            self.onepen("verify", name, cache=self.root.cache())
        check(self.rows("between", cache=self.root.cache()) == "1,2,3", "between two snapshots, or behind the newest")
        check(self.rows("there", cache=self.root.cache()) == "1", "to a snapshot itself")

    # --- raw copies put back -----------------------------------------------------------------------------------------
    def case_adopt(self):
        worker = self.worker(owner="live")
        worker.sql("CREATE TABLE t(x)")
        worker.sql("INSERT INTO t VALUES (1)")
        backup = self.backup()
        for x in (2, 3):
            worker.sql(f"INSERT INTO t VALUES ({x})")
        self.put_back(backup)
        check(self.reset_of(worker) == "diverged", "the owner sees that its home lost what it had acknowledged", worker.sentence())
        worker.quit()
        status = self.json("status", "app")
        check(status["suspect"], "the log is suspect", status)
        check("onepen adopt" in self.onepen("status", "app")[0], "status says what to do")
        self.onepen("sql", "app", "--write", "INSERT INTO t VALUES (5)", expect=DAMAGED, cache=self.root.cache())
        self.refusal(DAMAGED, "restore", "app", "--at", "-0s", "--yes", word="fence-unavailable")
        before = tree(self.home)
        error = self.refusal(REFUSED, "adopt", "app", word="not-confirmed")
        check(error["plan"]["evidence"] and error["plan"]["commits"] >= 2, "the evidence, and what the log holds", error)
        check(tree(self.home) == before, "nothing was changed")
        said = self.json("adopt", "app", "--yes")
        check(said["incarnation"]["new"] != said["incarnation"]["old"], "a new incarnation", said)
        check(self.json("status", "app")["suspect"] is None, "it is suspect no more")
        check(self.rows(cache=self.root.cache()) == "1", "what was put back")
        self.write("INSERT INTO t VALUES (6)", cache=self.root.cache())
        check(self.rows(cache=self.root.cache()) == "1,6" and self.rows() == "1,6", "it goes on, also on the machine whose copy knew more")
        kinds = [e["kind"] for e in self.json("history", "app")["events"]]
        check(kinds == ["evidence", "adopt"], "history tells both", kinds)
        self.onepen("verify", "app", cache=self.root.cache())

    def case_adopt_what_nobody_saw_go_back(self):
        """Nobody is running when the backup is put back: the machine whose copy knows more is refused until it is adopted, and then its copy is set aside."""
        self.write("CREATE TABLE t(x)")
        self.write("INSERT INTO t VALUES (1)")
        backup = self.backup()
        self.write("INSERT INTO t VALUES (2)")
        self.put_back(backup)
        error = self.json("sql", "app", "--write", "INSERT INTO t VALUES (3)", expect=DAMAGED)["error"]
        check("onepen adopt app" in error["message"], "the refusal says what to do", error)
        self.json("adopt", "app", "--yes")
        self.write("INSERT INTO t VALUES (4)")
        check(self.rows() == "1,4", "what was put back, and what came after", self.rows())
        entries = self.json("salvage", "list", home=False)["entries"]
        check([entry["kind"] for entry in entries] == ["rewound"], "the copy that knew more is kept", entries)
        self.onepen("verify", "app")

    # --- deleting ----------------------------------------------------------------------------------------------------
    def case_delete_and_make_anew(self):
        worker = self.worker(owner="live")
        worker.sql("CREATE TABLE t(x)")
        worker.sql("INSERT INTO t VALUES (1)")
        old, before = self.json("status", "app"), tree(self.home)
        error = self.refusal(REFUSED, "delete", "app", word="not-confirmed")
        check("'live'" in error["message"] and error["plan"]["stays"]["log_objects"] > 0, "whom it hits, and what stays", error)
        check(tree(self.home) == before, "nothing was changed")
        self.refusal(NOT_FOUND, "delete", "other", "--yes", word="not-found")
        out, _ = self.onepen("delete", "app", "--yes")
        check("deleted" in out and "stays" in out, "what was done, and what remains", out)
        check(self.reset_of(worker) == "removed", "its owner is told", worker.sentence())
        worker.quit()
        for command in (("status", "app"), ("sql", "app", "SELECT 1"), ("export", "app", self.root.path / "user/out.db"), ("verify", "app"), ("delete", "app", "--yes")):
            error = self.refusal(NOT_FOUND, *command, word="not-found", cache=self.root.cache())
            check("delete" in error["message"], f"{command}: it says that it was deleted", error)
        check(self.onepen("list")[0] == "" and self.json("status")["databases"] == [], "lists leave it out")
        history = self.json("history", "app")
        check(history["deleted"] and [e["kind"] for e in history["events"]] == ["delete"], "history still tells", history)
        self.write("CREATE TABLE t(x); INSERT INTO t VALUES (7)")
        now = self.json("status", "app")
        check(now["incarnation"] != old["incarnation"] and now["epoch"] > old["epoch"], "made anew: another incarnation, above every epoch of before", now)
        for cache in (self.cache, self.root.cache()):
            check(self.rows(cache=cache) == "7", "empty but for what is new")
            self.onepen("verify", "app", cache=cache)

    # --- what was moved aside ----------------------------------------------------------------------------------------
    def unsent(self):
        """A process makes two commits that never reach the home, and is killed; somebody else writes."""
        arm = self.root.path / "user" / self.root.next("arm")
        faults = {"LD_PRELOAD": self.root.bin / "onepen_faults.so", "ONEPEN_FAULT": "link|*/@log*|1|EIO|sticky", "ONEPEN_FAULT_ROOT": self.home, "ONEPEN_FAULT_ARM": arm}
        worker = self.worker(env=faults, durability="local", owner="first")
        worker.sql("CREATE TABLE t(x)")
        worker.sql("INSERT INTO t VALUES (1)")
        worker.sql("SELECT onepen_synced()")
        arm.touch()  # from here on no object of the log gets its name
        worker.sql("INSERT INTO t VALUES (2)")
        worker.sql("INSERT INTO t VALUES (3)")
        worker.kill()

    def case_status_shows_unsent_commits(self):
        self.unsent()
        local = self.json("status", "app")["local"]
        check([c["unsent_commits"] for c in local["copies"]] == [2] and local["copies"][0]["unsent_bytes"] > 0 and not local["copies"][0]["in_use"], "two are not in the stream yet", local)
        check("2 commits not in the stream yet" in self.onepen("status", "app")[0], "also for people", self.onepen("status", "app")[0])
        check(self.rows(cache=self.root.cache()) == "1", "others do not see them")
        self.write("INSERT INTO t VALUES (4)")
        check(self.rows(cache=self.root.cache()) == "1,2,3,4", "opening it on this machine sends them")
        check(self.onepen("salvage", "list", home=False)[1].startswith("Nothing was moved aside"), "and nothing had to be moved aside")

    def case_salvage(self):
        self.unsent()
        self.write("INSERT INTO t VALUES (10)", cache=self.root.cache())
        self.write("INSERT INTO t VALUES (11)")
        check(self.rows() == "1,10,11", "the stream decides")
        said = self.json("salvage", "list", home=False)["entries"]
        check(len(said) == 1 and said[0]["name"] == "app" and said[0]["kind"] == "fenced" and len(said[0]["unsent"]) == 2, "the two unsent commits are kept", said)
        entry = said[0]["entry"]
        out, _ = self.onepen("salvage", "list", "app", home=False)
        check(entry in out and "fenced" in out and " 2 " in out, "a line for people", out)
        check(self.json("salvage", "list", "other", home=False)["entries"] == [], "none of another database")
        for asked in (entry, "app"):
            out, _ = self.onepen("salvage", "show", asked, home=False)
            check(entry in out and "2 commits" in out and "why" in out and "export" in out, f"salvage show {asked}", out)
        shown = self.json("salvage", "show", entry, home=False)["entries"][0]
        check(shown["manifest"]["kind"] == "fenced" and all(c["pages"] > 0 and c["bytes"] > 0 for c in shown["unsent"]), "with its manifest", shown)
        check(shown["acknowledged"]["commits"] + 1 == shown["unsent"][0]["commit"], "they follow the last that was sent", shown)
        folder, lost = tree(self.cache / "salvage"), self.root.path / "user/lost.db"
        said = self.json("salvage", "export", entry, lost, home=False)
        check(said["unsent_commits"] == 2, "what was written out", said)
        with sqlite3.connect(lost) as db:
            check(db.execute("SELECT group_concat(x) FROM (SELECT x FROM t ORDER BY x)").fetchone()[0] == "1,2,3", "a plain SQLite file with what was never sent")
            check(db.execute("PRAGMA journal_mode").fetchone()[0] == "delete" and db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "that stands alone")
        db.close()
        check(tree(self.cache / "salvage") == folder, "the entry is only read")
        self.refusal(USAGE, "salvage", "export", entry, lost, home=False)
        self.refusal(NOT_FOUND, "salvage", "show", "nothing-like-it", word="not-found", home=False)
        self.refusal(NOT_FOUND, "salvage", "export", "nothing-like-it", self.root.path / "user/x.db", word="not-found", home=False)
        status = self.json("status", "app")["local"]
        check([s["unsent_commits"] for s in status["salvage"]] == [2] and "salvage list app" in self.onepen("status", "app")[0], "status points there", status)
        self.remove_salvage(entry)

    def remove_salvage(self, entry):
        listed = self.json("salvage", "list", home=False)
        size = sum(file.stat().st_size for file in (self.cache / "salvage").rglob("*") if file.is_file())
        check(listed["bytes"] == listed["entries"][0]["bytes"] == size, "the size is that of its files", listed, size)
        check(" in all." in self.onepen("salvage", "list", home=False)[0], "people are told as well")
        folder = tree(self.cache / "salvage")
        error = self.refusal(REFUSED, "salvage", "remove", entry, word="not-confirmed", home=False)
        check("2 commits that were never sent" in error["message"] and f"salvage export {entry}" in error["message"], "it says what would be lost, and how to keep it", error)
        check(error["plan"]["unsent_commits"] == 2 and error["plan"]["bytes"] == size, "and scripts are told", error)
        self.refusal(NOT_FOUND, "salvage", "remove", "nothing-like-it", "--yes", word="not-found", home=False)
        check(tree(self.cache / "salvage") == folder, "nothing was changed")
        said = self.json("salvage", "remove", entry, "--yes", home=False)
        check(said["entry"] == entry and said["bytes"] == size and not (self.cache / "salvage" / entry).exists(), "it is gone", said)
        check(self.json("salvage", "list", home=False)["entries"] == [], "and not listed")
        self.refusal(NOT_FOUND, "salvage", "remove", entry, "--yes", word="not-found", home=False)
        check(self.rows() == "1,10,11", "the database is not touched")

    def case_looking_writes_nothing(self):
        self.unsent()
        self.json("snapshot", "app", "--write")
        point = self.write("INSERT INTO t VALUES (9)")
        self.write("INSERT INTO t VALUES (10)")
        before = tree(self.home)
        for command in (("status", "app"), ("history", "app"), ("verify", "app"), ("sql", "app", "SELECT * FROM t"), ("export", "app", self.root.path / "user/out.db")):
            self.onepen(*command, cache=self.root.cache())
            check(tree(self.home) == before, f"onepen {' '.join(map(str, command))} wrote to the home")
        for command in (("restore", "app", "--at", point), ("delete", "app"), ("adopt", "app")):
            self.onepen(*command, expect=REFUSED, cache=self.root.cache())
            check(tree(self.home) == before, f"onepen {' '.join(map(str, command))} without --yes wrote to the home")


if __name__ == "__main__":
    run(Recovery, "cli-recovery")
