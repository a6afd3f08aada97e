"""A standby: takes over from an owner that was killed, paused, closed or asked to hand over; leaves one alone that lives; and never more than one of them owns.

Every story ends with the same question: is everything that was acknowledged there, once, and nothing that was refused?
"""

import contextlib
import json
import os
import signal
import subprocess
import time

from bucket_support import OutOfReach, main_where, movable_home, new_home
from harness import HANG_SECONDS, SqlError, Worker, check, uri, url
from support import NOT_NOTICED_MS, exported_numbers, numbers, one_claim_to_an_epoch, owners, put, synced, table, token

TERM_MS = 1_000
LONG_MS = 60_000
EVERYBODY_KNOWS = 3 * TERM_MS / 1000  # after so long nothing more changes hands


def eventually(what, ready, seconds=HANG_SECONDS):
    deadline = time.monotonic() + seconds
    while not ready():
        check(time.monotonic() < deadline, f"it never came to this: {what}")
        time.sleep(0.005)


class Standby:
    def __init__(self, root, home, cache=None, env=None, term=TERM_MS, **parameters):
        self.home, self.cache, self.parameters = home, cache or root.cache(), parameters
        self.worker = Worker(root, env=env)
        self.worker.open(uri("app", home, self.cache, mode="ro", standby=1, term=term, **parameters), conn="ro")

    def role(self):
        return self.worker.status(conn="ro")["role"]

    def owns(self):
        return self.role() == "owner"

    def takes_over(self):
        """Waits for it; from then on it writes, through a connection of its own."""
        eventually("the standby owns", self.owns)
        self.worker.open(uri("app", self.home, self.cache, **self.parameters))


def owner(root, home, term=TERM_MS, rows=(1, 2, 3), env=None, **parameters):
    worker = Worker(root, env=env)
    worker.open(uri("app", home, root.cache(), term=term, **parameters))
    table(worker)
    put(worker, *rows)
    synced(worker)
    return worker


def nothing_lost(root, home, *rows):
    check(exported_numbers(root, home) == sorted(rows), "the stream holds what was acknowledged, and only that", exported_numbers(root, home))


def killed(root):
    for durability in ("replicated", "local"):
        home = new_home(root)
        a = owner(root, home, durability=durability)
        b = Standby(root, home, durability=durability)
        put(a, 4)
        synced(a)
        a.kill()
        b.takes_over()
        check(numbers(b.worker) == [1, 2, 3, 4], "the standby shows all that was acknowledged", numbers(b.worker))
        put(b.worker, 5)
        synced(b.worker)
        names = [row["why"] for row in owners(root, home)]
        check(names == ["open", "standby"], "one claim, and it says why", names)
        b.worker.quit()
        nothing_lost(root, home, 1, 2, 3, 4, 5)


def paused(root, in_transaction):
    home = new_home(root)
    a = owner(root, home, notice_within=NOT_NOTICED_MS)
    b = Standby(root, home)
    if in_transaction:
        a.sql("BEGIN IMMEDIATE")
        put(a, 66)
    first = token(a)
    a.pause()
    b.takes_over()
    put(b.worker, 4)
    synced(b.worker)
    a.go_on()
    if in_transaction:
        a.refused("COMMIT")
    else:
        with contextlib.suppress(SqlError):
            put(a, 66)
            check(False, "an owner that slept through its term must be refused")
    check(str(b.worker.pid) in a.sentence(), "it is told by whom", a.sentence())
    put(b.worker, 5)
    synced(b.worker)
    one_claim_to_an_epoch(root, home, [first, token(b.worker)])
    a.quit()
    b.worker.quit()
    nothing_lost(root, home, 1, 2, 3, 4, 5)


def both_rebooted(root):
    """Both machines come up again at once, both as standbys: nobody owns, and one of them does after a term."""
    home = new_home(root)
    a = owner(root, home)
    b = Standby(root, home)
    a.kill()
    b.worker.kill()
    claims = len(owners(root, home))
    both = [Standby(root, home), Standby(root, home, cache=b.cache)]
    eventually("one of both owns", lambda: any(one.owns() for one in both))
    time.sleep(EVERYBODY_KNOWS)
    check(sum(one.owns() for one in both) == 1, "one of both, and it stays that one", [one.role() for one in both])
    check(len(owners(root, home)) == claims + 1, "one claim", owners(root, home))
    new = next(one for one in both if one.owns())
    new.takes_over()
    put(new.worker, 4)
    synced(new.worker)
    for one in both:
        one.worker.quit()
    # (the other one may have taken over when the first one ended)
    nothing_lost(root, home, 1, 2, 3, 4)


def opened_beside(root):
    """A standby wakes up in the very moment in which somebody opens: whoever opens last owns, and the standby never claims over it."""
    home = new_home(root)
    a = owner(root, home)
    b = Standby(root, home, env={"ONEPEN_FAILPOINT": "owner.after_write_ahead=stop@1"})
    a.kill()
    b.worker.wait_stopped()  # its claim is on its way
    c = owner(root, home, rows=(4,))
    b.worker.go_on()
    eventually("the standby follows on", lambda: b.worker.value("SELECT count(*) FROM t", conn="ro") == 4)
    check(b.role() == "follower", "its claim came too late", b.worker.status(conn="ro"))
    put(c, 5)
    synced(c)
    check([row["why"] for row in owners(root, home)] == ["open", "open"], "it claimed nothing", owners(root, home))
    c.quit()
    b.worker.quit()
    nothing_lost(root, home, 1, 2, 3, 4, 5)


def leaves_it_alone(root):
    """An idle owner with signs of life; a standby that slept for several terms; a home that was away for several terms."""
    home = movable_home(root)
    a = owner(root, home)
    b = Standby(root, home)
    time.sleep(EVERYBODY_KNOWS)
    b.worker.pause()
    time.sleep(EVERYBODY_KNOWS)
    b.worker.go_on()
    time.sleep(EVERYBODY_KNOWS)
    with OutOfReach(root, home):
        time.sleep(EVERYBODY_KNOWS)
    time.sleep(EVERYBODY_KNOWS)
    check(b.role() == "follower", "the owner has lived all along", b.worker.status(conn="ro"))
    put(a, 4)
    synced(a)
    check(len(owners(root, home)) == 1, "nobody claimed", owners(root, home))
    a.quit()
    eventually("the owner ended in peace, and the standby owns", b.owns)
    b.worker.quit()
    nothing_lost(root, home, 1, 2, 3, 4)


def handed_over(root, durability):
    """Under load: a client that tries each commit once more, at the new owner, loses none. Reports how long it could not write."""
    home = new_home(root)
    a = owner(root, home, term=LONG_MS, durability=durability, notice_within=100)
    b = Standby(root, home, term=LONG_MS, durability=durability)
    command = root.start([root.bin / "onepen", "handover", "app", "--home", url(home), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    number, refused_at, last_at = 3, None, time.monotonic()
    while refused_at is None:
        check(number < 200_000, "the handover never came")
        try:
            put(a, number + 1, size=10)
            number, last_at = number + 1, time.monotonic()
        except SqlError:
            refused_at = time.monotonic()
    b.takes_over()
    put(b.worker, number + 1, size=10)
    gap = time.monotonic() - last_at
    number += 1
    synced(b.worker)
    out, err = command.communicate(timeout=HANG_SECONDS)
    root.children.remove(command)
    check(command.returncode == 0, "onepen handover says that it was done", out, err)
    told = json.loads(out)
    check(str(a.pid) in told["from"] and str(b.worker.pid) in told["to"], "from whom, to whom", told)
    check("handed over" in a.sentence() or "handed over" in (a.status()["reset"] or {}).get("message", ""), "the one before is told", a.sentence())
    check(a.status()["pending"] == 0, "nothing of it was left", a.status())
    check(numbers(b.worker) == list(range(1, number + 1)), "every commit once, none twice", numbers(b.worker)[-3:], number)
    a.quit()
    b.worker.quit()
    nothing_lost(root, home, *range(1, number + 1))
    return gap


def killed_while_it_hands_over(root):
    """The owner dies just after it let go: the standby that stood ready owns all the same."""
    home = new_home(root)
    a = owner(root, home, term=LONG_MS, durability="local", notice_within=50, env={"ONEPEN_FAILPOINT": "keeper.released=kill@1"})
    put(a, 4)
    b = Standby(root, home, term=LONG_MS)
    code, out, err = root.onepen("handover", "app", "--home", url(home))
    check(code == 0 and str(b.worker.pid) in out, "it was handed over", code, out, err)
    check(a.died() == -signal.SIGKILL, "the owner was killed")
    b.takes_over()
    check(numbers(b.worker) == [1, 2, 3, 4], "what was pending was sent before", numbers(b.worker))
    b.worker.quit()


def not_handed_over(root):
    """No standby; an owner that cannot be asked; a standby that stood ready and did not claim: the owner goes on."""
    home = new_home(root)
    plain = Worker(root)
    plain.open(uri("app", home, root.cache()))
    code, out, err = root.onepen("handover", "app", "--home", url(home))
    check(code == 3 and "term=" in err, "an owner without signs of life cannot be asked", code, out, err)
    plain.quit()
    code, out, err = root.onepen("handover", "app", "--home", url(home))
    check(code == 3 and "ended in peace" in err, "nor one that ended", code, out, err)
    a = owner(root, home, term=LONG_MS, notice_within=50)
    code, out, err = root.onepen("handover", "app", "--home", url(home), "--within", "300ms")
    check(code == 5 and "no standby" in err, "nobody stands ready", code, out, err)
    put(a, 4)
    b = Standby(root, home, term=LONG_MS, env={"ONEPEN_FAILPOINT": "owner.before_write_ahead=stop@1"})
    command = root.start([root.bin / "onepen", "handover", "app", "--home", url(home)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    b.worker.wait_stopped()
    with contextlib.suppress(SqlError):
        while True:  # while it lets go, and waits for the one that stands ready
            put(a, 5)
            check(numbers(a).count(5) < 2, "the owner never let go")
    eventually("the owner took it back", lambda: writes(a, 6))
    command.communicate(timeout=HANG_SECONDS)
    root.children.remove(command)
    b.worker.go_on()
    eventually("the standby follows on", lambda: b.worker.value("SELECT max(n) FROM t", conn="ro") == 6)
    check(b.role() == "follower", "its claim came too late", b.worker.status(conn="ro"))
    put(a, 7)
    synced(a)
    check(owners(root, home)[-1]["why"] == "self-claim", "taken back by a claim over its own", owners(root, home))
    a.quit()
    b.worker.quit()


def writes(worker, number):
    with contextlib.suppress(SqlError):
        put(worker, number)
        return True
    return False


def replicate_takes_over(root):
    """`onepen replicate --takeover`: ends when the owner is gone, having claimed, and the next open here is the writer, of a warm copy."""
    for file in (None, root.folder("replica") / "app.db"):
        home, cache = new_home(root), root.cache()
        a = owner(root, home, notice_within=NOT_NOTICED_MS)
        argv = [root.bin / "onepen", "replicate", "app", "--takeover", "--term", f"{TERM_MS}ms", "--home", url(home), "--cache-root", cache]
        command = root.start(argv + (["--to", file] if file else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check("stands by" in command.stdout.readline(), "it says so")
        put(a, 4)
        synced(a)
        a.pause()
        out, err = command.communicate(timeout=HANG_SECONDS)
        root.children.remove(command)
        check(command.returncode == 0 and "Took over 'app'" in out and str(a.pid) in out, "it says from whom", out, err)
        a.go_on()
        with contextlib.suppress(SqlError):
            put(a, 66)
            check(False, "the owner before is refused, although nobody has opened yet")
        c = Worker(root)
        c.open(uri("app", home, cache))
        check(numbers(c) == [1, 2, 3, 4], "everything is there", numbers(c))
        put(c, 5)
        synced(c)
        c.quit()
        a.quit()
        nothing_lost(root, home, 1, 2, 3, 4, 5)


def killed_while_it_takes_over(root):
    """The standby dies at each place that a takeover passes, and is started again: in the end it owns, with everything acknowledged."""
    names = root.path / "passed"
    names.touch()
    root.give(names)
    home = new_home(root)
    a = owner(root, home)
    b = Standby(root, home)
    b.worker.kill()  # its copy is there; what comes now is what it passes when it goes on from it
    again = Standby(root, home, cache=b.cache, env={"ONEPEN_FAILPOINT_LIST": names})
    put(a, 4)
    a.kill()
    again.takes_over()
    put(again.worker, 5)
    again.worker.quit()
    places = sorted(set(names.read_text().split()))
    check(any(name.startswith("owner.") for name in places) and any(name.startswith("live.") for name in places), "it passes both rooms", places)
    died = 0
    for name in places:
        home = new_home(root)
        a = owner(root, home)
        b = Standby(root, home)
        b.worker.kill()
        victim = None
        try:
            victim = Standby(root, home, cache=b.cache, env={"ONEPEN_FAILPOINT": f"{name}=kill@1"})
        except Exception:  # it dies while it opens
            pass
        rows = [1, 2, 3, 4]
        put(a, 4)
        synced(a)
        a.kill()
        if victim:
            with contextlib.suppress(Exception):
                victim.takes_over()
                put(victim.worker, 5)
                rows.append(5)
                victim.worker.quit()
            died += victim.worker.child.poll() == -signal.SIGKILL
        last = Standby(root, home, cache=b.cache)
        last.takes_over()
        found = numbers(last.worker)
        check(found in (rows, rows + [5]), f"killed at {name}: something acknowledged is missing, or something is twice", rows, found)
        put(last.worker, 9)
        synced(last.worker)
        last.worker.quit()
        nothing_lost(root, home, *found, 9)
    check(died > 0, "nobody died")
    return len(places), died


def test(root):
    killed(root)
    paused(root, in_transaction=False)
    paused(root, in_transaction=True)
    both_rebooted(root)
    opened_beside(root)
    leaves_it_alone(root)
    gaps = {durability: handed_over(root, durability) for durability in ("replicated", "local")}
    killed_while_it_hands_over(root)
    not_handed_over(root)
    replicate_takes_over(root)
    places, died = killed_while_it_takes_over(root)
    print("standby: killed, paused (idle, in a transaction), both rebooted, opened beside, left alone (idle, slept, home away), killed while it hands over, not handed over, replicate --takeover; "
          + f"killed at {places} places of a takeover ({died} died there); handed over under load, not writable for "
          + ", ".join(f"{1000 * gap:.0f} ms ({durability})" for durability, gap in gaps.items()))


main_where(test, "standby", in_memory=True)
