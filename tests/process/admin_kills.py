"""`onepen restore`, `adopt`, `delete`, `salvage export` and `salvage remove`, killed at each failpoint they come to.

After each kill the database opens and is what it was, or what the command makes of it, never something between; nothing is in the way of the same command
given again; a commit made afterwards is there; and `onepen verify` agrees. The names come from a run of the command with the list on (bin/onepen_app_test:
the command with failpoints).
"""

import signal
import sqlite3

from bucket_support import OutOfReach, copy_of_home, main_where, movable_home, new_home
from harness import SqlError, Worker, check, url
from support import copy_of, exported_numbers, local, numbers, put, salvage, synced, table

ROWS, KEPT = [1, 2, 3, 4, 5], [1, 2]
HITS = 3   # each failpoint is killed at its first so many hits
DONE, NOT_FOUND = 0, 6


class Story:
    """One command on a home of its own, each time a copy of the same one."""

    def __init__(self, root):
        self.root = root
        self.home, cache = new_home(root), root.cache()
        worker = Worker(root)
        worker.open(local("app", self.home, cache))
        table(worker)
        put(worker, *KEPT)
        self.point = synced(worker)
        put(worker, *ROWS[len(KEPT):], size=20_000)
        synced(worker)
        worker.quit()
        code, out, err = root.onepen("snapshot", "app", "--home", url(self.home), "--cache-root", root.cache())
        check(code == DONE, f"onepen snapshot ended with {code}", out, err)
        self.kills = 0

    def command(self, env, *arguments):
        return self.root.run([self.root.bin / "onepen_app_test", *arguments], env)

    def reached(self, run):
        """The failpoints on the way of a command that is not killed."""
        names = self.root.path / self.root.next("reached")
        names.touch()
        self.root.give(names)
        code, out, err = run({"ONEPEN_FAILPOINT_LIST": names})
        check(code == DONE, f"the command ended with {code}", out, err)
        found = sorted(set(names.read_text().split()))
        check(found, "the command reached no failpoint: is this the test build of onepen?")
        return found

    def killed(self, run, name, hit):
        code, out, err = run({"ONEPEN_FAILPOINT": f"{name}=kill@{hit}"})
        check(code in (DONE, -signal.SIGKILL), f"armed at {name}, hit {hit}, it ended with {code}", out, err)
        self.kills += code == -signal.SIGKILL
        return code == -signal.SIGKILL


def content(root, home):
    """What a machine that knows nothing yet is shown; None where there is no database any more."""
    code, _, err = root.onepen("export", "app", root.path / "user" / root.next("probe"), "--home", url(home))
    if code == NOT_FOUND:
        check("delete" in err, "a database that is gone was deleted", err)
        return None
    check(code == DONE, f"onepen export ended with {code}", err)
    return exported_numbers(root, home)


def goes_on(root, home, cache, before, what, gone=False):
    """Opens for writing, from the machine of the command and from another one."""
    for number, place in ((101, cache), (102, root.cache())):
        worker = Worker(root)
        try:
            worker.open(local("app", home, place))
        except SqlError as error:
            check(False, f"{what}: the database does not open", str(error), worker.sentence())
        table(worker)
        check(numbers(worker) == before, f"{what}: it holds other rows", numbers(worker), before)
        put(worker, number)
        synced(worker)
        worker.quit()
        before = [*before, number]
    # Nothing was pending. What the copy of this machine had of a stream that was deleted is kept all the same.
    kept = [(one.kind, [row[0] for row in one.rows("SELECT n FROM t ORDER BY n")]) for one in salvage(root, cache)]
    check(kept in ([], [("rewound", ROWS)]) if gone else kept == [], f"{what}: what is in salvage", kept)
    check(exported_numbers(root, home) == before, f"{what}: the stream holds something else")
    code, out, err = root.onepen("verify", "app", "--home", url(home), "--cache-root", root.cache())
    check(code == DONE, f"{what}: onepen verify ended with {code}", out, err)


def admin(root, story, name, arguments, result):
    """restore, adopt, delete: `result` is what the database holds when it was done."""
    def run_on(home, cache):
        return lambda env: story.command(env, name, "app", *arguments, "--home", url(home), "--cache-root", cache, "--yes")

    points = story.reached(run_on(copy_of_home(root, story.home), root.cache()))
    check({"home.before_admin_create", "home.after_admin_create"} <= set(points), f"onepen {name} came to other failpoints", points)
    kills, outcomes = story.kills, set()
    for point in points:
        for hit in range(1, HITS + 1):
            for again in (True, False):
                what = f"onepen {name} killed at {point}, hit {hit}"
                home, cache = copy_of_home(root, story.home), root.cache()
                if not story.killed(run_on(home, cache), point, hit):
                    break
                found = content(root, home)
                check(found in (ROWS, result), f"{what}: neither what it was nor what it should be", found)
                outcomes.add((found == result, found is None) if result != ROWS else (point,))
                if again:
                    code, out, err = run_on(home, cache)({})
                    done_already = found == result and result != ROWS
                    check(code == DONE or (done_already and code == NOT_FOUND), f"{what}: the same command again ended with {code}", out, err)
                    found = content(root, home)
                    check(found == result, f"{what}, and given again: it holds other rows", found)
                goes_on(root, home, cache, found or [], what, gone=found is None)
            else:
                continue
            break
    check(len(outcomes) > 1, f"every kill of onepen {name} came on the same side of what it does", sorted(map(str, outcomes)))
    print(f"admin_kills: onepen {name}: {story.kills - kills} kills at {len(points)} failpoints ({', '.join(points)}): as before or done, and it can be given again")


def rows_of(file):
    db = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    try:
        check(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", f"{file} is damaged")
        return [row[0] for row in db.execute("SELECT n FROM t ORDER BY n")]
    finally:
        db.close()


def moved_aside(root):
    """A cache root with one entry in salvage: two commits made offline of the stream, while somebody else wrote."""
    home, cache = movable_home(root), root.cache()
    worker = Worker(root)
    worker.open(local("app", home, cache))
    table(worker)
    put(worker, 1)
    synced(worker)
    worker.quit()
    with OutOfReach(root, home):
        worker = Worker(root)
        worker.open(local("app", home, cache, offline=1))
        put(worker, 2, 3)
        worker.kill()
    for place, number in ((root.cache(), 11), (cache, 12)):
        worker = Worker(root)
        worker.open(local("app", home, place))
        put(worker, number)
        synced(worker)
        worker.quit()
    check([one.kind for one in salvage(root, cache)] == ["fenced"], "one entry in salvage")
    return home, cache


def of_salvage(root, story):
    home, cache = moved_aside(root)
    kills = story.kills

    def export_to(file):
        return lambda env: story.command(env, "salvage", "export", entry, file, "--cache-root", cache)

    def remove_from(place):
        return lambda env: story.command(env, "salvage", "remove", entry, "--yes", "--cache-root", place)

    entry = root.onepen_json("salvage", "list", "--cache-root", cache)["entries"][0]["entry"]
    points = story.reached(export_to(root.path / "user" / root.next("out")))
    check("salvage.before_name" in points, "onepen salvage export came to other failpoints", points)
    for point in points:
        for hit in range(1, HITS + 1):
            file = root.path / "user" / root.next("out")
            if not story.killed(export_to(file), point, hit):
                break
            what = f"onepen salvage export killed at {point}, hit {hit}"
            if not file.exists():
                code, out, err = export_to(file)({})
                check(code == DONE, f"{what}: the same command again ended with {code}", out, err)
            check(rows_of(file) == [1, 2, 3], f"{what}: the file holds other rows", rows_of(file))
            check(len(salvage(root, cache)) == 1, f"{what}: the entry is only read")
    gone = remove_from(copy_of(root, cache))
    removing = story.reached(gone)
    for point in removing:
        for hit in range(1, HITS + 1):
            place = copy_of(root, cache)
            if not story.killed(remove_from(place), point, hit):
                break
            code, out, err = remove_from(place)({})
            check(code in (DONE, NOT_FOUND), f"onepen salvage remove killed at {point}, hit {hit}: again it ended with {code}", out, err)
            check(root.onepen_json("salvage", "list", "--cache-root", place)["entries"] == [], f"removed after a kill at {point}, hit {hit}")
    check(exported_numbers(root, home) == [1, 11, 12], "the database is not touched")
    print(f"admin_kills: onepen salvage export, remove: {story.kills - kills} kills at {', '.join(points + removing)}: the entry stays whole, and they can be given again")


def test(root):
    story = Story(root)
    admin(root, story, "restore", ("--at", story.point), KEPT)
    admin(root, story, "adopt", (), ROWS)
    admin(root, story, "delete", (), None)
    of_salvage(root, story)


main_where(test, "admin_kills", in_memory=True)
