"""What scripts and people see when it goes wrong or takes long: exit codes 4 (unknown) and 5 (unavailable), and the progress bar on a terminal."""

import json
import os
import pty
import signal
import subprocess

from cases import Asked, check, run
from harness import HANG_SECONDS, url

OK, UNKNOWN, UNAVAILABLE = 0, 4, 5


class Exits(Asked):
    def places(self, cache=None):
        return ("--home", url(self.home), "--cache-root", str(cache or self.cache))

    def value(self, sql):
        out, _ = self.onepen("sql", "app", "--json", sql, cache=self.root.cache())
        return list(json.loads(out)["results"][-1]["rows"][0].values())[0]

    def case_unavailable(self):
        """The folder of the local copies cannot be made: certainly nothing was written."""
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x)")
        file = self.root.path / "user" / "file"
        file.write_text("no folder")
        for command in (("sql", "app", "SELECT 1"), ("sql", "app", "--write", "INSERT INTO t VALUES (1)"), ("verify", "app")):
            _, err = self.onepen(*command, cache=file / "cache", expect=UNAVAILABLE)
            check(str(file) in err, "the sentence names the folder", err)
            out, _ = self.onepen(*command, "--json", cache=file / "cache", expect=UNAVAILABLE)
            error = json.loads(out)["error"]
            check(error["outcome"] == "unavailable" and error["exit_code"] == UNAVAILABLE, f"{command} --json", error)
        check(self.value("SELECT count(*) FROM t") == 0, "nothing was written")

    def case_unknown(self):
        """The object of a COMMIT gets its name, and the sync of its folder fails from then on: whether it is in the log nobody can say."""
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x)")
        arm, fired = self.root.path / "user/arm", self.root.path / "user/fired"
        faults = {
            "LD_PRELOAD": self.root.bin / "onepen_faults.so",
            "ONEPEN_FAULT": "sync|*/@log*|1|EIO|sticky",
            "ONEPEN_FAULT_ROOT": self.home,
            "ONEPEN_FAULT_ARM": arm,
            "ONEPEN_FAULT_FIRED": fired,
        }
        child = self.root.start([self.root.bin / "onepen", "sql", "app", "--write", "--commit-timeout", "2s", *self.places()], env=faults, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # A commit of its own first: the owner's `ready` record, which nobody waits for, is in the log before it.
        child.stdin.write("INSERT INTO t VALUES (0); SELECT CASE WHEN onepen_synced() IS NULL THEN '' ELSE 'ready' END AS word;\n")
        child.stdin.flush()
        check([child.stdout.readline() for _ in range(3)][2] == "ready\n", "it is the writer")
        arm.touch()
        out, err = child.communicate("INSERT INTO t VALUES (1);\n", timeout=HANG_SECONDS)
        check(fired.exists(), "the sync must have failed", err)
        check(child.returncode == UNKNOWN, f"it must end with {UNKNOWN}, not {child.returncode}", out, err)
        check("may be in the stream" in err or "may" in err and "opening it again" in err.lower(), "the sentence says that it may be there, and how to know", err)
        before = self.value("SELECT count(*) FROM t")
        check(before in (1, 2), "there once, or not at all", before)
        self.onepen("sql", "app", "--write", "INSERT INTO t VALUES (2)")
        check(self.value("SELECT count(*) FROM t") == before + 1, "opening it again settles it: what a reader saw stays")

    def case_lost_output(self):
        """Whoever reads the output of a command that ended with 0 has all of it."""
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        binary = self.root.bin / "onepen"
        for command in (("sql", "app", "SELECT * FROM t"), ("sql", "app", "--json", "SELECT * FROM t"), ("list",), ("status",), ("status", "app"), ("history", "app"), ("verify", "app"), ("version",), ("--help",)):
            places = () if command[0] in ("version", "--help") else self.places()
            for where in (">/dev/full", ">&-"):
                code, _, err = self.root.run(["/bin/sh", "-c", f'exec "$0" "$@" {where}', binary, *command, *places])
                check(code == UNAVAILABLE and "standard output" in err, f"onepen {' '.join(command)} {where} must end with {UNAVAILABLE}, not {code}", err)
        code, _, err = self.root.run(["/bin/sh", "-c", 'exec "$0" "$@" >&- 2>&- <&-', binary, "sql", "app", "--write", "INSERT INTO t VALUES (2)", *self.places()])
        check(self.value("SELECT count(*) FROM t") == 2, "what it did stands, and nothing was printed into a database", code, err)
        self.onepen("verify", "app")

    def case_interrupted(self):
        """Ctrl-C in an export or a verify leaves neither half a file nor a scratch folder."""
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 400) INSERT INTO t SELECT randomblob(40000) FROM c")
        user = self.root.path / "user"
        for number in (signal.SIGINT, signal.SIGTERM):
            for command, folder, mark in ((("export", "app", user / "out.db"), user, ".part"), (("verify", "app"), self.cache, "verify-")):
                for _ in range(20):
                    child = self.root.start([self.root.bin / "onepen", *command, *self.places()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    while child.poll() is None and not any(mark in name for name in os.listdir(folder)):
                        pass
                    child.send_signal(number)
                    code = child.wait(timeout=HANG_SECONDS)
                    left = [name for name in os.listdir(folder) if mark in name]
                    check(left == [], f"{command[0]} ended with {code} and left", left)
                    check(code in (OK, -number), f"{command[0]} ends by the signal, or was done", code)
                    if code == -number:
                        break
                    (user / "out.db").unlink(missing_ok=True)
                check(code == -number, f"{command[0]} was never interrupted")

    def on_terminal(self, *arguments, cache=None):
        """Standard error is a terminal: what is drawn there."""
        ours, theirs = pty.openpty()
        try:
            child = self.root.start([self.root.bin / "onepen", *arguments, *self.places(cache)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
            os.close(theirs)
            theirs = None
            drawn = b""
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # the last holder of the other side is gone
                    break
                if not data:
                    break
                drawn += data
            check(child.wait(timeout=HANG_SECONDS) == OK, f"onepen {arguments} must end well", drawn.decode(errors="replace"))
            return drawn.decode(errors="replace")
        finally:
            os.close(ours)
            if theirs is not None:
                os.close(theirs)

    def case_progress_bar(self):
        self.onepen("sql", "app", "--write", "CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(3000000))")
        for command, step in ((("sql", "app", "SELECT 1"), "read"), (("sql", "app", "--write", "SELECT 1"), "warm"), (("verify", "app"), "read"), (("export", "app", self.root.path / "user/out.db"), "read")):
            drawn = self.on_terminal(*command, cache=self.root.cache())
            check("\r\x1b[K" in drawn and step in drawn and "iB" in drawn, f"{command[0]} must draw a bar on a terminal", drawn)
            check(drawn.rstrip("\r\n").endswith("\x1b[K") or "\x1b[K" in drawn.splitlines()[-1], f"{command[0]} must clear its bar", drawn)
        for command in (("sql", "app", "SELECT 1"), ("verify", "app")):
            _, err = self.onepen(*command, cache=self.root.cache())
            check(err == "", "no bar where nobody looks", err)


if __name__ == "__main__":
    run(Exits, "cli-exits")
