"""kill -9 of `onepen replicate`, at every failpoint of the way of a commit into a file that is being read, and at random moments.

A writer commits all the while; two readers of plain SQLite, which know nothing of Onepen, have the file open over all the kills, one of them with transactions that
it keeps open. What must hold after each kill, and at every look of a reader:
  * the file holds the transactions 1..k, each whole, and k never goes back;
  * started again it goes on from there: it is the same file, nothing was moved aside, and it comes up to everything that the writer confirmed.

    follower_kills.py [kills]     at least so many kills (60)
"""

import os
import random
import signal
import sqlite3
import subprocess

from bucket_support import ARGUMENTS, main_where, new_home
from harness import QUICK, Worker, check, seed, uri, url

KILLS = int(ARGUMENTS[0]) if ARGUMENTS else 15 if QUICK else 60
FAILPOINTS = ("live.before_commit_frame", "live.before_publish", "live.before_checkpoint", "live.before_restart", "live.restarted", "copy.before_state_write",
              "copy.after_state_write", "copy.table_merge_begins", "copy.table_merge_entries", "copy.table_merge_ends", "copy.wal_begun")
PADDING = 60_000  # bytes of one transaction: 4 MiB of WAL, which is when it begins anew, come in some seventy of them
BURST = 90
MOST_TRIES = 20


class Reader:
    """A plain SQLite connection that stays open."""

    def __init__(self, file, holds):
        self.db = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None, timeout=0)  # timeout 0: it never waits
        self.holds, self.last, self.looks = holds, 0, 0

    def look(self):
        if self.holds and self.db.in_transaction:
            again = self.seen()
            check(again == self.last, "a transaction that is open sees something else than before", again, self.last)
            self.db.execute("COMMIT")
            return
        if self.holds:
            self.db.execute("BEGIN")
        now = self.seen()
        check(now >= self.last, "a reader went back", now, self.last)
        self.last = now

    def seen(self):
        self.looks += 1
        count, low, high, other = self.db.execute("SELECT count(*), ifnull(min(n), 0), ifnull(max(n), 0), (SELECT n FROM last) FROM t").fetchone()
        check(count == high == other and (count == 0 or low == 1), "a reader saw half a transaction, or not a prefix", count, low, high, other)
        return count


class Replica:
    def __init__(self, root, home, file, failpoint=None):
        env = {"ONEPEN_FAILPOINT": failpoint} if failpoint else {}
        self.child = root.start([root.bin / "onepen_app_test", "replicate", "app", "--to", file, "--home", url(home)], env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.root = root

    def follows(self):
        """It said that it came up to what was there when it began; False: it was killed before."""
        return "follows" in self.child.stdout.readline()

    def ended(self):
        out, err = self.child.communicate(timeout=120)
        self.root.children.remove(self.child)
        return self.child.returncode, out + err


def commit(writer, number):
    writer.sql("BEGIN")
    writer.sql("INSERT INTO t VALUES(?, randomblob(?))", number, PADDING)
    writer.sql("DELETE FROM pad")
    writer.sql("INSERT INTO pad VALUES(randomblob(?))", PADDING)
    writer.sql("UPDATE last SET n = ?", number)
    writer.sql("COMMIT")
    writer.sql("UPDATE t SET x = '' WHERE n = ?", number)  # a transaction of its own, so that the file stays small


def settled(root, home, file):
    code, out, err = root.run([root.bin / "onepen_app_test", "replicate", "app", "--to", file, "--home", url(home), "--once"])
    check(code == 0, f"replicate --once ended with {code}", out, err)
    check("moved" not in err, "the replica was given up", err)


def test(root):
    start = seed()
    print(f"follower_kills: seed {start}", flush=True)
    chance = random.Random(start)
    home, folder = new_home(root), root.folder("replica")
    file = folder / "app.db"
    writer = Worker(root)
    writer.open(uri("app", home, root.cache(), snapshot_after=64 << 20))
    writer.sql("CREATE TABLE t(n INTEGER PRIMARY KEY, x)")
    writer.sql("CREATE TABLE pad(x)")
    writer.sql("CREATE TABLE last(n)")
    writer.sql("INSERT INTO last VALUES(0)")
    settled(root, home, file)
    inode = os.stat(file).st_ino
    readers = [Reader(file, False), Reader(file, True)]
    number = kills = 0
    hit, again = {}, {}
    plan = [f"{name}=kill@1" for name in FAILPOINTS]
    while kills < KILLS or plan:
        failpoint = plan.pop(0) if plan else f"{chance.choice(FAILPOINTS)}=kill@{chance.randrange(1, 30)}" if chance.random() < 0.6 else None
        if kills and kills % 20 == 10:  # nobody has it open: its index is made anew from the WAL
            for reader in readers:
                reader.db.close()
            readers = [Reader(file, False), Reader(file, True)] if chance.random() < 0.5 else []
        replica = Replica(root, home, file, failpoint)
        follows = replica.follows()
        burst = chance.randrange(1, BURST)
        for step in range(BURST):
            number += 1
            commit(writer, number)
            for reader in readers:
                reader.look()
            if failpoint is None and step == burst:
                os.kill(replica.child.pid, signal.SIGKILL)
            if replica.child.poll() is not None:
                break
        killed_here = replica.child.poll() is not None
        if not killed_here:  # the failpoint was not met
            os.kill(replica.child.pid, signal.SIGTERM)
        code, said = replica.ended()
        check(code in (0, -signal.SIGKILL), f"replicate ({failpoint}) ended with {code}", said)
        check("moved" not in said and "diverged" not in said, "the replica was given up", said)
        if code == -signal.SIGKILL:
            kills += 1
            name = failpoint.split("=")[0] if failpoint else "(a random moment)"
            hit[name] = hit.get(name, 0) + 1
        else:
            check(follows, "replicate ended by itself", said)
            if failpoint and failpoint.endswith("@1"):  # a WAL begins anew when no reader happens to keep it: once more, later
                again[failpoint] = again.get(failpoint, 0) + 1
                if again[failpoint] <= MOST_TRIES:
                    plan.append(failpoint)
        for reader in readers:
            reader.look()
        if not readers:
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as alone:
                check(alone.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the file is damaged after a kill", failpoint)
            alone.close()
            readers = [Reader(file, False), Reader(file, True)]
        if kills % 5 == 0:
            settled(root, home, file)
            while readers[1].db.in_transaction:
                readers[1].look()
            for reader in readers:
                reader.look()
            check(readers[0].last == number, "it does not come up to what the writer confirmed", readers[0].last, number)
        check(os.stat(file).st_ino == inode, "the file was made anew", failpoint)
    missed = [name for name in FAILPOINTS if name not in hit]
    check(not missed, "failpoints that were never met", missed)
    for reader in readers:
        reader.db.close()
    settled(root, home, file)
    left = sorted(path.name for path in folder.iterdir() if path.name not in ("app.db", "app.db-onepen", "app.db-wal", "app.db-shm"))
    check(not left, "something was moved aside, or left", left)
    looks = sum(reader.looks for reader in readers)
    print(f"follower_kills: {kills} kills at {len(hit)} places, {number} transactions, {looks} looks of the last readers; always whole, never back, the same file: "
          + ", ".join(f"{name} {count}" for name, count in sorted(hit.items())))


main_where(test, "follower_kills", in_memory=True)
