#!/usr/bin/python3
"""What it costs a SQLite writer to have its commits elsewhere, and what of them is lost: Onepen beside Litestream and LiteFS, in the same rounds.

  plain        SQLite alone, WAL, synchronous=NORMAL; so are all the others
  litestream   the same file with `litestream replicate` beside it, to a folder, at its defaults (looks once a second)
  litestream+  the same, told to look as often as Onepen's sender does at its slowest (20 ms)
  litefs       a file in LiteFS's FUSE mount, a primary by static lease, and a second node that follows it over HTTP
  local        Onepen, durability=local: the sender is a thread of the writer
  replicated   Onepen, durability=replicated: a COMMIT returns when it is in the home

commit   one row of 100 B a transaction, as fast as it goes, from the same Python: p50, p99, the processor time of the writer and of what ships.
lost     kill -9 of writer and shipper at a random moment of a steady load: the transactions whose COMMIT had returned and that are not in what is left elsewhere
         (Litestream: its restore; LiteFS: the second node's file; Onepen: a fresh cache).
restore  a database of --bytes brought back from the folder, to its first SELECT.

Litestream and LiteFS come from the Go registry (`go install`, into <build>/peers), LiteFS mounts with fusermount3 as root; a peer that is not there is left out and named.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

LITESTREAM = "github.com/benbjohnson/litestream/cmd/litestream@v0.5.18"
LITEFS = "github.com/superfly/litefs/cmd/litefs@v0.5.14"
PEERS = ["plain", "litestream", "litestream+", "litefs", "local", "replicated"]
SHIPPED = [name for name in PEERS if name != "plain"]
PATIENCE_SECONDS = 60
FIRST_PORT = 20_400


def wait_until(true, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        if time.monotonic() > end:
            sys.exit(f"shipping: {what} did not come about within {PATIENCE_SECONDS} s")
        time.sleep(0.01)


def processor_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Peer:
    """One way to have a database elsewhere too, in a folder of its own: the processes beside the writer, and how to open what they make of it."""

    ports = iter(range(FIRST_PORT, FIRST_PORT + 2_000))

    def __init__(self, name, folder, tools):
        self.name, self.folder, self.tools = name, folder, tools
        self.beside, self.mounts = [], []
        folder.mkdir(parents=True)
        if name == "litefs":
            self.primary, primary_url = self.litefs_node("primary", True, None)
            self.second, _ = self.litefs_node("second", False, primary_url)
        elif name.startswith("litestream"):
            interval = {} if name == "litestream" else {"monitor-interval": "20ms"}
            replica = {"type": "file", "path": str(folder / "replica"), **({} if name == "litestream" else {"sync-interval": "20ms"})}
            (folder / "litestream.yml").write_text(json.dumps({"dbs": [{"path": str(folder / "app.db"), **interval, "replica": replica}]}))

    def litefs_node(self, role, primary, primary_url):
        folder, port = self.folder / role, next(self.ports)
        for part in ("mount", "data"):
            (folder / part).mkdir(parents=True)
        url = f"http://127.0.0.1:{port}"
        lease = {"type": "static", "advertise-url": primary_url or url, "candidate": primary, "hostname": "localhost"}
        config = {"fuse": {"dir": str(folder / "mount")}, "data": {"dir": str(folder / "data")}, "http": {"addr": f"127.0.0.1:{port}"}, "lease": lease}
        (folder / "litefs.yml").write_text(json.dumps(config))
        self.mounts.append(folder / "mount")
        self.start([self.tools["litefs"], "mount", "-config", folder / "litefs.yml"])
        wait_until(lambda: os.path.ismount(folder / "mount"), f"the mount of LiteFS ({role})")
        return folder, url

    def start(self, command):
        log = (self.folder / f"beside{len(self.beside)}.log").open("w")
        self.beside.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))

    def ship(self):
        """Once the database is there."""
        if self.name.startswith("litestream"):
            self.start([self.tools["litestream"], "replicate", "-config", self.folder / "litestream.yml"])
            wait_until(lambda: any((self.folder / "replica").rglob("*.ltx")), "Litestream's first file")

    def where(self, cache="cache"):
        """What sqlite3.connect() takes."""
        if self.name == "litefs":
            return str(self.primary / "mount/app.db")
        if self.name in ("local", "replicated"):
            return f"file:app?vfs=onepen&home=file://{self.folder}/home&cache_root={self.folder}/{cache}&durability={self.name}"
        return str(self.folder / "app.db")

    def elsewhere(self):
        """The same of what is left when the machine of the writer is gone; brings it back first."""
        if self.name == "litefs":
            return str(self.second / "mount/app.db")
        if self.name.startswith("litestream"):
            back = self.folder / "back.db"
            subprocess.run([self.tools["litestream"], "restore", "-config", self.folder / "litestream.yml", "-o", back, self.folder / "app.db"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return str(back)
        return self.where("cache-elsewhere")

    def shippers(self):
        """The processes that die with the writer: not LiteFS's second node, which stands for another machine."""
        return self.beside[:1]

    def stop(self):
        for child in self.beside:
            child.send_signal(signal.SIGTERM)
        for child in self.beside:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for mount in self.mounts:  # what a killed LiteFS leaves cannot even be looked at
            subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def peer(name, folder, tools):
    made = Peer(name, folder, tools)
    try:
        yield made
    finally:
        made.stop()


# ---- the writer, a process of its own: it is killed

def connect(where, extension):
    if "vfs=onepen" in where:
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(extension)
    db = sqlite3.connect(where, uri="vfs=onepen" in where, isolation_level=None, timeout=30)
    if "vfs=onepen" not in where:
        db.execute("PRAGMA journal_mode=WAL").fetchall()
    db.execute("PRAGMA synchronous=NORMAL")
    return db


def writer(where, extension):
    """Makes the table, says so, waits for a line, commits at a rate (0: without a pause) for some seconds and says how that went; `acknowledged` after each COMMIT, where asked."""
    db = connect(where, extension)
    db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v BLOB)")
    print("ready", flush=True)
    work = json.loads(sys.stdin.readline())
    took, each = [], 1 / work["rate"] if work["rate"] else 0
    begun = due = time.perf_counter()
    while (at := time.perf_counter()) < begun + work["seconds"]:
        if at < due:
            time.sleep(due - at)
            at = time.perf_counter()
        db.execute("INSERT INTO t(v) VALUES (zeroblob(100))")
        took.append(time.perf_counter() - at)
        due += each
        if work["tell"]:
            os.write(1, b"%d\n" % len(took))
    seconds = time.perf_counter() - begun
    print(json.dumps({"took": took, "seconds": seconds, "processor": time.process_time()}), flush=True)
    sys.stdin.readline()


def start_writer(made, options):
    child = subprocess.Popen([sys.executable, __file__, "--writer", made.where(), "--extension", options.extension], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if child.stdout.readline() != "ready\n":
        sys.exit(f"shipping: the writer of {made.name} did not start")
    made.ship()
    return child


# ---- the questions

def commits(name, folder, tools, options):
    with peer(name, folder, tools) as made:
        child = start_writer(made, options)
        before = [processor_seconds(other.pid) for other in made.shippers()]
        child.stdin.write(json.dumps({"rate": 0, "seconds": options.seconds, "tell": False}) + "\n")
        child.stdin.flush()
        told = json.loads(child.stdout.readline())
        told["beside"] = sum(processor_seconds(other.pid) for other in made.shippers()) - sum(before)
        child.communicate("\n")
        return told


def lost(name, folder, tools, options, chance):
    with peer(name, folder, tools) as made:
        child = start_writer(made, options)
        child.stdin.write(json.dumps({"rate": options.rate, "seconds": 1_000, "tell": True}) + "\n")
        child.stdin.flush()
        time.sleep(chance.uniform(2.0, 4.0))
        for dying in (child, *made.shippers()):
            dying.kill()
        acknowledged = int(child.stdout.read().split()[-1])
        for dying in (child, *made.shippers()):
            dying.wait()
        db = connect(made.elsewhere(), options.extension) if name != "litefs" else sqlite3.connect(f"file:{made.elsewhere()}?mode=ro", uri=True)
        there = db.execute("SELECT max(id) FROM t").fetchone()[0] or 0
        db.close()
        return max(0, acknowledged - there)


def restore(name, folder, tools, options):
    with peer(name, folder, tools) as made:
        db = connect(made.where(), options.extension)
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)")
        made.ship()
        left = options.bytes
        while left > 0:
            db.execute("INSERT INTO t(v) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT randomblob(1000) FROM n")
            left -= 1_000_000
        rows = db.execute("SELECT count(*) FROM t").fetchone()[0]
        db.close()
        if made.beside:
            time.sleep(3)  # its last look
            for child in made.beside:
                child.send_signal(signal.SIGTERM)
                child.wait()
        begun = time.perf_counter()
        db = connect(made.elsewhere(), options.extension)
        there = db.execute("SELECT max(id) FROM t").fetchone()[0]
        seconds = time.perf_counter() - begun
        db.close()
        if there != rows:
            sys.exit(f"shipping: {name} brought back {there} rows of {rows}")
        return {"seconds": seconds, "megabytes_a_second": options.bytes / 1e6 / seconds}


def at(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def tools_of(build):
    """The peers that can be had here, by name; what is missing is said."""
    tools = {}
    for name, package in (("litestream", LITESTREAM), ("litefs", LITEFS)):
        path = build / "peers" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(["go", "install", package], env={**os.environ, "GOBIN": str(path.parent), "GOFLAGS": "-modcacherw"}, capture_output=True,
                                  text=True, check=False) if shutil.which("go") else None
            if done is None or done.returncode != 0:
                print(f"shipping: without {name}: {done.stderr.strip().splitlines()[-1] if done else 'there is no go'}", file=sys.stderr)
                continue
        tools[name] = path
    if "litefs" in tools and not (shutil.which("fusermount3") or shutil.which("fusermount")):
        print("shipping: without litefs: there is no fusermount3 (package fuse3)", file=sys.stderr)
        del tools["litefs"]
    return tools


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build-bench"))
    options.add_argument("--folder", default=".")
    options.add_argument("--rounds", type=int, default=5, help="of each question")
    options.add_argument("--seconds", type=float, default=4, help="of commits in a round")
    options.add_argument("--rate", type=int, default=500, help="commits a second while somebody is killed")
    options.add_argument("--bytes", type=int, default=100_000_000, help="of the database that is brought back")
    options.add_argument("--writer", help=argparse.SUPPRESS)
    options.add_argument("--extension", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.writer:
        return writer(given.writer, given.extension)
    given.extension = str(given.build.resolve() / "bin/onepen.so")
    tools = tools_of(given.build.resolve())
    names = [name for name in PEERS if name in ("plain", "local", "replicated") or name.rstrip("+") in tools]
    chance = random.Random(1)
    result = {"rounds": given.rounds, "rate": given.rate, "bytes": given.bytes, "load_before": pathlib.Path("/proc/loadavg").read_text()[:14],
              "litestream": LITESTREAM.rsplit("@", 1)[1], "litefs": LITEFS.rsplit("@", 1)[1], "commit": {}, "lost": {}, "restore": {}}
    with tempfile.TemporaryDirectory(prefix="onepen-shipping-", dir=given.folder) as root:
        number = iter(range(1_000_000))
        folder = lambda: pathlib.Path(root).resolve() / f"p{next(number)}"  # noqa: E731
        rounds = [{name: commits(name, folder(), tools, given) for name in names} for _ in range(given.rounds)]
        for name in names:
            took = [one for each in rounds for one in each[name]["took"]]
            count, seconds = len(took), sum(each[name]["seconds"] for each in rounds)
            result["commit"][name] = {"p50_us": at(took, 0.5) * 1e6, "p99_us": at(took, 0.99) * 1e6, "per_second": count / seconds,
                                      "writer_us_each": sum(each[name]["processor"] for each in rounds) / count * 1e6,
                                      "beside_us_each": sum(each[name]["beside"] for each in rounds) / count * 1e6}
        for name in names:
            if name in SHIPPED:
                some = [lost(name, folder(), tools, given, chance) for _ in range(given.rounds)]
                result["lost"][name] = {"p50": at(some, 0.5), "max": max(some)}
            if name in SHIPPED and name not in ("litefs", "litestream+"):
                some = [restore(name, folder(), tools, given) for _ in range(max(1, given.rounds // 2))]
                result["restore"][name] = {key: at([one[key] for one in some], 0.5) for key in some[0]}
    result["load_after"] = pathlib.Path("/proc/loadavg").read_text()[:14]
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
