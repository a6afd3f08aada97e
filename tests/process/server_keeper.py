"""Keeps the servers of one test and their folder: starts what it is told, ends all of it and removes the folder when the test is done or dead.

    server_keeper.py <folder>

One JSON line asked ({"argv", "log", "user", "env"}), one answered ({"pid"}). The end of its standard input is the end of the test, however that came.
The servers die with it (PR_SET_PDEATHSIG), so that nothing is left behind if it is killed itself.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_the_keeper():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main():
    folder = sys.argv[1]
    os.setsid()  # what ends the test from a terminal leaves the keeper to do its work
    servers = []
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, lambda *_: sys.exit(1))
    try:
        for text in sys.stdin.buffer:
            ask = json.loads(text)
            user = {"user": ask["user"], "group": ask["user"], "extra_groups": []} if ask.get("user") is not None else {}
            with open(ask["log"], "ab") as log:
                server = subprocess.Popen(ask["argv"], env=ask["env"], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          preexec_fn=die_with_the_keeper, **user)  # it runs after the user was changed, which would clear it
            servers.append(server)
            os.write(1, json.dumps({"pid": server.pid}).encode() + b"\n")
    finally:
        for server in reversed(servers):
            server.kill()
            server.wait()
        if not os.environ.get("ONEPEN_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


main()
