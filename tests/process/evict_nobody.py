"""Who must not evict an owner that opened meanwhile: a claim that was only written ahead, a standby that slept, a process back from a partition.

In each story a bystander opens in between, commits, and must go on undisturbed until the end; the other one is told what happened.
"""

from bucket_support import OutOfReach, main_where, movable_home, new_home
from harness import Failure, SqlError, Worker, check, uri
from support import (NOT_NOTICED_MS, check_reset, exported_numbers, local, numbers, one_claim_to_an_epoch, owners, put, refused_synced, salvage, synced, table, token)


class Bystander:
    """Opens, commits, and goes on committing: every go_on() must work under the epoch it has had all along."""

    def __init__(self, root, home, first, cache=None, env=None):
        self.root, self.home = root, home
        self.worker = Worker(root, env=env)
        self.worker.open(uri("app", home, cache or root.cache(), notice_within=NOT_NOTICED_MS))
        table(self.worker)
        self.token = token(self.worker)
        self.next = first
        self.go_on("it has just opened")

    def go_on(self, when):
        put(self.worker, self.next, who="bystander")
        self.next += 1
        synced(self.worker)
        check(token(self.worker) == self.token, f"the owner has changed when {when}", self.worker.status())
        newest = owners(self.root, self.home)[-1]
        check(newest["claim_id"] == self.token[2], f"somebody has claimed above an owner that lives, when {when}", newest)


def owner_once(root, home, cache, *rows):
    """An owner that commits and ends in good order: its copy has an owned claim."""
    worker = Worker(root)
    worker.open(local("app", home, cache))
    table(worker)
    put(worker, *rows, who="first")
    synced(worker)
    check(worker.quit() == 0, "the first owner ends in good order")


def written_ahead(root):
    """A claim that was written to the local log and never sent: its copy opens offline and goes live, but never by that claim."""
    home, cache = movable_home(root), root.cache()
    owner_once(root, home, cache, 1, 2)
    killed = Worker(root, env={"ONEPEN_FAILPOINT": "owner.after_write_ahead=kill@1"})
    killed.send("open", uri=local("app", home, cache))
    check(killed.died() == -9, "the opening must be killed between writing its claim ahead and sending it")
    check(len(owners(root, home)) == 1, "the claim was never sent", owners(root, home))
    with OutOfReach(root, home) as away:
        back = Worker(root)
        back.open(local("app", home, cache, offline=1))
        put(back, 11, 12, who="offline")
        back.pause()
        away.reach()
        bystander = Bystander(root, home, 101)
        back.go_on()
    sentence = refused_synced(back, "fenced", str(bystander.worker.pid))
    check_reset(back, "fenced")
    bystander.go_on("the one with the claim written ahead came back")
    back.quit()
    # The same claim once more, in an opening that says it wants to take over: this one may, and its offline commits are kept.
    again = Worker(root)
    again.open(local("app", home, cache))
    check(numbers(again) == [1, 2, 101, 102], "an explicit open takes over, with what the stream has", numbers(again))
    kept = [row[0] for one in salvage(root, cache) for row in one.rows("SELECT n FROM t WHERE n IN (11, 12) ORDER BY n")]
    check(kept == [11, 12], "the offline commits are in salvage", kept)
    again.quit()
    bystander.worker.quit()
    one_claim_to_an_epoch(root, home, [bystander.token])
    print(f"evict_nobody: a claim written ahead and never sent evicts nobody: {sentence}")


def paused_standby(root):
    """A standby (takeover=if-dead) has found the owner dead, and sleeps before it claims; meanwhile somebody opens."""
    for place in ("owner.before_claim", "owner.after_write_ahead"):
        home, cache = new_home(root), root.cache()
        owner_once(root, home, cache, 1)
        silent = Worker(root)
        silent.open(local("app", home, cache, notice_within=NOT_NOTICED_MS))
        put(silent, 2)
        synced(silent)
        silent.pause()  # an owner that gives no sign of life
        standby = Worker(root, env={"ONEPEN_FAILPOINT": ",".join(f"{place}=stop@{n}" for n in range(1, 50))})
        standby.send("open", uri=local("app", home, root.cache(), takeover="if-dead"))
        check(standby.ready_or_stopped() == "stopped", f"the standby must reach {place}")
        bystander = Bystander(root, home, 101)
        standby.go_on()
        standby.stops_until_ready()
        try:
            standby.answer()
            raise Failure(f"the standby opened although somebody else did so before it: {standby.status()} {bystander.worker.status()}")
        except SqlError as error:
            sentence = standby.sentence()
            check(error.code == 23 and sentence, "a standby that came too late is refused with a sentence", str(error), sentence)
        bystander.go_on("a standby woke up")
        silent.go_on()
        refused_synced(silent, "fenced")
        bystander.go_on("an owner woke up")
        for worker in (standby, silent, bystander.worker):
            worker.quit()
        check(exported_numbers(root, home) == [1, 2, 101, 102, 103], "every commit is there, once")
        one_claim_to_an_epoch(root, home, [bystander.token])
        print(f"evict_nobody: a standby stopped at {place} evicts nobody: {sentence}")


def partition(root):
    """A process that works offline while its home is away: when it comes back and nobody opened, it goes on; when somebody did, that one goes on."""
    home, cache = movable_home(root), root.cache()
    owner_once(root, home, cache, 1)
    with OutOfReach(root, home) as away:
        alone = Worker(root)
        alone.open(local("app", home, cache, offline=1, commit_timeout=500))
        check(alone.status()["role"] == "offline", "without its home the role is offline", alone.status())
        put(alone, 2, 3, who="offline")
        check(numbers(alone) == [1, 2, 3], "what was committed offline is there", numbers(alone))
        refused_synced(alone)  # it cannot be true without the home
        away.reach()
    until_synced(alone)
    check(alone.status()["role"] == "owner", "back at its home it is the owner again", alone.status())
    history = owners(root, home)
    check([row["epoch"] for row in history] == [1, 2], "a self-claim is exactly its own epoch and one more", history)
    check(alone.quit() == 0, "it ends in good order")
    check(exported_numbers(root, home) == [1, 2, 3], "what was committed offline is in the stream")
    with OutOfReach(root, home) as away:
        late = Worker(root)
        late.open(local("app", home, cache, offline=1))
        put(late, 4, who="offline")
        late.pause()
        away.reach()
        bystander = Bystander(root, home, 101)
        late.go_on()
    sentence = refused_synced(late, "fenced", str(bystander.worker.pid))
    check_reset(late, "fenced")
    late.refused("INSERT INTO t VALUES(5, 'late', x'00')")
    bystander.go_on("a process came back from a partition")
    late.quit()
    # And one that only claimed, and is gone again: any foreign claim counts against a self-claim.
    bystander.worker.quit()
    again = Worker(root)
    again.open(local("app", home, cache))
    check(numbers(again) == [1, 2, 3, 101, 102], "an explicit open takes over", numbers(again))
    kept = [row[0] for one in salvage(root, cache) for row in one.rows("SELECT n FROM t WHERE n = 4")]
    check(kept == [4], "the commit of the partition is in salvage", kept)
    synced(again)
    again.quit()
    looked = Worker(root)
    with OutOfReach(root, home) as away:
        late = Worker(root)
        late.open(local("app", home, cache, offline=1))
        put(late, 6, who="offline")
        late.pause()
        away.reach()
        looked.open(local("app", home, root.cache()))
        looked.quit()
        late.go_on()
    refused_synced(late, "fenced")
    late.quit()
    again = Worker(root)
    again.open(local("app", home, cache))
    check(numbers(again) == [1, 2, 3, 6, 101, 102], "nobody wrote, so an explicit open sends what was pending", numbers(again))
    synced(again)
    again.quit()
    one_claim_to_an_epoch(root, home, [bystander.token])
    print(f"evict_nobody: back from a partition: alone it goes on by its own claim; else: {sentence}")


def until_synced(worker):
    """Asks again while the home is not found again: onepen_synced() itself waits for up to commit_timeout."""
    for _ in range(200):
        try:
            return synced(worker)
        except SqlError:
            check(worker.status()["role"] != "reset", "it must not reset", worker.status(), worker.sentence())
    raise Failure(f"it never went live: {worker.sentence()}")


def test(root):
    written_ahead(root)
    paused_standby(root)
    partition(root)


main_where(test, "evict_nobody")
