"""kill -9 in local mode, at every named failpoint and at random moments, then opening again from the same, another, or an empty cache root.

Commits follow in the background here, so more can be there than the stream has. What must hold after each kill:
  * opened again from the same copy, every COMMIT that returned is there, and at most the one begun after it, unless somebody else wrote meanwhile;
  * if somebody else wrote meanwhile, what the stream lacks of it is in salvage, whole and in order;
  * every transaction covered by an onepen_synced() that returned is in the stream: in every later opening, once, at its place;
  * each transaction is whole: its rows are those of its plan, its number follows the one before, and nothing else is there.
The lives have automatic and explicit checkpoints of every mode, WAL restarts, VACUUM, commits of several parts, savepoints; now and then a life is stopped
in the middle while another process takes over, or is opened with its home out of reach. Half of the homes make a snapshot, pack and trim every 64 KiB.

The names of the failpoints come from a calibration run and from the sources: one that neither the lives nor the list ELSEWHERE reaches fails the test.

    local_kill_loop.py [kills]     at least so many kills (500); fewer for a quick look

Two loops run beside each other, each with half of the kills and of the failpoints: a life waits for the disk most of its time.
"""

import collections
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys

from bucket_support import OutOfReach, movable_home
from harness import Failure, QUICK, SOURCE, Worker, check, main, reset_kind, seed, url
from support import exported, local, salvage_folders, Salvaged

LOOPS = 2
SNAPSHOT_AFTER = 64 << 10   # of every second home
NO_SNAPSHOT = 1 << 40       # the lives of a home may write more than makes one by itself
ALL_KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 60 if QUICK else 500
LOOP = int(sys.argv[2]) if len(sys.argv) > 2 else None   # which of the loops this process is
KILLS = ALL_KILLS // LOOPS
KILLS_PER_HOME = 30
TRANSACTIONS = 12       # of one life
MOST_BARREN = 2         # lives in a row that may have brought nothing into the stream; the next change of owner without a commit would have to wait (flapping)
LATEST_HIT = 40         # failpoints are armed at their 1st .. 40th hit
RIVALS = 0.06           # lives in which another process takes over in the middle
OFFLINE = 0.06          # lives that open without their home
TENDING = 4             # lives of one home in which a failpoint of the caretaker's thread must be met
# On a thread of their own, which looks after the log when it comes to it, or only at a rare moment: armed at their first hit they may be missed.
BY_CHANCE = ("caretaker.", "snapshot.", "home.tend_", "home.before_snapshot_", "home.after_snapshot_")
# In the sources, but not in the lives of this loop: where each is killed instead.
ELSEWHERE = {
    "test.": "of the unit tests themselves",
    "home.before_admin_create": "restore, adopt, delete: admin_kills.py",
    "home.after_admin_create": "restore, adopt, delete: admin_kills.py",
    "salvage.before_name": "salvage export: admin_kills.py",
    "copy.discard": "copies that hold nothing unsent and are in nobody's way any more: copy_kill_test.cc",
    "live.": "a database that is read while it is written into: follower_kills.py",
    "keeper.released": "an owner that hands over: standby.py",
    "disk.append": "a file operation that local copies and homes do without: as an error in the tests of src/io",
    "capture.after_header": "commits that wait for the home: kill_loop.py",
    "capture.after_commit_frame": "commits that wait for the home: kill_loop.py",
    "capture.before_reserve": "commits that wait for the home: kill_loop.py",
    "capture.before_submit": "commits that wait for the home: kill_loop.py",
    "capture.after_part": "commits that wait for the home: kill_loop.py",
    "capture.after_ack": "commits that wait for the home: kill_loop.py",
    "capture.before_commit_frame": "commits that wait for the home: kill_loop.py",
}

# Met only after a kill at another one, in a home without a snapshot.
AFTER = {"copy.acquire_folded": "copy.batch_is_wal"}


class Cache:
    """One machine: its cache root and what its copy holds."""

    def __init__(self, root):
        self.path = root.cache()
        self.sure = []       # (number, life) of every COMMIT that returned, in order
        self.maybe = None    # the one begun after them
        self.used = False


class Database:
    """One home with the caches of two machines, and what is known."""

    def __init__(self, root, base, snapshot_after=None):
        self.root = root
        self.settings = {"snapshot_after": snapshot_after} if snapshot_after else {}
        self.home = movable_home(root)
        self.made = []
        self.caches = [self.new_cache(), self.new_cache()]
        self.base = base
        self.certain = []    # of the stream: covered by an onepen_synced() that returned
        self.lives = self.kills = self.barren = self.salvaged = self.offline = self.rivals = 0
        self.begun = set()   # every (number, life) whose COMMIT was begun and not refused
        self.not_opened = 0  # offline openings refused
        self.read = {}       # salvage folder -> its transactions

    def forget(self):
        """It has shown what it had to show: its files go."""
        shutil.rmtree(self.home.parent)
        for cache in self.made:
            shutil.rmtree(cache.path)

    def new_cache(self):
        self.made.append(Cache(self.root))
        return self.made[-1]

    def pick(self, chance):
        which = chance.random()
        if which < 0.12:
            self.caches[chance.randrange(2)] = self.new_cache()  # an empty one: rebuilt from the stream
        return self.caches[0 if which < 0.6 else 1]

    # --- what must hold -----------------------------------------------------------------------------------------------
    def opened(self, cache, got, online, what):
        got = [tuple(pair) for pair in got]
        numbers = [number for number, _ in got]
        check(numbers == list(range(1, len(got) + 1)), f"{what}: the transactions are not 1..k, each once", numbers)
        check(not online or got[:len(self.certain)] == self.certain,
              f"{what}: transactions that onepen_synced() covered are not there", f"certain: {self.certain[-30:]}", f"there: {got[-30:]}")
        check(set(got) <= self.begun, f"{what}: transactions are there that nobody committed", str(sorted(set(got) - self.begun)))
        common = 0
        while common < min(len(got), len(cache.sure)) and got[common] == cache.sure[common]:
            common += 1
        if common < len(cache.sure):
            lost = cache.sure[common:]
            check(len(got) > common, f"{what}: nobody else wrote, but commits of this copy are not there", f"lost: {lost}", f"there: {got[-30:]}")
            self.find_salvaged(cache, common, lost, what)
        cache.sure, cache.maybe, cache.used = got, None, True

    def find_salvaged(self, cache, common, lost, what):
        seen = []
        for folder in salvage_folders(cache.path):
            if folder not in self.read:
                self.read[folder] = Salvaged(self.root, folder).rows("SELECT n, life FROM seq ORDER BY n")
            if self.read[folder][common:common + len(lost)] == lost:
                self.salvaged += len(lost)
                return
            seen.append(f"{folder.name}: {self.read[folder][-20:]}")
        raise Failure(f"{what}: commits are neither in the database nor in salvage\n    lost: {lost}\n    salvage of {cache.path}:\n    " + "\n    ".join(seen))

    def confirmed(self, cache, number, what):
        new = cache.sure[:number]
        check(new[:len(self.certain)] == self.certain or self.certain[:len(new)] == new, f"{what}: two histories were both confirmed", str(self.certain[-5:]), str(new[-5:]))
        if len(new) > len(self.certain):
            self.certain = new
        self.barren = 0


class Life:
    """One process: opens, says what is there, commits until it is killed, refused or done."""

    def __init__(self, db, cache, env, count=TRANSACTIONS, synced=0.15, at_end=True, offline=False, autocheckpoint=12):
        self.db, self.cache, self.offline = db, cache, offline
        db.lives += 1
        db.barren += 1
        self.number = db.lives
        self.what = f"life {self.number} ({env}) of {db.home} on {cache.path}"
        self.rival_saw = None   # what a process that took over from this one found
        self.done = self.has_opened = self.killed_by_us = False
        self.refused = None
        self.seen = 0
        self.worker = Worker(db.root, env=env)
        self.worker.send("open", uri=local("app", db.home, cache.path, **db.settings, **({"offline": 1} if offline else {})))
        self.worker.send("local", seed=db.base, life=self.number, count=count, synced=synced, at_end=at_end, autocheckpoint=autocheckpoint)

    def take(self, line):
        db, cache = self.db, self.cache
        if line.get("ok") is False and self.offline and not self.has_opened:
            db.not_opened += 1  # its copy is not one to go on from without the home; the next life opens with it
            self.worker.kill()
            self.killed_by_us = self.done = True
            return
        if line.get("ok") is False:
            raise Failure(f"{self.what}: failed after {self.seen} transactions: {line}\n{self.worker.errors()}")
        if "opened" in line:
            db.opened(cache, line["opened"], line["status"]["role"] != "offline", self.what)
            self.has_opened = True
        elif "trying" in line:
            cache.maybe = (line["trying"], self.number)
            db.begun.add(cache.maybe)
        elif "committed" in line:
            check(cache.maybe == (line["committed"], self.number), f"{self.what}: committed what it had not begun", line)
            cache.sure.append(cache.maybe)
            cache.maybe = None
            self.seen += 1
        elif "synced" in line:
            number = line["synced"]
            check(self.rival_saw is None or self.rival_saw[:number] == cache.sure[:number],
                  f"{self.what}: onepen_synced() returned after somebody else opened without these commits", str(cache.sure[-5:]), str((self.rival_saw or [])[-5:]))
            db.confirmed(cache, number, self.what)
        elif "refused" in line:
            self.refused = line
            if line["doing"] == "transaction":
                db.begun.discard(cache.maybe)  # refused: rolled back, here and for ever
                cache.maybe = None
        elif "done" in line:
            self.done = True

    def run(self, kill_after=None, pause_after=None):
        """Until its output ends, it is done, or it was paused."""
        try:
            while not self.done:
                line = self.worker.line()
                if line is None:
                    break
                self.take(line)
                if kill_after is not None and self.seen >= kill_after:
                    os.kill(self.worker.pid, signal.SIGKILL)
                    kill_after = None
                if pause_after is not None and self.has_opened and self.seen >= pause_after:
                    self.worker.pause()
                    self.drain()
                    return self
        except BaseException:
            self.worker.kill()
            raise
        return self

    def drain(self):
        """What it had said before it was stopped."""
        while b"\n" in self.worker.buffer or select.select([self.worker.child.stdout], [], [], 0)[0]:
            if (line := self.worker.line()) is None:
                return
            self.take(line)

    def end(self, may_be_fenced=False):
        """True: it was killed."""
        if self.killed_by_us:
            return False
        code = self.worker.quit() if self.done else self.worker.died()
        check(code in (0, -signal.SIGKILL), f"{self.what} ended with {code}", self.worker.errors())
        if self.refused is not None:
            kind = reset_kind(self.refused["status"])
            check(may_be_fenced and kind == "fenced" and self.refused["sentence"], f"{self.what} was refused", self.refused)
        self.worker.log.unlink()
        return code == -signal.SIGKILL


def good_life(db, cache):
    """Opens, commits one transaction, and waits until everything is in the stream."""
    life = Life(db, cache, {}, count=1, synced=0).run()
    check(not life.end() and life.done, "a life without failpoint was killed")
    check(db.certain == cache.sure, f"{life.what}: onepen_synced() returned, but not for everything", str(db.certain[-3:]), str(cache.sure[-3:]))


def rival_life(db, chance, env):
    """A life that is stopped while another process takes over from the other cache, and then goes on. Returns True if the other one was killed."""
    db.rivals += 1
    here, there = db.caches if chance.random() < 0.5 else reversed(db.caches)
    old = Life(db, here, {}, synced=0.2).run(pause_after=chance.randrange(TRANSACTIONS))
    if old.done:
        old.worker.go_on()
        check(not old.end(), "a life without failpoint was killed")
        return False
    new = Life(db, there, env).run()
    if new.has_opened:
        old.rival_saw = list(there.sure)
    killed = new.end()
    old.worker.go_on()
    old.run()
    check(not old.end(may_be_fenced=True), "a life without failpoint was killed")
    check(not new.has_opened or old.refused is not None, f"{old.what}: somebody else opened and committed, but it was never refused")
    return killed


def offline_life(db, cache, env, kill_after=None):
    """Opens without its home, which comes back while it goes on. It may find that somebody else opened meanwhile."""
    db.offline += 1
    with OutOfReach(db.root, db.home) as away:
        life = Life(db, cache, env, offline=True)
        try:
            while not life.has_opened and not life.done and (line := life.worker.line()) is not None:
                life.take(line)
        except BaseException:
            life.worker.kill()
            raise
        away.reach()
        life.run(kill_after)
    return life.end(may_be_fenced=True)


def calibrate(root, base):
    """The failpoints that the workload reaches: in a new home, again, from an empty cache, with a takeover that leaves something to salvage, and offline."""
    names = root.path / "failpoints"
    names.touch()
    root.give(names)
    env = {"ONEPEN_FAILPOINT_LIST": names}
    for settings in (None, SNAPSHOT_AFTER):
        db = Database(root, base, settings)
        for cache in (db.caches[0], db.caches[0], db.caches[1]):
            check(not Life(db, cache, env, count=2 * TRANSACTIONS).run().end(), "nothing was armed")
        offline_life(db, db.caches[1], env)
        rival_life(db, random.Random(base), env)
        for cache in (*db.caches, db.new_cache()):
            check(not Life(db, cache, env).run().end(), "nothing was armed")
        db.forget()
    return sorted(set(names.read_text().split()))


def in_the_sources():
    """Every name that the code has, but those that ELSEWHERE answers for."""
    names = set()
    for file in (SOURCE / "src").rglob("*.cc"):
        if not file.name.endswith("_test.cc"):
            names.update(re.findall(r'ONEPEN_FAILPOINT\("([^"]+)"\)', file.read_text()))
    check(len(names) > 50, "hardly any failpoint is in the sources", sorted(names))
    stale = [name for name in ELSEWHERE if not name.endswith(".") and name not in names]
    check(not stale, "ELSEWHERE names what is not in the sources any more", stale)
    return sorted(name for name in names if not any(name.startswith(other) for other in ELSEWHERE))


def finish(db, everywhere=True):
    """What is there is whole and the same everywhere: from both caches; from nothing, in an export, and by `onepen verify`."""
    for cache in (*db.caches, *([db.new_cache()] if everywhere else [])):
        good_life(db, cache)
    if not everywhere:
        return
    out = exported(db.root, db.home)
    got = [tuple(row) for row in out.execute("SELECT n, life FROM seq ORDER BY n")]
    out.close()
    check(got == db.certain, "the export holds something else than was confirmed", str(got[-5:]), str(db.certain[-5:]))
    code, said, err = db.root.onepen("verify", "app", "--home", url(db.home), "--cache-root", str(db.caches[0].path))
    check(code == 0, f"onepen verify ended with {code} after {db.kills} kills in {db.home}", said, err)


def at_first_hit(root, names, chance, killed_at, finished):
    """Every failpoint once, at its first hit, in a home of its own age. Returns those that were not met."""
    unreached = []
    for number, name in enumerate(names):
        tending = name.startswith(BY_CHANCE) or (number % 2 == 1 and name not in AFTER)
        db = Database(root, chance.getrandbits(32), SNAPSHOT_AFTER if tending else NO_SNAPSHOT if name in AFTER else None)
        env = {"ONEPEN_FAILPOINT": f"{name}=kill@1"}
        here, there = db.caches
        lives = [lambda: Life(db, here, env).run().end()] * 2 + [lambda: Life(db, there, env).run().end(), lambda: rival_life(db, chance, env)]
        lives += [lambda: Life(db, here, env).run().end(), lambda: Life(db, there, env).run().end(), lambda: Life(db, db.new_cache(), env).run().end()]
        if name in AFTER:
            cache = db.new_cache()
            check(not Life(db, here, {}).run().end(), "nothing was armed")
            lives = [lambda: Life(db, cache, {"ONEPEN_FAILPOINT": f"{AFTER[name]}=kill@1"}).run().end() and Life(db, cache, env).run().end()]
        if name.startswith(BY_CHANCE):
            lives += [lambda: Life(db, here, env, count=2 * TRANSACTIONS).run().end()] * TENDING
        if any(life() for life in lives):
            db.kills += 1
            killed_at[name] += 1
        else:
            unreached.append(name)
        finish(db, everywhere=chance.random() < 0.2)
        finished(db)
    return unreached


def test(root):
    start = seed()
    chance = random.Random(start)
    names, reached = in_the_sources(), set(calibrate(root, start))
    mine = names[LOOP::LOOPS]
    killed_at, totals = collections.Counter(), collections.Counter()

    def finished(db):
        totals.update(lives=db.lives, transactions=len(db.certain), salvaged=db.salvaged, offline=db.offline, not_opened=db.not_opened, rivals=db.rivals, homes=1)
        db.forget()

    unreached = at_first_hit(root, mine, chance, killed_at, finished)
    db, misses = None, 0
    while sum(killed_at.values()) < KILLS:
        if db is None or db.kills >= KILLS_PER_HOME:
            if db is not None:
                finish(db)
                finished(db)
            db = Database(root, chance.getrandbits(32), SNAPSHOT_AFTER if totals["homes"] % 2 else None)
        if db.barren >= MOST_BARREN:
            good_life(db, db.pick(chance))
        name, env, after = "(a random moment)", {}, chance.randrange(TRANSACTIONS)
        if chance.random() > 0.15:
            left = [point for point in mine if point not in killed_at] if chance.random() < 0.5 else []
            name, after = chance.choice(left or names), None
            env = {"ONEPEN_FAILPOINT": f"{name}=kill@{1 if left else min(LATEST_HIT, int(chance.expovariate(0.15)) + 1)}"}
        kind = chance.random()
        cache = db.pick(chance)
        if kind < RIVALS:
            killed = rival_life(db, chance, env)
        elif kind < RIVALS + OFFLINE and cache.sure:
            killed = offline_life(db, cache, env, after)
        else:
            killed = Life(db, cache, env, synced=chance.choice((0, 0.1, 0.3)), at_end=chance.random() < 0.5, autocheckpoint=chance.choice((5, 12, 1000))).run(after).end()
        if killed:
            db.kills += 1
            killed_at[name] += 1
        else:
            misses += 1
            check(misses < 20 * KILLS, "the failpoints are hardly ever reached")
    if db is not None:
        finish(db)
        finished(db)
    missing = set(mine) - reached - set(killed_at)
    check(not missing, "failpoints of the sources that no life came to: a new way to them here, or a line in ELSEWHERE that says where they are killed", sorted(missing))
    print(f"local_kill_loop: loop {LOOP}: {sum(killed_at.values())} kills at {len(killed_at)} of {len(names)} failpoints and places in {totals['homes']} homes, {totals['lives']} lives "
          f"({totals['rivals']} with a takeover in the middle, {totals['offline']} offline, {totals['not_opened']} of these refused, {misses} ended before their failpoint); {totals['transactions']} transactions "
          f"confirmed, each in the stream whole and once; {totals['salvaged']} that somebody else overtook are in salvage; verify and export agreed wherever they were asked")
    if unreached:
        print(f"    not reached in their own round: {', '.join(unreached)}")
    print("    " + ", ".join(f"{name} {count}" for name, count in sorted(killed_at.items())))


def loops():
    """Starts the loops and waits for them; what they say, one after the other. Ended itself, it ends them, and they what they started."""
    start = seed()
    print(f"local_kill_loop: seed {start}", flush=True)
    children = [subprocess.Popen([sys.executable, "-B", __file__, str(ALL_KILLS), str(loop)], env={**os.environ, "ONEPEN_SEED": str(start + loop)}, stdout=subprocess.PIPE, text=True)
                for loop in range(LOOPS)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for child in children:
            print(child.communicate()[0], end="", flush=True)
        return max(child.returncode != 0 for child in children)
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()


if LOOP is None:
    sys.exit(loops())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
main(test, "local_kill_loop", in_memory=True)
