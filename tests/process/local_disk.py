"""Full disks in local mode: commits go on while the home is full, are refused when too much is pending or the local disk is full, and nothing is lost.

The small disks are tmpfs; where this user may not mount, the shim (faults.c) makes the same calls fail with ENOSPC.
"""

from harness import SQLITE_AUTH, Failure, SqlError, Worker, check, main, reset_kind
from support import Hold, commits, exported_numbers, local, numbers, put, refused_synced, synced, table

ROW_BYTES = 20_000
MAX_PENDING = 1 << 20


def until_synced(worker, what):
    """Asks again until the home takes appends again; onepen_synced() itself waits for up to commit_timeout."""
    for _ in range(200):
        try:
            return synced(worker)
        except SqlError:
            check(reset_kind(worker.status()) is None, f"{what}: the handle must stay usable", worker.status())
    raise Failure(f"{what}: never synced: {worker.sentence()}")


def commit_until_refused(worker, first, most, size):
    """Commits rows until one is refused; (the numbers that were committed, the error)."""
    done = []
    for n in range(first, first + most):
        try:
            put(worker, n, size=size)
        except SqlError as error:
            return done, error
        done.append(n)
    return done, None


def home_full(root):
    """ENOSPC at the home: commits go on here, onepen_synced() says why not, and after room was made everything is sent."""
    home = root.tmpfs(root.next("small"), 2 << 20)
    if home is None:
        print("local_disk: this user may not mount a tmpfs; a full home was left to disk_faults.py")
        return None
    worker = Worker(root)
    worker.open(local("app", home, root.cache(), commit_timeout=700))
    table(worker)
    put(worker, 1)
    synced(worker)
    put(worker, *range(2, 202), size=ROW_BYTES)  # 4 MB on a home of 2
    sentence = refused_synced(worker)
    status = worker.status()
    check(status["pending"] > 0 and reset_kind(status) is None, "commits are pending, the handle is usable", status)
    put(worker, 202)
    check(len(numbers(worker)) == 202, "reading goes on")
    root.resize(home, 256 << 20)
    until_synced(worker, "home full")
    check(worker.status()["pending"] == 0, "nothing is pending any more", worker.status())
    worker.quit()
    check(exported_numbers(root, home) == list(range(1, 203)), "everything is in the stream, once")
    print(f"local_disk: on a full home 200 commits went on locally; onepen_synced(): {sentence}; all were sent when there was room")
    return sentence


def too_much_pending(root):
    """max_pending_bytes: COMMIT waits, then is refused with a sentence that says so; after the home is back nothing is lost and it goes on."""
    home, cache = root.home_folder(), root.cache()
    hold = Hold(root, f"create|{home}/app/*|1|OK", armed=False)
    worker = Worker(root, env=hold.environment())
    worker.open(local("app", home, cache, max_pending_bytes=MAX_PENDING, commit_timeout=300))
    table(worker)
    put(worker, 1)
    synced(worker)
    hold.arm()
    put(worker, 2)
    hold.wait()
    done, error = commit_until_refused(worker, 3, 400, ROW_BYTES)
    sentence = worker.sentence()
    check(error is not None and error.code == SQLITE_AUTH, "a COMMIT above max_pending_bytes must be refused with code 23", str(error))
    check("max_pending_bytes" in sentence, "the sentence must say what limit it is", sentence)
    kept = sum(ROW_BYTES for _ in done)
    check(MAX_PENDING // 4 <= kept <= MAX_PENDING + (64 << 10), f"{kept} bytes were taken with a limit of {MAX_PENDING}")
    status = worker.status()
    check(reset_kind(status) is None and status["pending"] == len(done) + 1, "the handle stays usable; what was taken is pending", status)
    check(numbers(worker) == [1, 2, *done], "the refused one is rolled back, reading goes on")
    hold.let_go()
    until_synced(worker, "max_pending_bytes")
    after = done[-1] + 10
    put(worker, after)
    synced(worker)
    worker.quit()
    check(exported_numbers(root, home) == [1, 2, *done, after], "everything that was committed is in the stream, once, and the refused one is not")
    print(f"local_disk: after {len(done)} commits of {ROW_BYTES} B: {sentence}")


def copy_full(root):
    """The disk under the copy fills up while the home does not answer: SQLite's own FULL; after room was made nothing is lost."""
    small = root.tmpfs(root.next("small"), 3 << 20)
    if small is None:
        print("local_disk: this user may not mount a tmpfs; a full disk under the copy was left to disk_faults.py")
        return
    home = root.home_folder()
    hold = Hold(root, f"create|{home}/app/*|1|OK", armed=False)
    worker = Worker(root, env=hold.environment())
    worker.open(local("app", home, small, commit_timeout=300))
    table(worker)
    put(worker, 1)
    synced(worker)
    hold.arm()
    put(worker, 2)
    hold.wait()
    done, error = commit_until_refused(worker, 3, 400, ROW_BYTES)
    check(error is not None, "a disk of 3 MiB must fill up")
    told = f"{error} {worker.sentence()}"
    check(error.code in (13, 10, 23), "SQLite says FULL or IOERR, or Onepen a sentence", told)
    root.resize(small, 256 << 20)
    hold.let_go()
    status = worker.status()
    if reset_kind(status) is None:
        until_synced(worker, "copy full")
    worker.quit()
    again = Worker(root)
    again.open(local("app", home, small))
    there = numbers(again)
    check(there == [1, 2, *done], "every COMMIT that returned is there, and the failed one is not", there[-3:], done[-3:])
    put(again, 5000)
    synced(again)
    again.quit()
    check(exported_numbers(root, home) == [1, 2, *done, 5000], "and in the stream, once")
    print(f"local_disk: a full disk under the copy after {len(done)} commits: {told}; nothing lost")


def many_pending(root):
    """A home that answers late: what is pending is sent in order, many commits to an object."""
    home = root.home_folder()
    hold = Hold(root, f"create|{home}/app/*|1|OK", armed=False)
    worker = Worker(root, env=hold.environment())
    worker.open(local("app", home, root.cache()))
    table(worker)
    put(worker, 1)
    synced(worker)
    hold.arm()
    put(worker, 2)
    hold.wait()
    put(worker, *range(3, 1003), size=50)
    worker.sql("PRAGMA wal_checkpoint(PASSIVE)")
    check(worker.status()["pending"] == 1001, "all of them are pending", worker.status())
    hold.let_go()
    synced(worker)
    sent = commits(home)
    check([append.sequence for append in sent] == sorted(append.sequence for append in sent), "they are sent in order")
    objects = len({append.id for append in sent})
    check(objects < len(sent) // 2, "many go into one object", f"{len(sent)} commits in {objects} objects")
    worker.quit()
    check(exported_numbers(root, home) == list(range(1, 1003)), "each is in the stream once")
    print(f"local_disk: 1001 pending commits were sent in order, in {objects} objects for {len(sent)} commits")


def test(root):
    sentence = home_full(root)
    too_much_pending(root)
    copy_full(root)
    many_pending(root)
    check(sentence is None or "No space left" in sentence, "onepen_synced() on a full home must give the reason", sentence or "")


main(test, "local_disk")
