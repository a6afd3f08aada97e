"""Disks that fill up or fail: every kind of file operation that a commit does, failed once, for good, or half-way, as ENOSPC and as EIO.

What must hold, whatever failed: a commit that the application was told succeeded is in the stream, whole and once; a commit that it was told failed is
not in the stream, unless the handle says `broken` or `unresolved`. The operations are found by a calibration run under the same shim (faults.c), so a new
file or call joins by itself. Then, where this user may mount, real full disks: a small tmpfs for the copy and one for the home.

    disk_faults.py local [N]   the same with durability=local; at most N of the faults, chosen by the seed

In local mode a commit that succeeded is in the copy first: opened again without faults, the copy has it and brings it into the stream. One that failed may
come back where SQLite itself failed it (it recovers what its WAL has, as without us); one that Onepen refused does not.
"""

import collections
import json
import random
import re
import sys

from harness import SQLITE_AUTH, Failure, QUICK, SqlError, Worker, check, main, reset_kind, seed, uri

COMMITS = 10
BODY_BYTES = 6_000
LOCAL = sys.argv[1:2] == ["local"]
MOST_RUNS = int(sys.argv[2]) if sys.argv[2:] else None
MODE = {"durability": "local", "close_flush": 200} if LOCAL else {}
HITS_PER_PLACE = 2 if QUICK or LOCAL else 5
MAY_BE_THERE = ("broken", "unresolved")
# How a place of a run is called across runs: numbers and random ids in names are not its name.
SHAPES = ((re.compile(r"[0-9a-f]{12,}"), "*"), (re.compile(r"\d+"), "*"))


def shape(path, folders):
    for folder, word in folders:
        if path == folder:
            return word + ":."
        if path.startswith(folder + "/"):
            rest = path[len(folder) + 1:]
            for pattern, put in SHAPES:
                rest = pattern.sub(put, rest)
            return f"{word}:{rest}"
    return None


class Run:
    """One process under the shim: opens, fills, and is answered; then everything it was told is compared with the stream."""

    def __init__(self, root, fault=None, arm_at_open=False, log=None, home=None, cache=None):
        self.root = root
        self.fault = fault
        self.home = home or root.home_folder()
        self.cache = cache or root.cache()
        self.fired = root.path / "user" / root.next("fired")
        self.arm = root.path / "user" / root.next("arm")
        env = {"LD_PRELOAD": root.bin / "onepen_faults.so", "ONEPEN_FAULT_ROOT": root.path, "ONEPEN_FAULT_FIRED": self.fired, "ONEPEN_FAULT_ARM": self.arm}
        if fault:
            env["ONEPEN_FAULT"] = fault
        if log:
            env["ONEPEN_FAULT_LOG"] = log
        self.worker = Worker(root, env=env, hooks=False)
        if arm_at_open:
            self.arm_now()
        self.answers = {}   # transaction -> the line that answered it
        self.setup = "ok"   # how opening and making the table went

    def arm_now(self):
        self.arm.touch()

    def go(self, commits=COMMITS, size=BODY_BYTES, blobs=1, first=1, timeout_ms=400):
        try:
            self.worker.open(uri("app", self.home, self.cache, commit_timeout=timeout_ms, notice_within=60_000, **MODE))
            self.worker.sql("PRAGMA wal_autocheckpoint=5")
            self.worker.sql("CREATE TABLE IF NOT EXISTS t(txn INTEGER, part INTEGER, sum INTEGER, body BLOB)")
        except SqlError as error:
            self.setup = f"{error} / {self.worker.sentence()}"
            # SQLite's own codes for its own files (FULL, IOERR, CANTOPEN) speak for themselves; ours never does.
            check(error.code != SQLITE_AUTH or len(self.worker.sentence()) > 20, "a refusal of ours must be explained by a sentence", self.story())
            return self
        self.arm_now()
        return self.fill(commits, size, blobs, first)

    def fill(self, commits=COMMITS, size=BODY_BYTES, blobs=1, first=1):
        self.worker.send("fill", first=first, count=commits, size=size, blobs=blobs)
        while True:
            line = self.worker.line()
            if line is None:
                raise Failure(f"the process died of a failed disk operation (exit {self.worker.died()})\n{self.worker.errors()}")
            if "txn" in line:
                self.answers[line["txn"]] = line
            elif line.get("ok"):
                return self
            else:
                raise Failure(f"the workload could not go on: {line}")

    def end(self):
        self.worker.quit()
        return self

    def has_fired(self):
        return self.fired.exists() and self.fired.stat().st_size > 0

    def judge(self, what, blobs=1, tables=True):
        """Opens from an empty cache without faults and from the cache that saw them, and compares. Returns the reset kinds seen."""
        kinds = collections.Counter()
        for cache in (self.cache, self.root.cache()) if LOCAL else (self.root.cache(), self.cache):
            reader = Worker(self.root, hooks=False)
            reader.open(uri("app", self.home, cache, **MODE))
            if not reader.value("SELECT count(*) FROM sqlite_master WHERE name = 't'"):
                check(not tables or self.setup != "ok", f"{what}: the table is gone", self.setup)
                landed = {}
            else:
                landed = {row[0]: row[1:] for row in reader.sql("SELECT txn, count(*), count(DISTINCT part) FROM t GROUP BY txn")}
                if LOCAL:
                    reader.value("SELECT onepen_synced()")
                damaged = reader.sql("PRAGMA integrity_check")
                check(damaged == [["ok"]], f"{what}: integrity_check says {damaged}")
            reader.quit()
            for txn, (rows, parts) in landed.items():
                check(rows == parts == blobs, f"{what}: transaction {txn} has {rows} rows ({parts} different), not {blobs}", self.story())
            for txn, line in self.answers.items():
                kind = reset_kind(line.get("status") or {})
                if line["answer"] == "ok":
                    check(txn in landed, f"{what}: transaction {txn} was acknowledged and is lost", self.story())
                elif txn in landed and not (LOCAL and line["code"] != SQLITE_AUTH):
                    check(kind in MAY_BE_THERE, f"{what}: transaction {txn} is in the stream, but the application was told it failed, and the reset is {kind}", self.story())
                    check("stream" in (line.get("sentence") or ""), f"{what}: the sentence must say whether the commit is in the stream", self.story())
                if line["answer"] != "ok":
                    check(line.get("sentence") or line.get("code") not in (0, None), f"{what}: a failed commit without an explanation", self.story())
                    if cache is self.cache:
                        kinds[kind or "usable"] += 1
            check(not set(landed) - set(self.answers), f"{what}: transactions nobody committed are there: {set(landed) - set(self.answers)}", self.story())
        return kinds

    def story(self):
        return json.dumps({"fault": self.fault, "setup": self.setup, "home": str(self.home), "cache": str(self.cache), "fired": self.fired.read_text() if self.fired.exists() else "", "answers": list(self.answers.values())})


def calibrate(root, arm_at_open):
    """(call, place) -> how often it happens in a run without faults."""
    log = root.path / "user" / root.next("calls")
    run = Run(root, log=log, arm_at_open=arm_at_open).go().end()
    check(run.setup == "ok" and all(line["answer"] == "ok" for line in run.answers.values()) and len(run.answers) == COMMITS, "the calibration run must succeed", run.story())
    run.judge("without faults")
    folders = ((str(run.home), "home"), (str(run.cache), "copy"))
    counts = collections.Counter()
    for line in log.read_text().splitlines():
        call, path = line.split(" ", 1)
        place = shape(path, folders)
        if place:
            counts[(call, place)] += 1
    return counts


def glob_of(root, run_home, run_cache, place):
    word, rest = place.split(":", 1)
    base = str(run_home if word == "home" else run_cache)
    return base if rest == "." else f"{base}/{rest}"


def faults_of(root, chance):
    """Every operation that a run without faults does, with which of its hits fails, and how."""
    faults = []
    for arm_at_open in (False, True):
        counts = calibrate(root, arm_at_open)
        if not arm_at_open:
            for call, word in (("write", "copy"), ("sync", "copy"), ("write", "home"), ("sync", "home")):
                check(any(c == call and p.startswith(word) for c, p in counts), f"no {call} under the {word} in a run of commits: the shim sees nothing", sorted(counts))
        for (call, place), count in sorted(counts.items()):
            hits = list(range(1, count + 1))
            if len(hits) > HITS_PER_PLACE:
                hits = [1, 2] + chance.sample(hits[2:], HITS_PER_PLACE - 2) if HITS_PER_PLACE > 2 else [1, chance.choice(hits[1:])]
            if arm_at_open:
                hits = hits[:1 if QUICK or (call == "sync" and place.startswith("home")) else 2]  # the opening's own are the first ones; as above: no long waits
            for number, hit in enumerate(hits):
                error = ("EIO", "ENOSPC")[(number + hit) % 2]
                how = chance.choice(("once", "once", "sticky", "short") if call == "write" else ("once", "sticky"))
                if arm_at_open and place.startswith("home"):
                    how = "once"  # a home that goes on failing is waited for while opening (30 s): unreachable_home() has one of those
                faults.append((arm_at_open, call, place, hit, error, how))
    return faults


def by_shim(root, chance):
    done = collections.Counter()
    kinds = collections.Counter()
    refused_opens = unfired = 0
    places = set()
    faults = faults_of(root, chance)
    if MOST_RUNS is not None and len(faults) > MOST_RUNS:
        faults = sorted(chance.sample(faults, MOST_RUNS))
    for arm_at_open, call, place, hit, error, how in faults:
        home, cache = root.home_folder(), root.cache()
        fault = f"{call}|{glob_of(root, home, cache, place)}|{hit}|{error}|{how}"
        what = f"{'open: ' if arm_at_open else ''}{call} {place} hit {hit} {error} {how}"
        run = Run(root, fault, arm_at_open, home=home, cache=cache).go().end()
        unfired += not run.has_fired()
        kinds.update(run.judge(what, tables=not arm_at_open))
        refused_opens += run.setup != "ok"
        done[call] += 1
        places.add((call, place))
    total = sum(done.values())
    check(LOCAL or (kinds["broken"] and kinds["unresolved"]), "no run reached a reset: broken, or unresolved", dict(kinds))
    check(unfired * 4 < total, f"{unfired} of {total} faults were never reached")
    print(f"disk_faults: {total} runs with one failing operation each ({', '.join(f'{c} {n}' for c, n in sorted(done.items()))}) at {len(places)} places, {unfired} not reached; "
          f"{refused_opens} openings refused; failed commits left the handle: {dict(kinds)}; no commit lost, none in the stream that was only called failed")
    for call, place in sorted(places):
        print(f"    {call:9} {place}")


def unreachable_home(root):
    """The disk under the home stays full while opening: given up after a while, with the reason, and nothing is there that would fence anybody."""
    home = root.home_folder()
    before = Worker(root, hooks=False)
    before.open(uri("app", home, root.cache()))
    before.sql("CREATE TABLE t(txn INTEGER, part INTEGER, sum INTEGER, body BLOB)")
    run = Run(root, f"link|{home}/app/@log/*|1|ENOSPC|sticky", arm_at_open=True, home=home).go().end()
    check(run.setup != "ok", "an opening that can write nothing must fail", run.story())
    check("No space left on device" in run.setup, "the sentence of an opening that failed must name the reason", run.setup)
    before.sql("INSERT INTO t VALUES(1, 0, 0, x'00')")  # the claim never landed: the owner before is still the owner
    before.quit()
    print(f"disk_faults: an opening on a full home is given up, and the owner before goes on: {run.setup}")


def by_full_disk(root, which):
    small = root.tmpfs(root.next("small"), 2 << 20)
    if small is None:
        print(f"disk_faults: this user may not mount a tmpfs; a full disk under the {which} was tested by the shim alone (ENOSPC, sticky and short)")
        return
    run = Run(root, **{which: small}).go(commits=60, size=150_000)
    failed = [line for line in run.answers.values() if line["answer"] != "ok"]
    acknowledged = len(run.answers) - len(failed)
    check(run.setup != "ok" or failed, f"2 MiB under the {which} must fill up", run.story())
    run.end()
    root.resize(small, 256 << 20)  # somebody makes room
    kinds = run.judge(f"full disk under the {which}")
    again = Worker(root, hooks=False)
    again.open(uri("app", run.home, run.cache))
    again.sql("CREATE TABLE IF NOT EXISTS t(txn INTEGER, part INTEGER, sum INTEGER, body BLOB)")
    again.sql("INSERT INTO t VALUES(1000, 0, 0, zeroblob(500000))")
    again.quit()
    print(f"disk_faults: a full disk under the {which}: {acknowledged} commits acknowledged and there, {len(failed)} refused ({dict(kinds)}); after room was made it goes on")


def test(root):
    check((root.bin / "onepen_faults.so").exists(), "the shim is missing: build the target onepen_faults")
    start = seed()
    print(f"disk_faults: seed {start}")
    chance = random.Random(start)
    by_full_disk(root, "cache")
    if not LOCAL:  # there commits go on while the home is full: local_disk.py
        by_full_disk(root, "home")
        unreachable_home(root)
    by_shim(root, chance)


main(test, "local_disk_faults" if LOCAL else "disk_faults")
