"""kill -9 at every named failpoint and at random moments, then opening again from the same, another, or an empty cache root.

The names come from a calibration run (ONEPEN_FAILPOINT_LIST), so a new failpoint joins by itself. What must hold after each kill: the database holds
exactly the transactions 1..k of the plan, each whole and once, where k is at least the last COMMIT that returned and at most the last one begun.
The workload has automatic and explicit checkpoints, commits of several parts, savepoints and transactions rolled back, deletes and VACUUM.

    kill_loop.py [radosgw|azurite [kills]]     in a directory, or in a bucket: there every failpoint once, those of the caretaker too, and 50 kills at random
"""

import collections
import os
import random
import re
import signal

from bucket_support import ARGUMENTS, WHERE, main_where, new_home
from harness import Failure, QUICK, SOURCE, Worker, check, seed, uri, url

KILLS = int(ARGUMENTS[0]) if ARGUMENTS else 500 if WHERE == "file" else 0
RANDOM_AT_LEAST = 50
KILLS_PER_HOME = 30     # then a new home: a rebuild from an empty cache reads the whole log
TRANSACTIONS = 12       # of one life; a failpoint armed beyond them is not reached and the life ends in good order
MOST_BARREN = 2         # lives in a row that are killed before a COMMIT; the next change of owner without one would have to wait (flapping, fence.md)
LATEST_HIT = 40         # failpoints are armed at their 1st .. 40th hit
# On a thread of their own, which looks after the log when it comes to it: a short life may end before.
# And whether an empty cache begins with a snapshot depends on whether that thread made one.
SETTINGS = {} if WHERE == "file" else {"snapshot_after": 64 << 10}   # local_kill_loop.py does it in directories
PLANS = 5               # workloads in which a failpoint that calibration reached must be met
TENDING = 12            # lives in which a failpoint of the caretaker's must be met, where it has work
CARETAKERS = ("caretaker.", "snapshot.", "copy.snapshot_", "home.tend_", "home.before_snapshot_", "home.after_snapshot_")


class Database:
    """One home with the caches of two machines and what is known of its content."""

    def __init__(self, root, plan_seed):
        self.root = root
        self.home = new_home(root)
        self.caches = [root.cache(), root.cache()]
        self.seed = plan_seed
        self.known = 0      # the last transaction certainly in it
        self.tried = 0      # the last one that may be
        self.lives = 0
        self.kills = 0
        self.barren = 0     # lives in a row without an acknowledged COMMIT

    def pick_cache(self, chance):
        which = chance.random()
        if which < 0.15:
            self.caches[chance.randrange(2)] = self.root.cache()  # an empty one: everything is rebuilt from the log
        return self.caches[0 if which < 0.6 else 1]


def life(root, db, cache, env, count=TRANSACTIONS, kill_after=None):
    """One process: opens, checks what is there, commits until it is killed or done. Returns True if it was killed."""
    db.lives += 1
    db.barren += 1
    worker = Worker(root, env=env)
    died_in = "start"
    worker.send("open", uri=uri("app", db.home, cache, **SETTINGS))
    worker.send("run", seed=db.seed, count=count)
    seen = 0
    try:
        while True:
            line = worker.line()
            if line is None:
                break
            if line.get("ok") is False:
                raise Failure(f"life {db.lives} ({env}) of {db.home} on {cache}: a statement failed while {died_in}: {line}\n"
                              f"    expected transactions {db.known}..{db.tried}\n{worker.errors()}")
            if "opened" in line:
                check(db.known <= line["opened"] <= db.tried,
                      f"life {db.lives} ({env}): the database holds the transactions 1..{line['opened']}, but {db.known} were acknowledged and {db.tried} begun",
                      str(db.home), str(cache))
                db.known = db.tried = line["opened"]
                died_in = "opened"
            elif "trying" in line:
                db.tried = line["trying"]
                died_in = f"transaction {db.tried}"
            elif "committed" in line:
                db.known = line["committed"]
                db.barren = 0
                died_in = "between transactions"
                seen += 1
            elif "done" in line:
                break
            if kill_after is not None and seen >= kill_after:
                os.kill(worker.pid, signal.SIGKILL)
                kill_after = None
    except BaseException:
        worker.kill()
        raise
    code = worker.quit() if line is not None else worker.died()
    check(code in (0, -signal.SIGKILL), f"life {db.lives} ({env}) ended with {code} while {died_in}", worker.errors())
    worker.log.unlink()
    return code == -signal.SIGKILL


def calibrate(root, plan_seed):
    """The failpoints that the workload reaches: in a new home, in an old one with the same cache, and from an empty cache."""
    names = root.path / "failpoints"
    names.touch()
    root.give(names)
    db = Database(root, plan_seed)
    for cache in (db.caches[0], db.caches[0], db.caches[1]):
        life(root, db, cache, {"ONEPEN_FAILPOINT_LIST": names}, count=2 * TRANSACTIONS)
    found = sorted(set(names.read_text().split()))
    check(len(found) >= 5, "the calibration run reached hardly any failpoint: is this the test build of the extension?", found)
    return found


def object_home_failpoints():
    """Those in the sources, but the ones of restore, adopt and delete (admin_kills.py) and of the directory."""
    names = set()
    for file in (SOURCE / "src/home").rglob("*.cc"):
        names.update(re.findall(r'ONEPEN_FAILPOINT\("(home\.[^"]+)"\)', file.read_text()))
    check(len(names) >= 10, "hardly any failpoint is in the sources of the home", sorted(names))
    return sorted(name for name in names if not name.endswith("_admin_create"))


def verify(root, db):
    code, out, err = root.onepen("verify", "app", "--home", url(db.home), "--cache-root", str(db.caches[0]))
    check(code == 0, f"onepen verify ended with {code} after {db.kills} kills in {db.home}", out, err)


def test(root):
    start = seed()
    chance = random.Random(start)
    print(f"kill_loop: seed {start}")
    names = sorted({*calibrate(root, start), *(object_home_failpoints() if SETTINGS else [])})
    killed_at, unreached = collections.Counter(), []
    total = lives = verified = transactions = 0

    def finish(db):
        nonlocal lives, verified, transactions
        if db is None:
            return
        for cache in (db.caches[0], root.cache()):  # what is there is whole, from the warm cache and from nothing
            check(not life(root, db, cache, {}, count=1), "a life without failpoint was killed")
        verify(root, db)
        verified += 1
        lives += db.lives
        transactions += db.known

    def killed_in_own_round(name, plan_seed):
        db = Database(root, plan_seed)
        # Some are reached only by opening what exists, by a warm cache, or by an empty one.
        caches = [db.caches[0], db.caches[0], db.caches[1]]
        if SETTINGS and name.startswith(CARETAKERS):
            caches += [root.cache() if turn % 3 == 2 else db.caches[0] for turn in range(TENDING)]
        reached = any(life(root, db, cache, {"ONEPEN_FAILPOINT": f"{name}=kill@1"}, count=2 * TRANSACTIONS) for cache in caches)
        db.kills += reached
        finish(db)
        return reached

    # Every failpoint once, at its first hit, in a new home: first with the plan that is known to reach it (a WAL long enough for a second
    # region of its index is not in every plan), and, as what a plan reaches hangs on the pace of the sender too, with some others.
    required = object_home_failpoints() if SETTINGS else []
    for name in names:
        plans = [start] + [chance.getrandbits(32) for _ in range(PLANS - 1)]
        may_be_missed = name.startswith(CARETAKERS) and name not in required
        if any(killed_in_own_round(name, plan) for plan in plans[: 1 if may_be_missed else PLANS]):
            total += 1
            killed_at[name] += 1
        else:
            check(may_be_missed, f"failpoint {name} was reached in the calibration run, or must be, but not when it was armed, in {PLANS} plans")
            unreached.append(name)

    goal = total + RANDOM_AT_LEAST if QUICK else max(KILLS, total + RANDOM_AT_LEAST)
    db = None
    misses = 0
    while total < goal:
        if db is None or db.kills >= KILLS_PER_HOME:
            finish(db)
            db = Database(root, chance.getrandbits(32))
        cache = db.pick_cache(chance)
        if db.barren >= MOST_BARREN:
            check(not life(root, db, cache, {}, count=1), "a life without failpoint was killed")
        if chance.random() < 0.1:
            env, after, name = {}, chance.randrange(TRANSACTIONS), "(a random moment)"
        else:
            name = chance.choice(names)
            env, after = {"ONEPEN_FAILPOINT": f"{name}=kill@{min(LATEST_HIT, int(chance.expovariate(0.15)) + 1)}"}, None
        if life(root, db, cache, env, kill_after=after):
            db.kills += 1
            total += 1
            killed_at[name] += 1
        else:
            misses += 1
            check(misses < 20 * goal, "the failpoints are hardly ever reached")
    finish(db)
    if SETTINGS:
        missing = [name for name in required if name not in killed_at]
        check(not missing, "failpoints of the object home at which nobody was killed", missing)
    print(f"kill_loop ({WHERE}): {total} kills at {len(names)} failpoints and at random moments, {lives} lives, {transactions} transactions acknowledged or landed, each whole and once; "
          f"verify agreed {verified} times ({misses} lives ended before their failpoint)")
    if unreached:
        print(f"    not reached in their own round: {', '.join(unreached)}")
    for name, count in sorted(killed_at.items()):
        print(f"    {count:4}  {name}")


main_where(test, "kill_loop")
