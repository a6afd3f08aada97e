"""What the bucket tests share: the test's side of the fault proxy, names of databases in a bucket, and what the log of one holds."""

import collections
import contextlib
import json
import select
import subprocess
import time

from bucket_client import PAGE  # noqa: F401  (tests bound their listings by it)
from harness import HANG_SECONDS, HERE, PYTHON, Failure, check

CHANGING = ("PUT", "POST", "DELETE")


class FaultProxy:
    """bucket_proxy.py before a server. A context manager; ends with the test, since its standard input does."""

    def __init__(self, server):
        self.server = server
        self.number = 0

    def __enter__(self):
        self.child = subprocess.Popen([PYTHON, "-B", str(HERE / "bucket_proxy.py"), "127.0.0.1", str(self.server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.buffer, self.asked = b"", 0
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()
        return False

    def ask(self, ask, **more):
        self.asked += 1
        self.child.stdin.write(json.dumps({"n": self.asked, "ask": ask, **more}).encode() + b"\n")
        deadline = time.monotonic() + HANG_SECONDS
        while b"\n" not in self.buffer:
            if not select.select([self.child.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Failure(f"hang: the proxy was asked {ask} {more}; it has seen:\n" + "\n".join(self.tail()))
            data = self.child.stdout.read(1 << 20)
            check(data, "the proxy died")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\n", 1)
        answer = json.loads(text)
        check(answer.pop("n") == self.asked and "error" not in answer, f"the proxy, asked {ask} {more}", answer)
        return answer

    def tail(self):
        """The last requests, for the report of a hang; by a request of its own whose answer may come after the one that hangs."""
        with contextlib.suppress(Exception):
            self.child.stdin.write(json.dumps({"n": 0, "ask": "log"}).encode() + b"\n")
            text = b""
            while b"\n" not in text and select.select([self.child.stdout], [], [], 5)[0]:
                text += self.child.stdout.read(1 << 20)
            return [json.dumps(entry) for entry in json.loads(text)["log"][-20:]]
        return []

    def listen(self, name="", tls=None):
        """A port of its own for one client, by whose name its requests are recorded."""
        return self.ask("listen", name=name, tls=tls)["port"]

    def rule(self, do, **rule):
        self.number += 1
        self.ask("rule", number=self.number, do=do, **rule)
        return self.number

    def drop(self, number):
        return self.ask("drop", number=number)

    def counts(self, number):
        return self.ask("counts", number=number)

    def log(self, start=0):
        return self.ask("log", start=start)["log"]

    def here(self):
        return len(self.log())

    def wait(self, **want):
        return self.ask("wait", **want)["entry"]

    def deliver(self, number):
        return self.ask("deliver", id=number)

    def release(self, number):
        return self.ask("release", id=number)


def methods(log, client=None):
    return collections.Counter(entry["method"] for entry in log if client is None or entry["client"] == client)
