"""Every inspection command, watched by strace: no system call that could change anything under the home. The same commands on a read-only home."""

import os
import re

from harness import Worker, check, main, tree, uri, url

# Calls that change a name or a file whatever their arguments; with openat the flags tell, with write the descriptor's path (-y).
CHANGING = ("creat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "rmdir", "truncate", "mknod", "mknodat",
            "chmod", "fchmodat", "chown", "fchownat", "lchown", "utimensat", "setxattr", "lsetxattr", "removexattr", "lremovexattr")
ON_DESCRIPTOR = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "fallocate", "fchmod", "fchown", "fsetxattr", "fremovexattr", "sendfile", "copy_file_range", "splice")
OPENING = ("open", "openat", "openat2")
CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)$")


def changes(trace, home):
    """The lines of a trace that could have changed something under the home."""
    found = []
    for line in trace.splitlines():
        match = CALL.match(line)
        if not match or str(home) not in line:
            continue
        name, rest = match.groups()
        if name in CHANGING or (name in OPENING and re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE", rest)):
            found.append(line)
        elif name in ON_DESCRIPTOR and str(home) in rest.split(",")[0]:
            found.append(line)
    return found


def commands(root, home, cache):
    """(command, exit code that it must have)."""
    export = root.path / "user" / root.next("export.db")
    place = ("--home", url(home))
    local = ("--cache-root", str(cache))
    return [
        (("list", *place), 0),
        (("status", "app", *place), 0),
        (("status", "app", *place, *local), 0),
        (("history", "app", *place), 0),
        (("history", "app", *place, "--json"), 0),
        (("verify", "app", *place, *local), 0),
        (("sql", "app", "SELECT count(*) FROM t", *place, *local), 0),
        (("export", "app", str(export), *place, *local), 0),
        (("replicate", "app", "--to", str(root.path / "user" / root.next("replica.db")), "--once", *place), 0),
        (("status", "nothing", *place), 6),
        (("history", "nothing", *place), 6),
        (("sql", "nothing", "SELECT 1", *place, *local), 6),
        (("replicate", "nothing", "--to", str(root.path / "user" / "nothing.db"), *place), 6),
    ]


def still(home):
    """Everything but the owner's own sign of life, which it overwrites meanwhile."""
    return {path: content for path, content in tree(home).items() if "@alive" not in str(path)}


def standby(root, home):
    """Looks after the owner for a while, as a standby does. It is the same machine in every front (owner/standby)."""
    return ("replicate", "app", "--takeover", "--term", "500ms", "--home", url(home), "--cache-root", str(root.cache()))


def test(root):
    home = root.home_folder()
    cache = root.cache()
    owner = Worker(root)
    owner.open(uri("app", home, cache, term=60_000))
    owner.sql("CREATE TABLE t(x)")
    for number in range(20):
        owner.sql("INSERT INTO t VALUES(?)", number)
    # Once with a live owner and an empty cache of our own, once after the owner ended, with the cache that it left.
    calls = lines = 0
    for state, reader_cache in (("a live owner", root.cache()), ("no owner alive", cache)):
        if state == "no owner alive":
            owner.quit()
        before = still(home)
        for command, expected in commands(root, home, reader_cache):
            trace_file = root.path / "user" / root.next("trace")
            code, out, err = root.run(["strace", "-f", "-y", "-qq", "-s", "256", "-e", "trace=%file,%desc", "-o", trace_file, root.bin / "onepen", *command])
            words = " ".join(command)
            check(code == expected, f"onepen {words} with {state} ended with {code}, not {expected}", out, err)
            trace = trace_file.read_text(errors="replace")
            check(str(home) in trace, f"onepen {words} never looked at the home: the trace proves nothing")
            bad = changes(trace, home)
            check(not bad, f"onepen {words} with {state} may have written under the home", *bad[:10])
            calls += 1
            lines += trace.count("\n")
        check(still(home) == before, f"something under the home changed while only readers ran ({state})")
        if state == "a live owner":
            trace_file = root.path / "user" / root.next("trace")
            code, out, err = root.run(["strace", "-f", "-y", "-qq", "-s", "256", "-e", "trace=%file,%desc", "-o", trace_file, "timeout", "--preserve-status", "-s", "TERM", "4",
                                       root.bin / "onepen", *standby(root, home)])
            trace = trace_file.read_text(errors="replace")
            check(code == 0 and "stands by" in out, "the standby looks after an owner that lives until it is stopped", code, out, err)
            check(trace.count("@alive/") > 20, "it looks for signs of life", trace.count("@alive/"))
            bad = changes(trace, home)
            check(not bad, "a standby that only watches may have written under the home", *bad[:10])
    # The trace must be able to show a write: an opening for writing does one.
    trace_file = root.path / "user" / "trace-of-a-writer"
    code, out, err = root.run(["strace", "-f", "-y", "-qq", "-s", "256", "-e", "trace=%file,%desc", "-o", trace_file, root.bin / "onepen", "sql", "app", "INSERT INTO t VALUES(99)",
                               "--write", "--home", url(home), "--cache-root", cache])
    check(code == 0 and changes(trace_file.read_text(errors="replace"), home), "the check does not see the writes of a writer", out, err)
    # A home that cannot be written at all serves every reader.
    for base, folders, files in os.walk(home, topdown=False):
        for name in files:
            os.chmod(os.path.join(base, name), 0o444)
        os.chmod(base, 0o555)
    read_only = 0
    for command, expected in commands(root, home, root.cache()):
        code, out, err = root.onepen(*command)
        check(code == expected, f"onepen {' '.join(command)} on a read-only home ended with {code}, not {expected}", out, err)
        read_only += 1
    print(f"readers_write_nothing: {calls} commands under strace ({lines} system calls), no write under the home, its {len(before)} files unchanged; a writer is seen; "
          f"{read_only} commands work on a read-only home")


main(test, "readers_write_nothing")
