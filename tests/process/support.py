"""What the tests of local commits, takeover and recovery share: a thread held inside a file operation, what a log and a salvage hold, and copies of folders.

It reads log objects (docs/formats/log-object.md) and salvaged databases by itself, with nothing of the product: a second opinion.
"""

import collections
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess

from harness import Failure, SqlError, check, hang_guard, log_objects, reset_kind, uri, url

NOT_NOTICED_MS = 3_600_000  # notice_within: the owner's own look at the stream stays out of the story


def local(name, home, cache=None, **parameters):
    """The URI of a database whose commits follow in the background."""
    return uri(name, home, cache, durability="local", **parameters)


class Hold:
    """One thread of a child is held inside a file operation (faults.c), at a rule like "linked|<home>/app/@log/*|3|EIO". The rest of it goes on."""

    def __init__(self, root, rule, armed=True):
        self.root = root
        self.rule = rule
        self.path = root.path / "user" / root.next("hold")
        self.arm_file = root.path / "user" / root.next("arm")
        for end in ("held", "go"):
            fifo = self.path.with_suffix("." + end)
            os.mkfifo(fifo, 0o666)
            root.give(fifo)
        if armed:
            self.arm()

    def arm(self):
        """Calls are counted from now on."""
        self.arm_file.touch()

    def environment(self):
        return {"LD_PRELOAD": self.root.bin / "onepen_faults.so", "ONEPEN_FAULT_ROOT": self.root.path, "ONEPEN_FAULT": self.rule + "|hold",
                "ONEPEN_FAULT_HOLD": self.path, "ONEPEN_FAULT_ARM": self.arm_file}

    def wait(self):
        """Returns once the thread is held."""
        with hang_guard(f"nobody came to {self.rule}"):
            os.close(os.open(self.path.with_suffix(".held"), os.O_RDONLY))

    def let_go(self):
        with hang_guard(f"nobody is held at {self.rule}"):
            os.close(os.open(self.path.with_suffix(".go"), os.O_WRONLY))


# --- what a log holds -----------------------------------------------------------------------------------------------

Append = collections.namedtuple("Append", "id epoch sequence kind payload")
CLAIM, APPENDS = 1, 2
DATA = 2


def appends(home, name="app"):
    """Every append of the log's objects, in order; void ones too. Objects that are no appends are left out."""
    found = []
    contents = home.log_contents(name) if hasattr(home, "log_contents") else ((path, path.read_bytes()) for path in log_objects(home, name))
    for path, data in contents:
        magic, _version, kind, header, _body = struct.unpack_from("<4sHHIQ", data, 0)
        check(magic == b"OPLG", f"{path} is no log object")
        if kind != APPENDS:
            continue
        number, epoch = struct.unpack_from("<QQ", data, 44)
        first, count = struct.unpack_from("<QI", data, 92)
        table = header - 8 - 13 * count  # kind, length, digest of each append: the last thing before the header's checksum
        at = header
        for i in range(count):
            sort, size = struct.unpack_from("<BI", data, table + 13 * i)
            found.append(Append(number, epoch, first + i, sort, data[at:at + size]))
            at += size
        check(at == len(data) - 8, f"{path} does not end where its appends do: has the format changed?")
    return found


def commits(home, name="app"):
    return [append for append in appends(home, name) if append.kind == DATA]


def owners(root, home, name="app"):
    return root.onepen_json("history", name, "--home", url(home))["owners"]


def one_claim_to_an_epoch(root, home, acknowledged, name="app"):
    """No pair (incarnation, epoch) was ever acknowledged to two claims (I5); `acknowledged`: (incarnation, epoch, claim id) of handles that were."""
    claims = {}
    for row in owners(root, home, name):
        key = (row["incarnation"], row["epoch"])
        check(claims.setdefault(key, row["claim_id"]) == row["claim_id"], f"two claims of epoch {key} count", row)
    for incarnation, epoch, claim_id in acknowledged:
        known = claims.get((incarnation, epoch), claim_id)  # of a history that was replaced since: not in the log any more
        check(known == claim_id, f"claim {claim_id} was acknowledged under epoch {epoch}, which is claim {known}'s")
    by_epoch = collections.defaultdict(set)
    for incarnation, epoch, claim_id in acknowledged:
        by_epoch[(incarnation, epoch)].add(claim_id)
    for key, ids in by_epoch.items():
        check(len(ids) == 1, f"two processes were acknowledged under epoch {key}", sorted(ids))


def token(worker):
    status = worker.status()
    return status["incarnation"], status["epoch"], status["claim_id"]


# --- salvage --------------------------------------------------------------------------------------------------------

class Salvaged:
    """One folder of a salvage, read by plain SQLite from a copy of its files."""

    def __init__(self, root, folder):
        self.folder = folder
        manifest = folder / "manifest.json"
        check(manifest.exists(), f"{folder} has no manifest")
        self.manifest = json.loads(manifest.read_text())
        self.kind = self.manifest["kind"]
        self.here = root.path / root.next("salvaged")
        self.here.mkdir()
        for file in ("db", "db-wal"):
            if (folder / file).exists():
                shutil.copy2(folder / file, self.here / file)

    def rows(self, sql):
        """The rows of a statement; none where the table is not there."""
        if not (self.here / "db").exists():
            return []
        db = sqlite3.connect(self.here / "db")
        try:
            check(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", f"the database in {self.folder} is damaged")
            return [tuple(row) for row in db.execute(sql)]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise Failure(f"the database in {self.folder} cannot be read: {error}") from None
        finally:
            db.close()


def salvage_folders(cache, name="app"):
    place = pathlib.Path(cache) / "salvage" / name.replace("/", "%2F")
    # An empty one: the process was killed before its manifest; nothing had been moved yet.
    return sorted(path for path in place.iterdir() if path.is_dir() and any(path.iterdir())) if place.exists() else []


def salvage(root, cache, name="app"):
    return [Salvaged(root, folder) for folder in salvage_folders(cache, name)]


# --- folders --------------------------------------------------------------------------------------------------------

def copy_of(root, folder, name=None):
    """cp -a of a folder to a new place of the unprivileged user, as somebody does who moves a disk."""
    target = root.path / (name or root.next("copied"))
    subprocess.run(["cp", "-a", str(folder), str(target)], check=True)
    return target


def put_back(folder, backup):
    """The content of a folder becomes that of its backup, as `rm -rf; cp -a` does. The folder itself stays: it may be a mount."""
    for entry in list(pathlib.Path(folder).iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    subprocess.run(["cp", "-a", f"{backup}/.", str(folder)], check=True)


# --- statements -----------------------------------------------------------------------------------------------------

def table(worker, conn="main"):
    worker.sql("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, who TEXT, body BLOB)", conn=conn)


def put(worker, *numbers, who="", size=100, conn="main"):
    """One commit for each number."""
    for number in numbers:
        worker.sql("INSERT INTO t VALUES(?, ?, randomblob(?))", number, who, size, conn=conn)


def numbers(worker, conn="main"):
    return [row[0] for row in worker.sql("SELECT n FROM t ORDER BY n", conn=conn)]


def synced(worker, conn="main"):
    return worker.value("SELECT onepen_synced()", conn=conn)


def refused_synced(worker, *words, conn="main"):
    """onepen_synced() must be refused; returns the sentence, which must hold the words."""
    try:
        offset = synced(worker, conn)
    except SqlError as error:
        sentence = worker.sentence()
        for word in words:
            check(word in sentence, f"the sentence must say {word!r}", sentence, str(error))
        return sentence
    raise Failure(f"onepen_synced() of worker {worker.pid} must be refused, but it answered {offset}: {worker.status()}")


def check_reset(worker, *kinds, conn="main"):
    status = worker.status(conn)
    check(reset_kind(status) in kinds, f"the handle must be reset: {' or '.join(kinds)}", status)
    return status


def exported(root, home, name="app"):
    """The stream's content, by `onepen export` into a plain SQLite file: a connection of plain SQLite."""
    file = root.path / "user" / root.next("export")
    code, out, err = root.onepen("export", name, file, "--home", url(home))
    check(code == 0, f"onepen export ended with {code}", out, err)
    db = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    check(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", f"{file} is damaged")
    return db


def exported_numbers(root, home, name="app"):
    db = exported(root, home, name)
    try:
        return [row[0] for row in db.execute("SELECT n FROM t ORDER BY n")]
    finally:
        db.close()
