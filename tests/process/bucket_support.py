"""What the bucket tests share, and tests that run on directories and in buckets: the test's side of the fault proxy, homes of either kind, and what one holds."""

import collections
import contextlib
import json
import pathlib
import select
import subprocess
import sys
import time

from bucket_servers import Azurite, Moto, Radosgw
from harness import HANG_SECONDS, HERE, PYTHON, Failure, check, main
from support import Hold, copy_of
from support import put_back as put_back_folder

CHANGING = ("PUT", "POST", "DELETE")
SERVERS = {"radosgw": Radosgw, "azurite": Azurite, "moto": Moto}
LOG = "/@log/"
# Where the homes of this test are: "file", or the server that its first argument names; and its other arguments.
WHERE = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in SERVERS else "file"
ARGUMENTS = sys.argv[1 if WHERE == "file" else 2:]


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

    def away(self, name):
        self.ask("away", name=name)

    def back(self, name):
        self.ask("back", name=name)


class CreateHeld:
    """As support.Hold, in a bucket: the next create of a log object by one client is held, right after it landed or before it reached the server.

    A client waits some seconds for an answer and then asks what became of it: from the hold on no request of its process arrives, until it is let go. Then its
    answer is that its connection ends."""

    def __init__(self, proxy, client, landed):
        self.proxy, self.client, self.do = proxy, client, "hold_answer" if landed else "hold"

    def environment(self):
        return {}

    def arm(self):
        self.start = self.proxy.here()
        self.proxy.rule(self.do, client=self.client, method="PUT", path=LOG, times=1, drop=True)

    def wait(self):
        self.held = self.proxy.wait(rule=self.do, state="held", client=self.client, start=self.start)
        self.lost = self.proxy.rule("lose", client=self.client, pid=self.proxy.ask("process", id=self.held["id"])["pid"])

    def let_go(self):
        self.proxy.drop(self.lost)
        self.proxy.release(self.held["id"])


def held_create(root, home, landed=True):
    """(the home as the process to be held is to name it, the hold of its next create), not armed. Not landed: what is held has not reached the home."""
    if not isinstance(home, BucketHome):
        return home, Hold(root, f"linked|{home}/app/@log/*|1|EIO" if landed else f"create|{home}/app/*|1|OK", armed=False)
    machine = root.next("machine")
    return home.through(root.proxy.listen(machine)), CreateHeld(root.proxy, machine, landed)


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
        names = [key.rpartition("/")[2] for key in self.server.client().keys(f"{self.prefix}/{name}{LOG}")]
        return [int(text) for text in names if text.isdigit()]

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


def movable_home(root):
    """A new home that can be taken out of reach for everybody who names it so: a directory below a folder of its own, a bucket by a port of the proxy."""
    home = new_home(root) if getattr(root, "bucket_server", None) else root.folder(root.next("disk") + "/home")
    if isinstance(home, BucketHome):
        disk = root.next("disk")
        home = home.through(root.proxy.listen(disk))
        home.disk = disk
    return home


class OutOfReach:
    """A movable home is away. A context manager; reach() ends it sooner.

    The folder above a directory is renamed, as when its disk is not mounted: a live owner keeps its folders by descriptor and does not notice. Nobody answers
    at the port of a bucket: an owner notices too."""

    def __init__(self, root, home):
        self.proxy, self.home, self.is_away = getattr(root, "proxy", None), home, True
        if isinstance(home, BucketHome):
            self.proxy.away(home.disk)
        else:
            self.disk = pathlib.Path(home).parent
            self.put_aside = self.disk.with_name(self.disk.name + ".away")
            self.disk.rename(self.put_aside)

    def reach(self):
        if not self.is_away:
            return
        self.is_away = False
        if isinstance(self.home, BucketHome):
            self.proxy.back(self.home.disk)
        else:
            self.put_aside.rename(self.disk)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reach()
        return False


def copy_of_home(root, home):
    """The same objects, or files, as a home of their own."""
    if not isinstance(home, BucketHome):
        return copy_of(root, home)
    copied = BucketHome(home.server, root.next("copied"))
    copied.put_back({copied.prefix + key[len(home.prefix):]: data for key, data in home.kept().items()})
    return copied


def keep(root, home):
    """Everything in a home, as a backup has it: for put_back()."""
    return home.kept() if isinstance(home, BucketHome) else copy_of(root, home)


def put_back(home, kept):
    home.put_back(kept) if isinstance(home, BucketHome) else put_back_folder(home, kept)


@contextlib.contextmanager
def homes(root, where):
    """What new_home() makes while this is open: "file", or the name of a server, which runs that long, with a fault proxy before it (root.proxy)."""
    if where == "file":
        yield None
        return
    with SERVERS[where](root) as server, FaultProxy(server) as root.proxy:
        root.variables = server.environment()
        root.bucket_server = server
        try:
            yield server
        finally:
            root.bucket_server = None


def main_where(test, name, in_memory=False):
    """As harness.main, for a test whose homes are directories or, with the name of a server as its first argument, in a bucket."""

    def there(root):
        with homes(root, WHERE):
            test(root)

    main(there, name if WHERE == "file" else f"{name}_{WHERE}", in_memory)
