"""What stands below every bucket test: the servers keep "create only if absent" (s3rver, the double that must be refused, does not), they leave nothing behind
when a test is killed, and the fault proxy does to requests what it says.

Asked by a client of the tests' own (bucket_client.py), not by the product.

    bucket_ground.py [moto]     only of that server, that it creates once
"""

import contextlib
import http.client
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading

from bucket_servers import Azurite, Radosgw, S3rver
from bucket_support import SERVERS, FaultProxy
from harness import HERE, PYTHON, check, hang_guard, main

CLIENTS = 24
RACES = 5


def race(server, key):
    """So many clients create one name at once: (answers, index of the winner whose bytes are there)."""
    begin, answers = threading.Barrier(CLIENTS), [None] * CLIENTS

    def create(number):
        client = server.client()
        begin.wait()
        with contextlib.suppress(OSError):
            answers[number] = client.put(key, f"{number}".encode() * 200, if_absent=True)[0]
        client.close()

    threads = [threading.Thread(target=create, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status, _, body = server.client().get(key)
    check(status == 200, "the name is there after a race", status)
    held = [n for n in range(CLIENTS) if body == f"{n}".encode() * 200]
    check(len(held) == 1, "the object is whole, and one client's", body[:40].decode())
    return answers, held[0]


def creates_once(server):
    client = server.client()
    created = client.put("twice", b"first", if_absent=True)[0]
    again = client.put("twice", b"second", if_absent=True)[0]
    check(created in (200, 201) and again in (409, 412), f"{server.name}: a second create is refused", created, again)
    check(client.get("twice")[2] == b"first" and client.keys("tw") == ["twice"], f"{server.name}: the first one's bytes stay")
    check(client.put("empty", b"", if_absent=True)[0] in (200, 201) and client.put("empty", b"", if_absent=True)[0] in (409, 412), f"{server.name}: of no bytes too")
    check(client.delete("twice")[0] in (200, 202, 204) and client.get("twice")[0] == 404, f"{server.name}: deleted is gone")
    many = [f"many/{n:04}" for n in range(30)]
    for key in reversed(many):
        client.put(key, b"x")
    check(client.keys("many/") == many, f"{server.name}: a listing is whole and in order", client.keys("many/"))
    for number in range(RACES):
        answers, winner = race(server, f"race/{number}")
        won = [n for n, status in enumerate(answers) if status in (200, 201)]
        check(won == [winner], f"{server.name}: one of {CLIENTS} creates, and it is the one whose bytes are there", answers, won, winner)


def ignores_conditions(server):
    client = server.client()
    check([client.put("twice", body, if_absent=True)[0] for body in (b"first", b"second")] == [200, 200], "s3rver no longer ignores conditions: another double is needed")
    check(client.get("twice")[2] == b"second", "s3rver lost the second one's bytes")


def proxy_does_what_it_says(server):
    with FaultProxy(server) as proxy:
        client = server.client(proxy.listen("one"))
        other = server.client(proxy.listen("other"))
        direct = server.client()

        def ends(call):
            try:
                status, _, body = call()
                check(False, "the connection must end without an answer", status, str(body[:200]))
            except (OSError, http.client.HTTPException):
                return True

        rule = proxy.rule("swallow", method="PUT", path="nth", every=3)
        for n in range(1, 7):
            if n % 3:
                check(client.put(f"nth/{n}", b"x", if_absent=True)[0] == 200, "the others are answered", n)
            else:
                ends(lambda: client.put(f"nth/{n}", b"x", if_absent=True))
        check(direct.keys("nth/") == [f"nth/{n}" for n in range(1, 7)], "what was swallowed was applied")
        check(proxy.drop(rule) == {"matched": 6, "acted": 2}, "each third")
        rule = proxy.rule("answer_after", method="PUT", status=500, code="InternalError", times=1)
        check(client.put("after", b"x")[0] == 500 and direct.get("after")[0] == 200, "500 after it was applied")
        proxy.drop(rule)
        rule = proxy.rule("answer", status=503, times=2)
        check([client.put("slow", b"x")[0] for _ in range(3)] == [503, 503, 200], "throttled twice")
        proxy.drop(rule)
        rule = proxy.rule("cut_answer", method="GET", times=1)
        direct.put("long", b"0123456789" * 1000)
        ends(lambda: client.get("long"))
        check(len(client.get("long")[2]) == 10_000, "then whole")
        proxy.drop(rule)
        rule = proxy.rule("cut_request", method="PUT", times=1)
        ends(lambda: client.put("half", b"0123456789" * 1000))
        check(direct.get("half")[0] == 404, "half a request is none")
        proxy.drop(rule)
        # The late twin: created, deleted, delivered again: created again. And while it is there: refused.
        rule = proxy.rule("keep", method="PUT", path="late", times=1)
        check(client.put("late", b"x", if_absent=True)[0] == 200, "delivered the first time")
        kept = proxy.wait(rule="keep", state="done")["id"]
        check(proxy.deliver(kept)["status"] == 412, "a twin finds the name taken")
        direct.delete("late")
        check(proxy.deliver(kept)["status"] == 200 and direct.get("late")[2] == b"x", "a twin that finds the name free creates it")
        proxy.drop(rule)
        # Lost on the way, and delivered later all the same.
        proxy.rule("lose", method="PUT", path="lost", times=1)
        ends(lambda: client.put("lost", b"x", if_absent=True))
        check(direct.get("lost")[0] == 404, "it has not come")
        check(proxy.deliver(proxy.wait(rule="lose")["id"])["status"] == 200 and direct.get("lost")[0] == 200, "it comes later")
        # Held, while its client waits and others go on.
        proxy.rule("hold", client="one", times=1)
        answer = []
        waiting = threading.Thread(target=lambda: answer.append(client.put("held", b"x", if_absent=True)[0]))
        waiting.start()
        held = proxy.wait(rule="hold", state="held")
        check(other.put("held", b"other", if_absent=True)[0] == 200 and not answer, "another goes by")
        proxy.deliver(held["id"])
        waiting.join()
        check(answer == [412], "released, it finds what the other did", answer)
        log = proxy.log()
        wanted = [("PUT", "other", 200), ("PUT", "one", 412)]
        got = [(entry["method"], entry["client"], entry["status"]) for entry in log if "/held" in entry["target"]]
        check(sorted(got) == sorted(wanted), "every request is recorded with its client and its answer", got)
        return len(log)


def leaves_nothing_behind():
    """A test that is killed with everything it started running."""
    child = subprocess.Popen([PYTHON, "-B", str(HERE / "bucket_servers.py"), "radosgw"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while b"endpoint=" not in child.stdout.readline():
        check(child.poll() is None, "the server started by hand ended")
    keepers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == child.pid]
    servers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) in keepers]
    check(len(keepers) == 1 and len(servers) == 3, "a keeper with three servers", keepers, servers)
    folder = pathlib.Path(os.readlink(f"/proc/{servers[0]}/cwd"))
    ends = [os.pidfd_open(pid) for pid in keepers + servers]
    child.send_signal(signal.SIGKILL)
    child.wait()
    with hang_guard("the servers of a killed test did not end"):
        for end in ends:
            select.select([end], [], [])
            os.close(end)
    check(not folder.exists(), f"{folder} was left behind")
    for stream in (child.stdin, child.stdout):
        stream.close()


def parent(pid):
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def test(root):
    for kind in [SERVERS[name] for name in sys.argv[1:]] or (Radosgw, Azurite):
        with kind(root) as server:
            creates_once(server)
            print(f"bucket_ground: {server.name} {'as an unprivileged user' if server.user else 'as root: its files are not readable for others'}: "
                  f"a second create is refused; of {CLIENTS} at once one wins, {RACES} times")
            if kind is Radosgw:
                seen = proxy_does_what_it_says(server)
                print(f"bucket_ground: the proxy swallowed, delayed, cut, doubled, lost and held what it was told, and recorded {seen} requests")
    if sys.argv[1:]:
        return
    with S3rver(root) as server:
        ignores_conditions(server)
        print("bucket_ground: s3rver ignores conditions, as a double must that is to be refused")
    leaves_nothing_behind()
    print("bucket_ground: a killed test leaves neither servers nor files")


if __name__ == "__main__":
    sys.exit(main(test, "bucket_ground"))
