"""What happens between two requests of a writer and a bucket, with the real server behind a proxy that loses, holds, doubles and answers wrongly.

    bucket_faults.py radosgw|azurite [story...]

Lost answers: every tenth PUT is applied and never answered, or answered "500"; the server throttles, or is killed; bodies are cut: no writer fences itself, no commit is
lost or doubled. Late ones (rows S22 to S28 of the table of scenarios): a writer that stalled until its slot was claimed and trimmed past, a claimer whose slot
was trimmed away under it, a copy just below the mark, a PUT or DELETE that arrives again after a takeover; and a counter of epochs that is used up: no false
owner, nothing acknowledged lost.

After each story the stream is opened from nothing, verified, and held against what was acknowledged. ONEPEN_GUARDS_OFF switches a rule of src/base/guard.h off in
every process, to see it turn red (tests/mutants.txt).
"""

import ctypes
import os
import struct
import sys

import bucket_support
from bucket_support import LOG, FaultProxy
from harness import Failure, SqlError, Worker, check, main, uri, url
from support import NOT_NOTICED_MS, commits, exported, one_claim_to_an_epoch, owners, token

WHERE, ONLY = sys.argv[1], sys.argv[2:]
WITHOUT = {"ONEPEN_GUARDS_OFF": os.environ["ONEPEN_GUARDS_OFF"]} if "ONEPEN_GUARDS_OFF" in os.environ else {}
COMMITS = 100
EVERY = 10
KILLS = 3
SNAPSHOT_AFTER = 64 << 10
ROW_BYTES = 4000
SMALL_BYTES = 10
KEPT_OBJECTS = 64   # core::TendRequest::keep_objects
MOST_ROUNDS = 60
ROWS_OF_A_ROUND = 20
THROTTLED = 8
DAMAGED = 7         # exit code
LAST_EPOCH = (1 << 53) - 1
XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
XXH3.restype, XXH3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
TAKEN = (409, 412)
FREE = (200, 201)


def resealed(data):
    """A log object that was changed, with the checksums that it must have then (docs/formats/log-object.md)."""
    header = struct.unpack_from("<I", data, 8)[0]
    for end in (header, len(data)):
        struct.pack_into("<Q", data, end - 8, XXH3(bytes(data[:end - 8]), end - 8))
    return bytes(data)


class Machine:
    """One process with a cache of its own, at a port of its own of the proxy."""

    def __init__(self, story, name, cache=None, port=None):
        self.story, self.name = story, name
        self.port = port or story.proxy.listen(name)
        self.cache = cache or story.root.cache()
        self.home = story.home.through(self.port)
        self.worker = Worker(story.root, env={"ONEPEN_LOG": "stderr", **WITHOUT})

    def uri(self, **parameters):
        return uri("app", self.home, self.cache, notice_within=NOT_NOTICED_MS, **parameters)

    def open(self, **parameters):
        self.worker.open(self.uri(**parameters))
        self.worker.sql("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, who TEXT, body BLOB)")
        self.story.tokens.append(token(self.worker))
        return self

    def begin_open(self, **parameters):
        self.worker.send("open", uri=self.uri(**parameters))

    def opened(self):
        try:
            self.worker.answer()
        except SqlError as error:
            raise Failure(f"{self.story.what}: {self.name} does not open: {error}: {self.worker.sentence()}") from None
        self.story.tokens.append(token(self.worker))
        return self

    def begin_write(self, size=ROW_BYTES):
        self.story.last += 1
        self.worker.send("sql", sql="INSERT INTO t VALUES(?, ?, randomblob(?))", params=[self.story.last, self.name, size])
        return self.story.last

    def write(self, count=1, size=ROW_BYTES):
        for _ in range(count):
            row = self.begin_write(size)
            try:
                self.worker.answer()
            except SqlError as error:
                raise Failure(f"{self.story.what}: a commit of {self.name} is refused: {error}: {self.worker.sentence()}") from None
            self.story.acknowledged.append(row)
        return self

    def write_small(self, count):
        return self.write(count, SMALL_BYTES)

    def write_until(self, reached, what):
        for _ in range(MOST_ROUNDS):
            if reached():
                return self
            self.write(ROWS_OF_A_ROUND)
        raise Failure(f"{self.story.what}: {what} never came about; the mark is {self.story.home.mark()}, the log {self.story.home.ids()[:3]}...{self.story.home.ids()[-3:]}")

    def trims_past(self, slot):
        return self.write_until(lambda: self.story.home.mark() > slot, f"a trim past object {slot}")

    def rows(self):
        return [row[0] for row in self.worker.sql("SELECT n FROM t ORDER BY n")]

    def sees_everything(self):
        check(self.rows() == self.story.acknowledged, f"{self.story.what}: {self.name} must see exactly what was acknowledged", f"last seen {self.rows()[-5:]} of {len(self.rows())}",
              f"last acknowledged {self.story.acknowledged[-5:]} of {len(self.story.acknowledged)}")
        return self

    def is_refused(self, answer_is_due=False):
        """What it tries to write is refused for good, and its sentence says that it was fenced."""
        try:
            if not answer_is_due:
                self.begin_write()
            self.worker.answer()
        except SqlError as error:
            sentence = self.worker.sentence()
            check(error.code == 23 and "fenced" in sentence, f"{self.story.what}: {self.name} must be told that it was fenced", str(error), sentence)
            return self
        raise Failure(f"{self.story.what}: {self.name} was fenced, and its commit was acknowledged all the same: {self.worker.status()}")

    def still_owner(self, begun):
        check(token(self.worker) == begun and self.worker.status()["role"] == "owner" and not self.worker.status()["reset"],
              f"{self.story.what}: {self.name} must still be the owner that it was", self.worker.status(), self.worker.errors())

    def quit(self):
        check(self.worker.quit() == 0, f"{self.story.what}: {self.name} ends in good order")


class Story:
    def __init__(self, root, proxy, what):
        self.root, self.proxy, self.what = root, proxy, what
        self.home = bucket_support.new_home(root)
        self.acknowledged, self.tokens, self.last = [], [], 0

    def machine(self, name, **more):
        return Machine(self, name, **more)

    def hold(self, do, client, method="PUT", path=LOG, **more):
        return self.proxy.rule(do, client=client, method=method, path=path, **more)

    def slot(self, entry):
        return int(entry["target"].partition("?")[0].rpartition("/")[2])

    def end(self):
        """From nothing: what is there is what was acknowledged, whole, and each epoch has one owner."""
        last = self.machine("the last")
        last.open().sees_everything().write(2).sees_everything().quit()
        db = exported(self.root, self.home)
        there = [row[0] for row in db.execute("SELECT n FROM t ORDER BY n")]
        db.close()
        check(there == self.acknowledged, f"{self.what}: the export holds something else than was acknowledged", there[-5:], self.acknowledged[-5:])
        code, out, err = self.root.onepen("verify", "app", "--home", url(self.home))
        check(code == 0, f"{self.what}: onepen verify ended with {code}", out, err)
        one_claim_to_an_epoch(self.root, self.home, self.tokens)
        epochs = [row["epoch"] for row in owners(self.root, self.home)]
        check({one[1] for one in self.tokens} <= set(epochs), f"{self.what}: a claim that was acknowledged is gone from the history", epochs, self.tokens)


# --- answers that do not come ------------------------------------------------------------------------------------------
def lost_answers(root, proxy):
    """Every tenth PUT of a writer, in each of the ways an answer is lost."""
    busy = "ServerBusy" if WHERE == "azurite" else "SlowDown"
    faults = [("swallow", {}), ("answer_after", {"status": 500, "code": "InternalError"}), ("answer", {"status": 503, "code": busy}), ("cut_request", {})]
    told = []
    for do, more in faults:
        story = Story(root, proxy, f"every {EVERY}th PUT: {do}")
        a = story.machine(f"A of {do}").open()
        begun = token(a.worker)
        rule = story.hold(do, a.name, every=EVERY, **more)
        a.write(COMMITS)
        acted = proxy.drop(rule)["acted"]
        check(acted >= COMMITS // EVERY, f"{story.what}: the proxy hardly did it", acted)
        a.still_owner(begun)
        a.sees_everything().quit()
        sent = [(append.epoch, append.sequence) for append in commits(story.home)]
        check(len(set(sent)) == len(sent), f"{story.what}: a commit is in the log twice", sent)
        story.end()
        told.append(f"{do} {acted}")
    return f"{len(faults)} x {COMMITS} commits, each once: {', '.join(told)}"


def server_killed(root, proxy):
    """kill -9 of the gateway while a commit is on its way, right before it arrives and right after it was applied, and another one in its place."""
    story = Story(root, proxy, "a server that is killed")
    a = story.machine("A of the killed").open().write(3)
    begun = token(a.worker)
    for do in ("hold", "hold_answer") * KILLS:
        rule, start = story.hold(do, a.name, times=1, drop=True), proxy.here()
        row = a.begin_write()
        held = proxy.wait(rule=do, state="held", client=a.name, start=start)
        proxy.server.kill_gateway()
        proxy.release(held["id"])   # held before the server: nobody is there any more; behind it: applied, and never answered
        proxy.drop(rule)
        proxy.server.begin_gateway()
        a.worker.answer()
        story.acknowledged.append(row)
        a.write(3).still_owner(begun)
    a.sees_everything().quit()
    sent = [(append.epoch, append.sequence) for append in commits(story.home)]
    check(len(set(sent)) == len(sent), f"{story.what}: a commit is in the log twice", sent)
    story.end()
    return f"{2 * KILLS} kills, {len(story.acknowledged)} commits, each once"


def throttled(root, proxy):
    """The server says "slow down" to everything for a while; then every third answer to a read is cut half way, from nothing."""
    story = Story(root, proxy, "throttled")
    a = story.machine("A throttled").open().write(30)
    begun = token(a.worker)
    rule = proxy.rule("answer", client=a.name, status=503, code="ServerBusy" if WHERE == "azurite" else "SlowDown", times=THROTTLED)
    a.write(3)
    check(proxy.drop(rule)["acted"] == THROTTLED, "throttled: it was not")
    a.still_owner(begun)
    b = story.machine("B cut")
    rule = proxy.rule("cut_answer", client=b.name, method="GET", every=3)
    b.open().sees_everything().write(3)
    check(proxy.drop(rule)["acted"] >= 3, "cut: it was not")
    a.is_refused()
    story.end()
    return f"{THROTTLED} requests throttled, reads cut half way"


# --- requests that come late ------------------------------------------------------------------------------------------
def stalled_writer(root, proxy):
    """S23: A's commit is on its way when B claims that very slot, and trims far past it. Then it arrives."""
    story = Story(root, proxy, "a stalled writer")
    a = story.machine("A stalled").open(snapshot_after=SNAPSHOT_AFTER).write(5)
    story.hold("hold", a.name, times=1)
    a.begin_write()
    held = proxy.wait(rule="hold", state="held", client=a.name)
    slot = story.slot(held)
    b = story.machine("B after a stalled").open(snapshot_after=SNAPSHOT_AFTER).sees_everything()
    b.trims_past(slot)
    check(slot in story.home.ids(), "B's claim is kept: it is what A's commit meets", slot, story.home.ids()[:5])
    proxy.deliver(held["id"])
    check(proxy.wait(rule="hold", state="done", client=a.name)["server"] in TAKEN, "A's late commit finds the slot taken")
    a.is_refused(answer_is_due=True)
    b.sees_everything().write(2)
    story.end()
    return f"commit at object {slot} arrived when the mark was {story.home.mark()}"


def claimer_at_a_trimmed_slot(root, proxy):
    """S23, S25: C's claim is on its way to a slot that A fills, packs and deletes. Then it arrives, and is created, where it fences nobody."""
    story = Story(root, proxy, "a claimer at a trimmed slot")
    a = story.machine("A goes on").open(snapshot_after=SNAPSHOT_AFTER).write(5)
    c = story.machine("C claims late")
    story.hold("hold", c.name, times=1)
    c.begin_open()
    held = proxy.wait(rule="hold", state="held", client=c.name)
    slot = story.slot(held)
    a.write_until(lambda: story.home.mark() > slot and slot not in story.home.ids(), f"object {slot} packed and deleted")
    proxy.deliver(held["id"])
    check(proxy.wait(rule="hold", state="done", client=c.name)["server"] in FREE, "C's late claim finds the name free")
    c.opened().sees_everything().write(3)
    a.is_refused()
    c.sees_everything()
    story.end()
    return f"claim at object {slot} created below the mark, then one that counts at {story.home.ids()[-1]}"


def claimer_right_below_the_mark(root, proxy):
    """S25, without a hole to notice: C, with a warm copy, has its claim on its way to the very last slot that A packs and deletes. Right above it lie A's commits,
    which C would take for those of an owner that it fenced. Only the look at the mark after the claim (B6) tells it otherwise: without it both are owners."""
    story = Story(root, proxy, "a claimer right below the mark")
    warm = story.machine("C claims right below")
    warm.open().write(3).quit()
    a = story.machine("A packs").open(snapshot_after=SNAPSHOT_AFTER).write_small(KEPT_OBJECTS)
    c = story.machine(warm.name, cache=warm.cache, port=warm.port)
    story.hold("hold", c.name, times=1)
    c.begin_open()
    held = proxy.wait(rule="hold", state="held", client=c.name)
    slot, start = story.slot(held), proxy.here()
    # The newest so many objects of a log are never packed: A writes them behind the slot. Its last commit asks for a snapshot, whose record is the newest object.
    a.write_small(KEPT_OBJECTS - 1).write(size=2 * SNAPSHOT_AFTER)
    deleted = {"client": a.name, "method": "DELETE", "path": f"{LOG}0*{slot}$", "state": "done"}
    proxy.wait(start=start, **deleted)
    check(story.home.mark() == slot + 1 and slot not in story.home.ids(), "the slot must be the last that was packed", story.home.mark(), slot, story.home.ids()[:5])
    a.write_small(3)
    proxy.deliver(held["id"])
    check(proxy.wait(rule="hold", state="done", client=c.name)["server"] in FREE, "C's late claim finds the name free")
    c.opened().write(3)
    a.is_refused()
    c.sees_everything()
    story.end()
    return f"claim at object {slot}, the last below the mark {slot + 1}, then one that counts"


def copy_below_the_mark(root, proxy):
    """C's copy is warm and ends just below where A trims. Each of its first answers in turn is held while A trims past it."""
    met = []
    for which in range(5):
        story = Story(root, proxy, f"a copy below the mark, answer {which} held")
        warm = story.machine(f"C{which}")
        warm.open(snapshot_after=SNAPSHOT_AFTER).write(10).quit()
        a = story.machine(f"A{which}").open(snapshot_after=SNAPSHOT_AFTER).write(3)
        place = story.home.ids()[-1]
        c = story.machine(warm.name, cache=warm.cache, port=warm.port)
        rule = proxy.rule("hold_answer", client=c.name, method="GET", after=which, times=1)
        start = proxy.here()
        c.begin_open(snapshot_after=SNAPSHOT_AFTER)
        held = proxy.wait(rule="hold_answer", state="held", client=c.name, start=start)
        claimed = any(entry["client"] == c.name and entry["method"] == "PUT" and LOG in entry["target"] and entry["server"] in FREE for entry in proxy.log(start))
        if not claimed:  # else A is fenced already, and what was read before its claim is all there is
            a.trims_past(place)
            met.append(which)
        proxy.drop(rule)
        proxy.release(held["id"])
        c.opened().sees_everything().write(2)
        a.is_refused()
        story.end()
    check(len(met) >= 2, "the mark hardly ever went past the copy", met)
    return f"answers {met} were held while the mark went past the copy"


def twice(root, proxy):
    """S26: a commit, a claim and a mark arrive a second time, much later: the names they had are taken or below the mark."""
    story = Story(root, proxy, "delivered twice")
    a = story.machine("A twice")
    claim = story.hold("keep", a.name, times=1)
    mark = story.hold("keep", a.name, path="/@mark/", times=1)
    a.open(snapshot_after=SNAPSHOT_AFTER)
    commit = story.hold("keep", a.name, times=1, after=2)
    a.write(5)
    kept = [entry for entry in proxy.log() if entry["rule"] == "keep" and entry["client"] == a.name]
    check(len(kept) == 2 and proxy.counts(claim)["acted"] == proxy.counts(commit)["acted"] == 1, "a claim and a commit are kept", kept)
    check([proxy.deliver(entry["id"])["status"] in TAKEN for entry in kept] == [True, True], "at once: both names are taken")
    slot = story.slot(kept[1])
    a.write_until(lambda: story.home.mark() > slot and slot not in story.home.ids(), f"object {slot} packed and deleted")
    check(proxy.counts(mark)["acted"] == 1, "a mark is kept")
    b = story.machine("B after twice").open(snapshot_after=SNAPSHOT_AFTER).sees_everything()
    b.trims_past(story.home.ids()[-1])
    low = story.home.mark()
    answers = [proxy.deliver(entry["id"])["status"] for entry in proxy.log() if entry["rule"] == "keep" and entry["client"] == a.name]
    check(len(answers) == 3 and answers[0] in TAKEN, "A's claim meets itself: claims are kept for ever", answers)
    check(answers[1] in FREE and slot in story.home.ids(), "A's commit is created where it was deleted", answers, slot)
    check(story.home.mark() >= low, "the mark never moves back", low, story.home.mark())
    a.is_refused()
    b.write(2).sees_everything()
    story.end()
    return f"commit {slot} was created again below the mark {low}, and nobody looks at it"


def late_deletes(root, proxy):
    """S22: the deletes of A's trim are on their way when B takes over; they arrive at the end."""
    story = Story(root, proxy, "late deletes")
    a = story.machine("A deletes").open(snapshot_after=SNAPSHOT_AFTER)
    story.hold("lose", a.name, method="DELETE", path=".", times=3)
    a.write_until(lambda: any(entry["rule"] == "lose" and entry["client"] == a.name for entry in proxy.log()), "a delete of the trim")
    b = story.machine("B meanwhile").open(snapshot_after=SNAPSHOT_AFTER).sees_everything().write(3)
    b.trims_past(story.home.ids()[-1])
    late = [entry for entry in proxy.log() if entry["rule"] == "lose" and entry["client"] == a.name]
    for entry in late:
        proxy.deliver(entry["id"])
    b.write(2).sees_everything()
    a.is_refused()
    story.end()
    return f"{len(late)} deletes of A's arrived after B had trimmed"


def append_before_the_claim(root, proxy):
    """S24: A commits between C's look and C's claim."""
    story = Story(root, proxy, "a commit between look and claim")
    a = story.machine("A commits").open().write(5)
    c = story.machine("C looks")
    story.hold("hold", c.name, times=1)
    c.begin_open()
    held = proxy.wait(rule="hold", state="held", client=c.name)
    a.write(3)
    proxy.deliver(held["id"])
    check(proxy.wait(rule="hold", state="done", client=c.name)["server"] in TAKEN, "C's claim finds A's commit")
    c.opened().sees_everything().write(2)
    a.is_refused()
    story.end()
    return f"claimed at {story.slot(held)}, found taken, claimed again"


def really_anothers(root, proxy):
    """S26, the variant: A's commit never arrived, and what has its name is B's claim. Then it arrives."""
    story = Story(root, proxy, "really another's")
    a = story.machine("A lost").open().write(5)
    rule = story.hold("lose", a.name)
    a.begin_write()
    held = proxy.wait(rule="lose", state="held", client=a.name)
    b = story.machine("B has the name").open().sees_everything().write(1)
    check(story.slot(held) in story.home.ids(), "B's claim has the name")
    proxy.drop(rule)
    a.is_refused(answer_is_due=True)
    late = proxy.deliver(held["id"])["status"]
    check(late in TAKEN, "it arrives late, and finds B's claim", late)
    b.sees_everything().write(1)
    story.end()
    return f"object {story.slot(held)} was B's claim"


def unfinished_snapshot(root, proxy):
    """S27: a part of A's snapshot is on its way when B takes over and makes snapshots of its own. Then it arrives."""
    story = Story(root, proxy, "an unfinished snapshot")
    a = story.machine("A uploads").open(snapshot_after=SNAPSHOT_AFTER)
    story.hold("hold", a.name, path="/@snap/", times=1)
    held = []

    def begun():
        held[:] = [entry for entry in proxy.log() if entry["rule"] == "hold" and entry["state"] == "held" and entry["client"] == a.name]
        return bool(held)
    a.write_until(begun, "the upload of a snapshot")
    b = story.machine("B makes its own").open(snapshot_after=SNAPSHOT_AFTER).sees_everything()
    b.trims_past(story.home.ids()[-1])
    proxy.deliver(held[0]["id"])
    proxy.wait(rule="hold", state="done", client=a.name)
    a.is_refused()
    b.write(1).sees_everything()
    story.end()
    return "B's snapshots and log verify"


def epochs_used_up(root, proxy):
    """S28: a history whose floor is just below the highest epoch. The last two are given, then opening is refused, and never wraps; a claim of somebody's who does
    wrap counts for nobody, wherever it lands."""
    story = Story(root, proxy, "epochs used up")
    first = story.machine("A before").open().write(3)
    first.quit()
    code, out, err = root.onepen("adopt", "app", "--home", url(story.home), "--cache-root", root.cache(), "--yes")
    check(code == 0, f"onepen adopt ended with {code}", out, err)
    client, place = story.home.server.client(), f"{story.home.prefix}/app{LOG}"
    history = story.home.ids()[-1]
    key = f"{place}{history:020}"
    data = bytearray(client.get(key)[2])
    floor_at = 148 + 4 + len("app") + 16 + 4
    check(struct.unpack_from("<H", data, 6)[0] == 4 and struct.unpack_from("<Q", data, floor_at)[0] == 1, "the newest object must be a history with floor 1: has the format changed?")
    struct.pack_into("<Q", data, floor_at, LAST_EPOCH - 2)
    client.delete(key)
    client.put(key, resealed(data))
    old = story.machine("A again").open().sees_everything().write(2)
    last = story.machine("B the last").open().sees_everything().write(2)
    check(last.worker.status()["epoch"] == LAST_EPOCH, "the last epoch", last.worker.status())
    old.is_refused()
    begun = token(last.worker)
    for number in range(2):
        none = story.machine(f"C{number} finds none")
        try:
            none.worker.open(none.uri())
            raise Failure(f"{story.what}: an epoch was given after the last one: {none.worker.status()}")
        except SqlError:
            sentence = none.worker.sentence()
        check("used up" in sentence and "2^53" in sentence, f"{story.what}: the refusal must say why", sentence)
        none.quit()
    claims = [(number, bytearray(data)) for number, data in ((n, client.get(f"{place}{n:020}")[2]) for n in story.home.ids()) if data[6] == 1]
    for epoch in (1, LAST_EPOCH - 1, LAST_EPOCH):  # what a counter of fewer bits comes to; no format holds 0, or more
        wrapped = bytearray(claims[-1][1])
        slot = story.home.ids()[-1] + 1
        struct.pack_into("<QQ", wrapped, 44, slot, epoch)
        wrapped[60:92] = os.urandom(32)   # a claim id and a put id of its own
        check(client.put(f"{place}{slot:020}", resealed(wrapped), if_absent=True)[0] in FREE, "the forged claim is there", slot)
        last.write(1).still_owner(begun)
    last.sees_everything()
    for reader in (first.cache, root.cache()):
        worker = Worker(root, env=WITHOUT)
        worker.open(uri("app", story.home, reader, mode="ro"))
        check([row[0] for row in worker.sql("SELECT n FROM t ORDER BY n")] == story.acknowledged, f"{story.what}: a reader sees what was acknowledged")
        worker.quit()
    last.quit()
    code, out, err = root.onepen("verify", "app", "--home", url(story.home))
    check(code == DAMAGED and f"epoch {LAST_EPOCH - 2}" in err, f"{story.what}: onepen verify must see that the history was forged", code, out, err)
    return f"refused: {sentence}"


STORIES = {story.__name__: story for story in (
    lost_answers, *((server_killed,) if WHERE == "radosgw" else ()), throttled, stalled_writer, claimer_at_a_trimmed_slot, claimer_right_below_the_mark, copy_below_the_mark,
    twice, late_deletes, append_before_the_claim, really_anothers, unfinished_snapshot, epochs_used_up)}


def test(root):
    with bucket_support.homes(root, WHERE) as server:
        for name in ONLY or STORIES:
            with FaultProxy(server) as proxy:
                print(f"bucket_faults ({WHERE}): {name}: {STORIES[name](root, proxy)}", flush=True)


main(test, "bucket_faults")
