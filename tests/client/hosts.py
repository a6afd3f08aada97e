"""The three hosts of the story behind one face: sqlite3 in a terminal, Debian's Python, and better-sqlite3 in Node. Rows come back as text."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "process"))

from harness import HANG_SECONDS, PYTHON, Failure, SqlError, Worker, check, uri, url  # noqa: E402,F401

PROMPT = "sqlite> "
ERROR = re.compile(r"^(?:Runtime error|Parse error|Error)[^:]*: (.*) \((\d+)\)$", re.M)
NODE_MODULES = pathlib.Path(os.environ.get("ONEPEN_BUILD_DIR", HERE.parent.parent / "build")) / "client-node"


class Terminal:
    """A command in a pseudo-terminal, typed at and read by its prompt, as a person would."""

    def __init__(self, root, command, env=None, cwd=None):
        self.root = root
        ours, theirs = pty.openpty()
        self.fd = ours
        # A dumb terminal: line editing sends no escape sequences that a person would not see as text.
        environment = root.environment({"TERM": "dumb", "COLUMNS": "4000", **(env or {})})
        self.child = subprocess.Popen(["/bin/sh", "-c", "exec " + command], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment,
                                      cwd=str(cwd or root.path / "user"), **root.user())
        root.children.append(self.child)
        os.close(theirs)
        self.pid = self.child.pid
        self.greeting = self.until_prompt()

    def until_prompt(self):
        text = b""
        deadline = time.monotonic() + HANG_SECONDS
        while not text.endswith(PROMPT.encode()):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise Failure(f"hang: the terminal shows no prompt:\n{text.decode(errors='replace')}")
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:  # EIO: the other side was closed
                data = b""
            if not data:
                raise Failure(f"the program in the terminal ended ({self.child.wait()}):\n{text.decode(errors='replace')}")
            text += data
        return text.decode(errors="replace").replace("\r\n", "\n")[: -len(PROMPT)]

    def type(self, line):
        """Types one line; returns what was printed between it and the next prompt."""
        os.write(self.fd, line.encode() + b"\n")
        shown = self.until_prompt()
        first, _, rest = shown.partition("\n")  # the echo of what was typed
        check(line[:40] in first, "the terminal did not echo what was typed", line, shown)
        return rest.rstrip("\n")

    def leave(self):
        """The terminal window is closed (SIGHUP)."""
        os.kill(self.pid, signal.SIGHUP)
        self.child.wait(timeout=HANG_SECONDS)
        os.close(self.fd)
        self.root.children.remove(self.child)

    def end(self):
        os.write(self.fd, b".quit\n")
        try:
            self.child.wait(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure("hang: sqlite3 does not quit") from None
        os.close(self.fd)
        self.root.children.remove(self.child)


class SqliteCli:
    name = "sqlite3"

    def __init__(self, root, home, cache):
        self.home = home
        self.terminal = Terminal(root, f'sqlite3 -cmd ".load {root.extension(hooks=False)}" :memory:', {"ONEPEN_CACHE": cache})
        self.pid = self.terminal.pid

    def open(self, **parameters):
        shown = self.terminal.type(f".open '{uri('app', self.home, **parameters)}'")
        if shown:  # the shell goes on with a database in memory; the sentence is still there
            raise Failure(f"{self.name}: opening failed: {shown}\n    {self.sentence()}")

    def sql(self, text):
        shown = self.terminal.type(text + ";")
        if match := ERROR.search(shown):
            raise SqlError({"code": int(match[2]), "message": match[1], "name": "sqlite3"})
        return [line.split("|") for line in shown.split("\n")] if shown else []

    def close(self):
        shown = self.terminal.type(".open :memory:")
        # With durability=local, what is left unsent is told, whatever ONEPEN_LOG says.
        check(shown == "" or re.search("(is|are) not in the stream yet", shown), "closing by .open :memory: printed something", shown)

    def sentence(self):
        return self.sql("SELECT onepen_error()")[0][0]

    def end(self):
        self.terminal.end()

    def leave(self):
        self.terminal.leave()


class LineHost:
    """A worker that is asked by JSON lines."""

    def ask_open(self, ask):
        try:
            ask()
        except SqlError as error:
            raise Failure(f"{self.name}: opening failed: {error}\n    {self.sentence()}") from None

    def sql(self, text):
        return [["" if value is None else str(value) for value in row] for row in self.worker.ask("sql", sql=text, conn="main")["rows"]]

    def close(self):
        self.worker.ask("close")

    def sentence(self):
        return self.worker.ask("sql", sql="SELECT onepen_error()", conn="aux")["rows"][0][0]

    def end(self):
        code = self.worker.quit()
        check(code == 0, f"{self.name} ended with {code}", self.worker.errors())

    def leave(self):
        """Exits as a program does that never closes its database."""
        self.worker.send("leave", code=3)
        code = self.worker.died()
        check(code == 3, f"{self.name} left with {code}", self.worker.errors())


class Python(LineHost):
    name = "python3"

    def __init__(self, root, home, cache):
        self.home = home
        self.worker = Worker(root, env={"ONEPEN_CACHE": cache}, hooks=False)
        self.pid = self.worker.pid

    def open(self, **parameters):
        self.ask_open(lambda: self.worker.open(uri("app", self.home, **parameters)))


def readable(root):
    """Node, its program and the modules it loads, where the unprivileged user may read them: the build folder may be closed to it."""
    node = root.bin / "node-host"
    modules = node / "node_modules"
    if not node.exists():
        source = NODE_MODULES / "node_modules"
        for part in ("better-sqlite3/package.json", "better-sqlite3/lib", "better-sqlite3/build/Release/better_sqlite3.node", "bindings", "file-uri-to-path"):
            target = modules / part
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (source / part).is_dir() else shutil.copy2)(source / part, target)
        shutil.copy2(HERE / "better_sqlite3_host.js", node / "host.js")
        subprocess.run(["chmod", "-R", "a+rX", str(node)], check=True)
    return [(NODE_MODULES / "node").resolve(), node / "host.js", node]


class BetterSqlite3(LineHost):
    name = "better-sqlite3"

    def __init__(self, root, home, cache):
        self.home = home
        check((NODE_MODULES / "node_modules" / "better-sqlite3").exists(), f"better-sqlite3 is not installed in {NODE_MODULES}: run install_better_sqlite3.py first")
        self.worker = Worker(root, env={"ONEPEN_CACHE": cache}, argv=[*readable(root), root.extension(hooks=False)])
        self.pid = self.worker.pid

    def open(self, **parameters):
        settings = "&".join(f"{key}={value}" for key, value in parameters.items())
        self.ask_open(lambda: self.worker.ask("open", home=url(self.home), name="app", settings=settings))


HOSTS = (SqliteCli, Python, BetterSqlite3)


def refused(host, text):
    """A statement that must fail with code 23."""
    try:
        rows = host.sql(text)
    except SqlError as error:
        check(error.code == 23, f"{host.name}: {text!r} must be refused with code 23", str(error))
        check("authorization denied" in error.message or "not authorized" in error.message, f"{host.name}: code 23 is 'authorization denied' to a plain host", error.message)
        return
    raise Failure(f"{host.name}: {text!r} must be refused with code 23, but it answered {rows}")


def status(host):
    return json.loads(host.sql("SELECT onepen_status()")[0][0])


