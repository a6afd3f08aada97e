"""What the bucket tests share: the test's side of the fault proxy, names of databases in a bucket, and what the log of one holds."""

import collections
import contextlib
import json
import select
import subprocess
import time

from bucket_servers import Azurite, Moto, Radosgw
from harness import HANG_SECONDS, HERE, PYTHON, Failure, check

CHANGING = ("PUT", "POST", "DELETE")
SERVERS = {"radosgw": Radosgw, "azurite": Azurite, "moto": Moto}
LOG = "/@log/"


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


class AnswerHeld:
    """As support.Hold, in a bucket: the answer to the next create of a log object by one client is held, and in the end never given."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client

    def environment(self):
        return {}

    def arm(self):
        self.start = self.proxy.here()
        self.rule = self.proxy.rule("hold_answer", client=self.client, method="PUT", path=LOG, times=1, drop=True)

    def wait(self):
        self.held = self.proxy.wait(rule="hold_answer", state="held", client=self.client, start=self.start)

    def let_go(self):
        self.proxy.release(self.held["id"])


def methods(log, client=None):
    return collections.Counter(entry["method"] for entry in log if client is None or entry["client"] == client)


class BucketHome(str):
    """The URL of a home in a bucket, with what a test looks at in it. Each prefix is a home of its own."""

    def __new__(cls, server, prefix, port=None):
        home = super().__new__(cls, server.url(prefix, port))
        home.server, home.prefix = server, prefix
        return home

    def through(self, port):
        """As another machine sees it: by its port of the proxy. Local copies belong to the URL, so one machine stays with one port."""
        return BucketHome(self.server, self.prefix, port)

    def ids(self, name="app"):
        return [int(key.rpartition("/")[2]) for key in self.server.client().keys(f"{self.prefix}/{name}{LOG}")]

    def log_contents(self, name="app"):
        client = self.server.client()
        for key in client.keys(f"{self.prefix}/{name}{LOG}"):
            status, _, data = client.get(key)
            check(status == 200, f"{key} was listed, and a GET answers {status}")
            yield key, data

    def kept(self):
        """Everything in it, as a backup has it."""
        client = self.server.client()
        return {key: client.get(key)[2] for key in client.keys(f"{self.prefix}/")}

    def put_back(self, kept):
        client = self.server.client()
        for key in client.keys(f"{self.prefix}/"):
            client.delete(key)
        for key, data in kept.items():
            check(client.put(key, data)[0] in (200, 201), f"{key} could not be put back")

    def mark(self, name="app"):
        """Below this object nothing in the log counts any more."""
        names = [key.rpartition("/")[2] for key in self.server.client().keys(f"{self.prefix}/{name}/@mark/")]
        return max((int(text) for text in names if text.isdigit()), default=0)


def new_home(root):
    """A new empty home: in the bucket whose server runs (homes()), else a directory."""
    server = getattr(root, "bucket_server", None)
    return root.home_folder() if server is None else BucketHome(server, root.next("home"))


@contextlib.contextmanager
def homes(root, where):
    """What new_home() makes while this is open: "file", or the name of a server, which runs that long."""
    if where == "file":
        yield None
        return
    with SERVERS[where](root) as server:
        root.variables = server.environment()
        root.bucket_server = server
        try:
            yield server
        finally:
            root.bucket_server = None
