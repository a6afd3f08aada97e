"""sqlite3 <script with durability=local: what it committed is in the stream when it has ended, or it said what is not, and the next opening sends it.

Likewise programs that leave without closing.
"""

import re

from harness import Worker, check, main
from support import exported_numbers, local, numbers, synced, table

SCRIPT = """.bail on
.open '{uri}'
CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, who TEXT, body BLOB);
{inserts}
"""
ROWS = 200


def script(uri, first, count, between=""):
    rows = [f"INSERT INTO t VALUES({n}, 'script', zeroblob(100));" for n in range(first, first + count)]
    return SCRIPT.format(uri=uri, inserts="\n".join(rows[:count // 2] + [between] + rows[count // 2:]))


def sqlite(root, text, env=None):
    """The sqlite3 of Debian with a script on its standard input: (exit code, standard output, standard error)."""
    path = root.path / "user" / root.next("script")
    path.write_text(text)
    return root.run(["sh", "-c", f'exec sqlite3 -cmd ".load {root.extension(hooks=False)}" :memory: <"{path}"'], {"ONEPEN_LOG": "stderr", **(env or {})})


def everything_sent(root):
    home, cache = root.home_folder(), root.cache()
    code, out, err = sqlite(root, script(local("app", home, cache), 1, ROWS))
    check(code == 0 and not out, "the script must end in good order and say nothing", str(code), out, err)
    check(exported_numbers(root, home) == list(range(1, ROWS + 1)), "every commit of the script is in the stream when it has ended")
    code, out, err = sqlite(root, script(local("app", home, cache), ROWS + 1, 2) + "SELECT count(*) FROM t;\n")
    check(code == 0 and out.strip() == str(ROWS + 2), "the next script goes on", out, err)
    check(len(exported_numbers(root, home)) == ROWS + 2, "and its commits are there as well")
    print(f"oneshot: {ROWS + 2} commits of two scripts were in the stream when sqlite3 had ended")


def home_full(root):
    """The disk of the home is full from the middle of the script on: commits go on, and the end says what was not sent."""
    home, cache = root.home_folder(), root.cache()
    arm = root.path / "user" / root.next("arm")
    env = {"LD_PRELOAD": root.bin / "onepen_faults.so", "ONEPEN_FAULT": f"create|{home}/app/*|1|ENOSPC|sticky", "ONEPEN_FAULT_ARM": arm}
    name = local("app", home, cache, close_flush=300)
    code, out, err = sqlite(root, script(name, 1, 20, f"SELECT onepen_synced() IS NOT NULL;\n.shell touch {arm}"), env)
    check(code == 0 and out.strip() == "1", "the script goes on; its first half was confirmed", out, err)
    told = [line for line in err.splitlines() if "10 commits" in line and "not in the stream" in line]
    check(told, "it must say that 10 commits are not in the stream", err)
    check(exported_numbers(root, home) == list(range(1, 11)), "the stream has the first half")
    opened_again(root, home, cache, list(range(1, 21)))
    print(f"oneshot: on a full home it says: {told[0]}")


def home_read_only(root):
    """The home may not be written any more from the middle of the script on: that is a refusal, and the handle resets; what was committed until then is kept."""
    home, cache = root.home_folder(), root.cache()
    name = local("app", home, cache, close_flush=300)
    _, out, err = sqlite(root, script(name, 1, 20, f"SELECT onepen_synced() IS NOT NULL;\n.shell chmod -R a-w {home}"))
    check(out.strip() == "1", "the first half was confirmed", out, err)
    check("Permission denied" in err, "it must say why", err)
    check(exported_numbers(root, home) == list(range(1, 11)), "the stream has the first half")
    root.run(["chmod", "-R", "u+w", home])
    kept = opened_again(root, home, cache)
    check(kept == list(range(1, len(kept) + 1)) and len(kept) >= 10, "the local copy has all that was committed", kept)
    told = re.findall(r"Closed: (\d+) commit", err)
    check([int(n) for n in told] == [len(kept) - 10] * (len(kept) > 10), "the end must say how many commits are not in the stream", f"{len(kept) - 10} were kept", err)
    print(f"oneshot: on a home that may not be written any more it is refused; {len(kept) - 10} commits were kept, and sent by the next opening")


def opened_again(root, home, cache, expected=None):
    """The next opening has everything, and sends it. Returns what is there."""
    again = Worker(root)
    again.open(local("app", home, cache))
    there = numbers(again)
    check(expected is None or there == expected, "the local copy has all", there)
    synced(again)
    again.quit()
    check(exported_numbers(root, home) == there, "the next opening sends the rest, once")
    return there


def left_without_closing(root):
    """os._exit() right after the last COMMIT, as scripts do that end by an exception handler or a signal: the next opening on this machine sends the rest."""
    home, cache = root.home_folder(), root.cache()
    count = 0
    for _ in range(5):
        worker = Worker(root, hooks=False)
        worker.open(local("app", home, cache))
        table(worker)
        check(numbers(worker) == list(range(1, count + 1)), "what was committed before is there", numbers(worker)[-3:])
        for _ in range(20):
            count += 1
            worker.sql("INSERT INTO t VALUES(?, 'leaves', zeroblob(3000))", count)
        worker.send("leave", code=3)
        check(worker.died() == 3, "it leaves with its own exit code")
    last = Worker(root, hooks=False)
    last.open(local("app", home, cache))
    synced(last)
    last.quit()
    check(exported_numbers(root, home) == list(range(1, count + 1)), "every commit is in the stream, once")
    print(f"oneshot: {count} commits of five programs that left without closing are all there")


def test(root):
    everything_sent(root)
    home_full(root)
    home_read_only(root)
    left_without_closing(root)


main(test, "oneshot")
